"""Levels above and below a grouping: rows of racks, racks of a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.hierarchy import hierarchy_of
from netprobe.cluster.judge import LEAST_CONTRAST, SIGNIFICANCE, judge_locality
from netprobe.cluster.levels import symmetric
from netprobe.cluster.natural import best_grouping
from netprobe.cluster.records import numbered_by_first_member

_LEVELS = 3
_DRAWS = 99
# A group of fewer hosts than this is not looked into: no test could tell.
_FEWEST = 6


def finer(
    distance_s: NDArray[np.float64],
    raw_distance_s: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    seed: int,
) -> NDArray[np.int64] | None:
    """The groups split where locality is found inside one (N,), or None where it is in none of them.

    Each group is judged like a fleet of its own, at the same level divided by their number.
    """
    found = labels.copy()
    inside = [np.flatnonzero(labels == group) for group in np.unique(labels)]
    inside = [members for members in inside if len(members) >= _FEWEST]
    for members in inside:
        part = raw_distance_s[np.ix_(members, members)]
        split = best_grouping(distance_s[np.ix_(members, members)])
        if split.k == 1:
            continue
        verdict = judge_locality(part, split.labels, seed=seed)
        if verdict.locality == "found" and (verdict.p_value or 0.0) <= SIGNIFICANCE / min(len(inside), 4):
            found[members] = found.max() + 1 + split.labels
    return None if np.array_equal(found, labels) else numbered_by_first_member(found)


def coarser(
    raw_distance_s: NDArray[np.float64], labels: NDArray[np.int64], *, seed: int
) -> NDArray[np.int64] | None:
    """(N,) labels of groups of groups, or None where the distances between groups are all alike.

    The mean log distances of pairs of groups are cut by average linkage. The step between the two levels of
    the best cut is compared with those of matrices whose readings across groups are dealt out anew.
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
    level = np.log(pairs[across])
    low, high = np.quantile(level, [0.25, 0.75])
    level = np.minimum(level, high + 3.0 * max(float(high - low), 0.02))
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

    observed, group, step = best(level)
    if observed <= 0 or np.exp(step) < LEAST_CONTRAST:
        return None
    generator = np.random.default_rng(seed)
    as_good = sum(best(generator.permutation(level))[0] >= observed - 1e-12 for _ in range(_DRAWS))
    if (as_good + 1) / (_DRAWS + 1) > SIGNIFICANCE:
        return None
    return numbered_by_first_member(group[labels])


def all_levels(
    distance_s: NDArray[np.float64],
    raw_distance_s: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    seed: int,
) -> list[NDArray[np.int64]]:
    """Every level found, finest first: ``labels`` is one of them, and each is a refinement of the next."""
    levels = [labels]
    while (
        len(levels) < _LEVELS
        and (split := finer(distance_s, raw_distance_s, levels[0], seed=seed)) is not None
    ):
        levels.insert(0, split)
    while (
        len(levels) < _LEVELS + 1 and (joined := coarser(raw_distance_s, levels[-1], seed=seed)) is not None
    ):
        levels.append(joined)
    return levels
