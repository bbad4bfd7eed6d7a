"""What the ring solvers and the cost models both do to matrices of costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError

MOST_COST = 1e9
"""Seconds, or seconds per byte, of a link of hosts: three decades, which no network has."""
MOST_NUMBER = 1e100
"""The same in any unit in which a search counts: sums and squares of what is not above it stay finite."""


def checked_costs(matrix: FloatMatrix, what: str = "cost") -> FloatMatrix:
    """A copy of an (N, N) matrix with zeros on its diagonal.

    Raises InputError for another shape, and for a cell (``what``) that is not a number from 0 to `MOST_NUMBER`.
    """
    cost = np.array(matrix, dtype=np.float64)
    if cost.ndim != 2 or cost.shape[0] != cost.shape[1]:
        raise InputError(f"a {what} matrix of shape {cost.shape}: one row and one column a host are needed")
    np.fill_diagonal(cost, 0.0)
    bad = np.argwhere(impossible(cost, MOST_NUMBER))
    if len(bad):
        src, dst = bad[0].tolist()
        raise InputError(
            f"the {what} from host {src} to host {dst} is {cost[src, dst]}: {needed(MOST_NUMBER)}"
        )
    return cost


def impossible(cost: FloatMatrix, most: float = MOST_COST) -> NDArray[np.bool_]:
    """Which cells are not valid costs: missing, infinite, below 0 or above ``most``."""
    return ~((cost >= 0) & (cost <= most))


def needed(most: float = MOST_COST) -> str:
    """What a cost has to be."""
    return f"a number of at least 0 and at most {most:g} is needed"


def least_that_holds(
    values: NDArray[np.float64], holds: Callable[[float], bool], *, low: float = -np.inf
) -> float:
    """The least of the sorted ``values``, from ``low`` on, at which ``holds``; it holds at the last one.

    ``holds`` is monotonic: from some value on it is true.
    """
    first, last = int(np.searchsorted(values, low)), len(values) - 1
    while first < last:
        middle = (first + last) // 2
        if holds(float(values[middle])):
            last = middle
        else:
            first = middle + 1
    return float(values[first])
