"""PLink's groups: the square root of N, a least size from the elasticity, the most even sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from netprobe.cluster import find_groups, sqrt_groups
from netprobe.cluster.balanced.sqrt_groups import realise
from netprobe.core.errors import InputError
from tests.cluster.fleets import rack_rtt
from tests.properties import examples


@examples(30)
@given(st.integers(1, 40), st.floats(1.0, 2.0), st.integers(0, 10**6))
def test_number_and_sizes_follow_the_dissertation(n: int, elasticity: float, seed: int) -> None:
    rtt = np.random.default_rng(seed).uniform(1.0, 3.0, (n, n))
    grouping = sqrt_groups(rtt, elasticity=elasticity, seed=seed)
    counts = np.bincount(grouping.labels)
    assert grouping.k == len(counts) == round(math.sqrt(n))
    assert counts.min() >= max(1, math.floor(math.sqrt(n) / elasticity))


def test_racks_of_the_square_root_come_out_exactly() -> None:
    for seed in range(10):
        rtt, rack = rack_rtt((4, 4, 4, 4), seed)
        grouping, verdict = find_groups(rtt, rtt, method="sqrt", seed=seed)
        assert adjusted_rand_score(rack, grouping.labels) == 1.0
        assert verdict.locality == "found"


def test_elasticity_lets_unequal_racks_be() -> None:
    rtt, rack = rack_rtt((6, 6, 4), 0)
    grouping = sqrt_groups(rtt, k=3, elasticity=1.3, seed=0)
    assert adjusted_rand_score(rack, grouping.labels) == 1.0
    even = sqrt_groups(rtt, k=3, elasticity=1.0, seed=0)
    assert sorted(np.bincount(even.labels).tolist()) == [5, 5, 6]


def test_the_most_even_clustering_is_taken() -> None:
    rtt = np.random.default_rng(4).uniform(1.0, 3.0, (25, 25))
    grouping = sqrt_groups(rtt, elasticity=2.0, seed=1)
    assert grouping.evidence["size_variance"] == pytest.approx(np.bincount(grouping.labels).var())
    assert grouping.evidence["clusterings"] == 10


def test_the_same_seed_gives_the_same_groups_in_any_unit() -> None:
    rtt, _ = rack_rtt((5, 5, 6), 1, noise=0.2)
    first = sqrt_groups(rtt, elasticity=1.5, seed=7)
    again = sqrt_groups(rtt * 1e6, elasticity=1.5, seed=7)
    assert np.array_equal(first.labels, again.labels)


def test_racks_are_realised_exactly() -> None:
    rack = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    rtt = np.where(rack[:, None] == rack[None, :], 1.0, 3.0)
    np.fill_diagonal(rtt, 0.0)
    points = realise(rtt)
    squares = ((points[:, None] - points[None, :]) ** 2).sum(axis=2)
    assert np.allclose(squares * 3.0, rtt)


def test_bad_options_are_refused() -> None:
    with pytest.raises(InputError, match="elasticity"):
        sqrt_groups(np.ones((4, 4)), elasticity=2.5, seed=0)
    with pytest.raises(InputError, match="complete"):
        sqrt_groups(np.array([[0, 1, np.nan], [1, 0, 1], [np.nan, 1, 0]]), seed=0)
