"""The denoisers behind one Protocol: their candidates, before these are mixed.

    plink        equation 4.1 as published (Luo 2020, section 4.2.1)
    huber        the same objective with heights under Huber's loss, on capped distances
    ultrametric  a forest of average-linkage trees on log distances
    block        block smoothing
    ensemble     the last two, and the embedding, mixed in the logarithm

All but plink cap outliers first; the last three also remove what single hosts add (see `heights`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.medians import median
from netprobe.embed.coordinates.adam import AdamFit, Objective, fit_adam
from netprobe.embed.coordinates.arrays import resolve
from netprobe.embed.coordinates.starts import starting_points
from netprobe.embed.estimates.blocks import LEAST_DISTANCE, smooth
from netprobe.embed.estimates.forest import grow_forest
from netprobe.embed.estimates.heights import relative_heights, without_heights
from netprobe.embed.estimates.kriging import kriged
from netprobe.embed.prepare import LOOSE_CAP, Prepared, winsorise
from netprobe.embed.records import EmbedOptions, Method

# Above this many hosts the random starts cost seconds and have never won over classical scaling, single
# precision is enough for a drawing, and fewer iterations converge.
_LARGEST_WITH_RESTARTS = 128
_LARGEST_IN_DOUBLE = 256
_LARGEST_PICTURE_IN_DOUBLE = 128
_LARGEST_AS_CANDIDATE = 512
# In a larger fleet the forest knows the racks better than blocks do, and is smooth enough inside them.
_LARGEST_WITH_NEAR_BLOCKS = 128
_MOST_ITERATIONS = {512: 120, 1 << 30: 50}


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """The result of a method for N hosts, in units of the median.

    log_distances: the candidates by name, each (N, N) complete: log(distance + LEAST_DISTANCE). heights: (N,) what
    hosts add to them, relative to similar hosts. spread: (N, N) doubt, the standard deviation of a log distance.
    fit, fitted: coordinates, and what they were fitted to; None without coordinates. smoothed: what `smooth` makes
    of ``fitted``, where that is known.
    """

    log_distances: dict[str, NDArray[np.float64]]
    heights: NDArray[np.float64]
    spread: NDArray[np.float64]
    fit: AdamFit | None = None
    fitted: Prepared | None = None
    smoothed: NDArray[np.float64] | None = None


class Denoiser(Protocol):
    """From measured distances to candidates; ``seed`` is of all random choices."""

    def __call__(self, prepared: Prepared, *, options: EmbedOptions, seed: int) -> Candidates: ...


def plink(prepared: Prepared, *, options: EmbedOptions, seed: int) -> Candidates:
    """Equation 4.1 as published: squared loss on the distances as they are, heights when requested."""
    return _embedded(prepared, options=options, seed=seed, huber_delta=None)


def huber(prepared: Prepared, *, options: EmbedOptions, seed: int) -> Candidates:
    """Equation 4.1 with heights under Huber's loss, on capped distances."""
    capped = winsorise(prepared, factor=options.winsorise)
    return _embedded(capped, options=options, seed=seed, huber_delta=options.huber_delta)


def ultrametric(prepared: Prepared, *, options: EmbedOptions, seed: int) -> Candidates:
    """The forest alone; missing cells are filled by block smoothing first."""
    reduced, heights = _reduced(prepared, options)
    return _structured(reduced, heights, seed=seed, names=("ultrametric",))


def block(prepared: Prepared, *, options: EmbedOptions, seed: int) -> Candidates:
    """Block smoothing alone."""
    reduced, heights = _reduced(prepared, options)
    return _structured(reduced, heights, seed=seed, names=("block",))


def trees_and_blocks(prepared: Prepared, *, options: EmbedOptions, seed: int) -> Candidates:
    """Forest and blocks, without an embedding: the ensemble of a data centre, in a fraction of its time."""
    reduced, heights = _reduced(prepared, options)
    return _structured(reduced, heights, seed=seed, names=("ultrametric", "block"))


def ensemble(prepared: Prepared, *, options: EmbedOptions, seed: int) -> Candidates:
    """Forest, blocks and embedding, each on the same distances, capped and without heights; kriging in the wide area.

    Above 512 hosts the embedding is not a candidate: trees and blocks need no help there, and it is the slowest.
    """
    reduced, heights = _reduced(prepared, options)
    candidates = _structured(reduced, heights, seed=seed, names=("ultrametric", "block"))
    if len(heights) > _LARGEST_WITH_NEAR_BLOCKS and options.winsorise < LOOSE_CAP:
        blocks = _blocks_of_the_far(candidates.log_distances, reduced.measured)
        candidates = replace(candidates, log_distances=candidates.log_distances | {"block": blocks})
    if len(heights) > _LARGEST_AS_CANDIDATE:
        return candidates
    embedded = _embedded(
        reduced, options=options, seed=seed, huber_delta=options.huber_delta, smoothed=candidates.smoothed
    )
    log_distances = candidates.log_distances | embedded.log_distances
    if options.winsorise >= LOOSE_CAP:
        log_distances["kriging"] = kriged(reduced, log_distances["embedding"])
    return Candidates(
        log_distances=log_distances,
        heights=heights,
        spread=candidates.spread,
        fit=embedded.fit,
        fitted=embedded.fitted,
    )


