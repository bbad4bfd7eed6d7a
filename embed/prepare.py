"""From a directed matrix with holes to a checked, symmetric matrix without a unit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError
from netprobe.core.numeric.distances import checked_distances
from netprobe.core.numeric.medians import median
from netprobe.core.text import listed

# Two directions whose mean is more than this above the smaller, and more than those of most pairs are, are
# taken for one good reading and one disturbed one: disturbances only ever add delay.
_DIRECTION_SLACK = 1.25
_MOST_SLACK = 2.0
# Fewer pairs than this do not say what noise is.
_FEWEST_FOR_SLACK = 20
# A cap looks at this many intermediate hosts at most: more cost more than they add.
_INTERMEDIATES = 128
# More than what single precision rounds.
_MARGIN = 1e-5
# A cap this loose touches gross outliers only: for fleets whose paths follow no tree.
LOOSE_CAP = 3.0
# Digits kept after dividing by the scale, so that a change of unit changes no result.
_DIGITS = 9


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A symmetric matrix in units of its own median: the working form of embed/.

    distance: (N, N), zero where not measured and on the diagonal.
    measured: (N, N) symmetric, false on the diagonal.
    scale_s: seconds a unit.
    """

    distance: NDArray[np.float64]
    measured: NDArray[np.bool_]
    scale_s: float


