"""What mixtures, caps and descents of a fit decide, against sums by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.embed import fit as fit_module
from netprobe.embed import methods, mix, small
from netprobe.embed.estimates.blocks import LEAST_DISTANCE
from netprobe.embed.methods import Candidates
from netprobe.embed.mix import Mix, choose, mixed, mixed_at
from netprobe.embed.prepare import LOOSE_CAP, Prepared
from netprobe.embed.records import EmbedOptions

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


def candidates_of(n: int, seed: int, **errors: float) -> tuple[Candidates, Matrix]:
    """Candidates that are each off the truth by a deviation of their own."""
    rng = np.random.default_rng(seed)
    truth = np.exp(rng.normal(0.0, 0.5, (n, n)))
    truth = np.triu(truth, 1) + np.triu(truth, 1).T
    tables = {}
    for name, error in errors.items():
        noise = np.triu(rng.normal(0.0, error, (n, n)), 1)
        tables[name] = np.log(truth + LEAST_DISTANCE) + noise + noise.T
    made = Candidates(log_distances=tables, heights=np.zeros(n), spread=np.zeros((n, n)))
    return made, truth


def test_weights_are_the_best_of_a_grid_where_hidden_pairs_speak_for_them() -> None:
    made, truth = candidates_of(14, 1, ultrametric=0.4, block=0.1, embedding=0.4)
    hidden = np.triu(np.ones((14, 14), dtype=bool), 1)
    pairs = np.nonzero(hidden)
    target = np.log(truth[pairs] + LEAST_DISTANCE)
    guesses = np.array([made.log_distances[name][pairs] for name in made.log_distances])
    limit = 2.0 * np.median(np.abs(target - np.array([0.7, 0.3, 0.0]) @ guesses))

    def loss(weights: Any) -> float:
        size = np.abs(target - np.array(weights) @ guesses)
        return float(np.where(size <= limit, size**2, 2 * limit * size - limit**2).mean())

    grid = [(a / 10, b / 10, (10 - a - b) / 10) for a in range(11) for b in range(11 - a)]
    best = min(grid, key=loss)
    found = choose(made, truth, hidden)
    assert tuple(found.weights.values()) == pytest.approx(best) and best[1] >= 0.7 and not found.all_heights
    usual = np.abs(target - np.array([0.7, 0.3, 0.0]) @ guesses)
    assert found.noise == pytest.approx(1.4826 * np.median(usual))
    # Fewer than twenty pairs decide no weights, and fewer than five no noise.
    for count, noise in ((19, True), (5, True), (4, False)):
        few = np.zeros_like(hidden)
        few[pairs[0][:count], pairs[1][:count]] = True
        said = choose(made, truth, few)
        assert said.weights == {"ultrametric": 0.7, "block": 0.3, "embedding": 0.0}
        assert (said.noise > 0) == noise and said.all_heights == (not noise)
    # A gain of a twentieth at least, and of three standard errors.
    alike, other = candidates_of(14, 2, ultrametric=0.1)
    true = np.log(other + LEAST_DISTANCE)
    off = alike.log_distances["ultrametric"] - true
    for share, taken in ((0.98, 0.0), (0.95, 1.0)):
        tables = {"ultrametric": true + off, "block": true + off, "embedding": true + share * off}
        assert choose(replace(alike, log_distances=tables), other, hidden).weights["embedding"] == taken
    wide, far = candidates_of(14, 3, ultrametric=0.3, block=0.3, embedding=0.3, kriging=0.3)
    few = np.zeros_like(hidden)
    assert choose(wide, far, few).weights == {
        "ultrametric": 0.0,
        "block": 0.0,
        "embedding": 0.0,
        "kriging": 1.0,
    }
    alone = replace(made, log_distances={"block": made.log_distances["block"]})
    assert choose(alone, truth, hidden).weights == {"block": 1.0}


def test_heights_stay_where_predictions_need_them_and_small_ones_go() -> None:
    made, truth = candidates_of(14, 4, block=0.05)
    hidden = np.triu(np.ones((14, 14), dtype=bool), 1)
    height = np.zeros(14)
    height[3] = 2.0
    slow = truth + height[:, None] + height[None, :]
    all_slow = truth + 4.0 - 4.0 * np.eye(14)
    assert not choose(
        replace(made, heights=height), slow, hidden
    ).all_heights  # of one host: the median stays
    assert choose(replace(made, heights=np.full(14, 2.0)), all_slow, hidden).all_heights is False
    small_ones = np.full(14, 0.02)
    raised = truth + small_ones[:, None] + small_ones[None, :]
    nearly, _ = candidates_of(14, 4, block=0.01)
    exact = replace(nearly, heights=small_ones)
    assert choose(exact, raised, hidden).all_heights  # what they explain is all that was left over
    limit = 2.0 * 0.1
    heights = np.array([0.1, 0.2, 0.3, 0.4, 1.0, -0.3, -0.1])
    assert mix._beyond(heights, limit) == pytest.approx([0.0, 0.0, 0.15, 0.4, 1.0, -0.15, 0.0])
    assert mix._beyond(heights, 0.0) is heights
    seven = replace(made, log_distances={"block": np.zeros((7, 7))}, heights=heights)
    told = Mix(weights={"block": 1.0}, all_heights=False, noise=0.1)
    both = np.array([0.0, 0.0, 0.15, 0.4, 1.0, -0.15, 0.0])
    wanted = 1.0 + both[:, None] + both[None, :] - LEAST_DISTANCE
    np.fill_diagonal(wanted, 0.0)
    assert mixed(seven, told) == pytest.approx(wanted)
    where = np.zeros((7, 7), dtype=bool)
    where[1, 4] = where[5, 2] = True
    assert mixed_at(seven, told, where) == pytest.approx([wanted[1, 4], wanted[5, 2]])
    # Heights take no more than nine tenths away.
    low = replace(seven, heights=np.full(7, -5.0))
    assert mixed(low, replace(told, all_heights=True))[0, 1] == pytest.approx(0.1 - LEAST_DISTANCE)


def test_each_half_of_the_hidden_pairs_is_judged_by_what_the_other_half_chose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, truth = candidates_of(8, 5, block=0.2, embedding=0.3)
    ordered = Prepared(distance=truth, measured=~np.eye(8, dtype=bool), scale_s=1.0)
    scored = np.triu(np.random.default_rng(0).random((8, 8)) < 0.6, 1)
    asked: list[Matrix] = []

    def chosen(_made: Candidates, distance: Matrix, hidden: Matrix) -> Mix:
        assert distance is ordered.distance
        asked.append(hidden.copy())
        share = float(len(asked) == 1)
        return Mix(weights={"block": share, "embedding": 1.0 - share}, noise=float(len(asked)))

    monkeypatch.setattr(fit_module, "choose", chosen)
    trial = fit_module._judged(made, ordered, scored)
    first, second, whole = asked
    assert (
        np.array_equal(whole, scored)
        and np.array_equal(first | second, scored)
        and not (first & second).any()
    )
    assert abs(int(first.sum()) - int(second.sum())) <= 1 and trial.mix.noise == 3.0
    guess = {
        name: np.maximum(np.exp(table) - LEAST_DISTANCE, 0.0) for name, table in made.log_distances.items()
    }
    # What the first half chose (blocks) says something of the second half only, and the reverse.
    wanted = np.where(second, guess["block"], guess["embedding"])[scored]
    assert trial.error == pytest.approx(np.log(truth[scored] / wanted))
    assert trial.median_relative_error == pytest.approx(
        np.median(np.abs(wanted - truth[scored]) / truth[scored])
    )
    monkeypatch.setattr(fit_module, "choose", choose)
    tried = small.Tried(candidates=made, hidden=scored)
    in_turn = fit_module.judged_in_turn(tried, ordered)
    assert in_turn.mix.noise == pytest.approx(1.4826 * np.median(np.abs(in_turn.error)))
    few = np.zeros_like(scored)
    few[0, 1:5] = True
    said = fit_module.judged_in_turn(small.Tried(candidates=made, hidden=few), ordered)
    assert said.median_relative_error is None and said.mix.noise > 0
    assert len(said.error) == len(said.doubt) == 0


@pytest.mark.parametrize(
    ("tight", "loose", "taken"), [(0.1, 0.079, True), (0.1, 0.081, False), (0.1, 0.2, False)]
)
def test_the_loose_cap_is_taken_for_a_fifth_less_error_on_hidden_pairs(
    tight: float, loose: float, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered = working(70, 1)
    errors = {1.25: tight, LOOSE_CAP: loose}
    monkeypatch.setattr(fit_module, "winsorise", lambda rest, *, factor: (rest, factor))

    def guessed(given: tuple[Prepared, float]) -> Matrix:
        rest, factor = given
        assert rest.measured.sum() < ordered.measured.sum()
        return ordered.distance * math.exp(errors[factor])

    monkeypatch.setattr(fit_module, "smooth", guessed)
    options = EmbedOptions()
    assert fit_module.fitting_cap(ordered, options, noise=0.0, seed=1) == (
        (LOOSE_CAP if taken else 1.25),
        None,
    )
    for other in (EmbedOptions(method="plink"), EmbedOptions(winsorise=4.0), EmbedOptions(held_out=0.0)):
        assert fit_module.fitting_cap(ordered, other, noise=0.0, seed=1) == (other.winsorise, None)


@pytest.mark.parametrize(
    ("n", "wide", "near", "noise", "taken"),
    [
        (8, 9.0, 0.1, 0.0, True), (9, 0.084, 0.1, 0.0, True), (9, 0.086, 0.1, 0.0, False),
        (9, 0.124, 0.1, 0.03, True), (9, 0.126, 0.1, 0.03, False), (9, 0.124, 0.1, 0.04, False),
        (9, 0.124, 0.1, 0.0, False), (9, None, 0.1, 0.0, True),
    ],
)  # fmt: skip
def test_a_small_fleet_is_read_as_what_predicts_its_hidden_pairs(
    n: int, wide: float | None, near: float, noise: float, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered = working(n, 1)
    asked: list[tuple[Any, float]] = []

    def tried(_ordered: Prepared, denoiser: Any, options: EmbedOptions, *, seed: int) -> Any:
        assert seed == 6
        asked.append((denoiser, options.winsorise))
        return denoiser

    left = {methods.ensemble: wide, methods.trees_and_blocks: near}
    monkeypatch.setattr(small, "try_in_turn", tried)
    monkeypatch.setattr(small, "_leftover", lambda found, _ordered: left[found])
    cap, found = small.small_cap(ordered, EmbedOptions(), noise=noise, seed=6)
    assert (cap, found) == ((LOOSE_CAP, methods.ensemble) if taken else (1.25, None))
    assert asked[0] == (methods.ensemble, LOOSE_CAP)
    if n > 8 and wide is not None:
        assert asked[1] == (methods.trees_and_blocks, 1.25)
    cap, found = small.small_cap(ordered, EmbedOptions(method="block"), noise=noise, seed=6)
    assert (cap, found) == ((LOOSE_CAP, methods.block) if taken else (1.25, None))


def test_blocks_near_what_the_forest_puts_near_are_the_forests() -> None:
    tree = np.array([[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 1.0, 2.0], [1.0, 1.0, 0.0, 1.5], [2.0, 2.0, 1.5, 0.0]])
    block = tree + 8.0
    measured = ~np.eye(4, dtype=bool)
    measured[0, 2] = measured[2, 0] = False
    found = methods._blocks_of_the_far({"ultrametric": tree, "block": block}, measured)
    # Nearest 0, typical (the median of 0, 1, 2, 1, 2, 1.5) 1.25: shares 0, (1 / 1.25)^2, 1.
    assert found[0, 1] == 0.0 and found[1, 2] == pytest.approx(1.0 + 0.64 * 8.0) and found[0, 3] == 10.0
    assert found[0, 2] == 9.0
    flat = np.ones((4, 4))
    assert methods._blocks_of_the_far({"ultrametric": flat, "block": block}, measured) is block
