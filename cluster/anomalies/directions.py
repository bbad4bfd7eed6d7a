"""Pairs of hosts whose two directions differ beyond noise.

Two readings of one thing differ by noise: small differences are more frequent than large ones, for any noise.
Two things speak against noise. A pair may stand out of the others, by a multiple of the median absolute deviation
(Hampel 1974). Or most pairs differ, so that there is no bulk to stand out of; but then more differences are large
than small. The differences of noise have a density that falls from zero on (that of two independent readings
with one unimodal distribution does), so of those up to b at most a share (b - a) / b is expected in [a, b] (as in the
proof of Gauss's inequality for unimodal distributions); far more there are no noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.distances.pairs import ends_of
from netprobe.core.numeric.distances import checked_distances
from netprobe.core.numeric.medians import median

Vector = NDArray[np.float64]

# A pair stands out from this ratio on, and from so many robust deviations of the others.
_RATIO, _SIGMAS = 1.5, 8.0
# Where most pairs differ, from this ratio on.
_LEAST_RATIO = 1.1
# The deviation is at least this (log units): fleets without noise have none.
_LEAST_SPREAD = 0.02
_FEWEST_FOR_SPREAD = 4
_SIGNIFICANCE = 0.025
# Places of b among the sorted differences: the largest ones may be noise of another kind.
_UPPER = (1.0, 0.98, 0.95, 0.9)
_LOWER = 64


def asymmetric_pairs(raw_distance_s: Vector) -> NDArray[np.bool_]:
    """(N, N) symmetric: which pairs differ by direction, of (N, N) ``[src, dst]`` distances, NaN where missing.

    A pair needs both directions, and a fleet three hosts: two readings of a single pair do not say what noise is.
    The unit does not matter. Raises InputError for a bad matrix.
    """
    matrix = checked_distances(raw_distance_s)
    found = np.zeros(matrix.shape, dtype=np.bool_)
    first, second = ends_of(len(matrix))
    there, back = matrix[first, second], matrix[second, first]
    both = (there > 0) & (back > 0)
    if len(matrix) < 3 or not both.any():
        return found
    ratio = np.log(there[both] / back[both])
    beyond = np.abs(ratio) > beyond_noise(ratio)
    found[first[both][beyond], second[both][beyond]] = True
    return found | found.T


def beyond_noise(log_ratio: Vector) -> float:
    """The log ratio that noise does not explain, from those (M,) of all pairs with both directions.

    Which of its two hosts a pair begins with does not matter.
    """
    size = np.sort(np.abs(log_ratio))
    limit = math.inf
    if len(size) >= _FEWEST_FOR_SPREAD:
        limit = max(math.log(_RATIO), _SIGMAS * max(1.4826 * median(size), _LEAST_SPREAD))
    most = _least_of_most(size)
    # Just below: the least of them differs too.
    return limit if most is None else min(limit, max(math.log(_LEAST_RATIO), most * (1.0 - 1e-9)))


def _least_of_most(size: Vector) -> float | None:
    """The least difference from which on there are more than noise has, of the sorted ``size`` (M,); None: none."""
    from scipy.special import bdtrc

    if len(size) < 3 or size[-1] <= 0:
        return None
    tops = sorted({max(round(share * (len(size) - 1)), 2) for share in _UPPER})
    tried, found = 0, []
    for top in tops:
        if size[top] <= 0:
            continue
        lows = np.unique(np.linspace(0, top - 1, min(top, _LOWER)).round().astype(np.intp))
        width = np.maximum(size[top] - size[lows], _LEAST_SPREAD)
        share = np.minimum(width / size[top], 1.0)
        # Of the ``top`` differences below that one, ``top - low`` lie in the interval.
        chance = np.where(share < 1.0, bdtrc(top - lows - 1, top, share), 1.0)
        tried += len(lows)
        found += list(zip(chance.tolist(), size[lows].tolist()))
    sure = [low for chance, low in found if chance * tried <= _SIGNIFICANCE]
    return min(sure) if sure else None
