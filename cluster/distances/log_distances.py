"""Log distances of pairs of hosts, and the part that single hosts explain.

A host with a slow card is far from everybody. That is not locality, so it is separated: the distance
of a pair is first explained as the sum of one term a host (the heights of equation 4.1), and only what is
left over can speak for or against groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.distances.pairs import ends_of, places_of
from netprobe.core.numeric.medians import median, quantile, row_medians

Vector = NDArray[np.float64]

# Makes the logarithm of a zero distance finite; in units of the median.
_LOG_OFFSET = 1e-3
# A pair this many times further off than most pairs are, on the slow side, counts as disturbed.
_OUTLIER = 3.0
# A pair counts as this many times further than its hosts' median pairs at most: further off it would draw the
# fit to itself, and the fence with the fit.
_GROSS = 30.0
# A pair nearer than this share of the typical nearest neighbour says no more than one at that distance.
_FLOOR = 0.5
# Digits kept after dividing by the median, so that a change of unit changes no result.
_DIGITS = 9
_REFITS = 6
# Of the largest degree: far below what the pairs say, far above rounding.
_RIDGE = 1e-9


class HostEffects:
    """Least-squares fit of y(i, j) = a(i) + a(j) over a fixed set of pairs."""

    def __init__(self, n: int, first: NDArray[np.intp], second: NDArray[np.intp]) -> None:
        self.n, self.first, self.second = n, first, second

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """(M,) of the pairs in an (N, N) matrix, row by row."""
        return np.asarray(self.first * self.n + self.second)

    @cached_property
    def inverse(self) -> Vector:
        """(N, N) from sums over each host's pairs to its effect."""
        if len(self.first) == self.n * (self.n - 1) // 2 and self.n > 2:
            # Of all pairs the normal matrix is a multiple of one plus ones everywhere, whose inverse is known.
            own = self.n - 2 + _RIDGE * (self.n - 1)
            return np.asarray((np.eye(self.n) - 1.0 / (own + self.n)) / own)
        return np.asarray(np.linalg.inv(self._normal(np.ones(len(self.first)))), dtype=np.float64)

    def _normal(self, weight: Vector) -> Vector:
        half = np.zeros(self.n * self.n)
        half[self._places] = weight
        matrix = half.reshape(self.n, self.n)
        matrix = matrix + matrix.T
        degree = matrix.sum(axis=1)
        # The ridge decides what the pairs leave open: two hosts with one pair, hosts without any.
        matrix[np.diag_indices(self.n)] = degree + _RIDGE * max(float(degree.max()), 1e-30)
        return matrix

    def sums(self, y: Vector) -> Vector:
        """(N,) sums of (M,) ``y`` over each host's pairs."""
        return np.asarray(
            np.bincount(self.first, y, self.n) + np.bincount(self.second, y, self.n), dtype=np.float64
        )

    def fit(self, y: Vector) -> Vector:
        """(N,) effects."""
        return np.asarray(self.inverse @ self.sums(y))

    def fit_weighted(self, y: Vector, weight: Vector) -> Vector:
        """(N,) effects under one weight a pair."""
        from scipy.linalg import cho_factor, cho_solve

        factor = cho_factor(self._normal(weight), overwrite_a=True, check_finite=False)
        return np.asarray(cho_solve(factor, self.sums(weight * y), check_finite=False))

    def of_pairs(self, terms: Vector) -> Vector:
        """(M,) what the two hosts of each pair explain by their ``terms`` (N,)."""
        both = terms.take(self.first)
        both += terms.take(self.second)
        return both

    def residual(self, y: Vector) -> Vector:
        """What the effects leave unexplained."""
        effects = self.fit(y)
        rest = y - effects.take(self.first)
        rest -= effects.take(self.second)
        return np.asarray(rest)


@dataclass(frozen=True, kw_only=True, eq=False)
class LogDistances:
    """The M = N (N - 1) / 2 pairs of a matrix, in scipy's condensed order, in units of the median distance.

    distance: (M,) with slow outliers capped and missing pairs filled by what their two hosts explain.
    log_distance: (M,) its logarithm.
    measured: (M,) which pairs were measured.
    explained: (M,) the part of ``log_distance`` that single hosts explain.
    unexplained: the rest, on the measured pairs.
    effects: the fit of one term a host over the measured pairs.
    """

    n: int
    distance: Vector
    log_distance: Vector
    measured: NDArray[np.bool_]
    explained: Vector
    unexplained: Vector
    effects: HostEffects


def log_distances_of(matrix: NDArray[np.float64]) -> LogDistances | None:
    """Log distances of a `symmetric` (N, N) matrix in any unit; None when no pair is at a measured distance above zero.

    The host terms are fitted to the distances themselves (delays add up), weighted as noise that grows with
    the distance asks for, while pairs far above the fit are pulled down to its fence.
    """
    n = len(matrix)
    first, second = ends_of(n)
    pairs = matrix.take(places_of(n))
    measured = np.isfinite(pairs)
    if not (pairs[measured] > 0).any():
        return None
    scale = median(pairs[measured & (pairs > 0)])
    ratio = np.round(np.maximum(matrix, 0.0) / scale, _DIGITS)
    raw = np.maximum(ratio.take(places_of(n))[measured], _floor(ratio)) + _LOG_OFFSET
    effects = HostEffects(n, first[measured], second[measured])
    raw = _without_gross(raw, ratio, effects)
    capped, fit, terms = raw, np.ones_like(raw), np.full(n, 0.5)
    for _ in range(_REFITS):
        terms = effects.fit_weighted(capped, 1.0 / (fit * fit))
        fit = _positive(effects.of_pairs(terms))
        ratio = np.log(raw / fit)
        middle = median(ratio)
        spread = quantile(np.abs(ratio - middle), 0.75)
        capped = np.minimum(raw, fit * np.exp(middle + _OUTLIER * spread))
    explained = np.log(_positive(terms[first] + terms[second]))
    rest = np.log(capped) - explained[measured]
    correction = effects.fit(rest)
    explained = explained + correction[first] + correction[second]
    log_distance = explained.copy()
    log_distance[measured] = np.log(capped)
    return LogDistances(
        n=n,
        distance=np.exp(log_distance),
        log_distance=log_distance,
        measured=measured,
        explained=explained,
        unexplained=effects.residual(rest),
        effects=effects,
    )


def _without_gross(raw: Vector, ratio: NDArray[np.float64], effects: HostEffects) -> Vector:
    """``raw`` with each pair at most `_GROSS` times the largest of the median pair and its hosts' median pairs."""
    if raw.max() <= _GROSS:
        return raw
    typical = np.maximum(row_medians(ratio, none=1.0), 1.0)
    return np.minimum(raw, _GROSS * np.maximum(typical[effects.first], typical[effects.second]))


def _floor(ratio: NDArray[np.float64]) -> float:
    """A share of the typical distance to the nearest neighbour: one pair at zero distance is not locality."""
    nearest = np.where(np.isfinite(ratio), ratio, np.inf).min(axis=1)
    return _FLOOR * median(nearest[np.isfinite(nearest)])


def _positive(distance: Vector) -> Vector:
    return np.asarray(np.maximum(distance, 0.1))
