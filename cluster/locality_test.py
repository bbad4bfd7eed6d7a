"""Is the locality real? A permutation test that knows the groups were chosen on the same readings.

Residuals are dealt out anew as Freedman and Lane (1983) do, and the search for groups is made again each time.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.hierarchy import best_scores, partition_scores
from netprobe.cluster.levels import Levels, ends_of, far_hosts, levels_of, square, symmetric
from netprobe.cluster.records import Verdict, numbered_by_first_member
from netprobe.cluster.regroup import joined_scores
from netprobe.core.errors import InputError
from netprobe.core.numeric.medians import median

# Largest p-value that counts as found.
SIGNIFICANCE = 0.025
# Locality below this contrast is real at most, but of no use to a job.
LEAST_CONTRAST = 1.1
# Permutations for a large fleet, where locality that matters stands out from all of them.
_PERMUTATIONS_LARGE = 39
_LARGE = 128
# Of a larger fleet the test looks at so many hosts, drawn at random.
_TESTED = 384
# The gap is for a reader: its scale needs no more draws than this.
_GAP_DRAWS = 19
# After so many draws a p-value that is nowhere near the level is not worth more.
_FIRST_DRAWS = 39
_HOPELESS = 0.3
# So many pairs of dealt matrices are looked at in one go.
_CELLS_AT_ONCE = 1 << 18
# What is left of a pair, this many robust standard deviations on the slow side, is a disturbance.
_CLIP = 2.0

_NONE = "no usable locality: keep your order"


def judge_locality(
    raw_distance_s: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    seed: int,
    permutations: int = 199,
    p_value: float | None = None,
) -> Verdict:
    """Test a grouping against the raw distances it came from.

    raw_distance_s: (N, N) ``[src, dst]`` as measured, any unit, NaN where missing; labels: (N,).

    Two questions, and the larger of their p-values counts. Is there locality at all? What single hosts
    explain (a slow card makes a host far from everybody) is kept, and what is left of each pair is dealt out
    to the pairs anew: such a matrix has hosts and noise but no locality. Two statistics, each standardised
    over all matrices, look for it: the largest eigenvalue of nearness, which sees few large groups through
    heavy noise, and the best cut of an average-linkage tree, which sees many small ones; the larger of the
    two is compared. So the freedom of choosing the groups is in the p-value. And do these labels tell
    nearer from farther? Their own score is compared with its values on the same matrices.

    Found means p <= 0.025 and a contrast of at least 1.1. Where even the clearest data could not give such
    a p (a handful of hosts), the verdict is "cannot_tell", and so it is where nothing measured ties all
    hosts together. Hosts far from everybody (`far_hosts`) are left out. Above 128 hosts 39 permutations are
    drawn, above 384 of so many hosts.
    p_value: of a test already made, where the labels only refine or complete those it was made of.

    Raises InputError for a bad matrix or labels of another length.
    """
    matrix = symmetric(raw_distance_s)
    n = len(matrix)
    if np.shape(labels) != (n,):
        raise InputError(f"{np.shape(labels)} labels for a matrix of {n} hosts")
    if n <= 2:
        return cannot_tell(f"{n} host{'s' * (n > 1)}: nothing to compare")
    if np.isnan(matrix).all():
        return cannot_tell("no measured distance")
    if (islands := islands_of(matrix)) > 1:
        return cannot_tell(f"no measured link joins {islands} sets of hosts: measure across")
    groups = len(np.unique(labels))
    kept = ~far_hosts(matrix)
    matrix, partition = matrix[np.ix_(kept, kept)], numbered_by_first_member(np.asarray(labels)[kept])
    if partition.max() == 0 or not (matrix > 0).any():
        return Verdict(locality="none", contrast=None, p_value=None, text=_NONE)
    contrast, gap = contrast_of(matrix, partition), None
    if p_value is None:
        p_value, gap = _tested(matrix, partition, seed=seed, permutations=permutations)
    if contrast is not None and contrast < LEAST_CONTRAST:
        return Verdict(locality="none", contrast=contrast, p_value=p_value, text=_NONE)
    if least_p_value(partition) > SIGNIFICANCE:
        text = (
            f"too few hosts to tell: of {len(partition)} hosts even the clearest {int(partition.max()) + 1} groups "
            f"could be chance (p = {p_value:.2g})"
        )
        return Verdict(locality="cannot_tell", contrast=contrast, p_value=p_value, text=text)
    if p_value > SIGNIFICANCE:
        return Verdict(locality="none", contrast=contrast, p_value=p_value, text=_NONE)
    nearer = "nearer" if contrast is None else f"{contrast:.1f}x nearer"
    text = f"locality found: {groups} groups, {nearer} inside than across (p = {p_value:.2g})"
    return Verdict(locality="found", contrast=contrast, p_value=p_value, text=text, gap=gap)


def cannot_tell(text: str) -> Verdict:
    """The verdict that there is none, and why."""
    return Verdict(locality="cannot_tell", contrast=None, p_value=None, text=f"cannot tell: {text}")


def islands_of(matrix: NDArray[np.float64]) -> int:
    """Number of sets of hosts that no measured pair of a `symmetric` (N, N) matrix, NaN where missing, joins."""
    from scipy.sparse.csgraph import connected_components

    if np.isfinite(matrix).sum() == len(matrix) * (len(matrix) - 1):
        return 1
    return int(connected_components(np.isfinite(matrix), directed=False)[0])


def contrast_of(matrix: NDArray[np.float64], labels: NDArray[np.int64]) -> float | None:
    """Median distance between groups ``labels`` (N,) over the median inside, a ratio, of a `symmetric` (N, N)
    matrix; None where a kind is absent or at no distance.
    """
    first, second = ends_of(len(labels))
    pairs = matrix[first, second]
    known = np.isfinite(pairs)
    between = labels[first] != labels[second]
    if not (known & between).any() or not (known & ~between).any():
        return None
    inside = median(pairs[known & ~between])
    return median(pairs[known & between]) / inside if inside > 0 else None


def _tested(
    matrix: NDArray[np.float64], labels: NDArray[np.int64], *, seed: int, permutations: int
) -> tuple[float, dict[str, float] | None]:
    """Share of matrices without locality that look as grouped, the matrix itself counted in; and the gap."""
    n = len(matrix)
    if n > _LARGE:
        permutations = min(permutations, _PERMUTATIONS_LARGE)
    if n > _TESTED:
        kept = np.sort(np.random.default_rng(seed).permutation(n)[:_TESTED])
        matrix, labels = matrix[np.ix_(kept, kept)], labels[kept]
    levels = levels_of(matrix)
    table = None if levels is None else draw_looks(levels, labels, seed=seed, permutations=permutations)
    if table is None:
        return 1.0, None  # single hosts explain everything
    dealt = table[1 : 1 + _GAP_DRAWS]
    gap = (table[0] - dealt.mean(axis=0)) / np.maximum(dealt.std(axis=0), 1e-12)
    return (
        max(share_as_good(standardised(table)), share_as_good(table[:, 2])),
        {"nearness": round(float(gap[0]), 6), "cut": round(float(gap[1]), 6)},
    )


def draw_looks(
    levels: Levels,
    labels: NDArray[np.int64],
    *,
    seed: int,
    permutations: int,
    stop: bool = True,
    joined: bool = False,
) -> NDArray[np.float64] | None:
    """(1 + permutations, 3): the matrix itself, then as many without locality.

    Columns, without a unit: the largest eigenvalue of nearness, the best score of a tree's cuts, the score of
    ``labels`` (N,); with ``joined``, a fourth: the score that joining groups comes to (`joined_scores`), for
    matrices of few readings. With ``stop`` the drawing ends early where nothing is to be found. None where the
    pairs are too few.
    """
    if len(levels.unexplained) <= levels.n:
        return None
    generator = np.random.default_rng(seed)
    rest = _clipped(levels.unexplained)
    table = np.zeros((0, 4 if joined else 3))
    for upto in range(1 + _FIRST_DRAWS, 2 + permutations + _FIRST_DRAWS, 1 + _FIRST_DRAWS):
        count = min(upto, 1 + permutations) - len(table)
        drawn = [generator.permutation(rest) for _ in range(count - (len(table) == 0))]
        table = np.concatenate(
            [table, _looks(levels, np.array([rest, *drawn][-count:]), labels, joined=joined)]
        )
        hopeless = stop and share_as_good(standardised(table)) > _HOPELESS
        if len(table) > permutations or (hopeless and upto == 1 + _FIRST_DRAWS):
            break
    return table


def standardised(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """(draws,) the largest of the columns of `draw_looks` that do not depend on labels, each in its deviations."""
    free = np.delete(table, 2, axis=1)
    spread = np.maximum(free.std(axis=0), 1e-12)
    return np.asarray(((free - free.mean(axis=0)) / spread).max(axis=1))


def share_as_good(values: NDArray[np.float64]) -> float:
    """Share of ``values`` (draws,) that reach the first."""
    return float((values >= values[0] - 1e-9).mean())


def _clipped(rest: NDArray[np.float64]) -> NDArray[np.float64]:
    middle = median(rest)
    spread = 1.4826 * median(np.abs(rest - middle))
    # Where most of the rest is exactly nothing the median cannot measure its spread.
    spread = spread if spread > 1e-9 else float(rest.std())
    return np.asarray(np.minimum(rest, middle + _CLIP * spread))


def _looks(
    levels: Levels, rests: NDArray[np.float64], labels: NDArray[np.int64], *, joined: bool
) -> NDArray[np.float64]:
    """(D, 3 or 4) statistics of D matrices, of which single hosts explain the same and (D, P) ``rests`` is left."""
    n, measured, effects = levels.n, levels.measured, levels.effects
    at_once = max(_CELLS_AT_ONCE // len(measured), 1)
    if len(rests) > at_once:
        # Some at a time, that stay in a processor's cache.
        parts = [rests[start : start + at_once] for start in range(0, len(rests), at_once)]
        return np.concatenate([_looks(levels, part, labels, joined=joined) for part in parts])
    # Refitted: dealt noise would add to the hosts' terms, and they would explain too much.
    terms = np.array([effects.sums(rest) for rest in rests]) @ effects.inverse
    rests = rests - terms[:, effects.first] - terms[:, effects.second]
    spread = np.sqrt((rests**2).mean(axis=1))
    some = spread > 1e-12
    pairs = np.zeros((len(rests), len(measured)))
    pairs[:, measured] = rests / np.where(some, spread, 1.0)[:, None]
    # The fit took part of the spread with it; what is left must spread as the noise did.
    scaled = rests * math.sqrt(rests.shape[1] / (rests.shape[1] - n))
    level = np.tile(levels.explained, (len(rests), 1))
    level[:, measured] += scaled
    first, second = ends_of(n)
    columns = [
        _largest_eigenvalues(-pairs, n),
        best_scores(level, measured),
        partition_scores(level[:, measured], (labels[first] != labels[second])[measured]),
    ]
    if joined:
        columns.append(joined_scores(levels, level[:, measured]))
    table = np.stack(columns, axis=1)
    return np.asarray(np.where(some[:, None], table, 0.0))


def _largest_eigenvalues(pairs: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """(D,) of D symmetric matrices of N rows, zero on the diagonal: (D, M) their pairs."""
    from scipy.sparse.linalg import eigsh

    if n <= _LARGE:
        return np.asarray(np.linalg.eigvalsh(square(pairs, n))[:, -1])
    start = np.random.default_rng(n).normal(size=n)
    return np.array(
        [
            eigsh(square(one, n), k=1, which="LA", v0=start, tol=1e-4, return_eigenvectors=False)[0]
            for one in pairs
        ]
    )


def least_p_value(labels: NDArray[np.int64]) -> float:
    """Probability, 0 to 1, that as many near pairs, strewn at random, form groups of just the sizes of ``labels``
    (N,).
    """
    sizes = np.bincount(labels).tolist()
    n = len(labels)
    if n > _LARGE:
        return _least_p_value_of_many(sizes)
    partitions = math.factorial(n)
    for size, times in Counter(sizes).items():
        partitions //= math.factorial(size) ** times * math.factorial(times)
    inside = sum(size * (size - 1) // 2 for size in sizes)
    return partitions / math.comb(n * (n - 1) // 2, inside)


def _least_p_value_of_many(sizes: list[int]) -> float:
    """The same by logarithms of factorials: whole numbers of a million digits take too long."""
    ways = math.lgamma(sum(sizes) + 1) - sum(
        times * math.lgamma(size + 1) + math.lgamma(times + 1) for size, times in Counter(sizes).items()
    )
    pairs, inside = math.comb(sum(sizes), 2), sum(math.comb(size, 2) for size in sizes)
    choices = math.lgamma(pairs + 1) - math.lgamma(inside + 1) - math.lgamma(pairs - inside + 1)
    return math.exp(min(ways - choices, 0.0))
