"""The fit as a whole: one run of a method, the score on held-out pairs, and the thin wrapper round both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.embed.adam_torch import AdamFit, fit_adam
from netprobe.embed.prepare import Prepared, check_matrix, hold_out, prepare, unidentified_pairs, winsorise
from netprobe.embed.records import Embedding, EmbedOptions
from netprobe.embed.smooth import smooth
from netprobe.embed.starts import principal_axes, starting_points

# Fewer held-out pairs than this say nothing about a median.
_FEWEST_HELD_OUT = 5
# Above this many hosts the random starts cost seconds and have never won over classical scaling.
_LARGEST_WITH_RESTARTS = 128


@dataclass(frozen=True, kw_only=True, eq=False)
class _Run:
    """One run of a method, in units of the median."""

    distance: NDArray[np.float64]
    fit: AdamFit
    stress: float


def fit_embedding(distance_s: NDArray[np.float64], *, options: EmbedOptions, seed: int) -> Embedding:
    """Denoise and complete a matrix of measured distances, and place the hosts.

    distance_s: (N, N) ``[src, dst]`` in seconds (any unit does: the result scales with it), NaN where
    missing; the diagonal is not looked at. Zero is a real distance. One missing direction is taken from the
    other. Any N from 1 on.

    The objective is equation 4.1 of the dissertation (section 4.2.1); `EmbedOptions` tells the methods
    apart. The distances of the ``robust`` method come from block smoothing rather than from the
    coordinates: in few dimensions three or more racks that are all equally far from one another have no
    room, and plans are priced with these distances.

    The result depends on the matrix, the options and the seed only.

    Raises InputError for a matrix that is none, or a host without any measured distance; PlatformError
    when torch is not installed.
    """
    matrix = check_matrix(distance_s)
    n = len(matrix)
    prepared = prepare(matrix, larger_direction=options.method == "plink")
    if n == 1 or not prepared.distance.any():
        return _trivial(prepared, options)
    run = _run(prepared, options, seed=seed)
    error, pairs = _held_out_error(prepared, options, seed=seed)
    alpha_scale = prepared.scale_s ** (1.0 / options.alpha)
    return Embedding(
        distance_s=run.distance * prepared.scale_s,
        coordinates=principal_axes(run.fit.coordinates) * alpha_scale,
        heights_s=run.fit.heights * prepared.scale_s,
        stress=run.stress,
        held_out_median_relative_error=error,
        held_out_pairs=pairs,
        converged=run.fit.converged,
        unidentified=unidentified_pairs(prepared.measured),
    )


def _trivial(prepared: Prepared, options: EmbedOptions) -> Embedding:
    """One host, or hosts that are all at no distance: nothing to fit."""
    n = len(prepared.distance)
    return Embedding(
        distance_s=np.zeros((n, n)),
        coordinates=np.zeros((n, options.dimensions)),
        heights_s=np.zeros(n),
        stress=0.0,
        held_out_median_relative_error=None,
        held_out_pairs=0,
        converged=True,
        unidentified=unidentified_pairs(prepared.measured),
    )


def _denoised_input(prepared: Prepared, options: EmbedOptions) -> Prepared:
    return winsorise(prepared, factor=options.winsorise) if options.method == "robust" else prepared


def _run(prepared: Prepared, options: EmbedOptions, *, seed: int) -> _Run:
    """One run of the method on what ``prepared`` has measured."""
    source = _denoised_input(prepared, options)
    complete = smooth(source)
    restarts = options.restarts if len(complete) <= _LARGEST_WITH_RESTARTS else 1
    fit = fit_adam(
        source.distance,
        source.measured,
        starting_points(
            complete ** (1.0 / options.alpha), dimensions=options.dimensions, restarts=restarts, seed=seed
        ),
        alpha=options.alpha,
        heights=options.uses_heights,
        huber_delta=options.huber_delta if options.method == "robust" else None,
        iterations=options.iterations,
        learning_rate=options.learning_rate,
    )
    model = _model(fit, options.alpha)
    return _Run(
        distance=complete if options.method == "robust" else model,
        fit=fit,
        stress=_stress(model, source),
    )


def _model(fit: AdamFit, alpha: float) -> NDArray[np.float64]:
    """(N, N) distances that coordinates and heights say."""
    apart = fit.coordinates[:, None, :] - fit.coordinates[None, :, :]
    model = np.sqrt((apart**2).sum(axis=2)) ** alpha + fit.heights[:, None] + fit.heights[None, :]
    np.fill_diagonal(model, 0.0)
    return np.asarray(model, dtype=np.float64)


def _stress(model: NDArray[np.float64], source: Prepared) -> float:
    pairs = source.measured
    total = float((source.distance[pairs] ** 2).sum())
    return float(np.sqrt(((model - source.distance)[pairs] ** 2).sum() / total)) if total > 0 else 0.0


def _held_out_error(prepared: Prepared, options: EmbedOptions, *, seed: int) -> tuple[float | None, int]:
    """Median relative error on pairs that a second run does not see, and how many they are."""
    hidden = hold_out(prepared.measured, share=options.held_out, seed=seed)
    scored = np.triu(hidden) & (prepared.distance > 0)
    pairs = int(scored.sum())
    if pairs < _FEWEST_HELD_OUT:
        return None, 0
    rest = Prepared(
        distance=np.where(hidden, 0.0, prepared.distance),
        measured=prepared.measured & ~hidden,
        scale_s=prepared.scale_s,
    )
    if not rest.distance.any():
        return None, 0
    if options.method == "robust":
        guess = smooth(_denoised_input(rest, options))
    else:
        guess = _run(rest, options, seed=seed).distance
    truth = prepared.distance[scored]
    return float(np.median(np.abs(guess[scored] - truth) / truth)), pairs