DENOISERS: dict[Method, Denoiser] = {
    "ensemble": ensemble,
    "ultrametric": ultrametric,
    "block": block,
    "huber": huber,
    "plink": plink,
}


def embedded_model(fit: AdamFit, alpha: float) -> NDArray[np.float64]:
    """(N, N) distances that coordinates and heights say, in units of the prepared matrix's scale.

    Eq. 4.1 of the dissertation, with heights.
    """
    squares = (fit.coordinates**2).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2.0 * fit.coordinates @ fit.coordinates.T
    apart = np.sqrt(np.maximum((apart + apart.T) / 2, 0.0))
    model = apart**alpha + fit.heights[:, None] + fit.heights[None, :]
    np.fill_diagonal(model, 0.0)
    return np.asarray(model, dtype=np.float64)


def with_coordinates(candidates: Candidates, *, options: EmbedOptions, seed: int) -> Candidates:
    """The candidates with coordinates and heights of what they were fitted to, where the method has none of its own."""
    if candidates.fit is not None:
        return candidates
    assert candidates.fitted is not None
    fit = _fit(
        candidates.fitted,
        options=options,
        seed=seed,
        huber_delta=options.huber_delta,
        smoothed=candidates.smoothed,
    )
    return replace(candidates, fit=fit)


def _reduced(prepared: Prepared, options: EmbedOptions) -> tuple[Prepared, NDArray[np.float64]]:
    capped = winsorise(prepared, factor=options.winsorise)
    if options.winsorise >= LOOSE_CAP:
        # Without racks there is nothing to compare a height with.
        return capped, np.zeros(len(capped.distance))
    heights = relative_heights(capped)
    return without_heights(capped, heights), heights


def _structured(
    reduced: Prepared, heights: NDArray[np.float64], *, seed: int, names: tuple[str, ...]
) -> Candidates:
    smoothed = smooth(reduced)
    blocks = np.log(smoothed + LEAST_DISTANCE)
    log_distances, spread = {"block": blocks}, np.zeros_like(blocks)
    if "ultrametric" in names:
        forest = grow_forest(np.where(reduced.measured, reduced.distance, smoothed), seed=seed)
        log_distances["ultrametric"] = forest.log_distance
        spread = np.sqrt(forest.spread**2 + (forest.log_distance - blocks) ** 2 / 4)
    return Candidates(
        log_distances={name: log_distances[name] for name in names},
        heights=heights,
        spread=spread,
        fitted=reduced,
        smoothed=smoothed,
    )


def _blocks_of_the_far(
    log_distances: dict[str, NDArray[np.float64]], measured: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(N, N) log distances of the blocks, the closer to the forest's, the nearer it puts a measured pair.

    The forest separates racks that the neighbourhoods of blocks reach across; blocks separate far pairs that
    no tree fits. From the forest's nearest pair to its typical one the share of the blocks grows as a square.
    """
    forest, blocks = log_distances["ultrametric"], log_distances["block"]
    pairs = forest[~np.eye(len(forest), dtype=bool)]
    nearest, typical = float(pairs.min()), float(median(pairs))
    if typical - nearest <= 0.0:
        return blocks
    share = np.clip((forest - nearest) / (typical - nearest), 0.0, 1.0) ** 2
    return np.where(measured, forest + share * (blocks - forest), blocks)


def _embedded(
    source: Prepared,
    *,
    options: EmbedOptions,
    seed: int,
    huber_delta: float | None,
    smoothed: NDArray[np.float64] | None = None,
) -> Candidates:
    fit = _fit(source, options=options, seed=seed, huber_delta=huber_delta, smoothed=smoothed)
    n = len(source.distance)
    return Candidates(
        log_distances={"embedding": np.log(embedded_model(fit, options.alpha) + LEAST_DISTANCE)},
        heights=np.zeros(n),
        spread=np.zeros((n, n)),
        fit=fit,
        fitted=source,
    )


def _fit(
    source: Prepared,
    *,
    options: EmbedOptions,
    seed: int,
    huber_delta: float | None,
    smoothed: NDArray[np.float64] | None = None,
) -> AdamFit:
    n = len(source.distance)
    start = (smooth(source) if smoothed is None else smoothed) ** (1.0 / options.alpha)
    # Where the points are for drawing only, the best of several local optima does not justify its time.
    own = options.method in ("huber", "plink")
    several = n <= _LARGEST_WITH_RESTARTS and own
    restarts = options.restarts if several else 1
    most = next(count for size, count in _MOST_ITERATIONS.items() if n <= size)
    return fit_adam(
        source.distance,
        source.measured,
        starting_points(start, dimensions=options.dimensions, restarts=restarts, seed=seed),
        objective=Objective(alpha=options.alpha, heights=options.uses_heights, huber_delta=huber_delta),
        iterations=options.iterations if n <= _LARGEST_WITH_RESTARTS else min(options.iterations, most),
        learning_rate=options.learning_rate,
        library=resolve(options.backend),
        single=n > (_LARGEST_IN_DOUBLE if own else _LARGEST_PICTURE_IN_DOUBLE),
    )
