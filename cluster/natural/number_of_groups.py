"""Natural groups: as many as the distances give evidence for, of any sizes, and possibly just one.

The number of groups is decided here: `best_grouping` takes the cut with the best score (`partition.hierarchy`), and
`keep_or_join` keeps it or joins all hosts in one group, by the verdict (`locality_test`). Netprobe's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.balanced.lloyd import DescentOptions, check_sizes, lloyd
from netprobe.cluster.balanced.sqrt_groups import realise
from netprobe.cluster.distances.canonical import canonical_order
from netprobe.cluster.distances.log_distances import LogDistances, log_distances_of
from netprobe.cluster.distances.pairs import ends_of, symmetric
from netprobe.cluster.locality_test import LEAST_CONTRAST, run_locality_test
from netprobe.cluster.partition.hierarchy import Hierarchy, hierarchy_of, partition_score
from netprobe.cluster.records import Partition, numbered_by_first_member, one_group
from netprobe.core.documents.map import Verdict
from netprobe.core.numeric.medians import median, row_medians

# Rounds of "take the excess delay of slow hosts away and group again".
_EXCESS_ROUNDS = 3
# An excess below this share of the median distance is ignored.
_LEAST_EXCESS = 0.02
# Candidates kept in the evidence.
_SHOWN = 8
# Where no test can decide, groups this clear are kept all the same: for few hosts it costs nothing.
_CLEAR_CONTRAST = 1.5
_CLEAR_P_VALUE = 1 / 3


def natural_groups(distance_s: NDArray[np.float64], *, k: int | None = None, seed: int) -> Partition:
    """Groups by evidence: the best cut of an average-linkage tree, or one group where nothing supports it.

    distance_s: (N, N), any unit; NaN where missing. The cut with the best score (see `hierarchy`) is
    refined by k-means where that improves it, then tested as in `judge_locality` against this same matrix.
    A matrix that was smoothed is too smooth for that test: use `find_groups`, which tests the raw one.
    k: form this many groups and test nothing.

    Raises InputError for a bad matrix, InfeasibleError for a k that N hosts cannot form.
    """
    order = canonical_order(distance_s)
    ordered = np.asarray(distance_s)[np.ix_(order, order)]
    grouping = best_grouping(ordered, k=k)
    if k is None and grouping.k > 1:
        grouping = keep_or_join(grouping, run_locality_test(ordered, grouping.labels, seed=seed).verdict)
    return grouping.put_back(order)


def keep_or_join(grouping: Partition, verdict: Verdict) -> Partition:
    """The grouping, or one group of all hosts when the verdict does not support it."""
    clear = (verdict.contrast or 0.0) >= _CLEAR_CONTRAST and (verdict.p_value or 1.0) <= _CLEAR_P_VALUE
    if grouping.k == 1 or verdict.locality == "found" or (verdict.locality == "cannot_tell" and clear):
        return grouping
    reason = f"{grouping.k} groups were not confirmed: {verdict.text}"
    return one_group(len(grouping.labels), evidence={**grouping.evidence, "reason": reason})


def best_grouping(
    distance_s: NDArray[np.float64], *, k: int | None = None, log_distances: LogDistances | None = None
) -> Partition:
    """The best-scored grouping, before any test; one group where no cut scores at all.

    distance_s: (N, N) ``[src, dst]`` in seconds, NaN where missing; log_distances: of it, where they
    are known already.
    """
    matrix = symmetric(distance_s)
    n = len(matrix)
    if k is not None:
        check_sizes(n, k, size_min=1, size_max=n)
    if log_distances is None and n > 1:
        log_distances = log_distances_of(matrix)
    if k == 1 or log_distances is None:
        return _without_evidence(n, k, "one group was requested" if k == 1 else "no distances to go by")
    log_distance, excess = log_distances.log_distance, np.zeros(n)
    hierarchy = hierarchy_of(log_distance, log_distances.measured)
    labels = _best_cut(hierarchy, log_distance, log_distances.measured, k)
    score = partition_score(log_distance, log_distances.measured, labels)
    for _ in range(_EXCESS_ROUNDS):
        found = _excess(log_distances, labels)
        if np.array_equal(found, excess):
            break
        reduced = _reduced_log_distance(log_distances, found)
        tree = hierarchy_of(reduced, log_distances.measured)
        again = _best_cut(tree, reduced, log_distances.measured, k)
        if partition_score(reduced, log_distances.measured, again) <= score:
            break
        log_distance, hierarchy, labels, excess = reduced, tree, again, found
        score = partition_score(log_distance, log_distances.measured, labels)
    step = _step(log_distance, labels)
    evidence: dict[str, object] = {
        "score": round(score, 9),
        "contrast": round(step, 9),
        "candidates": _candidates(hierarchy),
        "excess": [round(float(value), 9) for value in excess] if excess.any() else [],
    }
    if k is None and (score <= 0.0 or step < LEAST_CONTRAST):
        return one_group(n, evidence={**evidence, "reason": "no cut tells near from far"})
    labels = numbered_by_first_member(labels)
    return Partition(labels=labels, method="natural", evidence=evidence)


def _without_evidence(n: int, k: int | None, reason: str) -> Partition:
    if k is None or k == 1:
        return one_group(n, evidence={"reason": reason})
    labels = np.minimum(np.arange(n), k - 1).astype(np.int64)
    return Partition(labels=labels, method="natural", evidence={"reason": reason})


def _best_cut(
    hierarchy: Hierarchy, log_distance: NDArray[np.float64], measured: NDArray[np.bool_], k: int | None
) -> NDArray[np.int64]:
    """Labels of the best cut (the fewest groups of equals), refined where k-means improves the score."""
    n = len(hierarchy.tree) + 1
    if k is None:
        if hierarchy.score.max() <= 0.0:
            return np.zeros(n, dtype=np.int64)
        k = int(np.argmax(np.round(hierarchy.score, 9)))
    labels = hierarchy.cut(k)
    if not 1 < k < n:
        return labels
    square = np.zeros((n, n))
    square[ends_of(n)] = log_distance - log_distance.min()
    points = realise(square + square.T)
    centres = np.stack([points[labels == group].mean(axis=0) for group in range(k)])
    run = lloyd(points, centres, DescentOptions(size_min=1, size_max=n, max_iter=20, tol=0.0))
    better = (
        partition_score(log_distance, measured, run.labels)
        > partition_score(log_distance, measured, labels) + 1e-9
    )
    return run.labels if better else labels


def _excess(log_distances: LogDistances, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N,) delay by which a host is slow towards everybody, in units of the median; zero for most.

    A host with a slow card is far even from its own rack, and would be left alone by any tree. It shows: to
    most hosts it is as much too far, compared with the
    typical distances inside and between groups, as it is to its nearest one.
    """
    n = log_distances.n
    first, second = ends_of(n)
    between = labels[first] != labels[second]
    if between.all() or not between.any():
        return np.zeros(n)
    inside_level = median(log_distances.distance[~between])
    expected = np.where(between, median(log_distances.distance[between]), inside_level)
    surplus = np.full((n, n), np.nan)
    nearest = np.full((n, n), np.inf)
    surplus[first, second] = surplus[second, first] = log_distances.distance - expected
    nearest[first, second] = nearest[second, first] = log_distances.distance
    excess = np.minimum(row_medians(surplus), nearest.min(axis=1) - inside_level)
    return np.asarray(np.where(excess > _LEAST_EXCESS, excess, 0.0))


def _reduced_log_distance(log_distances: LogDistances, excess: NDArray[np.float64]) -> NDArray[np.float64]:
    first, second = ends_of(log_distances.n)
    least = float(log_distances.distance.min())
    return np.asarray(np.log(np.maximum(log_distances.distance - excess[first] - excess[second], least)))


def _step(log_distance: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Ratio of the typical distance between groups to the typical one inside; 1 when one kind is absent."""
    first, second = ends_of(len(labels))
    between = labels[first] != labels[second]
    if between.all() or not between.any():
        return 1.0
    return float(np.exp(median(log_distance[between]) - median(log_distance[~between])))


def _candidates(hierarchy: Hierarchy) -> list[dict[str, object]]:
    """The best-scored numbers of groups, in order of k: a second peak is a second tier of nesting."""
    top = np.argsort(-hierarchy.score, kind="stable")[:_SHOWN]
    return [
        {"k": int(k), "score": round(float(hierarchy.score[k]), 9)}
        for k in sorted(top.tolist())
        if hierarchy.score[k] > 0
    ]
