"""Block smoothing: a denoiser that keeps the racks.

Two hosts of one rack are equally far from every third host, so their rows of the matrix are similar. A pair
is estimated by the average over pairs whose ends have rows like its own ends' rows. Unlike a Euclidean
embedding of few dimensions this squashes nothing: distances inside a rack and between racks are averages of
measurements, a host similar to no other keeps its own readings, and a missing pair gets the average of
similar pairs.

Everything is done on log distances, for the noise of a round-trip time grows with it. Netprobe's own,
after the neighbourhood smoothing of Zhang, Levina and Zhu (2017).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.medians import median
from netprobe.embed.prepare import Prepared

# A zero distance (two machines on one board) is this far from nothing, in units of the median.
LEAST_DISTANCE = 1e-3
# Rows closer than this (in log units) always count as equal.
_LEAST_NOISE = 0.02
# Width of the kernel in units of the random difference between two rows of one rack.
_SLACK = 1.2
# Third hosts used to judge two hosts without a reading; more cost more than they add.
_WITNESSES = 64
# A missing pair needs similar pairs of this much weight before their average is used.
_ENOUGH_WEIGHT = 0.5
_LARGEST_IN_DOUBLE = 512


def smooth(prepared: Prepared) -> NDArray[np.float64]:
    """(N, N) denoised and complete distances in the unit of ``prepared``; symmetric, zero diagonal.

    A missing pair without measured similar pairs is averaged over wider and wider neighbourhoods, at
    last over all pairs.
    """
    n = len(prepared.distance)
    if n == 1:
        return np.zeros((1, 1))
    weight = prepared.measured.astype(np.float64)
    log_distance = np.where(prepared.measured, np.log(prepared.distance + LEAST_DISTANCE), 0.0)
    centre = log_distance.sum() / weight.sum()
    log_distance = np.where(prepared.measured, log_distance - centre, 0.0)
    difference = _with_witnesses(_row_differences(log_distance, weight), prepared.measured)
    floor = _noise_floor(difference)
    width = _width(floor, max(float(median(weight.sum(axis=1))) * float(weight.mean()), 2.0))
    estimate, support = _average(log_distance, weight, _kernel(difference, floor, width))
    # A measured pair is its own support; only holes can lack it.
    holes = ~prepared.measured & (support < _ENOUGH_WEIGHT)
    while holes.any() and width < 100.0:
        width *= 2.0
        wider, support = _average(log_distance, weight, _kernel(difference, floor, width))
        estimate = np.where(holes, wider, estimate)
        holes &= support < _ENOUGH_WEIGHT
    if holes.any():
        # Hosts without a common neighbour have no finite difference: they get the average of all.
        wider, support = _average(log_distance, weight, np.ones((n, n)))
        estimate = np.where(holes, wider, estimate)
    distance = np.maximum(np.exp(estimate + centre) - LEAST_DISTANCE, 0.0)
    distance = (distance + distance.T) / 2
    np.fill_diagonal(distance, 0.0)
    return np.asarray(distance, dtype=np.float64)


def product(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, M) product of matrices (N, K) and (K, M) without units; of a large fleet in single
    precision, in half the time.

    What is multiplied here is of the size of 1 and noisy: seven digits are five more than it has.
    """
    if len(one) <= _LARGEST_IN_DOUBLE:
        return np.asarray(one @ other)
    return np.asarray((one.astype(np.float32) @ other.astype(np.float32)).astype(np.float64))


def row_similarity(difference: NDArray[np.float64], *, common: float) -> NDArray[np.float64]:
    """(N, N) similarity of two rows, 0 to 1, by their differences over ``common`` hosts that both were measured to."""
    floor = _noise_floor(difference)
    return _kernel(difference, floor, _width(floor, common))


def row_differences(prepared: Prepared) -> tuple[NDArray[np.float64], float]:
    """(N, N) root mean square difference (log units) of two hosts' rows, and that of the median host to its like."""
    weight = prepared.measured.astype(np.float64)
    log_distance = np.where(prepared.measured, np.log(prepared.distance + LEAST_DISTANCE), 0.0)
    log_distance = np.where(
        prepared.measured, log_distance - log_distance.sum() / max(weight.sum(), 1.0), 0.0
    )
    difference = _row_differences(log_distance, weight)
    return difference, _noise_floor(difference)


