"""Medians and quantiles of large arrays, the same numbers as numpy's in a fraction of the time.

numpy's own look for several places at once, and for NaN, which costs five times what one place does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def median(values: NDArray[np.float64]) -> float:
    """Of at least one value, none of them NaN: the middle one, or the mean of the two in the middle."""
    flat = np.asarray(values).ravel()
    half = len(flat) // 2
    parted = np.partition(flat, half)
    if len(flat) % 2:
        return float(parted[half])
    return float((parted[:half].max() + parted[half]) / 2)


def quantile(values: NDArray[np.float64], share: float) -> float:
    """Of at least one value, none of them NaN: linear between the two nearest ones, 0 <= ``share`` < 1."""
    flat = np.asarray(values).ravel()
    place = share * (len(flat) - 1)
    at = int(place)
    parted = np.partition(flat, at)
    low = float(parted[at])
    if at + 1 == len(flat):
        return low
    high, part = float(parted[at + 1 :].min()), place - at
    # From the nearer end, as numpy does it: the same number to the last digit.
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def quantiles(values: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """(Q,) of at least one value, none of them NaN, for ``shares`` (Q,) of 0 to 1: many cost hardly more than one."""
    ordered = np.sort(np.asarray(values), axis=None)
    place = shares * (len(ordered) - 1)
    at = place.astype(np.intp)
    low, high, part = ordered[at], ordered[np.minimum(at + 1, len(ordered) - 1)], place - at
    return np.where(part >= 0.5, high - (high - low) * (1 - part), low + (high - low) * part)


def row_medians(values: NDArray[np.float64], *, none: float = np.nan) -> NDArray[np.float64]:
    """(N,) the median of the finite values of each row of (N, M), ``none`` for a row without any."""
    finite = np.isfinite(values)
    count = finite.sum(axis=1)
    if len(values) and count[0] > 0 and (count == count[0]).all():
        # As in most matrices: one place in all rows, which need not be sorted for it.
        half = int(count[0]) // 2
        parted = np.partition(np.where(finite, values, np.inf), half, axis=1)
        if count[0] % 2:
            return np.array(parted[:, half])
        return np.asarray((parted[:, :half].max(axis=1) + parted[:, half]) / 2)
    # NaN sorts last, so the finite ones are in front.
    ordered = np.sort(np.where(finite, values, np.nan), axis=1)
    rows = np.arange(len(values))
    low, high = (
        ordered[rows, np.maximum(count - 1, 0) // 2],
        ordered[rows, np.minimum(count // 2, values.shape[1] - 1)],
    )
    return np.where(count > 0, (low + high) / 2, none)
