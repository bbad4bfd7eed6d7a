"""Both sides of every limit of a fit, and what its parts are asked: stand-ins keep it, plain loops repeat it."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.embed import EmbedOptions, fit_embedding, methods, prepare, small
from netprobe.embed import fit as fit_module
from netprobe.embed.coordinates.adam import AdamFit
from netprobe.embed.estimates import blocks
from netprobe.embed.estimates.blocks import LEAST_DISTANCE, row_differences, smooth
from netprobe.embed.methods import Candidates
from netprobe.embed.mix import Mix
from netprobe.embed.prepare import LOOSE_CAP, Prepared, hold_out_in_turn, winsorise
from tests.embed.test_by_reference import working
from tests.embed.test_parts import symmetric

Matrix = NDArray[Any]


def capped(prepared: Prepared, factor: float, through: list[int]) -> Matrix:
    """Pair by pair: ``factor`` times the k-th smallest detour, k half of the root of how many there are."""
    n = len(prepared.distance)
    bounds = np.where(prepared.measured, prepared.distance, np.inf)
    nearest = bounds.min(axis=1)
    excess = np.maximum(nearest - np.median(nearest), 0.0)
    kth = max(1, round(math.sqrt(len(through)) / 2))
    found = prepared.distance.copy()
    for i, j in np.argwhere(prepared.measured):
        legs = sorted(max(bounds[i, v] + excess[j], bounds[j, v] + excess[i]) for v in through)
        found[i, j] = min(found[i, j], factor * legs[kth - 1])
    assert n - 2 >= kth
    return found


@pytest.mark.parametrize(("n", "share"), [(3, 1.0), (4, 1.0), (8, 0.7), (9, 1.0), (26, 0.8)])
def test_caps_of_fleets_of_any_size_and_through_some_hosts_alone(
    n: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = symmetric(n, n, measured_share=share)
    assert winsorise(prepared, factor=1.05).distance == pytest.approx(
        capped(prepared, 1.05, list(range(n))), rel=1e-12
    )
    if n > 8:
        # Of many hosts some are looked through, from the first to the last.
        monkeypatch.setattr(prepare, "_INTERMEDIATES", 8)
        some = np.linspace(0, n - 1, 8).astype(int).tolist()
        assert winsorise(prepared, factor=1.05).distance == pytest.approx(
            capped(prepared, 1.05, some), rel=1e-12
        )
        monkeypatch.setattr(prepare, "_INTERMEDIATES", n)
        assert winsorise(prepared, factor=1.05).distance == pytest.approx(
            capped(prepared, 1.05, list(range(n))), rel=1e-12
        )


def test_a_distance_just_above_its_cap_is_capped_and_two_hosts_have_none() -> None:
    distance = np.ones((9, 9)) - np.eye(9)
    distance[2, 5] = distance[5, 2] = 1.25 * (1 + 3e-6)
    prepared = Prepared(distance=distance, measured=distance > 0, scale_s=2.0)
    found = winsorise(prepared, factor=1.25)
    assert found.distance[2, 5] == found.distance[5, 2] == 1.25 and found.scale_s == 2.0
    two = Prepared(distance=distance[:2, :2], measured=distance[:2, :2] > 0, scale_s=1.0)
    assert winsorise(two, factor=1.0) is two


def test_a_hole_is_averaged_over_wider_and_wider_neighbourhoods() -> None:
    """Twice as wide each time, until similar pairs weigh a half; what is never enough is the average of all."""
    widened = 0
    for seed in range(12):
        n = 5 + seed % 7
        prepared = working(n, seed, missing=0.6 + 0.02 * seed, racks=4)
        weight = prepared.measured.astype(float)
        table = np.where(prepared.measured, np.log(prepared.distance + LEAST_DISTANCE), 0.0)
        difference = blocks._with_witnesses(row_differences(prepared)[0], prepared.measured)
        floor = blocks._noise_floor(difference)
        common = max(float(np.median(weight.sum(axis=1))) * weight.mean(), 2.0)
        found = smooth(prepared)
        for i, j in np.argwhere(np.triu(~prepared.measured, 1)):
            width, wide = floor * (2.0 / common) ** 0.25 * 1.2, 0
            while True:
                kernel = np.exp(-0.5 * np.maximum(difference**2 - floor**2, 0.0) / width**2)
                own = weight * np.outer(kernel[i], kernel[j])
                if own.sum() >= 0.5 or width >= 100.0:
                    break
                width, wide = 2 * width, wide + 1
            if own.sum() < 0.5:
                own = weight
            widened += wide > 0
            mean = float((own * table).sum() / own.sum())
            assert found[i, j] == pytest.approx(math.exp(mean) - LEAST_DISTANCE, rel=1e-6), (seed, i, j)
    assert widened > 20


def test_witnesses_are_asked_in_small_fleets_and_where_half_is_missing() -> None:
    """Of large fleets only where half of the pairs or less were measured, and then 64 of them."""
    for n, share, asked in ((64, 0.9, True), (65, 0.9, False), (65, 0.4, True)):
        measured = symmetric(n, 1, measured_share=share).measured
        difference = symmetric(n, 2).distance
        found = blocks._with_witnesses(difference, measured)
        assert (found is not difference) == asked
        if asked:
            witnesses = np.arange(n) if n <= 64 else np.linspace(0, n - 1, 64).astype(int)
            for i, j in [(0, 1), (2, n - 1), (n // 2, 7), (n - 2, 3)]:
                apart = sorted(abs(difference[i, v] - difference[j, v]) for v in witnesses)
                wanted = difference[i, j] if measured[i, j] else max(difference[i, j], apart[-2])
                assert found[i, j] == found[j, i] == pytest.approx(wanted)


def test_the_embedding_is_fitted_with_the_library_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(methods, "resolve", lambda backend: f"library of {backend}")
    monkeypatch.setattr(methods, "fit_adam", lambda *_given, **options: asked.append(options))
    options = EmbedOptions(backend="torch", restarts=7, dimensions=2)
    methods._fit(symmetric(5, 1), options=options, seed=3, huber_delta=None)
    assert asked[0]["library"] == "library of torch" and asked[0]["objective"].huber_delta is None


def test_an_empty_mix_and_the_options_are_those_that_are_documented() -> None:
    assert Mix() == Mix(weights={}, all_heights=True, noise=0.0)
    said = EmbedOptions()
    assert (said.alpha, said.dimensions, said.restarts, said.iterations) == (1.0, 3, 3, 300)
    assert (said.learning_rate, said.held_out, said.huber_delta, said.winsorise) == (0.05, 0.1, 0.1, 1.25)
    heights = [
        EmbedOptions(method=method, heights=asked).uses_heights
        for method in ("huber", "plink") for asked in (None, True, False)
    ]  # fmt: skip
    assert heights == [True, True, False, False, True, False]


def numbered(asked: list[EmbedOptions]) -> Any:
    """A denoiser whose every answer is how often it was asked."""

    def denoiser(rest: Prepared, *, options: EmbedOptions, seed: int) -> Candidates:
        assert seed == 9
        asked.append(options)
        table = np.where(rest.measured, -1.0, float(len(asked)))
        n = len(table)
        return Candidates(log_distances={"block": table}, heights=np.ones(n), spread=10 * table)

    return denoiser


@pytest.mark.parametrize("iterations", [119, 120, 121])
def test_what_folds_say_of_a_pair_is_from_the_one_that_did_not_see_it(iterations: int) -> None:
    ordered = symmetric(9, 4, measured_share=0.8)
    ordered.distance[0, 1] = ordered.distance[1, 0] = 0.0
    asked: list[EmbedOptions] = []
    options = EmbedOptions(iterations=iterations)
    found = small.try_in_turn(ordered, numbered(asked), options, seed=9)
    folds = hold_out_in_turn(ordered.measured, folds=8, seed=9)
    assert found is not None and len(asked) == len(folds) >= 8
    assert {one.iterations for one in asked} == {min(iterations, 120)}
    for number, fold in enumerate(folds, 1):
        scored = np.triu(fold) & (ordered.distance > 0)
        assert (found.candidates.log_distances["block"][fold] == number).all()
        assert (found.candidates.spread[fold] == 10 * number).all()
        assert found.hidden[scored].all()
    every = np.triu(np.any(folds, axis=0)) & (ordered.distance > 0)
    assert np.array_equal(found.hidden, every) and not found.hidden[0, 1]
    assert not found.candidates.heights.any()
    # The median size of what each hidden pair's own fold is off.
    off = np.abs(
        np.log(ordered.distance[every] + LEAST_DISTANCE) - found.candidates.log_distances["block"][every]
    )
    assert small._leftover(found, ordered) == pytest.approx(np.median(off))
    assert small._leftover(None, ordered) is None


def test_pairs_that_cannot_be_hidden_are_tried_by_no_fold() -> None:
    nothing = Prepared(distance=np.zeros((2, 2)), measured=~np.eye(2, dtype=bool), scale_s=1.0)
    assert small.try_in_turn(nothing, numbered([]), EmbedOptions(), seed=9) is None
    # Without the only pair above 0 nothing is left to fit.
    one = symmetric(4, 1)
    one.distance[:] = 0.0
    one.distance[0, 1] = one.distance[1, 0] = 1.0
    found = small.try_in_turn(one, numbered([]), EmbedOptions(), seed=9)
    assert found is None


@pytest.mark.parametrize(
    ("n", "winsorise_at", "method", "mends"),
    [(60, LOOSE_CAP, "ensemble", False), (61, LOOSE_CAP, "ensemble", True), (9, 4.0, "ensemble", False),
     (61, 2.9, "ensemble", None), (61, LOOSE_CAP, "block", None)],
)  # fmt: skip
def test_readings_count_in_the_wide_area_and_disturbed_ones_are_mended_in_large_fleets(
    n: int, winsorise_at: float, method: Any, mends: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered, asked = symmetric(n, 1), list[Any]()
    made = Candidates(log_distances={"block": np.zeros((n, n))}, heights=np.zeros(n), spread=np.zeros((n, n)))

    def shrunk(prepared: Prepared, distance: Matrix, **how: Any) -> Matrix:
        asked.append((prepared, how))
        return distance * 2

    monkeypatch.setattr(fit_module, "shrunk_to_readings", shrunk)
    monkeypatch.setattr(fit_module, "winsorise", lambda given, *, factor: (given, factor))
    mix, options = Mix(weights={"block": 1.0}, noise=0.3), EmbedOptions(method=method, winsorise=winsorise_at)
    found = fit_module.finished(ordered, made, mix, options, noise=0.2)
    times = 1.0 if mends is None else 2.0
    assert found[0, 1] == pytest.approx(times * (1.0 - LEAST_DISTANCE))
    if mends is None:
        assert not asked
    else:
        assert asked == [((ordered, winsorise_at), {"error": 0.3, "noise": 0.2, "mends": mends})]


def test_who_decides_the_cap_of_a_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds up to 60 hosts; above, a tenth of the pairs, unless these are fewer than 20: then folds up to 64."""
    monkeypatch.setattr(fit_module, "small_cap", lambda *_given, noise, seed: ("folds", noise, seed))
    shares: list[tuple[int, float, int]] = []
    count = [20]

    def hidden(measured: Matrix, *, share: float, seed: int) -> Matrix:
        shares.append((len(measured), share, seed))
        one = np.zeros_like(measured)
        one[0, 1 : 1 + count[0]] = True
        return one | one.T

    monkeypatch.setattr(fit_module, "hold_out", hidden)
    monkeypatch.setattr(fit_module, "smooth", lambda rest: np.ones_like(rest.distance))

    def decided(n: int) -> Any:
        shares.clear()
        return fit_module.fitting_cap(symmetric(n, 1), EmbedOptions(held_out=0.2), noise=0.5, seed=3)

    folds = ("folds", 0.5, 3)
    assert decided(2) == (1.25, None) and decided(3) == folds and decided(60) == folds
    assert decided(61)[1] is None and shares == [(61, 0.2, 3)]
    count[0] = 19
    assert decided(64) == folds and decided(65) == (1.25, None)
    decided(256)
    assert shares[0][0] == 256
    decided(300)
    assert shares[0][0] == 256


