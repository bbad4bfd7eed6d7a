"""Is the locality real? A permutation test that knows the groups were chosen on the same readings.

Residuals are permuted as Freedman and Lane (1983) do, and the search for groups is repeated for each permutation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.distances.canonical import canonical_order
from netprobe.cluster.distances.log_distances import LogDistances, log_distances_of
from netprobe.cluster.distances.pairs import ends_of, far_hosts, square, symmetric
from netprobe.cluster.partition.hierarchy import best_scores, partition_scores
from netprobe.cluster.partition.regroup import joined_scores
from netprobe.cluster.records import numbered_by_first_member
from netprobe.core.documents.map import Verdict
from netprobe.core.errors import InputError
from netprobe.core.numeric.medians import median

# Significance level: the largest p-value that counts as found.
SIGNIFICANCE = 0.025
# Locality below this contrast may be real, but is of no use to a job.
LEAST_CONTRAST = 1.1
# Permutations for a large fleet, where locality that matters stands out from all of them.
_PERMUTATIONS_LARGE = 39
_LARGE = 128
# Of a larger fleet the test uses a random sample of this many hosts.
_TESTED = 384
# The gap statistic is for a reader: its scale needs no more permutations than this.
_GAP_PERMUTATIONS = 19
# After so many permutations a p-value far above the significance level is not refined.
_FIRST_PERMUTATIONS = 39
_HOPELESS = 0.3
# So many pairs of permuted matrices are processed at a time.
_CELLS_AT_ONCE = 1 << 18
# A residual this many robust standard deviations on the slow side is clipped: it is a disturbance.
_CLIP = 2.0

_NONE = "no usable locality: these hosts form no groups"


@dataclass(frozen=True, kw_only=True)
class LocalityTest:
    """A verdict, and where the locality is found its gap statistic.

    gap_statistic: standard deviations by which the two statistics of the test exceed those of permuted matrices:
        ``nearness`` (the eigenvalue) and ``cut`` (the tree). This is the gap statistic of Tibshirani, Walther and
        Hastie (2001) with permuted residuals as the null model. None where no test was made.
    """

    verdict: Verdict
    gap_statistic: Mapping[str, float] | None = None


def judge_locality(
    raw_distance_s: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    seed: int,
    permutations: int = 199,
    p_value: float | None = None,
) -> Verdict:
    """The verdict of `run_locality_test`, made in an order that the distances alone decide (`canonical_order`)."""
    order = canonical_order(raw_distance_s)
    if np.shape(labels) == order.shape:
        raw_distance_s, labels = np.asarray(raw_distance_s)[np.ix_(order, order)], np.asarray(labels)[order]
    test = run_locality_test(raw_distance_s, labels, seed=seed, permutations=permutations, p_value=p_value)
    return test.verdict


def run_locality_test(
    raw_distance_s: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    seed: int,
    permutations: int = 199,
    p_value: float | None = None,
) -> LocalityTest:
    """Test a partition against the raw distances it came from.

    raw_distance_s: (N, N) ``[src, dst]`` as measured, any unit, NaN where missing; labels: (N,).

    Two questions are put, and the larger of their p-values counts. First, is there any locality? The part of
    each distance that single hosts explain is kept (a slow card makes a host far from everybody) and the
    residuals are permuted over the pairs: such a matrix has hosts and noise but no locality. Two statistics,
    each standardised over all matrices, are computed: the largest eigenvalue of nearness, which detects few
    large groups in heavy noise, and the best cut of an average-linkage tree, which detects many small ones. The
    larger of the two is compared, so the p-value accounts for the free choice of groups. Second, do these labels
    separate near from far? Their score is compared with its values on the permuted matrices.

    "found" means p <= 0.025 and a contrast of at least 1.1. Where even the clearest data could not give such
    a p (a handful of hosts), or where no chain of measured pairs joins all hosts, the verdict is "cannot_tell".
    Hosts far from everybody (`far_hosts`) are left out. Above 128 hosts there are 39 permutations; above 384
    hosts, of a random sample of 384.
    p_value: of a test already made, where these labels only refine or complete the labels tested there.

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
        return LocalityTest(verdict=Verdict(locality="none", text=_NONE))
    contrast, gap_statistic = contrast_of(matrix, partition), None
    if p_value is None:
        p_value, gap_statistic = _tested(matrix, partition, seed=seed, permutations=permutations)
    if contrast is not None and contrast < LEAST_CONTRAST:
        return LocalityTest(verdict=Verdict(locality="none", contrast=contrast, p_value=p_value, text=_NONE))
    if least_p_value(partition) > SIGNIFICANCE:
        text = (
            f"too few hosts to tell: of {len(partition)} hosts even the clearest {int(partition.max()) + 1} groups "
            f"could be chance (p = {p_value:.2g}"
        )
        if p_value <= SIGNIFICANCE:
            text += f" by their gap, but near pairs at random form such groups with p = {least_p_value(partition):.2g}"
        text += ")"
        verdict = Verdict(locality="cannot_tell", contrast=contrast, p_value=p_value, text=text)
        return LocalityTest(verdict=verdict)
    if p_value > SIGNIFICANCE:
        return LocalityTest(verdict=Verdict(locality="none", contrast=contrast, p_value=p_value, text=_NONE))
    nearer = "nearer" if contrast is None else f"{contrast:.1f}x nearer"
    text = f"locality found: {groups} groups, {nearer} inside than across (p = {p_value:.2g})"
    verdict = Verdict(locality="found", contrast=contrast, p_value=p_value, text=text)
    return LocalityTest(verdict=verdict, gap_statistic=gap_statistic)


