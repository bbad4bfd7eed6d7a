"""Which group a slow host belongs to: its row is compared with each group's, less what the host itself adds.

A slow stack adds one delay to all links of a host, or one factor. By its distances such a host may be as near
to another group as to its own, or a group of its own; by the shape of its row it is not: every group sees the
others from its own place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.anomalies.outliers import block_medians
from netprobe.cluster.distances.pairs import ends_of, symmetric
from netprobe.cluster.records import numbered_by_first_member
from netprobe.core.numeric.medians import median, quantiles, row_medians

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

# A host is looked at when its group leaves more than this many times of what it leaves of most hosts' rows.
_SUSPECT = 2.0
# It moves to a group that leaves at most this many times of that,
_FITS = 2.0
# and is better than every other group by so much of the logarithm of the likelihood.
_CLEAR = 8.0
# Those it would join are not its own group when another distance to them is likelier by so much.
_APART = 2.0
# What a host adds is at least this share of a pair inside its group, or it is not slow.
_LEAST_EXCESS = 0.25
# A residual counts as its square up to this many deviations, then linearly (Huber 1964).
_ROBUST = 2.0
# The spread of equivalent pairs is at least this (log units).
_LEAST_SPREAD = 0.02
# Values that are tried for what a host adds: quantiles of what its links are above the expected.
_TRIED = np.linspace(0.02, 0.98, 49)
# Of more groups than this only those that leave least under the median delay or factor are tried.
_SHORTLIST = 12
# Where more hosts than this share of all look out of place, no host's place is known well enough.
_MOST = 0.25
_FEWEST_HOSTS, _FEWEST_LINKS, _FEWEST_OF_A_BLOCK = 6, 4, 3


@dataclass(frozen=True, kw_only=True, eq=False)
class _Places:
    """Where groups are, by the hosts that are counted.

    expected: (k, k) distance inside a group and between two; sizes: (k,); spread: deviation of a pair (log);
    losses: (N,) what a host's own group leaves of its links in the mean, see `_loss`.
    """

    expected: Vector
    sizes: Labels
    spread: float
    losses: Vector


def reassigned_hosts(raw_distance_s: Vector, labels: Labels) -> dict[int, int]:
    """Slow hosts that are alone or in another's group, and the group that each of them belongs to.

    raw_distance_s: (N, N) ``[src, dst]`` as measured, any unit, NaN where missing; labels: (N,) the finest
    groups, 0 to k - 1. A host is moved where one group explains its row, but for one delay or one factor, as
    well as other hosts' groups explain theirs, and clearly better than any other group does. A host whose
    delay is not larger than the noise of its readings is not moved. Raises InputError for a bad matrix.
    """
    matrix = symmetric(raw_distance_s)
    positive = matrix[np.isfinite(matrix) & (matrix > 0)]
    if labels.max() < 1 or len(labels) < _FEWEST_HOSTS or not len(positive):
        return {}
    matrix = np.maximum(matrix, 1e-3 * median(positive))
    counted = np.ones(len(labels), dtype=bool)
    losses = _places(matrix, labels, counted).losses
    alone = np.bincount(labels)[labels] == 1
    suspects = np.flatnonzero(alone | (losses > _SUSPECT * median(losses))).tolist()
    if not suspects or len(suspects) > _MOST * len(labels):
        return {}
    counted[suspects] = False
    places = _places(matrix, labels, counted)
    usual = median(places.losses[counted])
    moved = {}
    for host in suspects:
        there = counted & np.isfinite(matrix[host])
        group = _place_of(matrix[host][there], labels[there], places, usual)
        if group is not None and group != labels[host]:
            moved[host] = group
    return moved


def with_reassigned(tiers: list[Labels], moved: dict[int, int]) -> list[Labels]:
    """The (N,) tiers of nesting, finest first, with hosts ``moved`` to groups of the finest; none twice."""
    if not moved:
        return tiers
    finest = tiers[0]
    changed: list[Labels] = []
    stay = np.ones(len(finest), dtype=bool)
    stay[list(moved)] = False
    for tier in tiers:
        again = tier.copy()
        for host, group in moved.items():
            again[host] = tier[np.flatnonzero((finest == group) & stay)[0]]
        again = numbered_by_first_member(again)
        if not changed or not np.array_equal(again, changed[-1]):
            changed.append(again)
    return changed


def _places(matrix: Vector, labels: Labels, counted: NDArray[np.bool_]) -> _Places:
    k = int(labels.max()) + 1
    log_distance = np.where(counted[:, None] & counted[None, :], np.log(matrix), np.nan)
    first, second = ends_of(len(labels))
    pairs = log_distance[first, second]
    same, known = labels[first] == labels[second], np.isfinite(pairs)
    usual = [median(pairs[kind & known]) if (kind & known).any() else 0.0 for kind in (same, ~same)]
    own = block_medians(pairs, labels, fewest=_FEWEST_OF_A_BLOCK, of_a_group=1)
    expected = np.exp(np.where(np.isnan(own), np.where(np.eye(k, dtype=bool), *usual), own))
    rest = (pairs - np.log(expected)[labels[first], labels[second]])[known]
    spread = max(1.4826 * median(np.abs(rest)), _LEAST_SPREAD) if len(rest) else _LEAST_SPREAD
    return _Places(
        expected=expected,
        sizes=np.bincount(labels[counted], minlength=k),
        spread=spread,
        losses=_first_losses(matrix, expected[labels[:, None], labels[None, :]], spread),
    )


def _first_losses(matrix: Vector, expected: Vector, spread: float) -> Vector:
    """(N,) mean loss of each row under its median delay or its median factor, whichever is less."""
    known = np.isfinite(matrix)
    all_known = bool(known.all())
    count = np.maximum(known.sum(axis=1), 1)
    delay = np.maximum(row_medians(matrix - expected, none=0.0), 0.0)[:, None]
    factor = np.maximum(row_medians(matrix / expected, none=1.0), 1.0)[:, None]
    losses = []
    for model in (expected + delay, expected * factor):
        ratio = np.divide(matrix, model, out=model)
        loss = _loss(np.log(ratio if all_known else np.where(known, ratio, 1.0)) / spread)
        losses.append((loss if all_known else np.where(known, loss, 0.0)).sum(axis=1) / count)
    return np.asarray(np.minimum(*losses))


def _place_of(row: Vector, labels: Labels, places: _Places, usual: float) -> int | None:
    """The group whose row this is, but for what the host adds; None where none is, or several may be.

    row, labels: (M,) distances to counted hosts, and their groups.
    """
    groups = np.flatnonzero(places.sizes >= 2).tolist()
    if len(groups) < 2 or len(row) < _FEWEST_LINKS:
        return None
    if len(groups) > _SHORTLIST:
        rows = places.expected[groups][:, labels]
        first = _first_losses(np.broadcast_to(row, rows.shape), rows, places.spread)
        groups = sorted(groups[at] for at in np.argsort(first, kind="stable")[:_SHORTLIST])
    found = {group: _best(row, labels, places.expected[group], places.spread) for group in groups}
    best, second = sorted(groups, key=lambda group: found[group][0])[:2]
    loss, excess = found[best]
    slow = excess >= _LEAST_EXCESS * places.expected[best, best]
    if not slow or loss > _FITS * usual or (found[second][0] - loss) * len(row) < _CLEAR:
        return None
    mates = labels == best
    if not mates.any():
        return None
    apart, _ = _best(row, labels, places.expected[best], places.spread, free=mates)
    return best if (loss - apart) * len(row) <= _APART else None


def _best(
    row: Vector, labels: Labels, levels: Vector, spread: float, *, free: NDArray[np.bool_] | None = None
) -> tuple[float, float]:
    """Mean loss of a row's links under the best delay or factor, and what that adds to the nearest pairs.

    row, labels: (M,) links and the groups that they lead to; levels: (k,) what is expected towards each group.
    free: links that may be at any distance of their own instead: they are at their median.
    """
    expected = levels[labels]
    delays = np.maximum(quantiles(row - expected, _TRIED), 0.0)
    factors = np.maximum(quantiles(row / expected, _TRIED), 1.0)
    # In deviations above what is expected: each model is one step a group.
    above = np.log(row / expected) / spread
    steps = np.log(
        np.concatenate([1.0 + delays[:, None] / levels, np.repeat(factors[:, None], len(levels), 1)])
    )
    rest = (steps / spread).take(labels, axis=1)
    np.subtract(above, rest, out=rest)
    if free is not None:
        log_distance = np.log(row[free])
        rest[:, free] = (log_distance - median(log_distance)) / spread
    losses = _loss(rest).mean(axis=1)
    at = int(losses.argmin())
    if at < len(delays):
        return float(losses[at]), float((expected + delays[at] - expected).min())
    return float(losses[at]), float((expected * factors[at - len(delays)] - expected).min())


def _loss(size: Vector) -> Vector:
    """Of deviations, in their place."""
    np.abs(size, out=size)
    limited = np.minimum(size, _ROBUST)
    # Half the square, then linear: in the same digits as by cases, and in half the time.
    size -= limited / 2
    size *= limited
    return size
