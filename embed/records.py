"""What a fit is asked for and what it gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError

Method = Literal["robust", "plink"]
METHODS: tuple[Method, ...] = ("robust", "plink")


@dataclass(frozen=True, kw_only=True)
class EmbedOptions:
    """How to fit.

    ``robust`` (the default) caps outliers, denoises by block smoothing and fits the coordinates with
    heights under Huber's loss. ``plink`` is equation 4.1 as published (dissertation, section 4.2.1): the
    larger of the two directions, squared loss, heights only when asked for; its distances are those of the
    embedding itself.

    alpha: power of the Euclidean distance in equation 4.1, 1 to 2.
    dimensions: of the coordinates.
    heights: fit a non-negative height a host; None means the method's own habit (robust yes, plink no).
    restarts: starts in all; the first is classical scaling, the others are random.
    iterations, learning_rate: of Adam; the rate falls to zero along half a cosine.
    held_out: share of the measured pairs that a second fit does not see and that score it; 0 for none.
    huber_delta: where Huber's loss turns linear, in units of the median distance (robust only).
    winsorise: cap of a distance, as a multiple of what its neighbours allow (robust only); at least 1.

    Raises InputError, naming every option that is out of range.
    """

    method: Method = "robust"
    alpha: float = 1.0
    dimensions: int = 3
    heights: bool | None = None
    restarts: int = 3
    iterations: int = 300
    learning_rate: float = 0.05
    held_out: float = 0.1
    huber_delta: float = 0.1
    winsorise: float = 1.25

    def __post_init__(self) -> None:
        faults = []
        if self.method not in METHODS:
            faults.append(f"method is {self.method!r}, not one of {', '.join(METHODS)}")
        if not 1.0 <= self.alpha <= 2.0:
            faults.append(f"alpha is {self.alpha}, not in 1 to 2")
        for name in ("dimensions", "restarts", "iterations"):
            if getattr(self, name) < 1:
                faults.append(f"{name} is {getattr(self, name)}, not at least 1")
        for name in ("learning_rate", "huber_delta"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                faults.append(f"{name} is {value}, not above 0")
        if not 0.0 <= self.held_out <= 0.5:
            faults.append(f"held_out is {self.held_out}, not in 0 to 0.5")
        if not (self.winsorise >= 1.0 and math.isfinite(self.winsorise)):
            faults.append(f"winsorise is {self.winsorise}, not at least 1")
        if faults:
            raise InputError("embedding options: " + "; ".join(faults))

    @property
    def uses_heights(self) -> bool:
        """Whether this fit has heights."""
        return self.method == "robust" if self.heights is None else self.heights


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """A fitted matrix of N hosts, in the order it was given.

    distance_s: (N, N) denoised, complete, symmetric, never negative, zero diagonal, in seconds.
    coordinates: (N, D), centred, on their principal axes; ``|v_i - v_j| ** alpha`` is in seconds.
    heights_s: (N,) start-up cost of a host in seconds, never negative; zeros in a fit without heights.
    stress: sqrt(sum (m - p)^2 / sum p^2) over the measured pairs (Kruskal 1964, stress-1, normalised by the
        measurements): m is the distance the coordinates and heights say, p what they were fitted to. 0 is
        perfect.
    held_out_median_relative_error: median of |d - p| / p over pairs that a second run of the same method
        did not see, d being its distance; None where too few pairs could be held out.
    held_out_pairs: how many pairs that is.
    converged: whether the last fifth of the iterations changed the loss by less than one per cent.
    unidentified: (N, N) true where no chain of measured pairs joins two hosts, so that their distance is a
        guess: an average over all pairs.
    """

    distance_s: NDArray[np.float64]
    coordinates: NDArray[np.float64]
    heights_s: NDArray[np.float64]
    stress: float
    held_out_median_relative_error: float | None
    held_out_pairs: int
    converged: bool
    unidentified: NDArray[np.bool_]