def cannot_tell(text: str) -> LocalityTest:
    """A test that could not be made; ``text`` says why."""
    return LocalityTest(verdict=Verdict(locality="cannot_tell", text=f"cannot tell: {text}"))


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
    """The p-value: share of matrices, this one counted, that look at least as grouped; and the gap statistic."""
    n = len(matrix)
    if n > _LARGE:
        permutations = min(permutations, _PERMUTATIONS_LARGE)
    if n > _TESTED:
        kept = np.sort(np.random.default_rng(seed).permutation(n)[:_TESTED])
        matrix, labels = matrix[np.ix_(kept, kept)], labels[kept]
    log_distances = log_distances_of(matrix)
    table = (
        None
        if log_distances is None
        else permuted_statistics(log_distances, labels, seed=seed, permutations=permutations)
    )
    if table is None:
        return 1.0, None  # single hosts explain everything
    null = table[1 : 1 + _GAP_PERMUTATIONS]
    gap_statistic = (table[0] - null.mean(axis=0)) / np.maximum(null.std(axis=0), 1e-12)
    return (
        max(share_as_good(standardised(table)), share_as_good(table[:, 2])),
        {"nearness": round(float(gap_statistic[0]), 6), "cut": round(float(gap_statistic[1]), 6)},
    )


def permuted_statistics(
    log_distances: LogDistances,
    labels: NDArray[np.int64],
    *,
    seed: int,
    permutations: int,
    stop: bool = True,
    joined: bool = False,
) -> NDArray[np.float64] | None:
    """(1 + permutations, 3): the statistics of the matrix itself, then those of permuted ones.

    Columns, without a unit: the largest eigenvalue of nearness, the best score of a tree's cuts, the score of
    ``labels`` (N,); with ``joined``, a fourth: the score reached by joining groups (`joined_scores`), for
    matrices of few readings. With ``stop`` permuting ends early where nothing is to be found. None where the
    pairs are too few.
    """
    if len(log_distances.unexplained) <= log_distances.n:
        return None
    generator = np.random.default_rng(seed)
    residual = _clipped(log_distances.unexplained)
    table = np.zeros((0, 4 if joined else 3))
    for upto in range(
        1 + _FIRST_PERMUTATIONS, 2 + permutations + _FIRST_PERMUTATIONS, 1 + _FIRST_PERMUTATIONS
    ):
        count = min(upto, 1 + permutations) - len(table)
        permuted = [generator.permutation(residual) for _ in range(count - (len(table) == 0))]
        table = np.concatenate(
            [
                table,
                _statistics(log_distances, np.array([residual, *permuted][-count:]), labels, joined=joined),
            ]
        )
        hopeless = stop and share_as_good(standardised(table)) > _HOPELESS
        if len(table) > permutations or (hopeless and upto == 1 + _FIRST_PERMUTATIONS):
            break
    return table