def check_matrix(distance_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """A float64 copy of ``distance_s`` (N, N), seconds ``[src, dst]``, with NaN on the diagonal.

    Raises InputError when it is not a square matrix of non-negative numbers or NaN, or when a host has no
    measured cell at all (such a host must be left out first).
    """
    matrix = checked_distances(distance_s)
    known = np.isfinite(matrix)
    lonely = np.flatnonzero(~(known | known.T).any(axis=1))
    if len(matrix) > 1 and len(lonely):
        raise InputError(
            f"no measured distance for host number {listed([str(at) for at in lonely], 8)}; leave such hosts out"
        )
    return matrix


def prepare(matrix: NDArray[np.float64], *, larger_direction: bool) -> Prepared:
    """Join the two directions of a checked matrix (N, N) in seconds and divide by the median of the positive distances.

    With ``larger_direction`` a pair gets the larger of its directions (section 4.2.1 of the dissertation);
    otherwise their mean, but at most 1.25 times the smaller, or as many times as the directions of most
    pairs differ by where that is more. A missing direction is taken from the other.
    """
    there = np.where(np.isnan(matrix), matrix.T, matrix)
    back = there.T
    if larger_direction:
        joined = np.maximum(there, back)
    else:
        joined = np.minimum((there + back) / 2, _direction_slack(there) * np.minimum(there, back))
    measured = np.isfinite(joined)
    positive = joined[measured & (joined > 0)]
    scale_s = float(median(positive)) if len(positive) else 1.0
    distance = np.where(measured, np.round(joined / scale_s, _DIGITS), 0.0)
    return Prepared(distance=distance, measured=measured, scale_s=scale_s)


def _direction_slack(there: NDArray[np.float64]) -> float:
    """How many times the smaller direction the mean of both may be: noise that all pairs have is not a disturbance.

    A fixed bound would make the smaller of two noisy readings of the pair, and throw the other one away. One
    robust deviation of the logarithm of their ratio is two of the mean's above the smaller.
    """
    both = np.triu((there > 0) & (there.T > 0), 1)
    if int(both.sum()) < _FEWEST_FOR_SLACK:
        return _DIRECTION_SLACK
    apart = 1.4826 * float(median(np.abs(np.log(there[both] / there.T[both]))))
    return max(_DIRECTION_SLACK, min(math.exp(apart), _MOST_SLACK))


def canonical_order(prepared: Prepared) -> NDArray[np.intp]:
    """(N,) an order of the hosts that depends on their distances alone, not on their original order.

    Whatever is random, or uses some hosts only, is done in this order, so that no result depends on the
    order of a hosts file. Hosts whose distances are the same in every respect looked at keep theirs.
    """
    measured = prepared.measured
    distance = np.sort(np.where(measured, prepared.distance, 0.0), axis=1)
    # Sorted before they are summed: a sum in another order may differ in its last digit.
    moments = [measured.sum(axis=1), distance.sum(axis=1), (distance**2).sum(axis=1), distance[:, -1]]
    around = np.where(measured, prepared.distance * np.sqrt(1.0 + moments[1])[None, :], 0.0)
    return np.lexsort([np.sort(around, axis=1).sum(axis=1), *moments])


def reordered(prepared: Prepared, order: NDArray[np.intp]) -> Prepared:
    """The same hosts in another order: ``order`` (N,) has the old place of each."""
    return Prepared(
        distance=prepared.distance[np.ix_(order, order)],
        measured=prepared.measured[np.ix_(order, order)],
        scale_s=prepared.scale_s,
    )


def without(prepared: Prepared, hidden: NDArray[np.bool_]) -> Prepared:
    """The same matrix with the pairs missing where ``hidden`` (N, N), symmetric, is true."""
    return Prepared(
        distance=np.where(hidden, 0.0, prepared.distance),
        measured=prepared.measured & ~hidden,
        scale_s=prepared.scale_s,
    )


def winsorise(prepared: Prepared, *, factor: float) -> Prepared:
    """Cap each distance at ``factor`` times what its neighbours allow (a relaxed ultrametric inequality).

    In an ultrametric d(i, j) <= max(d(i, v), d(v, j)) for every v. The cap is ``factor`` times the k-th
    smallest of these bounds, k = sqrt(N) / 2, so one disturbed bound lowers nothing, and a host or a rack
    that is far from all the others remains far. A host that is slow even towards its nearest neighbour may be
    as much too far from everybody: that excess is added to the bounds, d(i, v) + e(j) and d(v, j) + e(i).
    """
    n = len(prepared.distance)
    bounds = np.where(prepared.measured, prepared.distance, np.inf)
    through = np.arange(n) if n <= _INTERMEDIATES else np.linspace(0, n - 1, _INTERMEDIATES).astype(int)
    kth = max(1, round(np.sqrt(len(through)) / 2))
    if n - 2 < kth:
        return prepared
    nearest = bounds.min(axis=1)
    excess = np.maximum(nearest - median(nearest), 0.0)
    columns = np.ascontiguousarray(bounds[:, through])
    capped = prepared.distance.copy()
    for host, above in enumerate(_above_caps(prepared.distance, columns, excess, factor=factor, kth=kth)):
        detour = np.maximum(columns[host] + excess[above, None], columns[above] + excess[host])
        cap = factor * np.partition(detour, kth - 1, axis=1)[:, kth - 1]
        capped[host, above] = capped[above, host] = np.minimum(capped[host, above], cap)
    distance = np.where(prepared.measured, capped, 0.0)
    return Prepared(distance=distance, measured=prepared.measured, scale_s=prepared.scale_s)


def _above_caps(
    distance: NDArray[np.float64],
    columns: NDArray[np.float64],
    excess: NDArray[np.float64],
    *,
    factor: float,
    kth: int,
) -> Iterator[NDArray[np.intp]]:
    """For each host, the later hosts whose distance to it may lie above its cap: most do not.

    columns: (N, V) bounds through V intermediate hosts. In single precision, with a margin: this looks at every
    triple of hosts. Bounds are the same both ways, so half of the pairs say all.
    """
    rows = np.ascontiguousarray(columns.T, dtype=np.float32)
    limit = distance / factor * (1.0 + _MARGIN)
    for host in range(len(distance)):
        # A detour is below the limit when both of its halves are.
        later = slice(host + 1, None)
        below = rows[:, later] < (limit[host, later] - excess[host]).astype(np.float32)
        below &= rows[:, host, None] < (limit[host, later] - excess[later]).astype(np.float32)
        yield host + 1 + np.flatnonzero(below.view(np.uint8).sum(axis=0, dtype=np.uint8) >= kth)


def unidentified_pairs(measured: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(N, N): true where no chain of measured pairs joins the two hosts."""
    from scipy.sparse.csgraph import connected_components

    if measured.sum() == len(measured) * (len(measured) - 1):
        return np.zeros(measured.shape, dtype=np.bool_)
    _, island = connected_components(measured, directed=False)
    return np.asarray(island[:, None] != island[None, :], dtype=np.bool_)


def hold_out(measured: NDArray[np.bool_], *, share: float, seed: int) -> NDArray[np.bool_]:
    """(N, N) symmetric choice of measured pairs to hide, about ``share`` of them.

    No host loses more than a third of its pairs, so the rest can still be fitted.
    """
    rows, columns = np.nonzero(np.triu(measured))
    wanted = round(share * len(rows))
    spare = (measured.sum(axis=1) // 3).tolist()
    hidden = np.zeros_like(measured)
    order = np.random.default_rng(seed).permutation(len(rows))
    first = rows[order[:wanted]], columns[order[:wanted]]
    if (np.bincount(np.concatenate(first), minlength=len(measured)) <= spare).all():
        # So it is where most pairs were measured: the first ones will do.
        hidden[first] = hidden[first[::-1]] = True
        return hidden
    for i, j in zip(rows[order].tolist(), columns[order].tolist()):
        if wanted == 0:
            break
        if spare[i] > 0 and spare[j] > 0:
            hidden[i, j] = hidden[j, i] = True
            spare[i] -= 1
            spare[j] -= 1
            wanted -= 1
    return hidden


def hold_out_in_turn(measured: NDArray[np.bool_], *, folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """At most about ``folds`` choices of measured pairs to hide, (N, N) symmetric each: a pair is in one at most.

    For matrices so small that one choice of a tenth says nothing. A host keeps two thirds of its pairs in each fold, or
    all but one where it has few; a pair that is the only one of a host is in no fold.
    """
    rows, columns = np.nonzero(np.triu(measured))
    degree = measured.sum(axis=1)
    most = np.where(degree < 2, 0, np.maximum(degree // 3, 1))
    left = np.random.default_rng(seed).permutation(len(rows)).tolist()
    size = max(1, -(-len(rows) // folds))
    chosen = []
    while left:
        hidden, spare = np.zeros_like(measured), most.tolist()
        taken: list[int] = []
        for pair in left:
            i, j = int(rows[pair]), int(columns[pair])
            if len(taken) < size and spare[i] > 0 and spare[j] > 0:
                hidden[i, j] = hidden[j, i] = True
                spare[i] -= 1
                spare[j] -= 1
                taken.append(pair)
        if not taken:
            break
        chosen.append(hidden)
        left = [pair for pair in left if pair not in taken]
    return chosen
