"""Is the locality real? A permutation test that knows the groups were chosen on the same readings."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.hierarchy import hierarchy_of, partition_score
from netprobe.cluster.levels import Levels, levels_of, symmetric
from netprobe.cluster.records import Verdict, numbered_by_first_member
from netprobe.core.errors import InputError

# Largest p-value that counts as found.
SIGNIFICANCE = 0.025
# Locality below this contrast is real at most, but of no use to a job.
LEAST_CONTRAST = 1.1
# Permutations for a large fleet, where each takes a tenth of a second.
_PERMUTATIONS_LARGE = 59
_LARGE = 400
# As many matrices grouped as well end the drawing.
_ENOUGH = 10

_NONE = "no usable locality: keep your order"


def judge_locality(
    raw_distance_s: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    seed: int,
    permutations: int = 199,
) -> Verdict:
    """Test a grouping against the raw distances it came from.

    raw_distance_s: (N, N) ``[src, dst]`` as measured, any unit, NaN where missing; labels: (N,).

    What single hosts explain (a slow card makes a host far from everybody) is kept, and what is left of
    each pair is dealt out to the pairs anew. Each such matrix, which has hosts and noise but no locality,
    is grouped again, with every number of groups allowed, and its best score is compared with that of
    ``labels``: so the freedom of choosing the groups is in the p-value. Found means p <= 0.025 and a
    contrast of at least 1.1. Where even the clearest data could not give such a p (a handful of hosts), the
    verdict is "cannot_tell". Above 400 hosts at most 59 permutations are drawn.

    Raises InputError for a bad matrix or labels of another length.
    """
    matrix = symmetric(raw_distance_s)
    n = len(matrix)
    if np.shape(labels) != (n,):
        raise InputError(f"{np.shape(labels)} labels for a matrix of {n} hosts")
    partition = numbered_by_first_member(np.asarray(labels))
    k = int(partition.max()) + 1
    if n <= 2:
        return cannot_tell(f"{n} host{'s' * (n > 1)}: nothing to compare")
    levels = levels_of(matrix)
    if levels is None and np.isnan(matrix[np.triu_indices(n, 1)]).all():
        return cannot_tell("no measured distance")
    if k == 1 or levels is None:
        return Verdict(locality="none", contrast=None, p_value=None, text=_NONE)
    contrast = _contrast(matrix, partition)
    p_value = _p_value(levels, partition, seed=seed, permutations=permutations)
    if not _usable(contrast):
        return Verdict(locality="none", contrast=contrast, p_value=p_value, text=_NONE)
    if _least_p_value(partition) > SIGNIFICANCE:
        text = f"too few hosts to tell: {n} hosts in {k} groups could be chance (p = {p_value:.2g})"
        return Verdict(locality="cannot_tell", contrast=contrast, p_value=p_value, text=text)
    if p_value > SIGNIFICANCE:
        return Verdict(locality="none", contrast=contrast, p_value=p_value, text=_NONE)
    nearer = "nearer" if contrast is None else f"{contrast:.1f}x nearer"
    text = f"locality found: {k} groups, {nearer} inside than across (p = {p_value:.2g})"
    return Verdict(locality="found", contrast=contrast, p_value=p_value, text=text)


def cannot_tell(text: str) -> Verdict:
    """The verdict that there is none, and why."""
    return Verdict(locality="cannot_tell", contrast=None, p_value=None, text=f"cannot tell: {text}")


def _usable(contrast: float | None) -> bool:
    """No contrast means that the inside is at no distance at all, or that no inside pair was measured."""
    return contrast is None or contrast >= LEAST_CONTRAST


def _contrast(matrix: NDArray[np.float64], labels: NDArray[np.int64]) -> float | None:
    first, second = np.triu_indices(len(labels), 1)
    pairs = matrix[first, second]
    known = np.isfinite(pairs)
    between = labels[first] != labels[second]
    if not (known & between).any() or not (known & ~between).any():
        return None
    inside = float(np.median(pairs[known & ~between]))
    return float(np.median(pairs[known & between])) / inside if inside > 0 else None


def _p_value(levels: Levels, labels: NDArray[np.int64], *, seed: int, permutations: int) -> float:
    """Share of matrices without locality that can be grouped as well, the matrix itself counted in.

    Drawing ends early when many could: then their share so far is the p-value (Besag and Clifford 1991,
    "Sequential Monte Carlo p-values").
    """
    if levels.n > _LARGE:
        permutations = min(permutations, _PERMUTATIONS_LARGE)
    generator = np.random.default_rng(seed)
    if len(levels.unexplained) <= levels.n:
        return 1.0  # single hosts explain everything
    observed = partition_score(levels.level, levels.measured, labels)
    pairs, freedom = len(levels.unexplained), len(levels.unexplained) - levels.n
    # The fit took part of the spread with it; the permuted rest must spread as the noise did.
    spread = math.sqrt(pairs / freedom)
    as_good = 0
    for drawn in range(1, permutations + 1):
        dealt = generator.permutation(levels.unexplained)
        # Without this the dealt noise would add to the hosts' terms, and they would explain too much.
        dealt = levels.effects.residual(dealt)
        level = levels.explained.copy()
        level[levels.measured] += spread * dealt
        as_good += bool(hierarchy_of(level, levels.measured).score.max() >= observed - 1e-9)
        if as_good == _ENOUGH:
            return as_good / drawn
    return (as_good + 1) / (permutations + 1)


def _least_p_value(labels: NDArray[np.int64]) -> float:
    """How probable it is that as many near pairs, strewn at random, form groups of just these sizes."""
    sizes = np.bincount(labels).tolist()
    n = len(labels)
    partitions = math.factorial(n)
    for size, times in Counter(sizes).items():
        partitions //= math.factorial(size) ** times * math.factorial(times)
    inside = sum(size * (size - 1) // 2 for size in sizes)
    return partitions / math.comb(n * (n - 1) // 2, inside)
