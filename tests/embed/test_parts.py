"""The parts of a fit, each against values worked out another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.embed.coordinates.adam import Objective, fit_adam
from netprobe.embed.coordinates.starts import classical_scaling, principal_axes, starting_points
from netprobe.embed.estimates.kriging import direction_noise, shrunk_to_readings
from netprobe.embed.interval import interval_factor
from netprobe.embed.prepare import (
    Prepared,
    canonical_order,
    hold_out,
    prepare,
    reordered,
    unidentified_pairs,
    winsorise,
    without,
)
from tests.properties import examples

NAN = float("nan")


def symmetric(size: int, seed: int, *, measured_share: float = 1.0) -> Prepared:
    """A random working matrix, and which pairs were measured."""
    rng = np.random.default_rng(seed)
    distance = np.triu(rng.uniform(0.5, 3.0, (size, size)), 1)
    measured = np.triu(rng.random((size, size)) < measured_share, 1)
    return Prepared(
        distance=np.where(measured, distance, 0.0) + np.where(measured, distance, 0.0).T,
        measured=measured | measured.T,
        scale_s=1.0,
    )


def test_two_directions_are_joined_and_the_median_is_the_unit() -> None:
    there = np.array([[NAN, 2.0, 8.0], [4.0, NAN, NAN], [2.0, 3.0, NAN]])
    larger = prepare(there, larger_direction=True)
    assert larger.scale_s == 4.0
    assert larger.distance.tolist() == [[0, 1, 2], [1, 0, 0.75], [2, 0.75, 0]]
    # Of few pairs the mean, but at most 1.25 times the smaller.
    joined = prepare(there, larger_direction=False)
    assert joined.scale_s == 2.5
    assert joined.distance.tolist() == [[0, 1, 1], [1, 0, 1.2], [1, 1.2, 0]]
    assert joined.measured.tolist() == [[False, True, True], [True, False, True], [True, True, False]]
    nothing = prepare(np.array([[NAN, 0.0], [0.0, NAN]]), larger_direction=False)
    assert nothing.scale_s == 1.0 and nothing.measured[0, 1] and not nothing.distance.any()


def test_the_mean_counts_where_most_pairs_differ_and_at_most_twice_the_smaller() -> None:
    """Seven hosts have 21 pairs, enough to say what noise is; six have 15."""
    for size, factor, above in ((7, 1.5, 1.25), (7, 9.0, 2.0), (6, 1.5, 1.25), (7, 1.1, 1.05)):
        there = np.triu(np.ones((size, size)), 1) * factor + np.tril(np.ones((size, size)), -1)
        np.fill_diagonal(there, NAN)
        joined = prepare(there, larger_direction=False)
        assert joined.scale_s == pytest.approx(above), (size, factor)
    # By 1.4826 deviations of the logarithm: 1.5 ** 1.4826 = 1.82, above the mean of 1 and 1.5.
    one = np.triu(np.full((7, 7), 1.5), 1) + np.tril(np.ones((7, 7)), -1)
    one[0, 1] = 3.0
    np.fill_diagonal(one, NAN)
    assert prepare(one, larger_direction=False).distance[0, 1] * 1.25 == pytest.approx(1.5**1.4826, abs=1e-3)


def test_a_cap_is_by_the_detours_of_others() -> None:
    """As the definition says, pair by pair: the k-th smallest of the larger legs, k = sqrt(N) / 2."""
    prepared = symmetric(17, 3)
    prepared.distance[2, 5] = prepared.distance[5, 2] = 30.0
    factor = 1.1
    bounds = np.where(prepared.measured, prepared.distance, np.inf)
    nearest = bounds.min(axis=1)
    excess = np.maximum(nearest - np.median(nearest), 0.0)
    expected = prepared.distance.copy()
    for i in range(17):
        for j in range(17):
            if i != j:
                legs = [max(bounds[i, v] + excess[j], bounds[j, v] + excess[i]) for v in range(17)]
                expected[i, j] = min(expected[i, j], factor * sorted(legs)[round(math.sqrt(17) / 2) - 1])
    capped = winsorise(prepared, factor=factor)
    assert capped.distance == pytest.approx(expected, rel=1e-12)
    assert (capped.distance < prepared.distance).any() and capped.distance[2, 5] < 4
    assert np.array_equal(winsorise(symmetric(3, 1), factor=1e9).distance, symmetric(3, 1).distance)


@examples(30)
@given(st.integers(4, 14), st.integers(0, 2**32), st.floats(0.2, 1.0), st.floats(0.0, 0.9))
def test_no_host_loses_more_than_a_third_of_its_pairs(
    size: int, seed: int, measured_share: float, share: float
) -> None:
    measured = symmetric(size, seed, measured_share=measured_share).measured
    hidden = hold_out(measured, share=share, seed=seed)
    assert np.array_equal(hidden, hidden.T) and not (hidden & ~measured).any()
    assert (hidden.sum(axis=1) <= measured.sum(axis=1) // 3).all()
    assert hidden.sum() <= 2 * round(share * np.triu(measured).sum())
    rows, columns = np.nonzero(np.triu(measured & ~hidden))
    if hidden.sum() < 2 * round(share * np.triu(measured).sum()):
        # Fewer than requested only where no pair is left whose hosts can both spare one.
        left = measured.sum(axis=1) // 3 - hidden.sum(axis=1)
        assert not ((left[rows] > 0) & (left[columns] > 0)).any()


def test_as_many_pairs_are_held_out_as_were_asked_for() -> None:
    measured = symmetric(30, 1).measured
    assert hold_out(measured, share=0.1, seed=4).sum() == 2 * round(0.1 * 435)
    assert not np.array_equal(hold_out(measured, share=0.1, seed=4), hold_out(measured, share=0.1, seed=5))


def test_hidden_pairs_are_missing_and_orders_carry_all_along() -> None:
    prepared = symmetric(6, 2)
    hidden = np.zeros((6, 6), dtype=bool)
    hidden[1, 2] = hidden[2, 1] = True
    less = without(prepared, hidden)
    assert not less.measured[1, 2] and less.distance[2, 1] == 0 and less.measured.sum() == 28
    order = np.array([3, 1, 5, 0, 4, 2])
    moved = reordered(less, order)
    assert moved.distance[0, 2] == less.distance[3, 5] and not moved.measured[1, 5]
    # Renamed hosts end in the same order.
    one, other = canonical_order(less), canonical_order(moved)
    assert order[other].tolist() == one.tolist()


def test_islands_are_hosts_that_no_chain_joins() -> None:
    measured = np.zeros((5, 5), dtype=bool)
    for i, j in ((0, 1), (1, 2), (3, 4)):
        measured[i, j] = measured[j, i] = True
    apart = unidentified_pairs(measured)
    assert apart[0, 3] and apart[4, 2] and not apart[0, 2] and not apart[3, 4] and not apart.diagonal().any()
    assert not unidentified_pairs(~np.eye(3, dtype=bool)).any()


def test_an_interval_holds_nine_of_ten_held_out_readings() -> None:
    error = np.linspace(-0.1, 0.2, 31)
    factor = interval_factor(error, np.zeros(31), np.zeros((3, 3)), noise=0.05)
    assert factor is not None
    # The 29th of 31 absolute errors: ceil(0.9 * 32).
    assert factor[0, 1] == pytest.approx(math.exp(np.sort(np.abs(error))[28]))
    assert factor.diagonal().tolist() == [1, 1, 1]
    # A link of more doubt has a wider one: by the root of the squares of its doubt and of the noise.
    doubt = np.array([[0.0, 0.12], [0.12, 0.0]])
    wider = interval_factor(error, np.zeros(31), doubt, noise=0.05)
    assert wider is not None and math.log(wider[0, 1]) == pytest.approx(math.log(factor[0, 1]) * 0.13 / 0.05)
    # What was doubted when it was held out counts for less.
    less = interval_factor(error, np.full(31, 0.12), doubt, noise=0.05)
    assert less is not None and math.log(less[0, 1]) == pytest.approx(math.log(factor[0, 1]))
    assert interval_factor(np.zeros(8), np.zeros(8), np.zeros((2, 2)), noise=0.1) is None
    assert interval_factor(np.zeros(9), np.zeros(9), np.zeros((2, 2)), noise=0.1) is not None
    exact = interval_factor(np.zeros(9), np.zeros(9), np.zeros((2, 2)), noise=0.0)
    assert exact is not None and exact.tolist() == [[1, 1], [1, 1]]


def test_the_noise_of_a_mean_is_half_of_what_directions_differ_by() -> None:
    there = np.array(
        [[NAN, 1.0, 2.0, 1.0], [math.e, NAN, 1.0, 0.0], [4.0, 1.0, NAN, 3.0], [NAN, 1.0, 9.0, NAN]]
    )
    # Pairs with two readings above 0 differ by 1, log 2, 0 and log 3.
    middle = (math.log(2) + 1) / 2
    assert direction_noise(there) == pytest.approx(1.4826 * middle / 2)
    assert direction_noise(np.array([[NAN, 1.0], [NAN, NAN]])) == 0.0


@pytest.mark.parametrize(
    ("error", "noise", "share"), [(0.0, 0.0, 1.0), (0.2, 0.1, 0.75), (0.1, 0.2, 0.0), (0.3, 0.0, 1.0)]
)
def test_a_reading_counts_by_what_is_not_noise(error: float, noise: float, share: float) -> None:
    """Two racks without a disturbed link: each reading moves its distance by its share, in the logarithm."""
    rack = np.repeat([0, 1], 5)
    same = rack[:, None] == rack[None, :]
    readings = np.where(same, 1.0, 3.0) * np.exp(symmetric(10, 7).distance * 0.02)
    np.fill_diagonal(readings, 0.0)
    measured = ~np.eye(10, dtype=bool)
    measured[0, 9] = measured[9, 0] = False
    prepared = Prepared(distance=np.where(measured, readings, 0.0), measured=measured, scale_s=1.0)
    distance: NDArray[np.float64] = np.where(same, 1.05, 3.1) - np.eye(10) * 1.05
    found = shrunk_to_readings(prepared, distance, error=error, noise=noise)
    expected = np.exp(
        share * np.log(np.where(measured, readings, 1.0)) + (1 - share) * np.log(distance + np.eye(10))
    )
    assert found[measured] == pytest.approx(expected[measured], rel=5e-3)
    assert found[0, 9] == distance[0, 9]


def test_a_link_far_above_what_similar_pairs_say_is_disturbed() -> None:
    rack = np.repeat([0, 1], 24)
    readings = np.where(rack[:, None] == rack[None, :], 1.0, 3.0)
    readings *= np.exp(0.1 * np.random.default_rng(1).normal(size=(48, 48)))
    readings = (readings + readings.T) / 2
    readings[1, 2] = readings[2, 1] = 1.8
    readings[3, 4] = readings[4, 3] = 0.7  # lower: no disturbance, which only ever adds
    np.fill_diagonal(readings, 0.0)
    prepared = Prepared(distance=readings, measured=readings > 0, scale_s=1.0)
    found = shrunk_to_readings(prepared, np.where(readings > 2, 3.0, 1.0), error=0.3, noise=0.0)
    assert found[1, 2] == pytest.approx(1.0, abs=0.1) and found[3, 4] == pytest.approx(0.7, abs=1e-6)


def test_points_in_a_plane_are_found_again() -> None:
    points = np.random.default_rng(3).normal(size=(9, 2)) * [3.0, 1.0]
    apart = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    found = classical_scaling(apart, dimensions=3)
    assert np.linalg.norm(found[:, None] - found[None, :], axis=2) == pytest.approx(apart, abs=1e-6)
    axes = principal_axes(points)
    assert axes.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert abs(float(axes[:, 0] @ axes[:, 1])) < 1e-9 and axes[:, 0].std() > axes[:, 1].std()
    assert all(axis[np.abs(axis).argmax()] > 0 for axis in axes.T)
    starts = starting_points(apart, dimensions=2, restarts=3, seed=1)
    assert starts.shape == (3, 9, 2) and 0 < np.abs(starts[0] - found[:, :2]).max() < 0.1
    assert np.abs(starts[1] - starts[2]).max() > 0.1


def test_a_fit_says_whether_it_had_come_to_rest() -> None:
    points = np.random.default_rng(3).normal(size=(8, 2))
    apart = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    apart /= np.median(apart[apart > 0])
    starts = starting_points(np.ones((8, 8)) - np.eye(8), dimensions=2, restarts=4, seed=2)
    objective = Objective(alpha=1.0, heights=False, huber_delta=0.1)

    def fitted(iterations: int, rate: float) -> tuple[bool, float]:
        fit = fit_adam(
            apart, apart > 0, starts, objective=objective, iterations=iterations, learning_rate=rate,
            library="numpy", single=False,
        )  # fmt: skip
        return fit.converged, fit.loss

    settled, loss = fitted(800, 0.05)
    moving, start = fitted(10, 0.1)
    assert settled and not moving and loss < 0.05 * start
