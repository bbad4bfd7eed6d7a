"""Descents, swaps and sizes of k-means, against the same values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.cluster.balanced.kmeans import constrained_kmeans
from netprobe.cluster.balanced.lloyd import (
    DescentOptions,
    KMeansRun,
    balanced_sizes,
    check_sizes,
    lloyd,
    plus_plus,
    squared_distances,
)
from netprobe.cluster.balanced.sqrt_groups import realise, sqrt_groups
from netprobe.cluster.balanced.swaps import _missed, _most_promising, _splits, improved
from netprobe.core.errors import InfeasibleError, InputError
from tests.cluster.fleets import apart, racks

Array = NDArray[Any]
UNEQUAL = DescentOptions(size_min=1, size_max=99, max_iter=50, tol=0.0)


@pytest.mark.parametrize(
    ("n", "k", "least", "most", "allowed"),
    [
        (6, 1, 0, 6, True), (6, 6, 1, 1, True), (6, 7, 0, 6, False), (6, 0, 0, 6, False), (6, 3, 2, 2, True),
        (6, 3, 3, 6, False), (6, 3, -1, 6, False), (6, 3, 0, 1, False), (6, 3, 2, 1, False), (7, 3, 2, 3, True),
    ],
)  # fmt: skip
def test_sizes_that_can_be(n: int, k: int, least: int, most: int, allowed: bool) -> None:
    if allowed:
        check_sizes(n, k, size_min=least, size_max=most)
    else:
        with pytest.raises(InfeasibleError):
            check_sizes(n, k, size_min=least, size_max=most)


def test_numbers_and_sizes_of_even_groups() -> None:
    # round(sqrt N), floor(sqrt N / elasticity): 16, 20, 7, 2 and 100 hosts
    assert [balanced_sizes(n, None, 1.0) for n in (16, 20, 7, 2, 100)] == [
        (4, 4),
        (4, 4),
        (3, 2),
        (1, 1),
        (10, 10),
    ]
    assert balanced_sizes(100, None, 2.0) == (10, 5) and balanced_sizes(100, None, 1.5) == (10, 6)
    assert balanced_sizes(100, 7, 1.0) == (7, 14) and balanced_sizes(100, 7, 2.0) == (7, 7)
    assert balanced_sizes(5, 4, 2.0) == (4, 1) and balanced_sizes(2, None, 2.0) == (1, 1)
    for elasticity in (0.99, 2.01):
        with pytest.raises(InputError):
            balanced_sizes(16, None, elasticity)
    with pytest.raises(InfeasibleError):
        balanced_sizes(16, 17, 1.0)


def test_squared_distances_and_starts() -> None:
    points = np.random.default_rng(0).normal(size=(9, 2))
    centres = points[[2, 5]]
    expected = ((points[:, None] - centres[None]) ** 2).sum(axis=2)
    assert squared_distances(points, centres) == pytest.approx(expected, abs=1e-12)
    assert squared_distances(points, centres, squares=(points**2).sum(axis=1)) == pytest.approx(
        expected, abs=1e-12
    )
    assert (squared_distances(points, centres) >= 0).all()
    # As many centres as places: each is taken once, also among points that coincide.
    spots = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [9.0, 9.0]])
    for seed in range(8):
        starts = plus_plus(np.repeat(spots, 3, axis=0), 4, np.random.default_rng(seed))
        assert sorted(map(tuple, starts.tolist())) == sorted(map(tuple, spots.tolist()))
        same = plus_plus(np.zeros((3, 2)), 3, np.random.default_rng(seed))
        assert same.shape == (3, 2)


def test_a_descent_ends_when_it_has_converged_or_as_told() -> None:
    rng = np.random.default_rng(4)
    points = rng.normal(size=(200, 2))
    start = points[:6]
    full = lloyd(points, start, UNEQUAL)
    assert full.converged and 3 < full.iterations < 50
    for group in range(6):  # a fixed point: each centre is the mean of those nearest to it
        assert full.centres[group] == pytest.approx(points[full.labels == group].mean(axis=0))
    nearest = squared_distances(points, full.centres)
    assert (nearest.argmin(axis=1) == full.labels).all()
    assert full.inertia == pytest.approx(nearest.min(axis=1).sum())
    short = lloyd(points, start, DescentOptions(size_min=1, size_max=99, max_iter=2, tol=0.0))
    assert (short.iterations, short.converged) == (2, False) and short.inertia > full.inertia
    loose = lloyd(points, start, DescentOptions(size_min=1, size_max=99, max_iter=50, tol=1.0))
    assert loose.converged and loose.iterations < full.iterations
    empty = lloyd(
        np.array([[0.0], [1.0]]),
        np.array([[0.4], [0.6], [50.0]]),
        DescentOptions(size_min=0, size_max=9, max_iter=5, tol=0.0),
    )
    assert empty.centres[2, 0] == 50.0  # a group without points stays where it is


PAIRED = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])


def paired(labels: list[int]) -> KMeansRun:
    array = np.array(labels)
    centres = np.array([PAIRED[array == group].mean(axis=0) for group in range(array.max() + 1)])
    inertia = float(((PAIRED - centres[array]) ** 2).sum())
    return KMeansRun(labels=array, centres=centres, inertia=inertia, iterations=1, converged=True)


def test_what_a_split_saves_and_a_centre_is_worth() -> None:
    run = paired([0, 1, 2, 2, 2, 2])
    saved, halves = _splits(PAIRED, run)
    # 10, 11, 20, 21 around 15.5: two pairs at 10.5 and 20.5, 5 from the middle each.
    assert saved == pytest.approx([0.0, 0.0, 4 * 25.0])
    assert sorted(halves[2].ravel().tolist()) == pytest.approx([10.5, 20.5])
    # 0 would pay its way to 1, and 1 to 0; the others theirs to 1: 9^2 + 10^2 + 19^2 + 20^2 less what they pay.
    own = sum((value - 15.5) ** 2 for value in (10, 11, 20, 21))
    assert _missed(PAIRED, run) == pytest.approx([1.0, 1.0, 81 + 100 + 361 + 400 - own])
    swap = _most_promising(PAIRED, run, set())
    assert swap is not None and swap[:2] == (2, 0)
    other = _most_promising(PAIRED, run, {(2, 0)})
    assert other is not None and other[:2] == (2, 1)
    assert _most_promising(PAIRED, run, {(2, 0), (2, 1)}) is None  # nothing is saved by the others
    assert (
        _most_promising(PAIRED, paired([0, 0, 1, 1, 1, 1]), set()) is None
    )  # of two groups none can be given up
    # Of unlike halves each counts with its own hosts: three 2 from the mean, one 6.
    lopsided = np.array([[0.0], [0.0], [0.0], [8.0]])
    one = KMeansRun(
        labels=np.zeros(4, dtype=np.int64),
        centres=np.array([[2.0]]),
        inertia=48.0,
        iterations=1,
        converged=True,
    )
    assert _splits(lopsided, one)[0] == pytest.approx([3 * 4.0 + 36.0])
    better = improved(PAIRED, run, UNEQUAL, tries=2)
    assert better.inertia == pytest.approx(1.5) and improved(PAIRED, run, UNEQUAL, tries=0) is run
    best = paired([0, 0, 1, 1, 2, 2])
    assert improved(PAIRED, best, UNEQUAL, tries=3) is best


def test_the_best_of_the_starts_is_taken_and_more_starts_are_no_worse() -> None:
    rng = np.random.default_rng(2)
    points = rng.normal(size=(40, 2)) + 7.0
    options = DescentOptions(size_min=4, size_max=20, max_iter=30, tol=0.0)
    runs = [constrained_kmeans(points, 5, options=options, restarts=count, seed=3) for count in (1, 2, 6)]
    assert runs[0].inertia >= runs[1].inertia >= runs[2].inertia and runs[0].inertia > runs[2].inertia
    for run in runs:  # centres are in the coordinates that were given
        for group in range(5):
            assert run.centres[group] == pytest.approx(points[run.labels == group].mean(axis=0))
    swapped = constrained_kmeans(points, 5, options=options, restarts=1, seed=3, swaps=4)
    assert swapped.inertia <= runs[0].inertia
    with pytest.raises(InfeasibleError):
        constrained_kmeans(points, 5, options=options, restarts=0, seed=3)


def test_points_have_the_distances_as_their_squares() -> None:
    matrix = apart(racks(3, 2, 4), 1.0, 4.0)
    points = realise(7.0 * matrix)
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    assert squares == pytest.approx(matrix / np.median(matrix[np.triu_indices(9, 1)]), abs=1e-8)
    assert realise(np.zeros((3, 3))).tolist() == [[0.0]] * 3


def test_even_groups_say_how_they_were_chosen() -> None:
    matrix = apart(racks(4, 4, 4, 4), 1.0, 3.0, noise=0.02)
    made = sqrt_groups(matrix, seed=1)
    assert made.labels.tolist() == racks(4, 4, 4, 4).tolist()
    assert (made.evidence["clusterings"], made.evidence["size_variance"], made.evidence["converged"]) == (
        10,
        0.0,
        True,
    )
    # Twelve in two racks of six, and three groups asked for: sizes of at least 12 / 3 / 2.
    loose = sqrt_groups(apart(racks(6, 6), 1.0, 3.0), elasticity=2.0, k=3, seed=1)
    assert loose.k == 3 and min(np.bincount(loose.labels)) >= 2
    holed = matrix.copy()
    holed[0, 1] = holed[1, 0] = np.nan
    with pytest.raises(InputError):
        sqrt_groups(holed, seed=1)
