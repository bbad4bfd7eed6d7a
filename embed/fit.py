"""The fit as a whole: a run on all pairs, one that does not see some, and what the second says of the first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.medians import median
from netprobe.embed.coordinates.arrays import resolve
from netprobe.embed.coordinates.starts import principal_axes
from netprobe.embed.estimates.blocks import smooth
from netprobe.embed.estimates.kriging import direction_noise, shrunk_to_readings
from netprobe.embed.interval import interval_factor
from netprobe.embed.methods import DENOISERS, Candidates, embedded_model, with_coordinates
from netprobe.embed.mix import Mix, choose, mixed, mixed_at
from netprobe.embed.prepare import (
    LOOSE_CAP,
    Prepared,
    canonical_order,
    check_matrix,
    hold_out,
    prepare,
    reordered,
    unidentified_pairs,
    winsorise,
    without,
)
from netprobe.embed.records import Embedding, EmbedOptions
from netprobe.embed.small import Tried, small_cap

# Fewer held-out pairs than this say nothing about a median.
_FEWEST_HELD_OUT = 5
# The loose cap is taken when it leaves less than this share of the error.
_MUCH_BETTER = 0.8
_FEWEST_FOR_A_CAP = 20
_ENOUGH_FOR_A_CAP = 256
# Folds decide better than one tenth does, and cost a run each: up to so many hosts seconds at most.
_ALWAYS_IN_TURN = 60
# So many hosts with so few readings are a data centre's budget.
_MOST_IN_TURN = 64
# In a smaller fleet the interpreter is the bottleneck, and two threads wait for each other.
_FEWEST_AT_ONCE = 128


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """What the held-out pairs decided: the mix for the final run, their errors (log), and their doubt."""

    mix: Mix
    median_relative_error: float | None
    error: NDArray[np.float64]
    doubt: NDArray[np.float64]


def fit_embedding(distance_s: NDArray[np.float64], *, options: EmbedOptions, seed: int) -> Embedding:
    """Denoise and complete a matrix of measured distances, and place the hosts.

    distance_s: (N, N) ``[src, dst]`` in seconds (any unit does: the result scales with it), NaN where
    missing; the diagonal is not looked at. Zero is a real distance. One missing direction is taken from the
    other. Any N from 1 on.

    `EmbedOptions` and docs/mapping.md distinguish the methods. The result depends on the matrix, the options
    and the seed only, and not on the order of the hosts.

    Raises InputError for a bad matrix, or a host without any measured distance; PlatformError
    when torch was requested and is not installed.
    """
    matrix = check_matrix(distance_s)
    prepared = prepare(matrix, larger_direction=options.method == "plink")
    library = resolve(options.backend)
    if len(matrix) == 1 or not prepared.distance.any():
        return _trivial(prepared, options, library)
    order = canonical_order(prepared)
    ordered = reordered(prepared, order)
    noise = direction_noise(matrix)
    cap, tried = fitting_cap(ordered, options, noise=noise, seed=seed)
    options = replace(options, winsorise=cap)
    candidates, trial = run(ordered, options, seed=seed, tried=tried)
    candidates = with_coordinates(candidates, options=options, seed=seed)
    fit = candidates.fit
    assert fit is not None and candidates.fitted is not None
    own = options.method in ("huber", "plink")
    heights = (
        fit.heights if own or not candidates.heights.any() else candidates.heights - candidates.heights.min()
    )
    distance = finished(ordered, candidates, trial.mix, options, noise=noise)
    factor = interval_factor(trial.error, trial.doubt, candidates.spread, noise=trial.mix.noise)
    back = np.argsort(order)
    both = np.ix_(back, back)
    return Embedding(
        distance_s=distance[both] * prepared.scale_s,
        coordinates=principal_axes(fit.coordinates)[back] * prepared.scale_s ** (1.0 / options.alpha),
        heights_s=heights[back] * prepared.scale_s,
        stress=_stress(embedded_model(fit, options.alpha), candidates.fitted),
        held_out_median_relative_error=trial.median_relative_error,
        held_out_pairs=len(trial.error),
        interval_factor=None if factor is None else factor[both],
        weights=dict(trial.mix.weights),
        cap=cap,
        backend=library,
        converged=fit.converged,
        unidentified=unidentified_pairs(prepared.measured),
    )


def finished(
    ordered: Prepared, candidates: Candidates, mix: Mix, options: EmbedOptions, *, noise: float
) -> NDArray[np.float64]:
    """(N, N) distances of a mix; in the wide area measured links keep what of their readings is no ``noise``."""
    distance = mixed(candidates, mix)
    if options.winsorise < LOOSE_CAP or options.method != "ensemble":
        return distance
    capped = winsorise(ordered, factor=options.winsorise)
    # A small fleet has too few similar pairs to call a reading disturbed by: it may be the link's own length.
    mends = len(distance) > _ALWAYS_IN_TURN
    return shrunk_to_readings(capped, distance, error=mix.noise, noise=noise, mends=mends)


def fitting_cap(
    ordered: Prepared, options: EmbedOptions, *, noise: float, seed: int
) -> tuple[float, Tried | None]:
    """The cap of outliers for this fleet: the one requested, or a loose one where paths follow no tree.

    A cap rests on the ultrametric inequality. Where it does not hold, at all as between cities, the cap
    itself spoils the distances, and block smoothing with a loose one predicts hidden pairs far better.

    noise: see `small_cap`, which decides for fleets of up to 60 hosts, and up to 64 where the hidden pairs are too few;
    its folds are the second result.
    """
    if options.method == "plink" or options.winsorise >= LOOSE_CAP or options.held_out == 0.0:
        return options.winsorise, None
    n = len(ordered.distance)
    if n < 3:
        return options.winsorise, None
    if n <= _ALWAYS_IN_TURN:
        return small_cap(ordered, options, noise=noise, seed=seed)
    some = np.unique(np.linspace(0, n - 1, min(n, _ENOUGH_FOR_A_CAP)).round().astype(np.intp))
    part = reordered(ordered, some)
    hidden = hold_out(part.measured, share=options.held_out, seed=seed)
    scored = np.triu(hidden) & (part.distance > 0)
    rest = without(part, hidden)
    if int(scored.sum()) < _FEWEST_FOR_A_CAP or not rest.distance.any():
        if n <= _MOST_IN_TURN:
            return small_cap(ordered, options, noise=noise, seed=seed)
        return options.winsorise, None
    errors = []
    for cap in (options.winsorise, LOOSE_CAP):
        guess = smooth(winsorise(rest, factor=cap))[scored]
        errors.append(float(median(np.abs(np.log(np.maximum(guess, 1e-9) / part.distance[scored])))))
    return LOOSE_CAP if errors[1] < _MUCH_BETTER * errors[0] else options.winsorise, None


def run(
    ordered: Prepared, options: EmbedOptions, *, seed: int, tried: Tried | None = None
) -> tuple[Candidates, Trial]:
    """The candidates of a matrix in canonical order, and how well a second run predicts pairs hidden from it.

    The two runs are independent, and in a large fleet they are concurrent. ``tried``: folds in place of the second run.
    """
    denoiser = DENOISERS[options.method]
    if tried is not None:
        return denoiser(ordered, options=options, seed=seed), judged_in_turn(tried, ordered)
    hidden = hold_out(ordered.measured, share=options.held_out, seed=seed)
    scored = np.triu(hidden) & (ordered.distance > 0)
    rest = without(ordered, hidden)
    if int(scored.sum()) < _FEWEST_HELD_OUT or not rest.distance.any():
        candidates = denoiser(ordered, options=options, seed=seed)
        return candidates, Trial(
            mix=choose(candidates, ordered.distance, np.zeros_like(hidden)),
            median_relative_error=None,
            error=np.zeros(0),
            doubt=np.zeros(0),
        )

    def whole() -> Candidates:
        return with_coordinates(denoiser(ordered, options=options, seed=seed), options=options, seed=seed)

    def trial() -> Trial:
        return _judged(denoiser(rest, options=options, seed=seed), ordered, scored)

    if len(hidden) < _FEWEST_AT_ONCE or resolve(options.backend) != "numpy":
        return whole(), trial()
    with ThreadPoolExecutor(1) as executor:
        judged = executor.submit(trial)
        return whole(), judged.result()


def _judged(trial: Candidates, ordered: Prepared, scored: NDArray[np.bool_]) -> Trial:
    """Errors of the scored pairs, each under the mix that the other half of them chose."""
    first = np.zeros_like(scored)
    rows, columns = np.nonzero(scored)
    first[rows[::2], columns[::2]] = True
    guess = np.zeros_like(ordered.distance)
    for chosen_by, judged in ((first, scored & ~first), (scored & ~first, first)):
        mix = choose(trial, ordered.distance, chosen_by)
        guess[judged] = mixed_at(trial, mix, judged)
    truth = ordered.distance[scored]
    return Trial(
        mix=choose(trial, ordered.distance, scored),
        median_relative_error=float(median(np.abs(guess[scored] - truth) / truth)),
        error=np.log(truth / np.maximum(guess[scored], 1e-9)),
        doubt=trial.spread[scored],
    )


def judged_in_turn(tried: Tried, ordered: Prepared) -> Trial:
    """What pairs hidden in turn decided. The noise is known from the first pair on; a median error from five on."""
    trial = _judged(tried.candidates, ordered, tried.hidden)
    trial = replace(trial, mix=replace(trial.mix, noise=1.4826 * float(median(np.abs(trial.error)))))
    if len(trial.error) >= _FEWEST_HELD_OUT:
        return trial
    return replace(trial, median_relative_error=None, error=np.zeros(0), doubt=np.zeros(0))


def _trivial(prepared: Prepared, options: EmbedOptions, library: str) -> Embedding:
    """One host, or hosts that are all at no distance: nothing to fit."""
    n = len(prepared.distance)
    return Embedding(
        distance_s=np.zeros((n, n)),
        coordinates=np.zeros((n, options.dimensions)),
        heights_s=np.zeros(n),
        stress=0.0,
        held_out_median_relative_error=None,
        held_out_pairs=0,
        interval_factor=None,
        weights={},
        cap=options.winsorise,
        backend=library,
        converged=True,
        unidentified=unidentified_pairs(prepared.measured),
    )


def _stress(model: NDArray[np.float64], source: Prepared) -> float:
    pairs = source.measured
    total = float((source.distance[pairs] ** 2).sum())
    return float(np.sqrt(((model - source.distance)[pairs] ** 2).sum() / total)) if total > 0 else 0.0
