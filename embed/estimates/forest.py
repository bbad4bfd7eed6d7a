"""The ultrametric estimate: a forest of average-linkage trees on log distances.

Average linkage (Sokal and Michener 1958) on log distances, and for each pair the height at which its two
hosts are joined: the mean over all pairs that the data centre's tree treats as equal. One tree follows the
noise of the few pairs that are joined first; so many are grown, each on distances that were disturbed by as
much noise as the first tree left over (a parametric bootstrap), and their heights are averaged (bagging,
Breiman 1996). What all trees agree on is kept; a doubtful join is spread over the tiers it may belong to.

It fails where paths do not form a tree: then the block estimate (`smooth`) is the better half of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.dendrogram import joined_at
from netprobe.embed.estimates.blocks import LEAST_DISTANCE

# Noise of a tree in the forest, in units of what the first tree left over.
_DISTURBANCE = 0.7
# Trees of a small fleet, and the least of a large one: the error of the mean falls with N as well.
_MOST_TREES = 100
_FEWEST_TREES = 14
_CELLS = 40 * 256**2
# So many cells of disturbed distances are generated at a time.
_CELLS_AT_ONCE = 1 << 18


@dataclass(frozen=True, kw_only=True, eq=False)
class Forest:
    """log_distance: (N, N) mean log distance at which two hosts join; spread: (N, N) its deviation over trees."""

    log_distance: NDArray[np.float64]
    spread: NDArray[np.float64]


def grow_forest(distance: NDArray[np.float64], *, seed: int, trees: int | None = None) -> Forest:
    """Grow trees on complete (N, N) symmetric distances of any unit; N of at least 2.

    The result depends on the distances and the seed. trees: None for as many as the size allows.
    """
    n = len(distance)
    upper = np.triu_indices(n, 1)
    log_distance = np.log(distance[upper] + LEAST_DISTANCE)
    first = _joined_at(log_distance[None])[0]
    noise = _DISTURBANCE * float(np.sqrt(np.mean((log_distance - first) ** 2)))
    count = trees or int(np.clip(_CELLS // n**2, _FEWEST_TREES, _MOST_TREES))
    rng = np.random.default_rng(seed)
    total, squares = np.zeros_like(log_distance), np.zeros_like(log_distance)
    at_once = max(_CELLS_AT_ONCE // n**2, 1)
    for done in range(0, count, at_once):
        many = min(at_once, count - done)
        for joined in _joined_at(log_distance + rng.normal(0.0, noise, (many, len(log_distance)))):
            total += joined
            squares += (joined - first) ** 2
    mean = total / count
    variance = np.maximum(squares / count - (mean - first) ** 2, 0.0)
    return Forest(log_distance=_square(mean, n, upper), spread=_square(np.sqrt(variance), n, upper))


def _joined_at(log_distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D, M) condensed: the average-linkage height at which each pair of each of D matrices is joined."""
    from scipy.cluster.hierarchy import linkage

    least = log_distances.min(axis=1)
    trees = [linkage(log_distance - low, "average") for log_distance, low in zip(log_distances, least)]
    return np.asarray(joined_at(np.stack(trees)) + least[:, None])


def _square(
    condensed: NDArray[np.float64], n: int, upper: tuple[NDArray[np.intp], NDArray[np.intp]]
) -> NDArray[np.float64]:
    square = np.zeros((n, n))
    square[upper] = condensed
    return square + square.T
