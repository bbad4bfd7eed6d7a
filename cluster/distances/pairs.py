"""Pairs of hosts: the two directions joined, the condensed order of scipy, and hosts far from everybody."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.distances import checked_distances
from netprobe.core.numeric.medians import median, row_medians

Vector = NDArray[np.float64]

# Two directions further apart than this: one was disturbed, and disturbances only add delay.
_DIRECTION_SLACK = 1.25
# A host is far off when its nearest neighbour is this many times further than a typical pair.
_FAR = 1.5


def symmetric(distance_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, N) checked copy with the two directions joined, NaN where missing and on the diagonal.

    A pair gets the mean of its directions, at most 1.25 times the smaller; a missing direction is taken
    from the other. Raises InputError when the matrix is not square, or holds an infinite or negative entry.
    """
    matrix = checked_distances(distance_s)
    missing = np.isnan(matrix)
    # Of a complete matrix only the diagonal is missing.
    there = matrix if missing.sum() == len(matrix) else np.where(missing, matrix.T, matrix)
    return of_directions(there, there.T)


def of_directions(there: Vector, back: Vector) -> Vector:
    """What two readings of the same pairs are joined to: their mean, at most 1.25 times the smaller."""
    mean, most = np.add(there, back), np.minimum(there, back)
    mean /= 2
    most *= _DIRECTION_SLACK
    return np.minimum(mean, most, out=mean)


@lru_cache(maxsize=32)
def ends_of(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The two hosts of each of the M pairs of N hosts, (M,) each, in scipy's condensed order; read-only."""
    first, second = np.triu_indices(n, 1)
    first.flags.writeable = second.flags.writeable = False
    return first, second


@lru_cache(maxsize=32)
def places_of(n: int) -> NDArray[np.intp]:
    """(M,) where the M pairs of N hosts are in an (N, N) matrix that is read row by row; read-only."""
    first, second = ends_of(n)
    places = first * n + second
    places.flags.writeable = False
    return places


def square(pairs: Vector, n: int) -> Vector:
    """(.., N, N) symmetric matrices, zero on the diagonal, of (.., M) condensed pairs."""
    # Half of it in one piece, and the other half from that: quicker by half than pair by pair.
    matrix = np.zeros((*pairs.shape[:-1], n * n))
    matrix[..., places_of(n)] = pairs
    half = matrix.reshape(*pairs.shape[:-1], n, n)
    return np.asarray(half + half.swapaxes(-1, -2))


def far_hosts(matrix: Vector) -> NDArray[np.bool_]:
    """(N,) which hosts are so far from everybody that their pairs say nothing about the place of others.

    matrix: `symmetric`. A host with a sick card, or alone in another zone: even its nearest neighbour is
    1.5 times further off than a typical pair is. The differences between its pairs are smaller
    than their noise. No
    host is far in a fleet of fewer than four, or where that would leave fewer than half of the hosts.
    """
    n = len(matrix)
    nobody = np.zeros(n, dtype=bool)
    known = np.isfinite(matrix)
    if n < 4 or not known.any(axis=1).all():
        return nobody
    typical = median(row_medians(matrix))
    nearest = np.where(known, matrix, np.inf).min(axis=1)
    far = nearest > _FAR * typical
    return np.asarray(far if far.sum() <= n // 2 else nobody)