def standardised(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D,) the largest of the standardised columns of `permuted_statistics`, but for that of the labels."""
    free = np.delete(table, 2, axis=1)
    spread = np.maximum(free.std(axis=0), 1e-12)
    return np.asarray(((free - free.mean(axis=0)) / spread).max(axis=1))


def share_as_good(values: NDArray[np.float64]) -> float:
    """Share of ``values`` (D,) that reach the first."""
    return float((values >= values[0] - 1e-9).mean())


def _clipped(residual: NDArray[np.float64]) -> NDArray[np.float64]:
    middle = median(residual)
    spread = 1.4826 * median(np.abs(residual - middle))
    # Where most residuals are exactly zero the median cannot measure their spread.
    spread = spread if spread > 1e-9 else float(residual.std())
    return np.asarray(np.minimum(residual, middle + _CLIP * spread))


def _statistics(
    log_distances: LogDistances, residuals: NDArray[np.float64], labels: NDArray[np.int64], *, joined: bool
) -> NDArray[np.float64]:
    """(D, 3 or 4) statistics of D matrices with the same host effects and residuals ``residuals`` (D, P)."""
    n, measured, effects = log_distances.n, log_distances.measured, log_distances.effects
    at_once = max(_CELLS_AT_ONCE // len(measured), 1)
    if len(residuals) > at_once:
        # In batches that stay in a processor's cache.
        parts = [residuals[start : start + at_once] for start in range(0, len(residuals), at_once)]
        return np.concatenate([_statistics(log_distances, part, labels, joined=joined) for part in parts])
    # Refitted: permuted noise would add to the host effects, which would explain too much.
    terms = np.array([effects.sums(residual) for residual in residuals]) @ effects.inverse
    residuals = residuals - terms.take(effects.first, axis=1)
    residuals -= terms.take(effects.second, axis=1)
    spread = np.sqrt(np.square(residuals).mean(axis=1))
    some = spread > 1e-12
    nearness = residuals / np.where(some, -spread, -1.0)[:, None]
    # The fit removed part of the spread; the residuals are scaled back to the spread of the noise.
    scaled = np.multiply(residuals, math.sqrt(residuals.shape[1] / (residuals.shape[1] - n)), out=residuals)
    first, second = ends_of(n)
    between = labels[first] != labels[second]
    if residuals.shape[1] == len(measured):
        log_distance = readings = np.add(scaled, log_distances.explained, out=scaled)
    else:
        between = between[measured]
        readings = scaled + log_distances.explained[measured]
        log_distance = np.tile(log_distances.explained, (len(residuals), 1))
        log_distance[:, measured] = readings
        pairs = np.zeros(log_distance.shape)
        pairs[:, measured] = nearness
        nearness = pairs
    columns = [
        _largest_eigenvalues(nearness, n),
        best_scores(log_distance, measured),
        partition_scores(readings, between),
    ]
    if joined:
        columns.append(joined_scores(log_distances, readings))
    table = np.stack(columns, axis=1)
    return np.asarray(np.where(some[:, None], table, 0.0))


def _largest_eigenvalues(pairs: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """(D,) of D symmetric (N, N) matrices with zero diagonal, given by their ``pairs`` (D, M)."""
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
    """Probability, 0 to 1, that as many near pairs, placed at random, form groups of the sizes of ``labels`` (N,)."""
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
    """The same by logarithms of factorials: integers of a million digits take too long."""
    arrangements = math.lgamma(sum(sizes) + 1) - sum(
        times * math.lgamma(size + 1) + math.lgamma(times + 1) for size, times in Counter(sizes).items()
    )
    pairs, inside = math.comb(sum(sizes), 2), sum(math.comb(size, 2) for size in sizes)
    choices = math.lgamma(pairs + 1) - math.lgamma(inside + 1) - math.lgamma(pairs - inside + 1)
    return math.exp(min(arrangements - choices, 0.0))
