"""k-means whose groups keep a least and a largest size: the pure runs under `ConstrainedKMeans`.

Lloyd's two steps with k-means++ starts (Arthur and Vassilvitskii 2007); the assignment step is solved
exactly (Bradley, Bennett and Demiriz 2000, as a bipartite matching of points and places instead of a flow).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InfeasibleError


@dataclass(frozen=True, kw_only=True, eq=False)
class KMeansRun:
    """Labels (N,), centres (k, D), sum of squared distances to them, Lloyd iterations, and the end state."""

    labels: NDArray[np.int64]
    centres: NDArray[np.float64]
    inertia: float
    iterations: int
    converged: bool


def check_sizes(n: int, k: int, *, size_min: int, size_max: int) -> None:
    """Raise InfeasibleError, with the range that is feasible, unless n points can form such groups."""
    if not 1 <= k <= n:
        raise InfeasibleError(f"cannot form {k} groups of {n} hosts: give 1 to {n} groups")
    if size_min < 0 or size_min * k > n:
        raise InfeasibleError(
            f"{k} groups of at least {size_min} need {k * size_min} hosts and there are {n}: "
            f"give a least size of 0 to {n // k}"
        )
    if size_max < size_min or size_max * k < n:
        low = max(size_min, -(-n // k))
        raise InfeasibleError(
            f"{k} groups of {size_min} to {size_max} cannot hold {n} hosts: give a largest size from {low}"
        )


def assign(cost: NDArray[np.float64], *, size_min: int, size_max: int) -> NDArray[np.int64]:
    """The cheapest assignment of n points to k groups under the size limits, exactly.

    cost: (n, k). Every group has ``size_min`` places that must be taken. Without an upper limit the other
    points simply go where they like best, so the matching is n by n; with one, each group has further
    places. Feasibility is the caller's business (`check_sizes`).
    """
    from scipy.optimize import linear_sum_assignment

    n, k = cost.shape
    labels = np.asarray(cost.argmin(axis=1), dtype=np.int64)
    counts = np.bincount(labels, minlength=k)
    if counts.min() >= size_min and counts.max() <= size_max:
        return labels
    free = n - k * size_min
    spare = min(size_max - size_min, free)
    must = np.repeat(np.arange(k), size_min)
    # Large enough that leaving a place that must be taken empty never pays.
    bonus = 2.0 * float(cost.max() - cost.min()) + 1.0
    parts = [cost[:, must] - bonus]
    if spare == free:
        parts.append(np.repeat(cost.min(axis=1)[:, None], free, axis=1))
        owner = np.concatenate([must, np.full(free, -1)])
    else:
        further = np.repeat(np.arange(k), spare)
        parts.append(cost[:, further])
        owner = np.concatenate([must, further])
    rows, places = linear_sum_assignment(np.concatenate(parts, axis=1))
    taken = owner[places]
    return np.asarray(np.where(taken < 0, labels[rows], taken), dtype=np.int64)


def squared_distances(points: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, k), never negative."""
    cross = points @ centres.T
    squares = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :] - 2 * cross
    return np.asarray(np.maximum(squares, 0.0))


def plus_plus(points: NDArray[np.float64], k: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """(k, D) starting centres by k-means++; points that coincide are drawn at random."""
    chosen = [int(generator.integers(len(points)))]
    nearest = squared_distances(points, points[chosen])[:, 0]
    nearest[chosen] = 0.0
    while len(chosen) < k:
        total = float(nearest.sum())
        if total > 0:
            pick = int(generator.choice(len(points), p=nearest / total))
        else:
            pick = int(generator.choice(np.setdiff1d(np.arange(len(points)), chosen)))
        chosen.append(pick)
        nearest = np.minimum(nearest, squared_distances(points, points[[pick]])[:, 0])
        nearest[chosen] = 0.0
    return np.asarray(points[chosen])


def lloyd(
    points: NDArray[np.float64],
    centres: NDArray[np.float64],
    *,
    size_min: int,
    size_max: int,
    max_iter: int,
    tol: float,
) -> KMeansRun:
    """One descent from ``centres`` (k, D): assign exactly, move the centres, until nothing changes.

    tol: stop when the centres move by less than this share of the points' variance in all. The labels, the
    centres and the inertia of the result belong together: the last step is an assignment whose centres are
    then taken.
    """
    k = len(centres)
    limit = tol * float(points.var(axis=0).mean())
    labels = np.full(len(points), -1, dtype=np.int64)
    converged = False
    iterations = 0
    while iterations < max_iter and not converged:
        iterations += 1
        assigned = assign(squared_distances(points, centres), size_min=size_min, size_max=size_max)
        moved = _means(points, assigned, centres)
        shift = float(((moved - centres) ** 2).sum())
        converged = bool((assigned == labels).all()) or shift <= limit
        labels, centres = assigned, moved
    inertia = float(((points - centres[labels]) ** 2).sum())
    return KMeansRun(
        labels=labels, centres=centres[:k], inertia=inertia, iterations=iterations, converged=converged
    )


def constrained_kmeans(
    points: NDArray[np.float64],
    k: int,
    *,
    size_min: int,
    size_max: int,
    restarts: int,
    max_iter: int,
    tol: float,
    seed: int,
) -> KMeansRun:
    """The descent with the least inertia over several k-means++ starts (the first of equals).

    Exactly k labels occur when ``size_min`` is at least 1, identical points or not. Raises InfeasibleError.
    """
    check_sizes(len(points), k, size_min=size_min, size_max=size_max)
    generator = np.random.default_rng(seed)
    centred = points - points.mean(axis=0)
    best: KMeansRun | None = None
    for _ in range(restarts):
        start = plus_plus(centred, k, generator)
        run = lloyd(centred, start, size_min=size_min, size_max=size_max, max_iter=max_iter, tol=tol)
        if best is None or run.inertia < best.inertia * (1 - 1e-12):
            best = run
    if best is None:
        raise InfeasibleError("k-means needs at least one start")
    return KMeansRun(
        labels=best.labels,
        centres=best.centres + points.mean(axis=0),
        inertia=best.inertia,
        iterations=best.iterations,
        converged=best.converged,
    )


def _means(
    points: NDArray[np.float64], labels: NDArray[np.int64], centres: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Centres of the groups; an empty group keeps the one it had."""
    counts = np.bincount(labels, minlength=len(centres)).astype(np.float64)
    sums = np.zeros_like(centres)
    np.add.at(sums, labels, points)
    means = sums / np.maximum(counts, 1.0)[:, None]
    return np.asarray(np.where(counts[:, None] > 0, means, centres))
