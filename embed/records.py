"""The options of a fit, and its result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError
from netprobe.embed.coordinates.arrays import BACKENDS, Backend

Method = Literal["ensemble", "ultrametric", "block", "huber", "plink"]
METHODS: tuple[Method, ...] = ("ensemble", "ultrametric", "block", "huber", "plink")


@dataclass(frozen=True, kw_only=True)
class EmbedOptions:
    """How to fit; docs/mapping.md explains the methods.

    ``ensemble`` (the default) mixes ``ultrametric``, ``block`` and, where held-out pairs speak for it, the
    embedding (in the wide area also ``kriging``); ``huber`` is equation 4.1 with heights
    and a robust loss; ``plink`` is equation 4.1 as published (dissertation, section 4.2.1): the larger of
    the two directions, squared loss, heights only when requested. The distances of the last two are those
    of the embedding itself; ``ultrametric`` and ``block`` fit one for the drawing only.

    alpha: power of the Euclidean distance in equation 4.1, 1 to 2.
    dimensions: of the coordinates.
    heights: fit a non-negative height a host; None means the method's own habit (plink no, others yes).
    restarts: starts in all; the first is classical scaling, the others are random.
    iterations, learning_rate: of Adam; the rate falls to zero along half a cosine.
    held_out: share of the measured pairs that a second fit does not see and that score it; 0 for none.
    huber_delta: where Huber's loss turns linear, in units of the median distance (not plink).
    winsorise: cap of a distance, as a multiple of what its neighbours allow (not plink); at least 1.
    backend: ``numpy``, ``torch``, or ``auto`` (numpy). torch takes the first CUDA device where there is one.

    Raises InputError, naming every option that is out of range.
    """

    method: Method = "ensemble"
    alpha: float = 1.0
    dimensions: int = 3
    heights: bool | None = None
    restarts: int = 3
    iterations: int = 300
    learning_rate: float = 0.05
    held_out: float = 0.1
    huber_delta: float = 0.1
    winsorise: float = 1.25
    backend: Backend = "auto"

    def __post_init__(self) -> None:
        faults = []
        if self.method not in METHODS:
            faults.append(f"method is {self.method!r}, not one of {', '.join(METHODS)}")
        if self.backend not in BACKENDS:
            faults.append(f"backend is {self.backend!r}, not one of {', '.join(BACKENDS)}")
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
        return self.method != "plink" if self.heights is None else self.heights


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """A fitted matrix of N hosts, in the order it was given.

    distance_s: (N, N) denoised, complete, symmetric, never negative, zero diagonal, in seconds.
    coordinates: (N, D), centred, on their principal axes; ``|v_i - v_j| ** alpha`` is in seconds.
    heights_s: (N,) what a host adds to its distances, in seconds, never negative: of the embedding (huber,
        plink; zeros in a fit without heights), or beyond the least of the hosts (other methods).
    stress: sqrt(sum (m - p)^2 / sum p^2) over the measured pairs (Kruskal 1964, stress-1, normalised by the
        measurements): m is the distance the coordinates and heights of the embedding say, p what they were
        fitted to. 0 is perfect.
    held_out_median_relative_error: median of |d - p| / p over pairs that a second run of the same method
        did not see, d being its distance; None where too few pairs could be held out.
    held_out_pairs: how many pairs that is.
    interval_factor: (N, N) f such that nine of ten readings of a link lie in d / f to d * f, from the same
        held-out pairs; None where they are too few. A link that was measured is surer than that.
    weights: what the distances were mixed of, summing to 1.
    cap: the multiple of what neighbours allow at which outliers were capped.
    backend: the array library the embedding was fitted with.
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
    interval_factor: NDArray[np.float64] | None
    weights: dict[str, float]
    cap: float
    backend: str
    converged: bool
    unidentified: NDArray[np.bool_]