def test_a_second_run_beside_the_first_in_large_fleets_and_none_for_few_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, bool, Any]] = []
    main = threading.get_ident()

    def denoiser(given: Prepared, *, options: EmbedOptions, seed: int) -> Any:
        seen.append(("denoised", threading.get_ident() == main, (len(given.distance), options.method, seed)))
        n = len(given.distance)
        return Candidates(
            log_distances={"block": np.zeros((n, n))}, heights=np.zeros(n), spread=np.zeros((n, n))
        )

    monkeypatch.setattr(fit_module, "DENOISERS", {"block": denoiser})
    monkeypatch.setattr(fit_module, "with_coordinates", lambda found, *, options, seed: (found, seed))
    monkeypatch.setattr(fit_module, "_judged", lambda *given: "judged")
    options = EmbedOptions(method="block")
    for n, own in ((127, True), (128, False)):
        seen.clear()
        found: Any = fit_module.run(symmetric(n, 1), options, seed=4)
        assert (
            found[0][1] == 4 and found[1] == "judged" and [what for *_, what in seen] == [(n, "block", 4)] * 2
        )
        assert sum(here for _, here, _ in seen) == 1 + own
    # Five hosts have ten pairs, of which a tenth is one: too few to judge by.
    few = symmetric(5, 1)
    _, trial = fit_module.run(few, options, seed=4)
    assert trial.median_relative_error is None and trial.error.shape == trial.doubt.shape == (0,)
    hidden = np.zeros((12, 12), dtype=bool)
    for count, told in ((4, False), (5, True)):
        hidden[0, 1 : 1 + count] = hidden[1 : 1 + count, 0] = True
        monkeypatch.setattr(fit_module, "hold_out", lambda *_given, **_how: hidden)
        judged: Any = fit_module.run(symmetric(12, 1), options, seed=4)[1]
        assert (judged == "judged") == told


