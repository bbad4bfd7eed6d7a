"""The constrained k-means: exact assignment, kept sizes, and the published algorithm's inertia."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.utils.estimator_checks import check_estimator

from netprobe.cluster import ConstrainedKMeans
from netprobe.cluster.balanced.assign import Assigner
from netprobe.cluster.balanced.kmeans import constrained_kmeans
from netprobe.cluster.balanced.lloyd import DescentOptions, lloyd
from netprobe.cluster.balanced.swaps import improved
from netprobe.core.errors import InfeasibleError, InputError
from tests.properties import examples


def _allowed(n: int, k: int, size_min: int, size_max: int) -> list[tuple[int, ...]]:
    return [
        labels
        for labels in itertools.product(range(k), repeat=n)
        if all(size_min <= labels.count(group) <= size_max for group in range(k))
    ]


def descent(size_min: int, size_max: int) -> DescentOptions:
    """Exact descents with these group sizes."""
    return DescentOptions(size_min=size_min, size_max=size_max, max_iter=100, tol=0.0)


def _inertia(points: NDArray[np.float64], labels: tuple[int, ...]) -> float:
    chosen = np.array(labels)
    return sum(
        float(((points[chosen == g] - points[chosen == g].mean(axis=0)) ** 2).sum()) for g in set(labels)
    )


@examples(40)
@given(st.integers(2, 6), st.integers(1, 3), st.integers(0, 10**6), st.data())
def test_assignment_equals_brute_force(n: int, k: int, seed: int, data: st.DataObject) -> None:
    k = min(k, n)
    size_min = data.draw(st.integers(0, n // k))
    size_max = data.draw(st.integers(max(size_min, -(-n // k)), n))
    cost = np.random.default_rng(seed).random((n, k))
    labels = Assigner(n, k, size_min=size_min, size_max=size_max)(cost)
    counts = np.bincount(labels, minlength=k)
    assert counts.min() >= size_min and counts.max() <= size_max
    best = min(
        sum(cost[i, group] for i, group in enumerate(choice)) for choice in _allowed(n, k, size_min, size_max)
    )
    assert cost[np.arange(n), labels].sum() == pytest.approx(best)


@pytest.mark.slow
def test_inertia_meets_the_exhaustive_optimum_at_small_sizes() -> None:
    met = 0
    for seed in range(20):
        points = np.random.default_rng(seed).normal(size=(7, 2))
        best = min(_inertia(points, labels) for labels in _allowed(7, 3, 2, 3))
        run = constrained_kmeans(points, 3, options=descent(2, 3), restarts=20, seed=seed)
        assert run.inertia >= best - 1e-9
        met += run.inertia <= best + 1e-9
    assert met >= 16


@examples(30)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 10**6), st.booleans())
def test_sizes_are_kept_and_no_group_is_lost(n: int, k: int, seed: int, identical: bool) -> None:
    k = min(k, n)
    points = np.zeros((n, 2)) if identical else np.random.default_rng(seed).normal(size=(n, 2))
    size_min, size_max = max(1, n // k // 2), -(-n // k) + 1
    model = ConstrainedKMeans(k, size_min=size_min, size_max=size_max, n_init=2, random_state=seed)
    counts = np.bincount(model.fit_predict(points), minlength=k)
    assert len(counts) == k
    assert counts.min() >= size_min and counts.max() <= size_max
    centres = np.stack([points[model.labels_ == group].mean(axis=0) for group in range(k)])
    assert np.allclose(centres, model.cluster_centers_)
    assert model.inertia_ == pytest.approx(float(((points - centres[model.labels_]) ** 2).sum()), abs=1e-9)


def test_loose_limits_reach_the_inertia_of_plain_k_means() -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(centre, 0.3, (30, 2)) for centre in [(0, 0), (3, 0), (0, 3)]])
    plain = KMeans(3, n_init=10, random_state=0).fit(points)
    ours = ConstrainedKMeans(3, n_init=10, random_state=0).fit(points)
    assert ours.inertia_ == pytest.approx(plain.inertia_)
    assert np.array_equal(ours.predict(points), ours.labels_)


def test_swaps_find_the_groups_that_a_start_between_them_missed_and_never_raise_the_inertia() -> None:
    generator = np.random.default_rng(5)
    middle = np.array([[0.0, 0.0], [0.0, 1.0], [50.0, 0.0], [50.0, 50.0], [0.0, 50.0]])
    points = np.repeat(middle, 12, axis=0) + generator.normal(0.0, 0.1, (60, 2))
    # Three centres in two groups: descents alone stay there.
    start = np.array([[0.0, 0.0], [0.0, 0.9], [0.0, 1.1], [50.0, 25.0], [0.0, 50.0]])
    for options in (descent(1, 60), descent(12, 12)):
        stuck = lloyd(points, start, options)
        found = improved(points, stuck, options, tries=5)
        assert found.inertia <= stuck.inertia
        assert sorted(np.bincount(found.labels)) == [12] * 5
        assert found.inertia < 12 * 5 * 2 * 0.1**2 * 1.5
    for seed in range(5):
        points = generator.normal(size=(40, 3))
        one, more = (
            constrained_kmeans(points, 6, options=descent(4, 9), restarts=2, seed=seed, swaps=swaps)
            for swaps in (0, 4)
        )
        assert more.inertia <= one.inertia * (1 + 1e-12)
        sizes_found = np.bincount(more.labels, minlength=6)
        assert sizes_found.min() >= 4
        assert sizes_found.max() <= 9


def test_it_is_an_estimator_by_scikit_learns_own_checks() -> None:
    check_estimator(ConstrainedKMeans(3, n_init=2))


def test_elasticity_sets_the_number_and_the_least_size() -> None:
    points = np.random.default_rng(2).normal(size=(30, 2))
    model = ConstrainedKMeans(None, elasticity=1.5, n_init=3, random_state=0).fit(points)
    assert np.bincount(model.labels_).min() >= 3 and len(np.bincount(model.labels_)) == 5
    even = ConstrainedKMeans(4, elasticity=1.0, n_init=1, random_state=0).fit(points)
    assert np.bincount(even.labels_).min() == 7
    with pytest.raises(InputError, match="elasticity"):
        ConstrainedKMeans(None, elasticity=0.5).fit(points)


@examples(15)
@given(st.integers(2, 60), st.integers(1, 8), st.integers(0, 10**6), st.data())
def test_assignment_equals_the_linear_program_from_any_prices(
    n: int, k: int, seed: int, data: st.DataObject
) -> None:
    """A descent begins at the prices of the step before: three unrelated costs, with ties, in a row."""
    k = min(k, n)
    size_min = data.draw(st.integers(0, n // k))
    size_max = data.draw(st.integers(max(size_min, -(-n // k)), n))
    generator = np.random.default_rng(seed)
    assigner = Assigner(n, k, size_min=size_min, size_max=size_max)
    for _ in range(3):
        cost = generator.gamma(1.0, 1.0, (n, k))
        if seed % 2:
            cost = np.round(cost, 1)
        labels = assigner(cost)
        counts = np.bincount(labels, minlength=k)
        assert counts.min() >= size_min and counts.max() <= size_max
        # Each group has its least places, which must be taken, and further ones.
        must = np.repeat(np.arange(k), size_min)
        further = np.repeat(np.arange(k), size_max - size_min)
        places = np.concatenate([cost[:, must] - 100.0, cost[:, further]], axis=1)
        rows, taken = linear_sum_assignment(places)
        best = cost[rows, np.concatenate([must, further])[taken]].sum()
        assert cost[np.arange(n), labels].sum() == pytest.approx(best)


def test_it_repeats_itself() -> None:
    points = np.random.default_rng(1).normal(size=(40, 3))
    model = ConstrainedKMeans(4, size_min=10, random_state=3)
    again = clone(model)
    assert np.array_equal(model.fit(points).labels_, again.fit(points).labels_)
    assert model.get_params()["size_min"] == 10
    assert np.bincount(model.labels_).tolist() == [10] * 4
    assert model.n_iter_ >= 1


@pytest.mark.parametrize(
    ("limits", "hint"),
    [
        ({"n_clusters": 11}, "give 1 to 10 groups"),
        ({"n_clusters": 3, "size_min": 4}, "least size of 0 to 3"),
        ({"n_clusters": 3, "size_max": 3}, "largest size from 4"),
    ],
)
def test_sizes_that_cannot_be_met_are_refused_with_the_range(limits: dict[str, int], hint: str) -> None:
    with pytest.raises(InfeasibleError, match=hint):
        ConstrainedKMeans(**limits).fit(np.random.default_rng(0).normal(size=(10, 2)))


def test_importing_the_package_imports_neither_scikit_learn_nor_torch() -> None:
    code = "import sys, netprobe.cluster, netprobe.embed; print({'sklearn', 'torch', 'pandas'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
