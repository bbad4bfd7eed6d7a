"""Equation 4.1 of the dissertation fitted with Adam, over the array API standard.

    minimise  sum over measured pairs of  loss( |v_i - v_j|^alpha + h_i + h_j - p_ij ),   h >= 0

Adam is Kingma and Ba's (2015). The gradient is written out (three products of matrices a step), which is
several times faster than differentiating through every pair. Heights are a softplus of a free variable: a
height that is clamped at zero gets no gradient and never leaves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.medians import quantile
from netprobe.embed.coordinates.arrays import arrays, to_numpy

# Keeps the direction between two coincident points defined; in units of the median distance.
_SOFT_ZERO = 1e-6
_CELLS_AT_ONCE = 1 << 17
_DECAY_MEAN, _DECAY_SQUARE, _LEAST_SQUARE_ROOT = 0.9, 0.999, 1e-8


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Which form of equation 4.1: alpha, with heights or without, and Huber's delta (None for the squared loss)."""

    alpha: float
    heights: bool
    huber_delta: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class AdamFit:
    """The best of the restarts: coordinates (N, D), heights (N,), its loss a pair, and whether it converged."""

    coordinates: NDArray[np.float64]
    heights: NDArray[np.float64]
    loss: float
    converged: bool


def fit_adam(
    distance: NDArray[np.float64],
    measured: NDArray[np.bool_],
    starts: NDArray[np.float64],
    *,
    objective: Objective,
    iterations: int,
    learning_rate: float,
    library: Literal["numpy", "torch"] = "numpy",
    single: bool = False,
) -> AdamFit:
    """Run Adam from all starts at once and keep the fit with the least loss (the first of equals).

    distance: (N, N) symmetric, in units of its median; measured: (N, N) mask; starts: (R, N, D).
    single: compute in single precision. Nothing is random.

    Raises ImportError when the library is not installed.
    """
    kind = np.float32 if single else np.float64
    free = np.full(starts.shape[:2], _first_free_height(distance[measured]))
    with arrays(library) as asarray:
        target, mask, points, heights_free = (
            asarray(array.astype(kind)) for array in (distance, measured, starts, free)
        )
        problem = _Problem(target, mask, objective)
        return _descend(problem, [points, heights_free], iterations=iterations, learning_rate=learning_rate)


def _descend(problem: _Problem, values: list[Any], *, iterations: int, learning_rate: float) -> AdamFit:
    """Adam on (R, N, D) points and (R, N) free variables, the best kept; the rate falls to zero along half a cosine."""
    means = [0.0 * value for value in values]
    squares = [0.0 * value for value in values]
    late = math.floor(0.8 * iterations)
    before = np.full(values[0].shape[0], np.inf)
    for step in range(iterations):
        gradients = problem.gradient(*values)
        if step == late:
            before = problem.loss(*values)
        rate = learning_rate * 0.5 * (1.0 + math.cos(math.pi * step / iterations))
        first = 1.0 - _DECAY_MEAN ** (step + 1)
        second = math.sqrt(1.0 - _DECAY_SQUARE ** (step + 1))
        for at, gradient in enumerate(gradients):
            means[at] = _DECAY_MEAN * means[at] + (1.0 - _DECAY_MEAN) * gradient
            squares[at] = _DECAY_SQUARE * squares[at] + (1.0 - _DECAY_SQUARE) * gradient * gradient
            scale = problem.root(squares[at]) / second + _LEAST_SQUARE_ROOT
            values[at] = values[at] - (rate / first) * means[at] / scale
    losses = problem.loss(*values)
    best = int(np.argmin(losses))
    loss = float(losses[best])
    return AdamFit(
        coordinates=to_numpy(values[0][best, ...]).astype(np.float64),
        heights=to_numpy(problem.heights(values[1])[best, ...]).astype(np.float64),
        loss=loss,
        converged=abs(float(before[best]) - loss) <= 0.01 * float(before[best]) + 1e-6,
    )


