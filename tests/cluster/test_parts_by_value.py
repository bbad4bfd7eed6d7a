"""Parts of the grouping, each against the same value worked out another way, and its limits on either side."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.cluster.anomalies.directions import asymmetric_pairs, beyond_noise
from netprobe.cluster.anomalies.outliers import block_medians, find_outliers
from netprobe.cluster.anomalies.reassign import with_reassigned
from netprobe.cluster.distances.log_distances import log_distances_of
from netprobe.cluster.distances.pairs import symmetric
from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.cluster.evaluate.evaluation import _linked
from netprobe.cluster.locality_test import (
    _largest_eigenvalues,
    _least_p_value_of_many,
    contrast_of,
    islands_of,
    judge_locality,
    least_p_value,
)
from netprobe.cluster.natural.nested import coarser, finer, nested_tiers
from netprobe.cluster.natural.number_of_groups import _best_cut, best_grouping, keep_or_join
from netprobe.cluster.partition.hierarchy import hierarchy_of, partition_score
from netprobe.cluster.partition.regroup import _Score, regroup
from netprobe.cluster.records import Partition
from netprobe.cluster.stable_ids import ids_like
from netprobe.core.documents.map import Verdict
from tests.cluster.fleets import apart, racks

Array = NDArray[Any]


@pytest.mark.parametrize(
    ("locality", "contrast", "p_value", "kept"),
    [
        ("found", None, None, True), ("found", 1.2, 0.01, True), ("none", 9.0, 0.001, False),
        ("cannot_tell", 1.5, 1 / 3, True), ("cannot_tell", 1.49, 0.1, False), ("cannot_tell", 9.0, 0.34, False),
        ("cannot_tell", None, 0.1, False), ("cannot_tell", 9.0, None, False),
    ],
)  # fmt: skip
def test_groups_are_kept_where_found_or_clear(
    locality: str, contrast: float | None, p_value: float | None, kept: bool
) -> None:
    grouping = Partition(labels=racks(2, 3), method="natural", evidence={"score": 1})
    verdict = Verdict(locality=locality, contrast=contrast, p_value=p_value, text="said")  # type: ignore[arg-type]
    result = keep_or_join(grouping, verdict)
    assert (result is grouping) == kept
    if not kept:
        assert (
            result.labels.tolist() == [0] * 5
            and result.evidence["score"] == 1
            and "reason" in result.evidence
        )


def test_a_cut_is_refined_for_two_groups_too() -> None:
    """In heavy noise the tree splits off single hosts, and k-means explains the distances better."""
    found = 0
    first, second = np.triu_indices(24, 1)
    measured = np.ones(len(first), dtype=bool)
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(0.0, 0.6, len(first))
        log_distance = noise + (first % 2 != second % 2)
        tree = hierarchy_of(log_distance, measured)
        plain, refined = tree.cut(2), _best_cut(tree, log_distance, measured, 2)
        better = partition_score(log_distance, measured, refined) - partition_score(
            log_distance, measured, plain
        )
        assert better >= 0 and (better > 0 or np.array_equal(plain, refined))
        found += better > 0
    assert found >= 3


def test_what_cannot_be_cut_has_a_reason_and_equal_shares_are_by_number() -> None:
    zeros = np.zeros((4, 4))
    assert best_grouping(zeros, k=3).labels.tolist() == [0, 1, 2, 2]
    assert best_grouping(zeros).labels.tolist() == [0] * 4
    assert "requested" in str(best_grouping(apart(racks(3, 3), 1, 3), k=1).evidence["reason"])
    evidence = best_grouping(apart(racks(3, 3, 2), 1.0, 3.0)).evidence
    assert evidence["score"] == pytest.approx(1.0) and "reason" not in evidence
    candidates = evidence["candidates"]
    assert isinstance(candidates, list) and [one["k"] for one in candidates] == sorted(
        one["k"] for one in candidates
    )
    assert max(candidates, key=lambda one: one["score"])["k"] == 3 and len(candidates) <= 8


@pytest.mark.parametrize("step", [1.05, 1.09, 1.11, 1.3])
def test_groups_less_than_a_tenth_apart_are_none(step: float) -> None:
    labels = racks(6, 6, 4)
    matrix = apart(labels, 1.0, step)
    grouping = best_grouping(matrix)
    assert grouping.k == (3 if step > 1.1 else 1)
    assert judge_locality(matrix, labels, seed=0).locality == ("found" if step > 1.1 else "none")


def test_medians_of_blocks_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    for sizes, fewest, of_a_group in (((5, 4, 2, 1), 6, 3), ((5, 4, 2, 1), 3, 1), ((3, 3), 6, 3)):
        labels = rng.permutation(racks(*sizes))
        n, k = len(labels), len(sizes)
        first, second = np.triu_indices(n, 1)
        pairs = rng.uniform(1.0, 2.0, len(first))
        pairs[rng.random(len(pairs)) < 0.2] = np.nan
        table = block_medians(pairs, labels, fewest=fewest, of_a_group=of_a_group)
        for one, other in itertools.product(range(k), repeat=2):
            values = [
                value
                for value, i, j in zip(pairs, first, second)
                if {labels[i], labels[j]} == {one, other} and not math.isnan(value)
            ]
            # Inside a group a pair counts for both of its hosts; between two both have to be large enough.
            enough = 2 * len(values) >= fewest if one == other else (
                len(values) >= fewest and min(sizes[one], sizes[other]) >= of_a_group
            )  # fmt: skip
            if enough:
                assert table[one, other] == pytest.approx(np.median(values))
            else:
                assert math.isnan(table[one, other])


def test_ids_go_to_the_group_that_shares_most_hosts() -> None:
    earlier = {"g2": ["a", "b", "c"], "g7": ["d", "e"], "rack": ["x"]}
    assert ids_like([["d"], ["a", "b"], ["y"]], earlier) == ["g7", "g2", "g8"]
    assert ids_like([["a", "d"], ["b", "c"]], earlier) == ["g7", "g2"]
    assert ids_like([["p"], ["q"]], {}) == ["g1", "g2"]
    # Of equal numbers of hosts the more alike: of two that share one, the one with no stranger.
    assert ids_like([["x", "q", "r"], ["x2"]], {"g1": ["x", "x2", "x3"], "g2": ["x2"]}) == ["g1", "g2"]
    assert ids_like([["a"]], {"g1": ["a", "b", "c"], "g2": ["a"]}) == ["g2"]


def test_a_host_follows_its_group_through_all_tiers() -> None:
    tiers = [np.array([0, 0, 1, 1, 2, 2, 3]), np.array([0, 0, 0, 0, 1, 1, 1])]
    moved = with_reassigned(tiers, {6: 0})
    assert [tier.tolist() for tier in moved] == [[0, 0, 1, 1, 2, 2, 0], [0, 0, 0, 0, 1, 1, 0]]
    assert with_reassigned(tiers, {}) is tiers
    # A tier that is as the one before is left out; and who moves to a group is not where it is looked for.
    same = [np.array([0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1])]
    assert [tier.tolist() for tier in with_reassigned(same, {4: 1})] == [[0, 0, 1, 1, 1]]
    swapped = with_reassigned([np.array([0, 1, 1, 0, 2, 2])], {0: 1, 1: 2})
    assert swapped[0].tolist() == [0, 1, 0, 2, 1, 1]


def test_the_limit_of_directions_is_a_ratio_or_eight_deviations() -> None:
    # Where most pairs hardly differ: 1.5, until eight deviations are more.
    quiet = np.array([0.0, 0.001, -0.002, 0.003, -0.001, 0.002, 0.001, 0.0, 0.002, 0.001])
    assert beyond_noise(quiet) == pytest.approx(math.log(1.5))
    noisy = np.random.default_rng(0).normal(0.0, 0.1, 400)
    assert beyond_noise(noisy) == pytest.approx(8 * 1.4826 * np.median(np.abs(noisy)))
    assert beyond_noise(-noisy) == beyond_noise(noisy)
    assert beyond_noise(np.array([0.3, 0.2])) == math.inf  # two do not say what noise is
    # All differ alike, by more than a tenth: that is no noise.
    same = np.full(12, 0.2)
    assert beyond_noise(same) == pytest.approx(0.2, rel=1e-6) and beyond_noise(same) < 0.2
    assert beyond_noise(np.full(12, 0.05)) == pytest.approx(math.log(1.1))


def test_a_pair_by_itself_differs_by_direction_from_one_and_a_half() -> None:
    for ratio, named in ((1.45, False), (1.55, True)):
        matrix = apart(racks(5, 5), 1.0, 2.0)
        matrix[1, 7] *= ratio
        found = asymmetric_pairs(matrix)
        assert bool(found[1, 7]) == bool(found[7, 1]) == named and found.sum() == 2 * named
        named_ones = find_outliers(matrix, racks(5, 5)).asymmetric
        assert [(one.src, one.dst) for one in named_ones] == [(1, 7)] * named
        if named:
            assert named_ones[0].ratio == pytest.approx(ratio)


@pytest.mark.parametrize(("ratio", "named"), [(1.2, False), (1.3, True)])
def test_a_host_is_slow_from_a_quarter_on(ratio: float, named: bool) -> None:
    labels = racks(6, 6)
    matrix = apart(labels, 1.0, 3.0)
    matrix[4, :] *= ratio
    matrix[:, 4] *= ratio
    found = find_outliers(matrix, labels)
    assert [(one.host, one.slower, one.links) for one in found.hosts] == [(4, 11, 11)] * named
    if named:
        assert found.hosts[0].ratio == pytest.approx(ratio)
        # Of eleven links six are far: the median of what they are longer is that of a far one.
        assert found.hosts[0].excess == pytest.approx(3.0 * (ratio - 1.0)) and found.links == ()


@pytest.mark.parametrize(("ratio", "named"), [(1.9, False), (2.1, True)])
def test_a_link_is_slow_from_twice_on(ratio: float, named: bool) -> None:
    labels = racks(6, 6)
    matrix = apart(labels, 1.0, 3.0)
    matrix[2, 9] = matrix[9, 2] = 3.0 * ratio
    found = find_outliers(matrix, labels)
    assert [(one.first, one.second) for one in found.links] == [(2, 9)] * named
    assert found.hosts == () and found.asymmetric == ()
    if named:
        assert found.links[0].ratio == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("inside", "outside", "named"),
    [
        (0.4, 0.4, True),
        (0.2, 0.4, False),
        (0.4, 0.2, False),
        (0.4, 0.0, False),
        (0.6, 0.35, True),
        (0.8, 0.35, False),
    ],
)
def test_delays_of_a_host_show_inside_and_outside(inside: float, outside: float, named: bool) -> None:
    """A fourth of a near link at least, and half as much on far ones, of which it is more than a tenth."""
    labels = racks(8, 8)
    matrix = apart(labels, 1.0, 3.0)
    added = np.where(labels == labels[5], inside, outside)
    matrix[5, :] += added
    matrix[:, 5] += added
    matrix[5, 5] = 0.0
    assert [one.host for one in find_outliers(matrix, labels).hosts] == [5] * named


def test_contrasts_islands_and_least_p_values() -> None:
    labels = racks(3, 2)
    matrix = apart(labels, 2.0, 5.0)
    np.fill_diagonal(matrix, np.nan)
    assert contrast_of(matrix, labels) == 2.5
    assert contrast_of(matrix, np.zeros(5, dtype=np.int64)) is None
    assert contrast_of(np.where(matrix == 2.0, 0.0, matrix), labels) is None
    assert islands_of(matrix) == 1 and islands_of(np.where(matrix == 5.0, np.nan, matrix)) == 2
    # Ten ways to choose the three, of 210 choices of four pairs.
    assert least_p_value(labels) == pytest.approx(10 / 210)
    # Two groups of two: three ways, of 15 choices of two of six pairs.
    assert least_p_value(racks(2, 2)) == pytest.approx(3 / 15)
    for sizes in ([3, 2], [2, 2], [6, 6, 4]):
        assert _least_p_value_of_many(sizes) == pytest.approx(least_p_value(racks(*sizes)), rel=1e-6)
    large = least_p_value(racks(*[65] * 2))
    assert 0 <= large < 1e-30


def test_eigenvalues_of_large_fleets_are_those_of_small_ones() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(2, 140 * 139 // 2))
    exact = []
    for one in pairs:
        matrix = np.zeros((140, 140))
        matrix[np.triu_indices(140, 1)] = one
        exact.append(np.linalg.eigvalsh(matrix + matrix.T)[-1])
    assert _largest_eigenvalues(pairs, 140) == pytest.approx(exact, rel=1e-3)


def test_tiers_above_and_below_the_groups() -> None:
    rack = racks(6, 6, 6, 6)
    row = rack // 2
    matrix = np.where(rack[:, None] == rack[None, :], 1.0, np.where(row[:, None] == row[None, :], 3.0, 9.0))
    matrix = matrix * np.exp(np.random.default_rng(0).normal(0.0, 0.05, matrix.shape))
    np.fill_diagonal(matrix, 0.0)
    above = coarser(matrix, rack, seed=0)
    assert above is not None and above.tolist() == row.tolist()
    below = finer(matrix, matrix, row, seed=0, seen={})
    assert below is not None and below.tolist() == rack.tolist()
    assert finer(matrix, matrix, rack, seed=0, seen={}) is None
    assert coarser(matrix, row, seed=0) is None  # two groups have no tier above
    for labels in (rack, row):
        assert [tier.tolist() for tier in nested_tiers(matrix, matrix, labels, seed=0)] == [
            rack.tolist(),
            row.tolist(),
        ]


@pytest.mark.parametrize("seed", range(6))
def test_no_join_and_no_move_raises_the_score_of_what_comes_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 9
    matrix = apart(rng.permutation(racks(4, 3, 2)), 1.0, 2.5, noise=0.3)
    holes = np.triu(rng.random((n, n)) < 0.2, 1)
    matrix[holes | holes.T] = np.nan
    found = log_distances_of(symmetric(matrix))
    assert found is not None

    def score(labels: Array) -> float:
        return partition_score(found.log_distance, found.measured, labels)

    measured = np.zeros((n, n), dtype=bool)
    measured[np.triu_indices(n, 1)] = found.measured
    for start in (np.arange(n), rng.integers(0, 3, n), np.zeros(n, dtype=np.int64)):
        labels = regroup(found, start)
        best = score(labels)
        assert best >= score(start) - 1e-9 and sorted(set(labels.tolist())) == list(range(labels.max() + 1))
        for one, other in itertools.combinations(range(labels.max() + 1), 2):
            if (measured | measured.T)[np.ix_(labels == one, labels == other)].any():
                assert score(np.where(labels == other, one, labels)) <= best + 1e-9
        for host, group in itertools.product(range(n), range(labels.max() + 1)):
            if (measured | measured.T)[host, labels == group].any():
                changed = labels.copy()
                changed[host] = group
                assert score(changed) <= best + 1e-9
    inside = _Score(pairs=5, total=1.0, spread=2.0)
    assert float(inside(np.array(0.0), np.array(0.0))) == float(inside(np.array(5.0), np.array(1.0))) == 0.0


def test_linkage_stands_one_pair_at_no_distance() -> None:
    labels = racks(4, 3, 3)
    matrix = 1e-4 * apart(labels, 1.0, 3.0)
    matrix[0, 1] = matrix[1, 0] = 0.0
    assert adjusted_rand_index(labels.tolist(), _linked(matrix, 3)) == 1.0
    assert len(set(_linked(np.zeros((4, 4)), 2))) == 2


def test_no_tier_where_groups_are_equally_far() -> None:
    rack = racks(5, 5, 5, 5)
    matrix = apart(rack, 1.0, 3.0, noise=0.1)
    assert coarser(matrix, rack, seed=0) is None
    assert coarser(apart(rack, 1.0, 3.0), rack, seed=0) is None
    # A tier less than a tenth apart is of no use.
    row = rack // 2
    for step, found in ((1.05, False), (1.3, True)):
        near = np.where(row[:, None] == row[None, :], 3.0, 3.0 * step)
        near = np.where(rack[:, None] == rack[None, :], 1.0, near)
        np.fill_diagonal(near, 0.0)
        assert (coarser(near, rack, seed=0) is not None) == found