def test_the_stress_of_a_drawing_is_kruskals_and_of_nothing_none() -> None:
    source = symmetric(6, 3, measured_share=0.8)
    model = symmetric(6, 5).distance
    at = source.measured
    wanted = math.sqrt(((model[at] - source.distance[at]) ** 2).sum() / (source.distance[at] ** 2).sum())
    assert fit_module._stress(model, source) == pytest.approx(wanted)
    assert fit_module._stress(model, replace(source, distance=np.zeros((6, 6)))) == 0.0


@pytest.mark.parametrize("n", [1, 3])
def test_hosts_at_no_distance_have_nothing_to_fit(n: int) -> None:
    found = fit_embedding(np.zeros((n, n)), options=EmbedOptions(winsorise=2.0, dimensions=2), seed=0)
    assert not found.distance_s.any() and not found.coordinates.any() and not found.heights_s.any()
    assert found.coordinates.shape == (n, 2) and found.heights_s.shape == (n,)
    assert (found.stress, found.held_out_median_relative_error, found.held_out_pairs) == (0.0, None, 0)
    assert found.interval_factor is None and found.weights == {} and found.cap == 2.0
    assert found.converged is True and found.backend == "numpy" and not found.unidentified.any()


@pytest.mark.parametrize("method", ["huber", "block"])
def test_a_fit_is_said_in_seconds_in_the_order_that_was_given(
    method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points and heights of the embedding times the unit, which is to the power of 1 / alpha for points."""
    points = np.random.default_rng(2).normal(size=(5, 2))
    own, relative = np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.array([0.0, -0.2, 0.1, 0.4, 0.2])
    readings = symmetric(5, 8).distance * 1e-4
    ready = prepare.prepare(prepare.check_matrix(readings), larger_direction=False)
    order = prepare.canonical_order(ready)
    made = Candidates(
        log_distances={"block": np.log(prepare.reordered(ready, order).distance + LEAST_DISTANCE)},
        heights=relative, spread=np.zeros((5, 5)),
        fit=AdamFit(coordinates=points, heights=own, loss=0.0, converged=False),
        fitted=prepare.reordered(ready, order),
    )  # fmt: skip
    trial = fit_module.Trial(
        mix=Mix(weights={"block": 1.0}), median_relative_error=0.2, error=np.full(9, 0.1), doubt=np.zeros(9)
    )
    monkeypatch.setattr(fit_module, "run", lambda *_given, **_how: (made, trial))
    monkeypatch.setattr(fit_module, "with_coordinates", lambda found, **_how: found)
    monkeypatch.setattr(fit_module, "fitting_cap", lambda *_given, **_how: (1.7, None))
    monkeypatch.setattr(
        fit_module, "mixed", lambda found, _mix: np.exp(found.log_distances["block"]) - LEAST_DISTANCE
    )
    found = fit_embedding(readings, options=EmbedOptions(method=method, alpha=2.0, dimensions=2), seed=0)
    assert found.distance_s == pytest.approx(readings, abs=1e-12) and found.cap == 1.7 and not found.converged
    back = np.argsort(order)
    wanted = own if method == "huber" else relative - relative.min()
    assert found.heights_s == pytest.approx(wanted[back] * ready.scale_s)
    apart = np.linalg.norm(found.coordinates[:, None] - found.coordinates[None], axis=2)
    true = np.linalg.norm(points[back][:, None] - points[back][None], axis=2)
    assert apart == pytest.approx(true * ready.scale_s**0.5)
    assert found.held_out_median_relative_error == 0.2 and found.held_out_pairs == 9
    assert found.interval_factor is not None and found.interval_factor[0, 1] == pytest.approx(math.exp(0.1))
