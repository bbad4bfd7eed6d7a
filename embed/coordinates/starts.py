"""Where Adam starts: classical scaling, and random points of the same spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# In a larger fleet only the eigenvectors that are needed are computed.
_LARGE = 256


def classical_scaling(distance: NDArray[np.float64], *, dimensions: int) -> NDArray[np.float64]:
    """(N, D) coordinates by classical multidimensional scaling (Torgerson 1952) of a complete (N, N)
    matrix, in its unit.
    """
    n = len(distance)
    squares = distance**2
    inner = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    kept = min(dimensions, n)
    if n > _LARGE:
        from scipy.linalg import eigh

        values, vectors = eigh(inner, subset_by_index=[n - kept, n - 1])
    else:
        values, vectors = np.linalg.eigh(inner)
    top = np.argsort(values)[::-1][:kept]
    coordinates = np.zeros((n, dimensions))
    coordinates[:, :kept] = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))
    return _fixed_signs(coordinates)


def starting_points(
    distance: NDArray[np.float64], *, dimensions: int, restarts: int, seed: int
) -> NDArray[np.float64]:
    """(R, N, D): classical scaling first, jittered off its own symmetries, then random clouds."""
    generator = np.random.default_rng(seed)
    classical = classical_scaling(distance, dimensions=dimensions)
    shape = (restarts, len(distance), dimensions)
    starts = generator.normal(0.0, 0.5 / np.sqrt(dimensions), shape)
    # Points that coincide, and axes without extent, have no direction to move in: give them one.
    starts[0] = classical + 0.01 * starts[0]
    return np.asarray(starts, dtype=np.float64)


def principal_axes(coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same points (N, D), centred and turned to their principal axes, so that two runs can be compared."""
    centred = coordinates - coordinates.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=True)
    return _fixed_signs(centred @ axes.T)


def _fixed_signs(coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn each axis so that its largest entry is positive."""
    largest = np.abs(coordinates).argmax(axis=0)
    signs = np.sign(coordinates[largest, np.arange(coordinates.shape[1])])
    return coordinates * np.where(signs == 0, 1.0, signs)
