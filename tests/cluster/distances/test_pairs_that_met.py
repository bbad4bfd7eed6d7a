"""What is said of pairs and groups of which some were not measured, or only one way."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from netprobe.cluster import ConstrainedKMeans, find_outliers
from netprobe.cluster.anomalies.directions import asymmetric_pairs
from netprobe.cluster.distances.coverage import is_sparse, unobserved_share
from netprobe.cluster.distances.log_distances import log_distances_of
from netprobe.cluster.distances.pairs import symmetric
from netprobe.cluster.evaluate.evaluation import evaluate
from netprobe.cluster.natural import nested
from netprobe.cluster.partition import regroup
from netprobe.cluster.partition.hierarchy import hierarchy_of
from netprobe.cluster.partition.regroup import joined_scores
from netprobe.core.errors import InfeasibleError
from tests.cluster.fleets import apart, racks

Array = NDArray[Any]


def ends(n: int) -> tuple[Array, Array]:
    return np.triu_indices(n, 1)


def test_one_direction_is_enough_to_have_met_whichever_it_is() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2])
    for src, dst in ((0, 3), (3, 0)):
        raw = np.full((6, 6), np.nan)
        raw[src, dst] = 1.0
        assert unobserved_share(raw, labels) == pytest.approx((3 * 1 + 2 * 1) / (6 + 3 + 2))
    # Fifteen pairs of six hosts: eight are most of them, seven are not.
    for known, sparse in ((8, False), (7, True)):
        raw = np.full((6, 6), np.nan)
        first, second = ends(6)
        raw[second[:known], first[:known]] = 1.0
        assert is_sparse(raw) is sparse
    assert not is_sparse(np.full((2, 2), np.nan))


def test_a_reading_of_nothing_has_no_direction() -> None:
    matrix = apart(racks(4, 4), 1.0, 2.0)
    matrix[1, 6] = 0.0
    matrix[6, 1] = 5.0
    with np.errstate(divide="raise", invalid="raise"):
        assert not asymmetric_pairs(matrix).any() and not asymmetric_pairs(matrix.T).any()


def test_tiers_go_by_the_pairs_of_groups_that_met(monkeypatch: pytest.MonkeyPatch) -> None:
    rack = racks(*[2] * 6)
    row = rack // 3
    matrix = np.where(rack[:, None] == rack[None, :], 1.0, np.where(row[:, None] == row[None, :], 3.0, 9.0))
    far = (rack[:, None] == 0) & (rack[None, :] == 5)
    matrix = np.where(far | far.T, np.nan, matrix)
    np.fill_diagonal(matrix, 0.0)
    seen: list[Any] = []

    def kept(means: Array, measured: Array) -> Any:
        seen.append((means, measured))
        return hierarchy_of(means, measured)

    monkeypatch.setattr(nested, "hierarchy_of", kept)
    found = nested.coarser(matrix, rack, seed=0)
    assert found is not None and found.tolist() == row.tolist()
    means, measured = seen[0]
    first, second = ends(6)
    assert measured.tolist() == [(a, b) != (0, 5) for a, b in zip(first, second, strict=True)]
    wanted = np.where(first // 3 == second // 3, np.log(3.0), np.log(9.0))
    assert means[measured] == pytest.approx(wanted[measured])
    # What did not meet is as far as the mean of all readings.
    across = np.isfinite(matrix) & (rack[:, None] != rack[None, :])
    assert means[~measured] == pytest.approx(np.log(matrix[across]).mean())


def test_a_hundred_clusterings_are_compared_unless_another_number_is_given() -> None:
    found = evaluate(apart(racks(2, 2), 1.0, 3.0), [0, 0, 1, 1], [("a",)] * 2 + [("b",)] * 2, ["rack"])
    assert found.run_to_run is not None and found.run_to_run.clusterings == 100


def test_a_host_without_readings_hides_no_slow_one() -> None:
    labels = racks(5, 5)
    matrix = apart(labels, 1.0, 3.0, noise=0.01)
    matrix[2] *= 2.0
    matrix[:, 2] *= 2.0
    matrix[7] = matrix[:, 7] = np.nan
    assert [slow.host for slow in find_outliers(matrix, labels).hosts] == [2]


def test_joining_some_matrices_at_a_time_comes_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = log_distances_of(symmetric(apart(racks(4, 3), 1.0, 2.0, noise=0.3)))
    assert found is not None
    values = np.random.default_rng(1).permuted(np.tile(found.log_distance, (5, 1)), axis=1)
    whole = joined_scores(found, values)
    monkeypatch.setattr(regroup, "_CELLS_AT_ONCE", 2 * 7**2)
    assert joined_scores(found, values) == pytest.approx(whole) and len(set(whole.round(6))) == 5


def test_a_descent_that_ran_out_of_iterations_warns() -> None:
    points = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.warns(ConvergenceWarning, match="1 iterations"):
        ConstrainedKMeans(5, max_iter=1, n_init=1, swaps=0, random_state=0).fit(points)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ConstrainedKMeans(5, max_iter=100, n_init=1, swaps=0, random_state=0).fit(points)
    assert 1 < model.n_iter_ < 100


def test_what_no_descent_can_do_is_refused() -> None:
    points = np.random.default_rng(0).normal(size=(9, 2))
    for wrong in ({"n_init": 0}, {"max_iter": 0}, {"swaps": -1}, {"n_clusters": 10}):
        with pytest.raises(InfeasibleError):
            ConstrainedKMeans(**{"n_clusters": 3} | wrong).fit(points)
    for least in ({"n_init": 1}, {"max_iter": 1}, {"swaps": 0}, {"n_clusters": 9}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert len(ConstrainedKMeans(**{"n_clusters": 3} | least).fit(points).labels_) == 9
