"""Equation 4.1 of the dissertation fitted with Adam, in torch: the one module of embed/ that needs it.

    minimise  sum over measured pairs of  loss( |v_i - v_j|^alpha + h_i + h_j - p_ij ),   h >= 0

The gradient is written out (three products of matrices a step), which is several times faster than
differentiating through every pair. Heights are a softplus of a free variable: a height that is clamped at
zero gets no gradient and never leaves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import PlatformError

# Keeps the direction between two coincident points defined; in units of the median distance.
_SOFT_ZERO = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class AdamFit:
    """The best of the restarts: coordinates (N, D), heights (N,), its loss a pair, and whether it settled."""

    coordinates: NDArray[np.float64]
    heights: NDArray[np.float64]
    loss: float
    converged: bool


def fit_adam(
    distance: NDArray[np.float64],
    measured: NDArray[np.bool_],
    starts: NDArray[np.float64],
    *,
    alpha: float,
    heights: bool,
    huber_delta: float | None,
    iterations: int,
    learning_rate: float,
) -> AdamFit:
    """Run Adam from every start at once and keep the one with the least loss (the first of equals).

    distance: (N, N) symmetric, in units of its median; measured: (N, N) mask; starts: (R, N, D).
    huber_delta: None for the squared loss. Double precision and one thread, so that the result does not
    depend on how many threads torch has; the caller's setting is put back. No random number is drawn.

    Raises PlatformError when torch is not installed.
    """
    torch = _torch()
    with _one_thread(torch), torch.no_grad():
        target = torch.from_numpy(np.ascontiguousarray(distance))
        mask = torch.from_numpy(measured.astype(np.float64))
        problem = _Problem(torch, target, mask, alpha=alpha, heights=heights, huber_delta=huber_delta)
        points = torch.from_numpy(starts.copy())
        raw_heights = torch.full(points.shape[:2], problem.first_raw_height(), dtype=torch.float64)
        optimiser = torch.optim.Adam([points, raw_heights], lr=learning_rate)
        late = math.floor(0.8 * iterations)
        late_loss = None
        for step in range(iterations):
            rate = learning_rate * 0.5 * (1.0 + math.cos(math.pi * step / iterations))
            optimiser.param_groups[0]["lr"] = rate
            residual, points.grad, raw_heights.grad = problem.gradient(points, raw_heights)
            if step == late:
                late_loss = problem.loss(residual)
            optimiser.step()
        residual, _, _ = problem.gradient(points, raw_heights)
        final = problem.loss(residual)
        best = int(torch.argmin(final))
        loss = float(final[best])
        before = loss if late_loss is None else float(late_loss[best])
        fitted = torch.nn.functional.softplus(raw_heights[best]) if heights else 0.0 * raw_heights[best]
        return AdamFit(
            coordinates=points[best].numpy().copy(),
            heights=fitted.numpy().copy(),
            loss=loss,
            converged=abs(before - loss) <= 0.01 * before + 1e-6,
        )


class _Problem:
    """The loss and its gradient for R sets of points at once."""

    def __init__(
        self, torch: Any, target: Any, mask: Any, *, alpha: float, heights: bool, huber_delta: float | None
    ) -> None:
        self._torch = torch
        self._target = target
        self._mask = mask
        self._alpha = alpha
        self._heights = heights
        self._delta = huber_delta

    def first_raw_height(self) -> float:
        """Free variable of a first height: half of what even the nearest pairs take."""
        near = float(self._torch.quantile(self._target[self._mask > 0], 0.05))
        height = max(0.5 * near, 1e-2)
        return math.log(math.expm1(height))

    def gradient(self, points: Any, raw_heights: Any) -> tuple[Any, Any, Any]:
        """Residuals (R, N, N), gradients by the points (R, N, D) and by the free variables (R, N)."""
        torch = self._torch
        squares = (points * points).sum(dim=2)
        between = torch.baddbmm(squares[:, :, None] + squares[:, None, :], points, points.mT, alpha=-2.0)
        length = between.clamp_(min=0.0).add_(_SOFT_ZERO**2).sqrt_()
        model = length if self._alpha == 1.0 else length**self._alpha
        if self._heights:
            height = torch.nn.functional.softplus(raw_heights)
            model = model + height[:, :, None] + height[:, None, :]
        residual = (model - self._target) * self._mask
        slope = residual if self._delta is None else residual.clamp(-self._delta, self._delta)
        pull = slope / length if self._alpha == 1.0 else slope * self._alpha * length ** (self._alpha - 2.0)
        by_points = pull.sum(dim=2, keepdim=True) * points - torch.bmm(pull, points)
        if self._heights:
            by_heights = slope.sum(dim=2) * torch.sigmoid(raw_heights)
        else:
            by_heights = torch.zeros_like(raw_heights)
        return residual, by_points, by_heights

    def loss(self, residual: Any) -> Any:
        """(R,) mean loss of a measured pair; half the square near zero, as Huber has it."""
        size = residual.abs()
        if self._delta is None:
            cost = 0.5 * size**2
        else:
            cost = self._torch.where(
                size <= self._delta, 0.5 * size**2, self._delta * (size - 0.5 * self._delta)
            )
        return cost.sum(dim=(1, 2)) / self._mask.sum()


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise PlatformError(
            "the map needs torch, which is not installed: pip install 'netprobe-fleet[map]'"
        ) from None
    return torch


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
