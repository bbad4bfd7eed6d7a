"""Fleets of 3 to 60 hosts: exact readings are kept, hidden links predicted, and a data centre's noise still removed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench._datacentre import REPORTED, Matrix, make_fleet, paia
from bench._real import (
    SOURCES,
    by_paths,
    by_scaling,
    by_springs,
    draw,
    hidden_error,
    joined,
    planetlab,
    wonderproxy,
)
from netprobe.embed import EmbedOptions, fit_embedding
from netprobe.embed.prepare import LOOSE_CAP, hold_out_in_turn
from netprobe.plan import ring_cost, solve_ring
from tests.properties import LONG, examples

# Neither the numbers that methods were chosen on nor those that bench/small.py reports.
FIRST = 5000


def cities(n: int, seed: int) -> Matrix:
    """(n, n) directed seconds between random points of a plane, each with an access link; directions differ by 1 %."""
    rng = np.random.default_rng(seed)
    points, access = rng.uniform(0, 0.1, (n, 2)), rng.gamma(2.0, 0.004, n)
    length = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2)) + access[:, None] + access[None, :]
    readings = length * np.exp(rng.normal(0.0, 0.004, (n, n)))
    np.fill_diagonal(readings, 0.0)
    return np.asarray(readings)


def off_the_mean(readings: Matrix) -> Matrix:
    """(M,) how far the map of readings is from the mean of both directions, relative to that."""
    pairs, both = np.triu_indices(len(readings), 1), joined(readings)
    found = fit_embedding(readings, options=EmbedOptions(), seed=0).distance_s
    return np.asarray(np.abs(found[pairs] / both[pairs] - 1))


@pytest.mark.parametrize("n", [3, 4, 5, 6, 8, 9, 12, 16, 20, 30])
def test_exact_readings_between_cities_are_kept_in_a_fleet_of_any_size(n: int) -> None:
    assert np.median(off_the_mean(cities(n, seed=n))) < 0.01
    symmetric = cities(n, seed=n + 100)
    assert np.median(off_the_mean((symmetric + symmetric.T) / 2)) < 0.01


def test_a_link_of_its_own_length_in_a_small_fleet_is_kept_and_the_ring_goes_round_it() -> None:
    """Four hosts of PlanetLab: both pairs that are like the longest one are shorter, and the detour is as well."""
    readings = np.array(
        [
            [0.0, 31.9, 184.0, 29.0],
            [31.9, 0.0, 281.7, 31.1],
            [184.0, 281.7, 0.0, 162.3],
            [29.0, 31.1, 162.3, 0.0],
        ]
    )
    found = fit_embedding(readings, options=EmbedOptions(), seed=0).distance_s
    assert np.allclose(found, readings, rtol=1e-6)
    assert ring_cost(readings, solve_ring(found).order) == pytest.approx(31.9 + 184.0 + 162.3 + 31.1)


def test_a_fleet_whose_pairs_cannot_be_hidden_keeps_its_readings() -> None:
    readings = cities(7, seed=1)
    spokes = np.full_like(readings, np.nan)
    spokes[0], spokes[:, 0] = readings[0], readings[:, 0]
    found = fit_embedding(spokes, options=EmbedOptions(), seed=0).distance_s
    both = (readings[0] + readings[:, 0]) / 2
    assert np.allclose(found[0, 1:], both[1:], rtol=0.01)
    assert np.isfinite(found).all()


def test_the_error_on_hidden_pairs_of_a_small_fleet_is_said_and_is_right() -> None:
    readings = cities(10, seed=2)
    fit = fit_embedding(readings, options=EmbedOptions(), seed=0)
    assert fit.cap == LOOSE_CAP
    assert fit.held_out_pairs == 45
    assert (
        fit.held_out_median_relative_error is not None and 0.005 < fit.held_out_median_relative_error < 0.15
    )
    assert (
        fit_embedding(readings[:3, :3], options=EmbedOptions(), seed=0).held_out_median_relative_error is None
    )


@pytest.mark.parametrize("n", [21, 30, 60])
def test_hidden_links_between_cities_are_predicted_as_well_as_any_peer_does(n: int) -> None:
    readings = cities(n, seed=n)
    rng = np.random.default_rng(n)
    readings *= np.exp(np.triu(rng.exponential(0.2, (n, n)), 1) + np.triu(rng.exponential(0.2, (n, n)), 1).T)
    hidden = np.triu(rng.random((n, n)) < 0.2, 1)
    given_, both = np.where(hidden | hidden.T, np.nan, readings), joined(readings)
    fit = fit_embedding(given_, options=EmbedOptions(), seed=0)
    assert fit.cap == LOOSE_CAP
    assert fit.held_out_pairs == np.isfinite(given_[np.triu_indices(n, 1)]).sum()  # each was hidden in turn
    ours = hidden_error(fit.distance_s, both, hidden)
    assert ours <= min(hidden_error(by(given_), both, hidden) for by in (by_scaling, by_paths)) + 0.01


@pytest.mark.parametrize("cell", ["N1", "N3"])
def test_the_noise_of_a_small_data_centre_is_still_removed(cell: str) -> None:
    scores = []
    for seed in range(FIRST, FIRST + 3):
        fleet = make_fleet(12, placement="packed", cell=cell, seed=seed, family=REPORTED)  # type: ignore[arg-type]
        fit = fit_embedding(fleet.rtt_s, options=EmbedOptions(), seed=0)
        both = (fleet.rtt_s + fleet.rtt_s.T) / 2
        scores.append((paia(fleet.hops, both), paia(fleet.hops, fit.distance_s), fit.cap < LOOSE_CAP))
    raw, ours, tight = np.array(scores).mean(axis=0)
    assert tight > 0.6
    assert ours > raw + 0.05


@given(
    n=st.integers(2, 14), folds=st.integers(1, 10), seed=st.integers(0, 2**32 - 1), share=st.floats(0.0, 1.0)
)
@examples(100)
def test_pairs_are_hidden_once_at_most_and_no_host_loses_all(
    n: int, folds: int, seed: int, share: float
) -> None:
    measured = np.triu(np.random.default_rng(seed).random((n, n)) < share, 1)
    measured = measured | measured.T
    chosen = hold_out_in_turn(measured, folds=folds, seed=seed)
    times = np.sum([np.zeros((n, n), dtype=int), *(fold.astype(int) for fold in chosen)], axis=0)
    assert times.max() <= 1 and not times[~measured].any()
    degree = measured.sum(axis=1)
    for fold in chosen:
        assert np.array_equal(fold, fold.T) and fold.any()
        assert ((degree - fold.sum(axis=1) >= 1) | (degree == 0)).all()
    # Where hosts have pairs enough, each pair has its turn.
    assert (times[measured] == 1).all() or degree[degree > 0].min() < 2


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_small_fleets_of_real_cities_are_mapped_as_well_as_any_peer_does(
    source: str, data_folder: Path
) -> None:
    matrices = {0: wonderproxy(data_folder)} if source == "WonderProxy" else planetlab(data_folder)
    ours, springs, scaling, paths, seen, rings = [], [], [], [], [], []
    for number in range(FIRST, FIRST + (12 if LONG else 4)):
        one = draw(matrices, source, 10, number)  # type: ignore[arg-type]
        given_, both = one.given, one.both
        found = fit_embedding(given_, options=EmbedOptions(), seed=0).distance_s
        ours.append(hidden_error(found, both, one.hidden))
        springs.append(hidden_error(by_springs([given_], number)[0], both, one.hidden))
        scaling.append(hidden_error(by_scaling(given_), both, one.hidden))
        paths.append(hidden_error(by_paths(given_), both, one.hidden))
        seen.append(np.median(off_the_mean(one.readings)))
        whole = fit_embedding(one.readings, options=EmbedOptions(), seed=0).distance_s
        rings.append(ring_cost(both, solve_ring(whole).order) / ring_cost(both, solve_ring(both).order))
    assert np.median(seen) < 0.01
    assert np.mean(ours) <= min(map(np.mean, (springs, scaling, paths))) + 0.02
    assert np.median(rings) < 1.001 and np.mean(rings) < 1.02