class _Problem:
    """The loss and its gradient at R sets of points."""

    def __init__(self, target: Any, mask: Any, objective: Objective) -> None:
        self._xp = _namespace(target)
        self._target = target
        self._mask = mask
        self._pairs = float(self._xp.sum(mask))
        self._alpha = objective.alpha
        self._with_heights = objective.heights
        self._zero = 0.0 * target[0, 0]
        self._delta = delta = objective.huber_delta
        self._limits = (-(delta or 0.0), delta or 0.0)
        n = target.shape[0]
        # Batches of rows that stay in a processor's cache; a GPU needs none.
        self._rows = max(_CELLS_AT_ONCE // n, 1) if isinstance(target, np.ndarray) else n

    def root(self, array: Any) -> Any:
        """Element-wise square root."""
        return self._xp.sqrt(array)

    def heights(self, free: Any) -> Any:
        """(R, N) softplus of the free variables, or zeros in a fit without heights."""
        if not self._with_heights:
            return 0.0 * free
        return self._xp.maximum(free, self._zero) + self._xp.log1p(self._xp.exp(-self._xp.abs(free)))

    def gradient(self, points: Any, free: Any) -> list[Any]:
        """By the points (R, N, D) and by the free variables (R, N)."""
        xp = self._xp
        about, toward, sums = [], [], []
        for length, residual in self._blocks(points, free):
            slope = residual
            if self._delta is not None:
                slope = xp.clip(residual, *self._limits)
            if self._alpha == 1.0:
                pull = slope / length
            else:
                pull = slope * self._alpha * length ** (self._alpha - 2.0)
            about.append(xp.sum(pull, axis=2))
            toward.append(xp.matmul(pull, points))
            if self._with_heights:
                sums.append(xp.sum(slope, axis=2))
        by_points = _joined(xp, about)[:, :, None] * points - _joined(xp, toward)
        if not self._with_heights:
            return [by_points]
        return [by_points, _joined(xp, sums) / (1.0 + xp.exp(-free))]

    def loss(self, points: Any, free: Any) -> NDArray[np.float64]:
        """(R,) mean loss of a measured pair; half the square near zero, as Huber (1964) has it."""
        total = np.zeros(points.shape[0])
        for _, residual in self._blocks(points, free):
            size = self._xp.abs(residual)
            cost = 0.5 * size**2
            if self._delta is not None:
                cost = self._xp.where(size <= self._delta, cost, self._delta * (size - 0.5 * self._delta))
            total += to_numpy(self._xp.sum(cost, axis=(1, 2))).astype(np.float64)
        return total / self._pairs

    def _blocks(self, points: Any, free: Any) -> Iterator[tuple[Any, Any]]:
        """Some rows at a time, (R, rows, N): how far apart the points are, and what the model is above the target."""
        xp = self._xp
        squares = xp.sum(points * points, axis=2)
        # Doubled before the product, which is exact, and so is one step less over all pairs.
        twice, across = 2.0 * points, xp.matrix_transpose(points)
        height = self.heights(free) if self._with_heights else None
        for start in range(0, points.shape[1], self._rows):
            rows = slice(start, start + self._rows)
            between = squares[:, rows, None] + squares[:, None, :]
            between -= xp.matmul(twice[:, rows, :], across)
            between = xp.clip(between, 0.0, math.inf)
            between += _SOFT_ZERO**2
            length = xp.sqrt(between)
            model = length if self._alpha == 1.0 else length**self._alpha
            if height is None:
                residual = model - self._target[rows, :]
            else:
                residual = model + height[:, rows, None]
                residual += height[:, None, :]
                residual -= self._target[rows, :]
            residual *= self._mask[rows, :]
            yield length, residual


def _namespace(array: Any) -> Any:
    """The library of an array, under the names of the standard: numpy's own from its version 2 on."""
    if isinstance(array, np.ndarray) and hasattr(np, "matrix_transpose"):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)


def _joined(xp: Any, blocks: list[Any]) -> Any:
    return blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=1)


def _first_free_height(distances: NDArray[np.float64]) -> float:
    """Free variable of a first height: half of what even the nearest pairs take."""
    height = max(0.5 * float(quantile(distances, 0.05)), 1e-2)
    return math.log(math.expm1(height))
