"""Scores, trees, permutations and regroupings against the slow and obvious way to the same value."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.cluster import locality_test
from netprobe.cluster.distances.log_distances import HostEffects, LogDistances, log_distances_of
from netprobe.cluster.distances.pairs import symmetric
from netprobe.cluster.locality_test import (
    _clipped,
    judge_locality,
    permuted_statistics,
    run_locality_test,
    share_as_good,
    standardised,
)
from netprobe.cluster.natural.stability import stability_of
from netprobe.cluster.partition.hierarchy import hierarchy_of, partition_score, partition_scores
from netprobe.cluster.partition.regroup import regroup
from tests.cluster.fleets import apart, flat_rtt, rack_rtt, racks
from tests.properties import examples

Array = NDArray[Any]


def ends(n: int) -> tuple[Array, Array]:
    return np.triu_indices(n, 1)


def score(values: Array, labels: Array, measured: Array | None = None) -> float:
    """The correlation of log distances with "in different groups"; 0 where one of the two is the same everywhere."""
    first, second = ends(len(labels))
    keep = np.ones(len(first), dtype=bool) if measured is None else measured
    between = (labels[first] != labels[second])[keep].astype(float)
    own = values[keep]
    if between.std() == 0 or own.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(own, between)[0, 1])


def some_log_distances(n: int, seed: int, missing: float = 0.0, noise: float = 0.3) -> LogDistances:
    """Of racks at random, with host effects, noise and holes that leave a chain of pairs."""
    rng = np.random.default_rng(seed)
    rack, height = rng.integers(0, 3, n), rng.gamma(2.0, 0.2, n)
    matrix = np.where(rack[:, None] == rack[None, :], 1.0, 2.0) + height[:, None] + height[None, :]
    matrix = matrix * np.exp(rng.normal(0.0, noise, (n, n)))
    holes = np.triu(rng.random((n, n)) < missing, 1)
    holes[np.arange(n - 1), np.arange(1, n)] = False
    matrix[holes | holes.T] = np.nan
    found = log_distances_of(symmetric(matrix))
    assert found is not None
    return found


@examples(25)
@given(st.integers(3, 14), st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
def test_every_cut_of_a_tree_has_the_score_of_its_partition(n: int, seed: int, missing: float) -> None:
    found = some_log_distances(n, seed, missing)
    tree = hierarchy_of(found.log_distance, found.measured)
    assert tree.score[[0, 1, n]].tolist() == [0.0, 0.0, 0.0]
    for k in range(2, n):
        labels = tree.cut(k)
        wanted = score(found.log_distance, labels, found.measured)
        assert len(set(labels.tolist())) == k
        assert tree.score[k] == pytest.approx(wanted, abs=1e-9)
        assert partition_score(found.log_distance, found.measured, labels) == pytest.approx(wanted, abs=1e-9)
        first, second = ends(n)
        values = found.log_distance[found.measured]
        between = (labels[first] != labels[second])[found.measured]
        many = partition_scores(np.stack([values, -values, np.ones_like(values)]), between)
        assert many == pytest.approx([wanted, -wanted, 0.0], abs=1e-9)


def greedily(found: LogDistances, labels: Array) -> Array:
    """Joins of two groups, then moves of a host, each the best there is, as long as the score rises."""
    n = found.n
    first, second = ends(n)
    known = np.zeros((n, n), dtype=bool)
    known[first, second] = known[second, first] = found.measured

    def rated(tried: Array) -> float:
        return score(found.log_distance, tried, found.measured)

    labels = np.unique(labels, return_inverse=True)[1]
    for _ in range(20):
        before = labels.copy()
        while True:
            joins = [
                np.where(labels == b, a, labels)
                for a, b in itertools.combinations(range(labels.max() + 1), 2)
                if known[np.ix_(labels == a, labels == b)].any()
            ]
            best = max(joins, key=rated, default=labels)
            if rated(best) <= rated(labels) + 1e-9:
                break
            labels = np.unique(best, return_inverse=True)[1]
        groups = int(labels.max()) + 1
        for _ in range(4 * n):
            moves = []
            for host, group in itertools.product(range(n), range(groups)):
                if (known[host] & (labels == group)).any():
                    moves.append(np.where(np.arange(n) == host, group, labels))
            best = max(moves, key=rated)
            if rated(best) <= rated(labels) + 1e-9:
                break
            labels = best
        labels = np.unique(labels, return_inverse=True)[1]
        if np.array_equal(labels, before):
            break
    return labels


@examples(12)
@given(st.integers(4, 9), st.integers(0, 10**6), st.sampled_from([0.0, 0.4]), st.integers(1, 9))
def test_regrouping_is_the_best_join_and_the_best_move_again_and_again(
    n: int, seed: int, missing: float, groups: int
) -> None:
    found = some_log_distances(n, seed, missing)
    start = np.random.default_rng(seed + 1).integers(0, groups, n)
    assert regroup(found, start).tolist() == greedily(found, start).tolist()


def test_regrouping_without_any_difference_changes_nothing() -> None:
    labels = np.array([2, 0, 2, 1, 1])
    assert regroup(None, labels).tolist() == [2, 0, 2, 1, 1]
    flat = log_distances_of(symmetric(np.ones((5, 5))))
    assert regroup(flat, labels + 4).tolist() == [2, 0, 2, 1, 1]


@examples(20)
@given(st.integers(3, 9), st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
def test_host_effects_are_the_least_squares_fit(n: int, seed: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    first, second = ends(n)
    kept = rng.random(len(first)) >= missing
    kept[np.flatnonzero(second == first + 1)] = True
    kept[(first == 0) & (second == 2)] = True  # a circle of three leaves nothing open
    first, second = first[kept], second[kept]
    effects = HostEffects(n, first, second)
    design = np.zeros((len(first), n))
    design[np.arange(len(first)), first] = design[np.arange(len(first)), second] = 1.0
    y, weight = rng.normal(size=len(first)), rng.uniform(0.2, 3.0, len(first))
    assert effects.fit(y) == pytest.approx(np.linalg.lstsq(design, y, rcond=None)[0], abs=1e-6)
    root = np.sqrt(weight)
    weighted = np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
    assert effects.fit_weighted(y, weight) == pytest.approx(weighted, abs=1e-6)
    assert effects.residual(y) == pytest.approx(y - design @ effects.fit(y), abs=1e-9)
    assert effects.sums(y) == pytest.approx(design.T @ y)


def test_what_hosts_explain_is_explained_and_fills_what_is_missing() -> None:
    """Distances that are sums of two delays leave nothing over, and missing ones are known by their hosts."""
    height = np.array([1.0, 2.0, 4.0, 0.5, 1.5, 3.0, 2.5, 1.2])
    matrix = height[:, None] + height[None, :]
    whole = log_distances_of(symmetric(matrix))
    assert whole is not None and np.abs(whole.unexplained).max() < 2e-3
    first, second = ends(8)
    middle = float(np.median(matrix[first, second]))
    assert whole.log_distance == pytest.approx(np.log(matrix[first, second] / middle + 1e-3), abs=1e-8)
    assert whole.distance == pytest.approx(np.exp(whole.log_distance)) and whole.measured.all()
    holed = matrix.copy()
    holed[1, 5] = holed[5, 1] = holed[0, 7] = holed[7, 0] = np.nan
    found = log_distances_of(symmetric(holed))
    assert found is not None and (~found.measured).sum() == 2
    scale = float(np.median(holed[first, second][found.measured]))
    assert found.log_distance == pytest.approx(np.log(matrix[first, second] / scale), abs=3e-3)
    assert found.explained == pytest.approx(found.log_distance, abs=3e-3)
    assert log_distances_of(np.full((3, 3), np.nan)) is None and log_distances_of(np.zeros((3, 3))) is None


@examples(15)
@given(st.integers(4, 12), st.integers(0, 10**6), st.floats(1e-6, 1e6))
def test_names_and_units_change_no_log_distance(n: int, seed: int, unit: float) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.lognormal(0.0, 0.5, (n, n))
    matrix[rng.random((n, n)) < 0.1] = np.nan
    order = rng.permutation(n)
    one, other = (
        log_distances_of(symmetric(matrix)),
        log_distances_of(symmetric(matrix[np.ix_(order, order)] * unit)),
    )
    assert one is not None and other is not None
    first, second = ends(n)
    for of_pair in ("log_distance", "explained", "measured"):
        table = np.zeros((n, n))
        table[first, second] = table[second, first] = getattr(one, of_pair)
        assert getattr(other, of_pair) == pytest.approx(table[np.ix_(order, order)][first, second], abs=1e-5)


def test_a_pair_far_off_is_pulled_down_and_one_at_nothing_lifted() -> None:
    rng = np.random.default_rng(3)
    first, second = ends(20)
    matrix = symmetric(rng.uniform(0.9, 1.1, (20, 20)))
    plain = log_distances_of(matrix)
    assert plain is not None
    for factor in (1.05, 5.0, 1e6):
        slow = matrix.copy()
        slow[0, 1] = slow[1, 0] = factor
        found = log_distances_of(slow)
        assert found is not None
        # Of the others none is touched; the far one is no further off than thrice what three in four are off.
        assert found.log_distance[1:] == pytest.approx(plain.log_distance[1:], abs=0.02)
        if factor > 1.1:
            fence = 3 * np.quantile(np.abs(plain.unexplained), 0.75)
            assert found.log_distance[0] < plain.log_distance.max() + 2 * fence
        else:
            assert found.log_distance[0] == pytest.approx(math.log(factor), abs=0.02)
    near = matrix.copy()
    near[0, 1] = near[1, 0] = 0.0
    found = log_distances_of(near)
    nearest = np.median([row[np.isfinite(row)].min() for row in near])
    assert found is not None
    assert found.log_distance[0] == pytest.approx(
        math.log(0.5 * nearest / np.median(near[first, second]) + 1e-3), abs=0.02
    )


def statistics(found: LogDistances, residual: Array, labels: Array) -> tuple[float, float, float]:
    """Of one matrix: the largest eigenvalue of nearness, the best cut's score, and that of the labels."""
    n, measured = found.n, found.measured
    first, second = (end[measured] for end in ends(n))
    design = np.zeros((len(first), n))
    design[np.arange(len(first)), first] = design[np.arange(len(first)), second] = 1.0
    left = residual - design @ np.linalg.lstsq(design, residual, rcond=None)[0]
    nearness = np.zeros((n, n))
    nearness[first, second] = nearness[second, first] = -left / np.sqrt((left**2).mean())
    log_distance = found.explained.copy()
    log_distance[measured] += left * math.sqrt(len(left) / (len(left) - n))
    tree = hierarchy_of(log_distance, measured)
    cuts = max(score(log_distance, tree.cut(k), measured) for k in range(2, n))
    return float(np.linalg.eigvalsh(nearness)[-1]), max(cuts, 0.0), score(log_distance, labels, measured)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_permuted_matrices_keep_what_hosts_explain_and_shuffle_the_rest(
    missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = some_log_distances(8, 5, missing)
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    table = permuted_statistics(found, labels, seed=7, permutations=6, stop=False)
    assert table is not None and table.shape == (7, 3)
    residual = found.unexplained
    middle = np.median(residual)
    most = middle + 2.0 * 1.4826 * np.median(np.abs(residual - middle))
    clipped = np.minimum(residual, most)
    assert _clipped(residual) == pytest.approx(clipped)
    generator = np.random.default_rng(7)
    wanted = [statistics(found, clipped, labels)]
    wanted += [statistics(found, generator.permutation(clipped), labels) for _ in range(6)]
    assert table == pytest.approx(np.array(wanted), abs=1e-6)
    # Some matrices at a time come to the same.
    monkeypatch.setattr(locality_test, "_CELLS_AT_ONCE", 2 * len(found.measured))
    parts = permuted_statistics(found, labels, seed=7, permutations=6, stop=False)
    assert parts is not None and parts == pytest.approx(table, abs=1e-9)
    joined = permuted_statistics(found, labels, seed=7, permutations=6, stop=False, joined=True)
    assert joined is not None and joined.shape == (7, 4) and joined[:, :3] == pytest.approx(table, abs=1e-9)
    few = log_distances_of(symmetric(apart(racks(2, 1), 1.0, 2.0)))
    assert few is not None and permuted_statistics(few, racks(2, 1), seed=0, permutations=5) is None


def test_what_is_disturbed_is_clipped_on_the_slow_side_only() -> None:
    residual = np.array([-9.0, -1.0, 0.0, 1.0, 9.0])
    assert _clipped(residual).tolist() == [-9.0, -1.0, 0.0, 1.0, pytest.approx(2 * 1.4826)]
    # Where most are exactly nothing the spread is that of all.
    mostly = np.array([0.0] * 8 + [-1.0, 4.0])
    assert _clipped(mostly) == pytest.approx([0.0] * 8 + [-1.0, 2.0 * mostly.std()])


def test_shares_and_standard_scores_are_counted_by_hand() -> None:
    assert share_as_good(np.array([2.0, 1.0, 3.0, 2.0, 1.9])) == pytest.approx(3 / 5)
    table = np.array([[3.0, 1.0, 99.0], [1.0, 1.0, -5.0], [2.0, 4.0, 0.0]])
    spread = np.std([3.0, 1.0, 2.0]), np.std([1.0, 1.0, 4.0])
    wanted = [max((a - 2) / spread[0], (b - 2) / spread[1]) for a, b, _ in table]
    assert standardised(table) == pytest.approx(wanted)


def test_as_many_permutations_as_are_needed() -> None:
    labels = racks(6, 6)
    near = log_distances_of(symmetric(apart(labels, 1.0, 3.0, noise=0.1)))
    flat = log_distances_of(symmetric(flat_rtt(12, 1, noise=0.3, slow_hosts=False, outliers=0.0)))
    assert near is not None and flat is not None
    for found, permutations, stop, rows in (
        (near, 199, True, 200), (near, 5, True, 6), (near, 39, True, 40), (near, 50, True, 51),
        (flat, 199, False, 200),
    ):  # fmt: skip
        table = permuted_statistics(found, labels, seed=0, permutations=permutations, stop=stop)
        assert table is not None and len(table) == rows
    hopeless = permuted_statistics(flat, labels, seed=0, permutations=199)
    assert hopeless is not None and len(hopeless) == 40 and share_as_good(standardised(hopeless)) > 0.3


def test_the_p_value_is_the_larger_of_two_and_the_gap_that_of_the_first_permutations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    rows = np.concatenate([[[5.0, 0.9, 0.8]], rng.normal([2.0, 0.5, 0.4], 0.1, (199, 3))])
    rows[7, 2] = 0.85
    asked: list[int] = []

    def told(_distances: object, _labels: object, *, seed: int, permutations: int) -> Array:
        assert seed == 3
        asked.append(permutations)
        return rows[: 1 + permutations]

    monkeypatch.setattr(locality_test, "permuted_statistics", told)
    matrix = apart(racks(6, 6), 1.0, 3.0, noise=0.1)
    found = run_locality_test(matrix, racks(6, 6), seed=3)
    assert asked == [199] and found.verdict.p_value == pytest.approx(2 / 200)
    null = rows[1:20, :2]
    gap = (rows[0, :2] - null.mean(axis=0)) / null.std(axis=0)
    assert found.gap_statistic == pytest.approx({"nearness": gap[0], "cut": gap[1]}, abs=1e-6)
    assert found.gap_statistic is not None and all(v == round(v, 6) for v in found.gap_statistic.values())
    assert found.verdict.locality == "found" and found.verdict.contrast == pytest.approx(3.0, rel=0.1)
    monkeypatch.setattr(locality_test, "_LARGE", 11)
    assert run_locality_test(matrix, racks(6, 6), seed=3).verdict.p_value == pytest.approx(2 / 40)
    assert asked[-1] == 39
    # A p-value of before is taken as it is, and nothing is permuted.
    assert judge_locality(matrix, racks(6, 6), seed=3, p_value=0.02).p_value == 0.02
    assert judge_locality(matrix, racks(6, 6), seed=3, p_value=0.026).locality == "none"
    assert judge_locality(matrix, racks(6, 6), seed=3, p_value=0.025).locality == "found" and len(asked) == 2


def test_resampled_readings_are_grouped_again_and_compared_pair_by_pair() -> None:
    raw, rack = rack_rtt((4, 3, 2), 1, noise=1.0)
    labels = np.unique(rack, return_inverse=True)[1].astype(np.int64)
    first, second = ends(9)
    base = log_distances_of(symmetric(raw))
    assert base is not None
    generator = np.random.default_rng(4)
    agreements = []
    together = {
        (i, j) for i, j in zip(first.tolist(), second.tolist(), strict=True) if labels[i] == labels[j]
    }
    for _ in range(20):
        pick = generator.random((9, 9)) < 0.5
        log_distance = base.log_distance.copy()
        for at, (i, j) in enumerate(zip(first, second, strict=True)):
            # Two readings of the pair's two, with replacement.
            there = raw[i, j] if pick[i, j] else raw[j, i]
            back = raw[j, i] if pick[j, i] else raw[i, j]
            joined = min((there + back) / 2, 1.25 * min(there, back))
            log_distance[at] += np.log(joined / symmetric(raw)[i, j])
        cut = hierarchy_of(log_distance, base.measured).cut(3)
        again = {(i, j) for i, j in zip(first.tolist(), second.tolist(), strict=True) if cut[i] == cut[j]}
        agreements.append(len(together & again) / len(together | again))
    said = stability_of(raw, labels, seed=4)
    assert said is not None and said["resamples"] == 20
    assert said["mean"] == pytest.approx(np.mean(agreements)) and said["least"] == pytest.approx(
        min(agreements)
    )
    assert min(agreements) < 0.9


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_effects_of_all_pairs_are_inverted_as_any_others(n: int) -> None:
    first, second = ends(n)
    effects = HostEffects(n, first, second)
    matrix = np.ones((n, n)) - np.eye(n)
    degree = matrix.sum(axis=1)
    matrix[np.diag_indices(n)] = degree + 1e-9 * degree.max()
    assert effects.inverse == pytest.approx(np.linalg.inv(matrix), rel=1e-4)