def _width(floor: float, common: float) -> float:
    # A difference is a mean over the hosts both were measured to: the more of them, the less it varies.
    return float(floor * (2.0 / common) ** 0.25 * _SLACK)


def _row_differences(log_distance: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Root mean square difference of two hosts' rows over the hosts that both were measured to."""
    nearest = np.where(weight > 0, log_distance, np.inf).min(axis=1)
    # A host is as near to itself as to its nearest neighbour: so the pair's own reading counts too.
    log_distance = np.where(np.eye(len(log_distance), dtype=bool), nearest[:, None], log_distance)
    weight = weight + np.eye(len(weight))
    squares = log_distance**2
    total = product(log_distance, log_distance)
    total *= -2.0
    if weight.all():
        sums = squares.sum(axis=1)
        total += sums[:, None]
        total += sums[None, :]
        common: NDArray[np.float64] = np.array([[float(len(weight))]])
    else:
        common = product(weight, weight)
        both = product(squares, weight)
        total += both
        total += both.T
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.where(common > 0, np.sqrt(np.maximum(total, 0.0) / common), np.inf)
    np.fill_diagonal(difference, 0.0)
    return np.asarray((difference + difference.T) / 2)


def _with_witnesses(difference: NDArray[np.float64], measured: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Raise the difference of two hosts without a reading to what third hosts imply.

    Differences of complete rows obey the triangle inequality, d(i, j) >= d(j, k) - d(i, k). With holes, two
    hosts of different racks may share no row entry that separates them, while hosts similar to one of them
    differ from the other. Two witnesses are needed, because a difference may itself be misjudged.
    """
    n = len(difference)
    share = measured.sum() / max(n * (n - 1), 1)
    if n < 4 or share == 1.0 or (n > _WITNESSES and share > 0.5):
        # Large rows with few holes have enough in common.
        return difference
    finite = np.where(np.isfinite(difference), difference, np.nan)
    witnesses = (
        np.arange(len(difference))
        if len(difference) <= _WITNESSES
        else np.linspace(0, len(difference) - 1, _WITNESSES)
    )
    first, second = np.zeros_like(difference), np.zeros_like(difference)
    for host in witnesses.astype(int):
        seen = finite[host]
        apart = np.abs(seen[:, None] - seen[None, :])
        apart[np.isnan(apart)] = 0.0
        second = np.maximum(second, np.minimum(first, apart))
        first = np.maximum(first, apart)
    joined = np.where(measured, difference, np.maximum(difference, second))
    np.fill_diagonal(joined, 0.0)
    return np.asarray(np.maximum(joined, joined.T))


def _noise_floor(difference: NDArray[np.float64]) -> float:
    """How much two rows of one rack differ by noise: the median host's least difference from another row."""
    away = np.where(np.eye(len(difference), dtype=bool), np.inf, difference)
    nearest = away.min(axis=1)
    nearest = nearest[np.isfinite(nearest)]
    return max(float(median(nearest)), _LEAST_NOISE) if len(nearest) else _LEAST_NOISE


def _kernel(difference: NDArray[np.float64], floor: float, width: float) -> NDArray[np.float64]:
    """(N, N) similarity of two rows: 1 up to the noise floor, then falling as a Gaussian of ``width``.

    Without the floor the many hosts of other racks would outweigh the few of the own one in large fleets.
    """
    beyond = np.maximum(difference**2 - floor**2, 0.0)
    return np.asarray(np.exp(-0.5 * beyond / width**2))


def _average(
    log_distance: NDArray[np.float64], weight: NDArray[np.float64], kernel: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Kernel average of the log distances over (a, b) near (i, j), and the kernel weight it rests on."""
    if int(weight.sum()) == len(weight) * (len(weight) - 1):
        # Every pair counts: all of both kernels' weight, less what falls on the diagonal.
        whole = kernel.sum(axis=1)
        support = np.outer(whole, whole) - product(kernel, kernel.T)
    else:
        support = product(product(kernel, weight), kernel.T)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(support > 0, product(product(kernel, log_distance), kernel.T) / support, 0.0)
    return estimate, support
