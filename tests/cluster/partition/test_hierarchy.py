"""Trees and scores: many small matrices at once are as good as one at a time, and as the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage

from netprobe.cluster.distances.pairs import square
from netprobe.cluster.partition.hierarchy import _average_linkages, best_scores, hierarchy_of, partition_score
from tests.properties import examples


def random_log_distances(n: int, seed: int, count: int = 3) -> np.ndarray:
    """(count, M) log distances without ties."""
    return np.random.default_rng(seed).normal(0.0, 0.3, (count, n * (n - 1) // 2))


@examples(25)
@given(n=st.integers(2, 30), seed=st.integers(0, 1000))
def test_trees_grown_at_once_are_scipys(n: int, seed: int) -> None:
    log_distances = random_log_distances(n, seed)
    log_distances -= log_distances.min()
    for tree, log_distance in zip(_average_linkages(square(log_distances, n)), log_distances):
        expected = linkage(log_distance, "average")
        np.testing.assert_allclose(tree[:, 2:], expected[:, 2:], atol=1e-12)
        np.testing.assert_array_equal(np.sort(tree[:, :2], axis=1), expected[:, :2])


@pytest.mark.parametrize("n", [2, 3, 8, 40, 41])
def test_scores_at_once_are_those_of_each_matrix_and_of_its_best_cut(n: int) -> None:
    log_distances = random_log_distances(n, n)
    everything = np.ones(log_distances.shape[1], dtype=bool)
    for best, log_distance in zip(best_scores(log_distances, everything), log_distances):
        tree = hierarchy_of(log_distance, everything)
        assert best == pytest.approx(tree.score.max(), abs=1e-12)
        if n > 2:
            k = int(tree.score.argmax())
            assert partition_score(log_distance, everything, tree.cut(k)) == pytest.approx(best, abs=1e-12)
    some = everything.copy()
    some[::5] = False
    each = [hierarchy_of(log_distance, some).score.max() for log_distance in log_distances]
    np.testing.assert_allclose(best_scores(log_distances, some), each, rtol=0, atol=1e-12)


def test_matrices_that_are_all_the_same_have_no_score() -> None:
    assert not best_scores(np.ones((2, 45)), np.ones(45, dtype=bool)).any()
