"""Tiers above and below a partition: rows of racks, racks of a row.

Netprobe's own: the test of `locality_test` inside every group at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.distances.coverage import is_sparse
from netprobe.cluster.distances.log_distances import log_distances_of
from netprobe.cluster.distances.pairs import symmetric
from netprobe.cluster.locality_test import (
    LEAST_CONTRAST,
    SIGNIFICANCE,
    contrast_of,
    least_p_value,
    permuted_statistics,
    share_as_good,
    standardised,
)
from netprobe.cluster.natural.candidates import best_candidate
from netprobe.cluster.partition.hierarchy import hierarchy_of
from netprobe.cluster.records import numbered_by_first_member

# By a group's members: the result of `_split_of`.
Seen = dict[bytes, tuple[NDArray[np.int64], NDArray[np.float64] | None]]

_TIERS = 3
_PERMUTATIONS = 99
_PERMUTATIONS_FINER = 39
# Once the groups together are beyond chance, one of them is split at this significance level.
_OWN = 0.1
# A group of fewer hosts than this is not examined: no test could decide.
_FEWEST = 6
# In a fleet of more hosts than this, groups of fewer than so many are not examined: there are too many of them.
_LARGE, _FEWEST_LARGE = 256, 12
# In a larger group enough pairs are measured for a tree.
_LARGEST_JOINED = 128


def finer(
    distance_s: NDArray[np.float64],
    raw_distance_s: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    seed: int,
    seen: Seen,
) -> NDArray[np.int64] | None:
    """Labels (N,) of the groups split where locality is found inside them, or None where it is in none.

    Each group is tested like a fleet of its own (see `locality_test`). The sum of their statistics must be
    significant at the level of the verdict; then the groups that are significant themselves are split. ``seen``
    caches the result of each group, because the next tier down tests those again that were not split.
    """
    found = labels.copy()
    splits: list[tuple[NDArray[np.intp], NDArray[np.int64]]] = []
    all_statistics: list[NDArray[np.float64]] = []
    fewest = _FEWEST if len(labels) <= _LARGE else _FEWEST_LARGE
    for group in np.unique(labels):
        members = np.flatnonzero(labels == group)
        if len(members) < fewest:
            continue
        if members.tobytes() not in seen:
            block = np.ix_(members, members)
            seen[members.tobytes()] = _split_of(distance_s[block], raw_distance_s[block], seed=seed)
        split, statistics = seen[members.tobytes()]
        if statistics is not None:
            all_statistics.append(statistics)
            splits.append((members, split))
    if not all_statistics or share_as_good(np.sum(all_statistics, axis=0)) > SIGNIFICANCE:
        return None
    for (members, split), statistics in zip(splits, all_statistics):
        contrast = contrast_of(symmetric(raw_distance_s[np.ix_(members, members)]), split)
        clear = contrast is None or contrast >= LEAST_CONTRAST
        possible = split.max() > 0 and least_p_value(numbered_by_first_member(split)) <= SIGNIFICANCE
        if possible and clear and share_as_good(statistics) <= _OWN:
            found[members] = found.max() + 1 + split
    return None if np.array_equal(found, labels) else numbered_by_first_member(found)


def _split_of(
    distance_s: NDArray[np.float64], raw_distance_s: NDArray[np.float64], *, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """The best split of one group, and the standardised statistics of it and of permuted matrices.

    None in place of the statistics where the pairs are too few.
    """
    log_distances = log_distances_of(symmetric(raw_distance_s))
    if log_distances is None:
        return np.zeros(len(raw_distance_s), dtype=np.int64), None
    split = best_candidate(distance_s, raw_distance_s, log_distances=log_distances).labels
    few = is_sparse(raw_distance_s) and log_distances.n <= _LARGEST_JOINED
    table = permuted_statistics(
        log_distances, split, seed=seed, permutations=_PERMUTATIONS_FINER, stop=False, joined=few
    )
    return split, None if table is None else standardised(table)


def coarser(
    raw_distance_s: NDArray[np.float64], labels: NDArray[np.int64], *, seed: int
) -> NDArray[np.int64] | None:
    """(N,) labels of groups of groups, or None where the distances between groups are all equal.

    The mean log distances of pairs of groups are cut by average linkage. The best cut is compared with
    those of matrices whose readings across groups are permuted.
    """
    matrix = symmetric(raw_distance_s)
    k = int(labels.max()) + 1
    if k < 4:
        return None
    first, second = np.triu_indices(len(labels), 1)
    pairs = matrix[first, second]
    across = np.isfinite(pairs) & (labels[first] != labels[second]) & (pairs > 0)
    if not across.any():
        return None
    log_distance = np.log(pairs[across])
    low, high = np.quantile(log_distance, [0.25, 0.75])
    log_distance = np.minimum(log_distance, high + 3.0 * max(float(high - low), 0.02))
    ends = np.sort(np.stack([labels[first][across], labels[second][across]]), axis=0)
    where = (ends[0] * (2 * k - ends[0] - 1)) // 2 + ends[1] - ends[0] - 1
    size = k * (k - 1) // 2
    counts = np.bincount(where, minlength=size)

    def best(values: NDArray[np.float64]) -> tuple[float, NDArray[np.int64], float]:
        means = np.bincount(where, values, size) / np.maximum(counts, 1)
        means[counts == 0] = values.mean()
        tree = hierarchy_of(means, counts > 0)
        cut = int(np.argmax(np.round(tree.score, 9)))
        group = tree.cut(max(cut, 1))
        one, other = np.triu_indices(k, 1)
        apart = group[one] != group[other]
        step = float(means[apart].mean() - means[~apart].mean()) if apart.any() and not apart.all() else 0.0
        return float(tree.score.max()) * float(means.std()), group, step

    observed, group, step = best(log_distance)
    if observed <= 0 or np.exp(step) < LEAST_CONTRAST:
        return None
    generator = np.random.default_rng(seed)
    permutations = _PERMUTATIONS if len(labels) <= _LARGE else _PERMUTATIONS_FINER
    as_good = 0
    for _ in range(permutations):
        as_good += best(generator.permutation(log_distance))[0] >= observed - 1e-12
        if (as_good + 1) / (permutations + 1) > SIGNIFICANCE:
            return None
    return numbered_by_first_member(group[labels])


def nested_tiers(
    distance_s: NDArray[np.float64],
    raw_distance_s: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    seed: int,
) -> list[NDArray[np.int64]]:
    """Every tier found, finest first: ``labels`` is one of them, and each is a refinement of the next.

    Distances are (N, N) ``[src, dst]`` in seconds, denoised and as measured (NaN where missing); labels are (N,).
    """
    tiers = [labels]
    seen: Seen = {}
    while (
        len(tiers) < _TIERS
        and (split := finer(distance_s, raw_distance_s, tiers[0], seed=seed, seen=seen)) is not None
    ):
        tiers.insert(0, split)
    while len(tiers) < _TIERS + 1 and (joined := coarser(raw_distance_s, tiers[-1], seed=seed)) is not None:
        tiers.append(joined)
    return tiers
