"""PLink's grouping: about the square root of N groups of about the square root of N hosts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.balanced.kmeans import constrained_kmeans
from netprobe.cluster.balanced.lloyd import DescentOptions, balanced_sizes
from netprobe.cluster.distances.pairs import symmetric
from netprobe.cluster.records import Partition, numbered_by_first_member
from netprobe.core.errors import InputError
from netprobe.core.numeric.medians import median

# How many clusterings compete; fewer for large fleets, where one takes seconds.
_CLUSTERINGS = 10
_CLUSTERINGS_LARGE = 3
_LARGE = 300
_MAX_ITER = 100
_TOL = 1e-6


def sqrt_groups(
    distance_s: NDArray[np.float64], *, elasticity: float = 1.0, k: int | None = None, seed: int
) -> Partition:
    """k = round(sqrt N) groups of at least floor(sqrt N / elasticity) hosts.

    distance_s: (N, N) complete (denoised) distances, any unit. elasticity: 1.0 (as even as can be) to 2.0.
    k: another number of groups; the least size is then floor(N / k / elasticity).

    Source: dissertation, section 4.2.1. Several clusterings are made, each from its own k-means++ start,
    and the one whose sizes are most even (least variance) is taken. The dissertation breaks ties at random;
    here the lesser inertia wins, then the earlier start. The least size is rounded down: rounded up it
    cannot always be met (N = 3, 7, 8, 13, ...). The k-means works on points whose squared distances are the
    given distances, in as many dimensions as that takes.

    Raises InputError for a bad matrix or elasticity, InfeasibleError for a k that N hosts cannot form.
    """
    matrix = symmetric(distance_s)
    n = len(matrix)
    if np.isnan(matrix[np.triu_indices(n, 1)]).any():
        raise InputError("balanced groups need a complete matrix; denoise it first")
    k, size_min = balanced_sizes(n, k, elasticity)
    points = realise(matrix)
    options = DescentOptions(size_min=size_min, size_max=n, max_iter=_MAX_ITER, tol=_TOL)
    candidates = []
    for start in range(_CLUSTERINGS if n <= _LARGE else _CLUSTERINGS_LARGE):
        run = constrained_kmeans(
            points,
            k,
            options=options,
            restarts=1,
            seed=_child_seed(seed, start),
        )
        unevenness = float(np.bincount(run.labels, minlength=k).var())
        # Rounded so that two runs to the same optimum tie.
        candidates.append((round(unevenness, 9), float(f"{run.inertia:.9e}"), start, run))
    unevenness, inertia, start, best = min(candidates, key=lambda candidate: candidate[:3])
    return Partition(
        labels=numbered_by_first_member(best.labels),
        method="sqrt",
        evidence={
            "elasticity": elasticity,
            "inertia": inertia,
            "size_variance": unevenness,
            "clusterings": len(candidates),
            "taken": start,
            "converged": best.converged,
        },
    )


def realise(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, D) points whose squared Euclidean distances are the given distances, over their median.

    An ultrametric, which racks are, can be realised exactly; of any other matrix the part that cannot (the
    negative eigenvalues of Torgerson's matrix) is left out. Every dimension that carries anything is kept.
    """
    n = len(matrix)
    pairs = matrix[np.triu_indices(n, 1)]
    positive = pairs[pairs > 0]
    if not len(positive):
        return np.zeros((n, 1))
    squares = np.round(matrix / median(positive), 9)
    np.fill_diagonal(squares, 0.0)
    inner = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    values, vectors = np.linalg.eigh(inner)
    kept = values > 1e-9 * max(float(values.max()), 1e-9)
    if not kept.any():
        return np.zeros((n, 1))
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def _child_seed(seed: int, number: int) -> int:
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
