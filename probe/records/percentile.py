"""Percentiles of the few samples of a visit, without what numpy spends on arrays of any shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Value = TypeVar("_Value", float, NDArray[np.float64])


def percentiles(samples: NDArray[np.float64], wanted: Iterable[float]) -> list[float]:
    """Percentiles 0..100 of (S,) samples, S >= 1, in their unit.

    Interpolates linearly between order statistics: type 7 of Hyndman and Fan (1996), to the bit what
    ``numpy.percentile`` gives, in a tenth of its time.
    """
    ordered = np.sort(samples).tolist()
    found = []
    for percent in wanted:
        below, above, share = _place(len(ordered), percent)
        found.append(_between(ordered[below], ordered[above], share))
    return found


def row_percentiles(samples: NDArray[np.float64], wanted: Iterable[float]) -> NDArray[np.float64]:
    """(K, P) the same, to the bit, of each row of (K, S) samples, S >= 1."""
    ordered = np.sort(samples, axis=1)
    found = []
    for percent in wanted:
        below, above, share = _place(ordered.shape[1], percent)
        found.append(_between(ordered[:, below], ordered[:, above], share))
    return np.stack(found, axis=1)


def _between(low: _Value, high: _Value, share: float) -> _Value:
    """As numpy interpolates, to the bit."""
    step = high - low
    return low + step * share if share < 0.5 else high - step * (1 - share)


def _place(count: int, percent: float) -> tuple[int, int, float]:
    """The order statistics between which a percentile is, and how far it is from the lower one."""
    last = count - 1
    place = last * (percent / 100)
    below = min(int(place), last)
    return below, min(below + 1, last), place - below
