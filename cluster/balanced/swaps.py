"""Out of a local optimum of k-means: a centre taken from where it is least missed to where it is most needed.

Lloyd's descent moves centres a little at a time, and never one from a pair of groups that share what should be
one to a group that should be two. Such a swap (random swap: Franti 2018) is made here where it promises most by
two sums that need no descent: what splitting a group along its longest axis saves, and what its points pay who
go to their second nearest centre. A descent shows whether the gain is real, size limits included.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.balanced.lloyd import DescentOptions, KMeansRun, lloyd, squared_distances

# A swap must lower the sum of squares by this share.
_GAIN = 1e-9


def improved(
    points: NDArray[np.float64],
    run: KMeansRun,
    options: DescentOptions,
    *,
    tries: int,
) -> KMeansRun:
    """``run`` on ``points`` (N, D) after swaps that help; ends when ``tries`` of them in a row do not.

    At most four times as many are tried in all. The result has an inertia of at most that of ``run``.
    """
    tried: set[tuple[int, int]] = set()
    failures = 0
    for _ in range(4 * tries):
        swap = _most_promising(points, run, tried)
        if swap is None or failures == tries:
            break
        tried.add(swap[:2])
        centres = run.centres.copy()
        centres[list(swap[:2])] = swap[2]
        again = lloyd(points, centres, options)
        failures += 1
        if again.inertia < run.inertia * (1 - _GAIN):
            run, failures = again, 0
            tried.clear()
    return run


def _most_promising(
    points: NDArray[np.float64], run: KMeansRun, tried: set[tuple[int, int]]
) -> tuple[int, int, NDArray[np.float64]] | None:
    """The group to split, the one to give up its centre, and the two new centres (2, D); None without one."""
    k = len(run.centres)
    if k < 3:
        return None
    saved, halves = _splits(points, run)
    missed = _missed(points, run)
    promise = saved[:, None] - missed[None, :]
    np.fill_diagonal(promise, -np.inf)
    for pair in tried:
        promise[pair] = -np.inf
    split, donor = np.unravel_index(int(promise.argmax()), promise.shape)
    if not np.isfinite(promise[split, donor]) or saved[split] <= 0:
        return None
    return int(split), int(donor), halves[split]


def _splits(points: NDArray[np.float64], run: KMeansRun) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(k,) sum of squares that halving each group saves, (k, 2, D) the centres of its halves."""
    k, dimensions = run.centres.shape
    saved, halves = np.zeros(k), np.zeros((k, 2, dimensions))
    for group in range(k):
        members = points[run.labels == group] - run.centres[group]
        if len(members) < 2:
            continue
        axis = np.linalg.eigh(members.T @ members)[1][:, -1]
        upper = members @ axis > 0
        if upper.all() or not upper.any():
            continue
        means = np.stack([members[upper].mean(axis=0), members[~upper].mean(axis=0)])
        halves[group] = run.centres[group] + means
        saved[group] = upper.sum() * (means[0] ** 2).sum() + (~upper).sum() * (means[1] ** 2).sum()
    return saved, halves


def _missed(points: NDArray[np.float64], run: KMeansRun) -> NDArray[np.float64]:
    """(k,) what the points of each group would pay more if they went to the nearest other centre."""
    cost = squared_distances(points, run.centres)
    places = np.arange(len(points))
    own = cost[places, run.labels]
    cost[places, run.labels] = np.inf
    more = np.maximum(cost.min(axis=1) - own, 0.0)
    return np.asarray(np.bincount(run.labels, more, len(run.centres)), dtype=np.float64)
