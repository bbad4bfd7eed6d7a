"""What finding groups adds to the best cut: far hosts, evidence, the other method, stability; and their matrices."""

from __future__ import annotations

import numpy as np
import pytest

from netprobe.cluster import compare_methods, find_groups
from netprobe.cluster.distances.pairs import ends_of, far_hosts, of_directions, square, symmetric
from netprobe.cluster.find import _placed, _tier
from netprobe.cluster.natural import stability
from netprobe.cluster.natural.nested import coarser
from netprobe.cluster.natural.stability import stability_of
from tests.cluster.fleets import apart, rack_rtt, racks


def test_condensed_pairs_and_squares_are_one_another() -> None:
    first, second = ends_of(4)
    assert list(zip(first.tolist(), second.tolist())) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    pairs = np.arange(1.0, 7.0)
    one = square(pairs, 4)
    assert (
        np.array_equal(one, one.T) and np.array_equal(one[first, second], pairs) and not one.diagonal().any()
    )
    many = square(np.stack([pairs, 10 * pairs]), 4)
    assert np.array_equal(many[0], one) and np.array_equal(many[1], 10 * one)
    assert square(np.zeros(0), 1).shape == (1, 1)


def test_one_distance_of_two_directions() -> None:
    nan = float("nan")
    matrix = symmetric(np.array([[0.0, 1.0, nan], [4.0, 0.0, 7.0], [nan, nan, 0.0]]))
    assert matrix[0, 1] == matrix[1, 0] == of_directions(np.array([1.0]), np.array([4.0]))[0]
    assert matrix[1, 2] == matrix[2, 1] == 7.0 and np.isnan(matrix[0, 2])


def test_a_far_host_joins_the_group_that_is_clearly_nearest_or_stands_alone() -> None:
    labels = racks(5, 5)
    matrix = apart(np.append(labels, [2, 3]), 1.0, 2.0, noise=0.01)
    matrix = symmetric(matrix)
    spread = np.tile(np.linspace(0.0, 0.5, 5), 2)
    far = np.array([False] * 10 + [True] * 2)
    for host, own in ((10, 50.0), (11, 80.0)):
        matrix[host, :10] = matrix[:10, host] = own + np.where(labels == 1, 0.0, 5.0 if host == 10 else 0.0)
        matrix[host, :10] += spread
    matrix[10, 11] = matrix[11, 10] = 90.0
    assert _placed(matrix, far, labels).tolist() == [*labels.tolist(), 1, 2]
    matrix[10, :10] = 80.0 + spread
    assert _placed(matrix, far, labels).tolist() == [*labels.tolist(), 2, 3]
    assert _placed(matrix, far, np.zeros(10, dtype=np.int64)).tolist() == [0] * 12
    found, _ = find_groups(matrix, matrix, seed=0)
    assert far_hosts(matrix).tolist() == far.tolist() and found.evidence["far_hosts"] == [10, 11]


def test_a_tier_says_which_of_its_groups_each_finest_one_is_in() -> None:
    finest, row = racks(2, 3, 2), np.array([0, 0, 1, 1, 1, 0, 0])
    matrix = symmetric(apart(row, 2.0, 5.0))
    assert _tier(row, finest, matrix) == {"k": 2, "contrast": 2.5, "of_groups": [0, 1, 0]}


def test_both_methods_are_compared_whichever_was_used() -> None:
    rtt, _ = rack_rtt((6, 6, 4), 3)
    for method in ("natural", "sqrt"):
        found, _ = find_groups(rtt, rtt, method=method, seed=0)
        natural, even = compare_methods(rtt, rtt, found, elasticity=1.0, seed=0)
        assert (natural["method"], natural["k"], natural["smallest"], natural["largest"]) == (
            "natural",
            3,
            4,
            6,
        )
        assert (even["method"], even["k"], even["smallest"]) == ("sqrt", 4, 4)
        assert isinstance(natural["contrast"], float) and natural["contrast"] == pytest.approx(2.9, abs=0.1)


def test_evidence_of_groups_that_were_found() -> None:
    rtt, _ = rack_rtt((6, 6, 4), 3)
    evidence = find_groups(rtt, rtt, seed=0)[0].evidence
    gap = evidence["gap"]
    # Racks three times nearer than noise of a hundredth: many deviations beyond permuted matrices.
    assert isinstance(gap, dict) and gap["nearness"] > 5 and gap["cut"] > 5
    assert "far_hosts" not in evidence and evidence["stability"] == {
        "mean": 1.0,
        "least": 1.0,
        "resamples": 20,
    }


def test_large_fleets_are_resampled_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    rtt, rack = rack_rtt((4, 4), 0)
    labels = np.array(rack)
    said = stability_of(rtt, labels, seed=0)
    assert said is not None and said["resamples"] == 20
    monkeypatch.setattr(stability, "_LARGE", 7)
    said = stability_of(rtt, labels, seed=0)
    assert said is not None and said["resamples"] == 5
    assert stability_of(rtt, np.zeros(8, dtype=np.int64), seed=0) is None
    assert stability_of(np.triu(rtt) + np.tril(np.full((8, 8), np.nan), -1), labels, seed=0) is None


def test_tiers_are_found_in_seconds_and_by_one_pair_of_each_two_groups() -> None:
    rack = racks(*[2] * 8)
    row = rack // 4
    matrix = 1e-4 * np.where(
        rack[:, None] == rack[None, :], 1.0, np.where(row[:, None] == row[None, :], 3.0, 9.0)
    )
    np.fill_diagonal(matrix, 0.0)
    found = coarser(matrix, rack, seed=0)
    assert found is not None and found.tolist() == row.tolist()
    heads = np.arange(16) % 2 == 0
    one_each = np.where((rack[:, None] == rack[None, :]) | (heads[:, None] & heads[None, :]), matrix, np.nan)
    found = coarser(one_each, rack, seed=0)
    assert found is not None and found.tolist() == row.tolist()
