"""Wide-area links: what neighbours say of a link beyond its place on the map, and how far to trust its reading.

Between cities a link has a length of its own: cables bend, peers meet where they like. Hosts of similar rows share
much of that, so what the coordinates leave over is averaged over similar pairs and added back (kriging with a trend:
Matheron 1969, Cressie 1993). It needs no racks, and changes nothing where no two rows are similar.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.medians import median
from netprobe.embed.estimates.blocks import LEAST_DISTANCE, row_differences
from netprobe.embed.prepare import Prepared

# Width of the kernel in units of the median host's difference from the row most similar to its own.
_WIDTH = 0.5
# Prior weight of a zero remainder.
_PRIOR_WEIGHT = 0.05
# A reading this far (log units) above what similar pairs say, if they weigh enough, is disturbed;
_EXCESS = 0.2
# and so many times as far as rows of similar hosts differ: few hosts, or far ones, have none that is like them.
_EXCESS_OF_ROWS = 3.0
_EXCESS_WIDTH = 1.0
_ENOUGH_WEIGHT = 0.3


def kriged(prepared: Prepared, trend: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, N) log distances, complete: a complete ``trend`` and the kernel average of what it leaves over."""
    weight = prepared.measured.astype(np.float64)
    left = np.where(prepared.measured, np.log(prepared.distance + LEAST_DISTANCE) - trend, 0.0)
    kernel, _ = _row_kernel(prepared, _WIDTH)
    more = (kernel @ left @ kernel) / (kernel @ weight @ kernel + _PRIOR_WEIGHT)
    return np.asarray(trend + (more + more.T) / 2, dtype=np.float64)


def direction_noise(matrix: NDArray[np.float64]) -> float:
    """Deviation (log units) of the mean of two directions, by how they differ; 0 where they never do.

    matrix: (N, N) ``[src, dst]``, NaN where missing. A path that is longer one way counts as noise.
    """
    both = np.triu((matrix > 0) & (matrix.T > 0), 1)
    if not both.any():
        return 0.0
    return 1.4826 * float(median(np.abs(np.log(matrix[both] / matrix.T[both])))) / 2.0


def shrunk_to_readings(
    prepared: Prepared, distance: NDArray[np.float64], *, error: float, noise: float, mends: bool = True
) -> NDArray[np.float64]:
    """(N, N) ``distance`` with measured links moved towards their own readings.

    error: deviation (log units) of readings from distances that did not see them, 0 where not known, and then the
    readings are kept; noise: that of a reading. What
    is not noise is the link's own length, so the reading counts 1 - noise^2 / error^2 (James and Stein 1961),
    and the distance the rest. Where pairs similar to a link, its own reading aside, are a fifth below it in
    the logarithm, and far more than similar rows differ, it is a disturbed one and they take its place; not so
    without ``mends``.
    """
    share = max(0.0, 1.0 - (noise / error) ** 2) if error > 0 else 1.0
    reading = np.log(prepared.distance + LEAST_DISTANCE)
    if mends:
        reading = _mended(prepared, reading)
    blended = share * reading + (1.0 - share) * np.log(distance + LEAST_DISTANCE)
    result = np.where(prepared.measured, np.maximum(np.exp(blended) - LEAST_DISTANCE, 0.0), distance)
    return np.asarray((result + result.T) / 2, dtype=np.float64)


def _mended(prepared: Prepared, reading: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, N) log readings, the disturbed ones replaced by what similar pairs say."""
    weight = prepared.measured.astype(np.float64)
    centre = (reading * weight).sum() / max(weight.sum(), 1.0)
    log_distance = np.where(prepared.measured, reading - centre, 0.0)
    kernel, floor = _row_kernel(prepared, _EXCESS_WIDTH)
    excess = max(_EXCESS, _EXCESS_OF_ROWS * floor)
    own = (1.0 + kernel**2) * weight
    support = kernel @ weight @ kernel - own
    enough = prepared.measured & (support > _ENOUGH_WEIGHT)
    others = (kernel @ log_distance @ kernel - own * log_distance) / np.where(enough, support, 1.0) + centre
    return np.where(enough & (reading - others > excess), others, reading)


def _row_kernel(prepared: Prepared, width: float) -> tuple[NDArray[np.float64], float]:
    """(N, N) similarity of two hosts' rows, 0 to 1, and how much (log units) the most similar two of a host differ."""
    difference, floor = row_differences(prepared)
    return np.asarray(np.exp(-0.5 * (difference / (width * floor)) ** 2)), floor
