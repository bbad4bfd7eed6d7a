"""What single hosts explain of distances, against least squares worked out another way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.cluster.distances.log_distances import HostEffects, log_distances_of
from tests.properties import examples

Vector = NDArray[np.float64]


def sums_of_hosts(size: int, seed: int) -> NDArray[np.float64]:
    """Distances that hosts explain wholly: each pair is the sum of two terms."""
    terms = np.random.default_rng(seed).uniform(0.5, 2.0, size)
    matrix = terms[:, None] + terms[None, :]
    np.fill_diagonal(matrix, np.nan)
    return matrix


def incidence(size: int, first: NDArray[np.intp], second: NDArray[np.intp]) -> NDArray[np.float64]:
    """(M, N): one where a host is in a pair."""
    matrix = np.zeros((len(first), size))
    matrix[np.arange(len(first)), first] = matrix[np.arange(len(first)), second] = 1.0
    return matrix


@examples(25)
@given(st.integers(3, 12), st.integers(0, 2**32), st.booleans())
def test_effects_are_those_of_least_squares(size: int, seed: int, complete: bool) -> None:
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(size, 1)
    # All pairs of the first three hosts stay: what is joined to a triangle is determined.
    kept = complete | (first == 0) | (second <= 2) | (rng.random(len(first)) < 0.6)
    first, second = first[kept], second[kept]
    y, weight = rng.normal(size=len(first)), rng.uniform(0.5, 2.0, len(first))
    pairs = incidence(size, first, second)
    effects = HostEffects(size, first, second)
    plain = np.linalg.lstsq(pairs, y, rcond=None)[0]
    assert effects.fit(y) == pytest.approx(plain, abs=1e-5)
    assert effects.residual(y) == pytest.approx(y - pairs @ plain, abs=1e-5)
    root = np.sqrt(weight)
    weighted = np.linalg.lstsq(pairs * root[:, None], y * root, rcond=None)[0]
    assert effects.fit_weighted(y, weight) == pytest.approx(weighted, abs=1e-5)
    assert effects.sums(y) == pytest.approx(pairs.T @ y)


@pytest.mark.parametrize("missing", [[], [(0, 7), (3, 4), (8, 2)]])
def test_what_hosts_explain_is_explained_and_fills_what_was_not_measured(
    missing: list[tuple[int, int]],
) -> None:
    whole = sums_of_hosts(9, 4)
    matrix = whole.copy()
    for i, j in missing:
        matrix[i, j] = matrix[j, i] = np.nan
    found = log_distances_of(matrix * 1e-4)
    assert found is not None and found.n == 9
    upper = np.triu_indices(9, 1)
    assert found.measured.tolist() == np.isfinite(matrix[upper]).tolist()
    unit = np.nanmedian(matrix)
    # But for the offset of a thousandth that keeps logarithms finite.
    assert found.distance == pytest.approx(whole[upper] / unit + 1e-3, rel=1e-4)
    assert found.log_distance == pytest.approx(np.log(found.distance))
    assert found.explained == pytest.approx(found.log_distance, abs=1e-4)
    assert np.abs(found.unexplained).max() < 1e-4 and len(found.unexplained) == found.measured.sum()


def test_locality_is_what_is_left_over_and_a_slow_host_is_not() -> None:
    rack = np.repeat([0, 1], 5)
    matrix = np.where(rack[:, None] == rack[None, :], 1.0, 3.0)
    matrix[9, :] += 2.0
    matrix[:, 9] += 2.0
    np.fill_diagonal(matrix, np.nan)
    found = log_distances_of(matrix)
    assert found is not None
    first, second = np.triu_indices(10, 1)
    inside = rack[first] == rack[second]
    assert found.unexplained[inside].max() < 0 < found.unexplained[~inside].min()
    slow = (first == 9) | (second == 9)
    assert abs(float(found.unexplained[slow].mean())) < 0.1 * np.ptp(found.unexplained)
    assert found.explained[slow].min() > found.explained[~slow].max()


def test_a_gross_outlier_moves_nothing_but_itself() -> None:
    matrix = sums_of_hosts(12, 1) * np.exp(np.random.default_rng(2).normal(0, 0.05, (12, 12)))
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T
    np.fill_diagonal(matrix, np.nan)
    spoiled = matrix.copy()
    spoiled[2, 7] = spoiled[7, 2] = 1e6
    clean, found = log_distances_of(matrix), log_distances_of(spoiled)
    assert clean is not None and found is not None
    first, second = np.triu_indices(12, 1)
    it = (first == 2) & (second == 7)
    assert np.abs(found.explained - clean.explained)[~it].max() < 0.15
    assert found.distance[it][0] < 10 and found.distance[it][0] > clean.distance[it][0]
    assert found.distance[~it] == pytest.approx(clean.distance[~it], rel=0.02)


def test_the_unit_changes_nothing_and_zeros_alone_are_nothing() -> None:
    one, other = log_distances_of(sums_of_hosts(7, 3)), log_distances_of(sums_of_hosts(7, 3) * 1e-6)
    assert one is not None and other is not None
    assert one.log_distance == pytest.approx(other.log_distance, abs=1e-9)
    assert log_distances_of(np.zeros((4, 4))) is None
    assert log_distances_of(np.full((4, 4), np.nan)) is None
    some = np.ones((6, 6))
    some[0, 1] = some[1, 0] = 0.0
    found = log_distances_of(some)
    # One pair at zero distance counts as half of the typical nearest distance.
    assert found is not None and np.exp(found.log_distance[0]) == pytest.approx(0.5 + 1e-3, abs=0.1)
