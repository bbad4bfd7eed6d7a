"""One run of k-means whose groups keep a least and a largest size.

Lloyd's two steps with k-means++ starts (Arthur and Vassilvitskii 2007); the assignment step is solved
exactly (Bradley, Bennett and Demiriz 2000; see `assign`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.balanced.assign import Assigner
from netprobe.core.errors import InfeasibleError, InputError


@dataclass(frozen=True, kw_only=True)
class DescentOptions:
    """Limits of one k-means descent: group sizes, iterations, and when it has converged.

    tol: the descent stops when the centres move, in all, by less than this share of the points' variance.
    """

    size_min: int
    size_max: int
    max_iter: int
    tol: float


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


def balanced_sizes(n: int, k: int | None, elasticity: float) -> tuple[int, int]:
    """PLink's number of groups and their least size: round(sqrt N) and floor(sqrt N / elasticity).

    For a given ``k`` the least size is floor(N / k / elasticity). It is rounded down and never below 1:
    rounded up it cannot always be met (N = 3, 7, 8, 13, ...). Source: dissertation, section 4.2.1.

    Raises InputError for an elasticity not in 1 to 2, InfeasibleError for a k that n points cannot form.
    """
    if not 1.0 <= elasticity <= 2.0:
        raise InputError(f"balance elasticity is {elasticity}, it must be 1.0 to 2.0")
    if k is None:
        return round(math.sqrt(n)), max(math.floor(math.sqrt(n) / elasticity), 1)
    check_sizes(n, k, size_min=0, size_max=n)
    return k, max(math.floor(n / k / elasticity), 1)


def squared_distances(
    points: NDArray[np.float64], centres: NDArray[np.float64], *, squares: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """(n, k) squares of the distances of points (n, D) from centres (k, D), never negative.

    squares: (n,) sums of squares of the points, where they are known.
    """
    if squares is None:
        squares = (points**2).sum(axis=1)
    distances = squares[:, None] + (centres**2).sum(axis=1)[None, :] - 2 * (points @ centres.T)
    return np.asarray(np.maximum(distances, 0.0))


def plus_plus(points: NDArray[np.float64], k: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """(k, D) starting centres by greedy k-means++; coincident points are chosen at random.

    Each further centre is the best of 2 + log k random candidates: the one that leaves the least sum of squares.
    """
    trials = 2 + int(np.log(k))
    chosen = [int(generator.integers(len(points)))]
    squares = (points**2).sum(axis=1)
    nearest = squared_distances(points, points[chosen], squares=squares)[:, 0]
    nearest[chosen] = 0.0
    while len(chosen) < k:
        upto = np.cumsum(nearest)
        if upto[-1] > 0:
            # A draw at the very end may fall past the last point by rounding.
            sampled = np.searchsorted(upto, generator.random(trials) * upto[-1], side="right")
            sampled = np.minimum(sampled, np.flatnonzero(nearest)[-1])
        else:
            sampled = generator.choice(np.setdiff1d(np.arange(len(points)), chosen), 1)
        left = np.minimum(nearest[:, None], squared_distances(points, points[sampled], squares=squares))
        best = int(left.sum(axis=0).argmin())
        chosen.append(int(sampled[best]))
        nearest = left[:, best]
        nearest[chosen] = 0.0
    return np.asarray(points[chosen])


def lloyd(points: NDArray[np.float64], centres: NDArray[np.float64], options: DescentOptions) -> KMeansRun:
    """One descent from ``centres`` (k, D): assign exactly, move the centres, until nothing changes.

    The labels, the centres and the inertia of the result belong together: the last step is an assignment, and
    the centres are those of its groups.
    """
    k = len(centres)
    assign = Assigner(len(points), k, size_min=options.size_min, size_max=options.size_max)
    limit = options.tol * float(points.var(axis=0).mean())
    squares = (points**2).sum(axis=1)
    labels = np.full(len(points), -1, dtype=np.int64)
    converged = False
    iterations = 0
    while iterations < options.max_iter and not converged:
        iterations += 1
        assigned = assign(squared_distances(points, centres, squares=squares))
        moved = _means(points, assigned, centres)
        shift = float(((moved - centres) ** 2).sum())
        converged = bool((assigned == labels).all()) or shift <= limit
        labels, centres = assigned, moved
    inertia = float(((points - centres[labels]) ** 2).sum())
    return KMeansRun(
        labels=labels, centres=centres, inertia=inertia, iterations=iterations, converged=converged
    )


def _means(
    points: NDArray[np.float64], labels: NDArray[np.int64], centres: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Centres of the groups; an empty group keeps the one it had."""
    k, size = centres.shape
    counts = np.bincount(labels, minlength=k).astype(np.float64)
    cells = (labels[:, None] * size + np.arange(size)).ravel()
    sums = np.bincount(cells, points.ravel(), k * size).reshape(k, size)
    means = sums / np.maximum(counts, 1.0)[:, None]
    return np.asarray(np.where(counts[:, None] > 0, means, centres))
