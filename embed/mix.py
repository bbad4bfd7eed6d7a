"""From candidates to one distance: how much of each, and which heights are kept, judged on hidden pairs.

Candidates are averaged in the logarithm. The default weights are 0.7 for the forest, 0.3 for the blocks
and none for the embedding; other weights are taken only where the hidden pairs support them by three
standard errors and five per cent. In the wide area, where kriging is a candidate, it is the default.

A height within what readings vary by says nothing about where a host is, and is removed from the
distances; a host slow beyond that keeps its excess, because every plan pays it. Where removing heights makes the
predictions of hidden pairs clearly worse, all heights are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.medians import median
from netprobe.embed.estimates.blocks import LEAST_DISTANCE
from netprobe.embed.methods import Candidates

# Rows and columns, (M,) each.
Pairs = tuple[NDArray[np.intp], ...]

_DEFAULT_WEIGHTS = {"ultrametric": 0.7, "block": 0.3}
_STEP = 0.1
# Fewer hidden pairs than this decide nothing.
_FEWEST_TO_DECIDE = 20
_STANDARD_ERRORS = 3.0
_LEAST_GAIN = 0.05
# Errors count as their square up to this many medians, then linearly (Huber 1964).
_ROBUST = 2.0
# Removing heights may make the median error this much larger before all heights are kept.
_REMOVAL_COST = 1.5
# A height below this many deviations of a reading is removed, and from twice as many on it is kept whole.
_REMOVED_BELOW = 2.0
_FEWEST_FOR_NOISE = 5


@dataclass(frozen=True, kw_only=True)
class Mix:
    """weights of the candidates, summing to 1; whether all heights stay; noise of a reading (log units)."""

    weights: dict[str, float] = field(default_factory=dict)
    all_heights: bool = True
    noise: float = 0.0


def choose(candidates: Candidates, distance: NDArray[np.float64], hidden: NDArray[np.bool_]) -> Mix:
    """The mix for a method, by pairs that its ``candidates`` did not see.

    distance: (N, N) in the unit of the candidates; hidden: (N, N) upper triangle of pairs to judge by.
    """
    names = tuple(candidates.log_distances)
    default = _default_weights(names)
    pairs = np.nonzero(hidden)
    truth = np.log(distance[pairs] + LEAST_DISTANCE)
    if len(truth) < _FEWEST_FOR_NOISE:
        return Mix(weights=default)
    error = np.abs(truth - _log_distance(candidates, Mix(weights=default), pairs))
    noise = 1.4826 * float(median(error))
    if len(truth) < _FEWEST_TO_DECIDE:
        return Mix(weights=default, all_heights=False, noise=noise)
    mix = Mix(weights=_weights(candidates, truth, pairs, default), all_heights=True, noise=noise)
    flat = Mix(weights=mix.weights, all_heights=False, noise=noise)
    medians = [float(median(np.abs(truth - _log_distance(candidates, one, pairs)))) for one in (mix, flat)]
    return mix if medians[1] > _REMOVAL_COST * medians[0] else flat


def mixed(candidates: Candidates, mix: Mix) -> NDArray[np.float64]:
    """(N, N) distances in units of the prepared matrix's scale: complete, symmetric, never negative, zero diagonal."""
    distance = _distance(_log_distance(candidates, mix, None))
    distance = (distance + distance.T) / 2
    np.fill_diagonal(distance, 0.0)
    return np.asarray(distance, dtype=np.float64)


def default_log_distance(candidates: Candidates, pairs: Pairs) -> NDArray[np.float64]:
    """(M,) log distances of some pairs by the weights that are used where nothing speaks for others."""
    default = _default_weights(tuple(candidates.log_distances))
    return _log_distance(candidates, Mix(weights=default), pairs)


def mixed_at(candidates: Candidates, mix: Mix, where: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(M,) the distances of the pairs ``where`` an (N, N) mask is true, row by row."""
    return _distance(_log_distance(candidates, mix, np.nonzero(where)))


def _distance(log_distance: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.maximum(np.exp(log_distance) - LEAST_DISTANCE, 0.0))


def _default_weights(names: tuple[str, ...]) -> dict[str, float]:
    if len(names) == 1:
        return {names[0]: 1.0}
    if "kriging" in names:
        return {name: float(name == "kriging") for name in names}
    return {name: _DEFAULT_WEIGHTS.get(name, 0.0) for name in names}


def _weights(
    candidates: Candidates, truth: NDArray[np.float64], pairs: Pairs, default: dict[str, float]
) -> dict[str, float]:
    if len(default) == 1:
        return default
    names = tuple(default)
    guesses = np.stack(
        [
            _with_heights(candidates.log_distances[name][pairs], _of_pairs(candidates.heights, pairs))
            for name in names
        ]
    )
    usual = truth - np.array([default[name] for name in names]) @ guesses
    limit = _ROBUST * max(float(median(np.abs(usual))), 1e-9)

    def losses(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        size = np.abs(truth - weights @ guesses)
        return np.where(size <= limit, size**2, limit * (2.0 * size - limit))

    weightings = _simplex(len(names))
    best = min(weightings, key=lambda weights: float(losses(weights).mean()))
    default_losses = losses(np.array([default[name] for name in names]))
    gain = default_losses - losses(best)
    doubt = _STANDARD_ERRORS * gain.std() / np.sqrt(len(gain))
    if gain.mean() <= max(doubt, _LEAST_GAIN * default_losses.mean()):
        return default
    return {name: float(weight) for name, weight in zip(names, best)}


def _simplex(size: int) -> list[NDArray[np.float64]]:
    steps = round(1.0 / _STEP)
    return [np.array(candidates) / steps for candidates in _compositions(steps, size)]


def _compositions(total: int, size: int) -> Iterator[tuple[int, ...]]:
    if size == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, size - 1):
            yield (first, *rest)


def _log_distance(candidates: Candidates, mix: Mix, where: Pairs | None) -> NDArray[np.float64]:
    """(M,) of some pairs, (N, N) of all where None are named."""
    some = ... if where is None else where
    log_distance = sum(
        weight * candidates.log_distances[name][some] for name, weight in mix.weights.items() if weight
    )
    heights = (
        candidates.heights if mix.all_heights else _beyond(candidates.heights, _REMOVED_BELOW * mix.noise)
    )
    return _with_heights(np.asarray(log_distance), _of_pairs(heights, where))


def _of_pairs(heights: NDArray[np.float64], where: Pairs | None) -> NDArray[np.float64]:
    """(M,) what both ends of a pair add, or (N, N)."""
    if where is None:
        return np.asarray(heights[:, None] + heights[None, :])
    rows, columns = where
    return np.asarray(heights[rows] + heights[columns])


def _beyond(heights: NDArray[np.float64], limit: float) -> NDArray[np.float64]:
    """Heights, less those below the limit; whole from twice the limit on, and in between in proportion."""
    if limit <= 0:
        return heights
    return heights * np.clip(np.abs(heights) / limit - 1.0, 0.0, 1.0)


def _with_heights(log_distance: NDArray[np.float64], both: NDArray[np.float64]) -> NDArray[np.float64]:
    if not both.any():
        return log_distance
    bare = np.exp(log_distance)
    return np.asarray(np.log(np.maximum(bare + both, 0.1 * bare)))
