"""Estimates, mixtures and descents against the same sums done pair by pair."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.embed import methods
from netprobe.embed.coordinates import starts
from netprobe.embed.coordinates.adam import AdamFit, Objective, _first_free_height, _Problem, fit_adam
from netprobe.embed.coordinates.starts import classical_scaling
from netprobe.embed.estimates import blocks, forest, kriging
from netprobe.embed.estimates.blocks import LEAST_DISTANCE, row_differences, smooth
from netprobe.embed.estimates.forest import grow_forest
from netprobe.embed.estimates.heights import _shape_differences, relative_heights, without_heights
from netprobe.embed.estimates.kriging import kriged
from netprobe.embed.methods import embedded_model
from netprobe.embed.prepare import Prepared, hold_out
from netprobe.embed.records import EmbedOptions
from tests.properties import examples

Matrix = NDArray[Any]


def working(n: int, seed: int, missing: float = 0.0, racks: int = 3) -> Prepared:
    """Racks at random with noise, in units of the median, with holes that leave a chain of pairs."""
    rng = np.random.default_rng(seed)
    rack = rng.integers(0, racks, n)
    distance = np.where(rack[:, None] == rack[None, :], 0.5, 1.5) * np.exp(rng.normal(0.0, 0.1, (n, n)))
    measured = np.triu(rng.random((n, n)) >= missing, 1)
    measured[np.arange(n - 1), np.arange(1, n)] = True
    upper = np.where(measured, distance, 0.0)
    upper = np.triu(upper, 1)
    return Prepared(distance=upper + upper.T, measured=measured | measured.T, scale_s=1.0)


def logs(prepared: Prepared) -> Matrix:
    return np.where(prepared.measured, np.log(prepared.distance + LEAST_DISTANCE), np.nan)


@examples(15)
@given(st.integers(4, 9), st.integers(0, 10**6), st.sampled_from([0.0, 0.4]))
def test_rows_differ_by_the_hosts_that_both_were_measured_to(n: int, seed: int, missing: float) -> None:
    prepared = working(n, seed, missing)
    table = logs(prepared)
    table = table - np.nanmean(table)
    for host in range(n):
        table[host, host] = np.nanmin(table[host])  # as near to itself as to its nearest neighbour
    found, floor = row_differences(prepared)
    least = []
    for i in range(n):
        others = []
        for j in range(n):
            squares = [
                (table[i, k] - table[j, k]) ** 2 for k in range(n) if np.isfinite(table[[i, j], k]).all()
            ]
            wanted = math.sqrt(np.mean(squares)) if squares else math.inf
            assert found[i, j] == pytest.approx(0.0 if i == j else wanted, abs=1e-6)
            others += [wanted] if i != j and math.isfinite(wanted) else []
        least += [min(others)] if others else []
    assert floor == pytest.approx(max(np.median(least), 0.02), abs=1e-6)


@examples(10)
@given(st.integers(4, 8), st.integers(0, 10**6), st.sampled_from([0.0, 0.2]))
def test_a_pair_is_the_average_of_those_whose_ends_have_rows_like_its_own(
    n: int, seed: int, missing: float
) -> None:
    prepared = working(n, seed, missing)
    table = logs(prepared)
    weight = prepared.measured.astype(float)
    difference = blocks._with_witnesses(row_differences(prepared)[0], prepared.measured)
    floor = blocks._noise_floor(difference)
    common = max(float(np.median(weight.sum(axis=1))) * weight.mean(), 2.0)
    width = floor * (2.0 / common) ** 0.25 * 1.2
    kernel = np.exp(-0.5 * np.maximum(difference**2 - floor**2, 0.0) / width**2)
    found = smooth(prepared)
    assert np.array_equal(found, found.T) and not found.diagonal().any()
    for i, j in itertools.combinations(range(n), 2):
        cells = [(a, b) for a in range(n) for b in range(n) if prepared.measured[a, b]]
        own = np.array([kernel[i, a] * kernel[j, b] for a, b in cells])
        if own.sum() < 0.5 and not prepared.measured[i, j]:
            continue  # a hole without enough support is averaged more widely
        mean = float(own @ [table[cell] for cell in cells]) / own.sum()
        assert found[i, j] == pytest.approx(math.exp(mean) - LEAST_DISTANCE, rel=1e-6)


def test_a_hole_between_strangers_is_the_average_of_all() -> None:
    """Two islands of two: nothing says how far they are apart."""
    prepared = working(4, 1)
    measured = np.zeros((4, 4), dtype=bool)
    measured[0, 1] = measured[1, 0] = measured[2, 3] = measured[3, 2] = True
    cut = Prepared(distance=np.where(measured, prepared.distance, 0.0), measured=measured, scale_s=1.0)
    found = smooth(cut)
    mean = np.mean(np.log(cut.distance[[0, 2], [1, 3]] + LEAST_DISTANCE))
    assert found[[0, 0, 1, 1], [2, 3, 2, 3]] == pytest.approx(math.exp(mean) - LEAST_DISTANCE)
    assert (
        smooth(Prepared(distance=np.zeros((1, 1)), measured=np.zeros((1, 1), dtype=bool), scale_s=1.0)) == 0.0
    )


def test_two_witnesses_tell_hosts_apart_that_share_no_row() -> None:
    """Without holes, or of large rows with few, nothing is raised; else by the second largest of what others imply."""
    nan = np.inf
    difference = np.array(
        [[0, nan, 0.1, 0.2, 0.9], [nan, 0, 0.8, 0.5, 0.7], [0.1, 0.8, 0, 0.3, 0.4],
         [0.2, 0.5, 0.3, 0, 0.6], [0.9, 0.7, 0.4, 0.6, 0]]
    )  # fmt: skip
    measured = ~np.eye(5, dtype=bool)
    assert blocks._with_witnesses(difference, measured) is difference
    measured[0, 3] = measured[3, 0] = False
    raised = blocks._with_witnesses(difference, measured)
    # Hosts 0 and 3: 2 says |0.1 - 0.3|, 4 says |0.9 - 0.6|, 0 itself 0.2 and 3 itself 0.2; 1 knows 0 not.
    assert raised[0, 3] == raised[3, 0] == pytest.approx(0.2) and raised[0, 2] == 0.1
    far = difference.copy()
    far[0, 2] = far[2, 0] = 0.9
    far[0, 4] = far[4, 0] = 1.2
    assert blocks._with_witnesses(far, measured)[0, 3] == pytest.approx(0.6)
    assert blocks._with_witnesses(difference[:3, :3], measured[:3, :3]) is not None


def test_products_of_large_fleets_are_as_good_as_single_precision() -> None:
    rng = np.random.default_rng(0)
    small_one, large = rng.random((4, 4)), rng.random((513, 3))
    assert np.array_equal(blocks.product(small_one, small_one), small_one @ small_one)
    assert np.allclose(blocks.product(large, large.T), large @ large.T, rtol=1e-5)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_shapes_of_rows_differ_by_what_their_differences_vary_with_the_mean_of_its_own(
    missing: float,
) -> None:
    prepared = working(9, 4, missing)
    weight = prepared.measured.astype(float)
    common = weight @ weight
    found = _shape_differences(
        prepared.distance, weight, np.maximum(common, 1.0), complete=bool(missing == 0.0)
    )
    for one, other in itertools.permutations(range(9), 2):
        both = prepared.measured[one] & prepared.measured[other]
        if both.sum() >= 2:
            apart = prepared.distance[one, both] - prepared.distance[other, both]
            assert found[one, other] == pytest.approx(apart.std(ddof=1), abs=1e-6)


def test_the_first_pass_of_heights_compares_the_distances_themselves() -> None:
    prepared = working(12, 6)
    spread, apart = np.zeros((12, 12)), np.zeros((12, 12))
    for one, other in itertools.permutations(range(12), 2):
        third = [host for host in range(12) if host not in (one, other)]
        row = prepared.distance[one, third] - prepared.distance[other, third]
        spread[one, other], apart[one, other] = row.std(ddof=1), row.mean()
    near = blocks.row_similarity(spread, common=10.0)
    np.fill_diagonal(near, 0.0)
    wanted = (near * apart).sum(axis=1) / (near.sum(axis=1) + 1.0)
    found = relative_heights(prepared, passes=1)
    for host in range(12):  # a height is given less the weighted median of its neighbourhood's
        order = np.argsort(wanted)
        weight = (near + np.eye(12))[host, order]
        middle = order[np.nonzero(weight.cumsum() >= weight.sum() / 2)[0][0]]
        assert found[host] == pytest.approx(wanted[host] - wanted[middle], abs=1e-6)


def test_heights_without_noise_are_those_above_the_median_of_the_rack() -> None:
    rack = np.repeat([0, 1, 2], 6)
    height = np.random.default_rng(5).choice([0.0, 0.0, 0.0, 0.2, 0.5], 18)
    base = np.where(rack[:, None] == rack[None, :], 0.5, 1.5)
    distance = base + height[:, None] + height[None, :]
    np.fill_diagonal(distance, 0.0)
    measured = ~np.eye(18, dtype=bool)
    prepared = Prepared(distance=distance, measured=measured, scale_s=1.0)
    found = relative_heights(prepared)
    for own in range(3):
        inside = height[rack == own]
        assert found[rack == own] == pytest.approx(inside - np.sort(inside)[2], abs=1e-6)
    left = without_heights(prepared, height)
    assert left.distance == pytest.approx(np.where(measured, base, 0.0))
    much = without_heights(prepared, np.full(18, 10.0))
    assert much.distance == pytest.approx(0.1 * distance)
    # With holes too, as long as rows share enough; with few pairs no host has a height.
    holes = hold_out(measured, share=0.1, seed=1)
    sparse = Prepared(distance=np.where(holes, 0.0, distance), measured=measured & ~holes, scale_s=1.0)
    assert relative_heights(sparse) == pytest.approx(found, abs=0.08)
    some = hold_out(measured, share=0.33, seed=1)
    few = (
        measured
        & ~some
        & ~np.triu(np.add.outer(range(18), range(18)) % 2 == 0)
        & ~np.tril(np.add.outer(range(18), range(18)) % 2 == 0)
    )
    assert not relative_heights(
        Prepared(distance=np.where(few, distance, 0.0), measured=few, scale_s=1.0)
    ).any()
    assert not relative_heights(working(3, 1)).any()


@examples(10)
@given(st.integers(4, 8), st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
def test_kriging_adds_what_similar_pairs_leave_over(n: int, seed: int, missing: float) -> None:
    prepared = working(n, seed, missing)
    trend = np.random.default_rng(seed).normal(0.0, 0.2, (n, n))
    trend = (trend + trend.T) / 2
    difference, floor = row_differences(prepared)
    kernel = np.exp(-0.5 * (difference / (0.5 * floor)) ** 2)
    table = logs(prepared)
    found = kriged(prepared, trend)
    for i, j in itertools.product(range(n), repeat=2):
        cells = [(a, b) for a in range(n) for b in range(n) if prepared.measured[a, b]]
        own = np.array([kernel[i, a] * kernel[b, j] for a, b in cells])
        left = np.array([table[cell] - trend[cell] for cell in cells])
        assert found[i, j] == pytest.approx(trend[i, j] + float(own @ left) / (own.sum() + 0.05), abs=1e-9)


def test_a_disturbed_link_is_replaced_by_what_others_say_without_its_own_reading() -> None:
    prepared = working(40, 3, racks=1)
    slow = prepared.distance.copy()
    slow[0, 1] = slow[1, 0] = 3.0
    disturbed = Prepared(distance=slow, measured=prepared.measured, scale_s=1.0)
    reading = np.log(slow + LEAST_DISTANCE)
    found = kriging._mended(disturbed, reading)
    difference, floor = row_differences(disturbed)
    kernel = np.exp(-0.5 * (difference / floor) ** 2)
    changed = found != reading
    assert changed[0, 1] and changed.sum() == 2 and 3 * floor < reading[0, 1] - found[0, 1]
    cells = [(a, b) for a in range(40) for b in range(40) if a != b and {a, b} != {0, 1}]
    own = np.array([kernel[0, a] * kernel[b, 1] for a, b in cells])
    assert found[0, 1] == pytest.approx(float(own @ [reading[cell] for cell in cells]) / own.sum())


def test_a_forest_is_the_mean_of_trees_on_disturbed_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.cluster.hierarchy import cophenet, linkage

    prepared = working(6, 2)
    upper = np.triu_indices(6, 1)
    table = np.log(prepared.distance[upper] + LEAST_DISTANCE)

    def heights(values: Matrix) -> Matrix:
        joined: Matrix = np.asarray(cophenet(linkage(values - values.min(), "average"))) + values.min()
        return joined

    first = heights(table)
    noise = 0.7 * math.sqrt(np.mean((table - first) ** 2))
    for at_once in (1 << 18, 3 * 36):
        monkeypatch.setattr(forest, "_CELLS_AT_ONCE", at_once)
        found = grow_forest(prepared.distance, seed=4, trees=7)
        rng = np.random.default_rng(4)
        grown = np.array([heights(table + rng.normal(0.0, noise, len(table))) for _ in range(7)])
        assert found.log_distance[upper] == pytest.approx(grown.mean(axis=0))
        assert found.spread[upper] == pytest.approx(grown.std(axis=0))
        assert np.array_equal(found.log_distance, found.log_distance.T)
    counted: list[int] = []

    def count(values: Matrix) -> Matrix:
        counted.append(len(values))
        return values

    monkeypatch.setattr(forest, "_joined_at", count)
    for n, trees in ((6, 100), (200, 65), (600, 14)):
        counted.clear()
        grow_forest(np.ones((n, n)), seed=0)
        assert sum(counted) - 1 == trees


def test_coordinates_and_heights_are_a_model_of_distances() -> None:
    rng = np.random.default_rng(3)
    points, height = rng.normal(size=(5, 3)), rng.random(5)
    fit = AdamFit(coordinates=points, heights=height, loss=0.0, converged=True)
    for alpha in (1.0, 1.7):
        found = embedded_model(fit, alpha)
        for i, j in itertools.product(range(5), repeat=2):
            apart = np.linalg.norm(points[i] - points[j]) ** alpha + height[i] + height[j]
            assert found[i, j] == pytest.approx(0.0 if i == j else apart)


@pytest.mark.parametrize(
    ("alpha", "heights", "delta"), [(1.0, True, 0.1), (1.5, True, None), (2.0, False, 0.3)]
)
def test_a_descent_is_adam_step_by_step(alpha: float, heights: bool, delta: float | None) -> None:
    """Kingma and Ba, algorithm 1, with the rate on half a cosine; the gradient is that of the problem itself."""
    prepared = working(6, 4, missing=0.2)
    begin = np.random.default_rng(1).normal(size=(2, 6, 2))
    objective = Objective(alpha=alpha, heights=heights, huber_delta=delta)
    problem = _Problem(prepared.distance, prepared.measured.astype(float), objective)
    free = _first_free_height(prepared.distance[prepared.measured])
    assert math.log1p(math.exp(free)) == pytest.approx(
        max(0.5 * np.quantile(prepared.distance[prepared.measured], 0.05), 0.01)
    )
    values = [begin.copy(), np.full((2, 6), free)]
    first, second = ([np.zeros_like(value) for value in values] for _ in range(2))
    at_eight_tenths = None
    for t in range(1, 21):
        gradients = problem.gradient(*values)
        if t == 17:
            at_eight_tenths = problem.loss(*values)
        rate = 0.05 * (1 + math.cos(math.pi * (t - 1) / 20)) / 2
        for at, gradient in enumerate(gradients):
            first[at] = 0.9 * first[at] + 0.1 * gradient
            second[at] = 0.999 * second[at] + 0.001 * gradient**2
            mean, square = first[at] / (1 - 0.9**t), second[at] / (1 - 0.999**t)
            values[at] = values[at] - rate * mean / (np.sqrt(square) + 1e-8)
    found = fit_adam(
        prepared.distance, prepared.measured, begin, objective=objective, iterations=20, learning_rate=0.05
    )
    losses = problem.loss(*values)
    best = int(losses.argmin())
    assert found.coordinates == pytest.approx(values[0][best], abs=1e-9) and found.loss == pytest.approx(
        losses[best]
    )
    assert found.heights == pytest.approx(np.log1p(np.exp(values[1][best])) if heights else np.zeros(6))
    assert at_eight_tenths is not None
    assert found.converged == (
        abs(at_eight_tenths[best] - losses[best]) <= 0.01 * at_eight_tenths[best] + 1e-6
    )
    # The loss is the mean over measured pairs of half the square, or Huber's.
    points, height = found.coordinates, found.heights
    model = (
        np.linalg.norm(points[:, None] - points[None], axis=2) ** alpha + height[:, None] + height[None, :]
    )
    size = np.abs(model - prepared.distance)[prepared.measured]
    cost = size**2 / 2 if delta is None else np.where(size <= delta, size**2 / 2, delta * (size - delta / 2))
    assert found.loss == pytest.approx(cost.mean(), rel=1e-4)


def test_classical_scaling_of_a_large_fleet_is_that_of_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(2).normal(size=(20, 3))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    small_one = classical_scaling(distance, dimensions=2)
    monkeypatch.setattr(starts, "_LARGE", 19)
    assert classical_scaling(distance, dimensions=2) == pytest.approx(small_one, abs=1e-9)
    whole = classical_scaling(distance, dimensions=3)
    assert np.linalg.norm(whole[:, None] - whole[None], axis=2) == pytest.approx(distance, abs=1e-9)
    assert (np.abs(whole).max(axis=0) == whole.max(axis=0)).all()


def test_how_long_and_how_exactly_a_fleet_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several starts only where the points are the distances; fewer steps, and fewer digits, where there are many."""
    asked: list[Any] = []
    monkeypatch.setattr(
        methods, "fit_adam", lambda *given, **options: asked.append((given[2].shape, options))
    )

    def started(start: Matrix, *, dimensions: int, restarts: int, seed: int) -> Matrix:
        assert seed == 0
        return np.zeros((restarts, len(start), dimensions))

    monkeypatch.setattr(methods, "starting_points", started)
    for n, method, wanted in (
        (128, "huber", (5, 300, False)), (129, "huber", (1, 120, False)), (256, "plink", (1, 120, False)),
        (257, "plink", (1, 120, True)), (128, "ensemble", (1, 300, False)), (129, "ensemble", (1, 120, True)),
        (513, "block", (1, 50, True)),
    ):  # fmt: skip
        asked.clear()
        source: Any = SimpleNamespace(distance=np.zeros((n, n)), measured=np.zeros((n, n), dtype=bool))
        options = EmbedOptions(method=method, restarts=5, alpha=1.5)  # type: ignore[arg-type]
        methods._fit(source, options=options, seed=0, huber_delta=0.2, smoothed=np.ones((n, n)))
        ((shape, said),) = asked
        assert (shape[0], said["iterations"], said["single"]) == wanted and shape[1:] == (n, 3)
        assert said["objective"] == Objective(alpha=1.5, heights=method != "plink", huber_delta=0.2)
        assert said["learning_rate"] == 0.05
