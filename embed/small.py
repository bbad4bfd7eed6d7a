"""Small fleets, where one hidden tenth of the pairs is too few to decide how to read them: folds hide each in turn.

Two ways to read such a fleet are compared on the pairs that each does not see: as a data centre (a tight cap, trees
and blocks) and as a wide area (a loose cap, kriging). Netprobe's own, on cross-validation as Stone (1974) has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.medians import median
from netprobe.embed.estimates.blocks import LEAST_DISTANCE
from netprobe.embed.methods import DENOISERS, Candidates, Denoiser, trees_and_blocks
from netprobe.embed.mix import default_log_distance
from netprobe.embed.prepare import LOOSE_CAP, Prepared, hold_out_in_turn, without
from netprobe.embed.records import EmbedOptions

# More folds cost more than they add.
_FOLDS = 8
# So few iterations place a handful of points as well as more do.
_ITERATIONS = 120
# In fewer hosts smoothing spoils the order of more distances than it mends, in a data centre as well.
_FEWEST_TO_SMOOTH = 9
# The wide area is taken when it leaves less than this share of the data centre's median error;
_BETTER = 0.85
# this, where the two directions of a pair differ by a small part of that error: then what is left over is no noise.
_NO_WORSE, _MUCH_LESS = 1.25, 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class Tried:
    """What the folds gave: candidates whose hidden pairs are each from the fold that did not see them.

    hidden: (N, N) upper triangle of these pairs; only there do the candidates mean anything.
    """

    candidates: Candidates
    hidden: NDArray[np.bool_]


def try_in_turn(ordered: Prepared, denoiser: Denoiser, options: EmbedOptions, *, seed: int) -> Tried | None:
    """What a method says of pairs hidden in turn; None where no pair can be hidden."""
    options = replace(options, iterations=min(options.iterations, _ITERATIONS))
    pooled: Candidates | None = None
    hidden = np.zeros_like(ordered.measured)
    for fold in hold_out_in_turn(ordered.measured, folds=_FOLDS, seed=seed):
        rest = without(ordered, fold)
        if not rest.distance.any():
            continue
        found = denoiser(rest, options=options, seed=seed)
        hidden |= np.triu(fold) & (ordered.distance > 0)
        pooled = found if pooled is None else _joined(pooled, found, fold)
    if pooled is None or not hidden.any():
        return None
    return Tried(candidates=replace(pooled, heights=np.zeros(len(hidden))), hidden=hidden)


def small_cap(
    ordered: Prepared, options: EmbedOptions, *, noise: float, seed: int
) -> tuple[float, Tried | None]:
    """The cap for a small fleet, and, where the loose one is taken, what its folds gave.

    noise: deviation of a reading by its two directions, 0 where they never differ (see `direction_noise`).

    The loose cap is taken where the wide area's model predicts hidden pairs better, or as well and the directions of a
    pair agree far better than the data centre's model with its readings; up to eight hosts; and where nothing can be
    hidden, for then nothing speaks against a reading.
    """
    loose = replace(options, winsorise=LOOSE_CAP)
    wide = try_in_turn(ordered, DENOISERS["ensemble"], loose, seed=seed)
    far = _leftover(wide, ordered)
    taken = len(ordered.distance) < _FEWEST_TO_SMOOTH or far is None
    if not taken:
        near = _leftover(try_in_turn(ordered, trees_and_blocks, options, seed=seed), ordered)
        assert near is not None and far is not None
        clean = 0.0 < noise < _MUCH_LESS * 1.4826 * near
        taken = far < (_NO_WORSE if clean else _BETTER) * near
    if not taken:
        return options.winsorise, None
    if options.method != "ensemble":
        wide = try_in_turn(ordered, DENOISERS[options.method], loose, seed=seed)
    return LOOSE_CAP, wide


def _joined(pooled: Candidates, found: Candidates, fold: NDArray[np.bool_]) -> Candidates:
    return replace(
        pooled,
        log_distances={
            name: np.where(fold, found.log_distances[name], there)
            for name, there in pooled.log_distances.items()
        },
        spread=np.where(fold, found.spread, pooled.spread),
    )


def _leftover(tried: Tried | None, ordered: Prepared) -> float | None:
    """Median size of the error (log units) on the hidden pairs, by the method's default mixture."""
    if tried is None:
        return None
    pairs = np.nonzero(tried.hidden)
    truth = np.log(ordered.distance[pairs] + LEAST_DISTANCE)
    return float(median(np.abs(truth - default_log_distance(tried.candidates, pairs))))
