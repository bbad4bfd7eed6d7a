"""What is asked of distance matrices everywhere: are they valid, and are they symmetric."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netprobe.core.errors import InputError


def is_directed(distance: NDArray[np.float64]) -> bool:
    """Whether (N, N) distances differ by direction beyond the digits of a document."""
    # Most are the same numbers both ways, which is quickly seen.
    same = distance == distance.T
    missing = np.isnan(distance)
    if (same | (missing & missing.T)).all():
        return False
    return not np.allclose(distance, distance.T, rtol=1e-6, atol=0.0, equal_nan=True)


def checked_distances(distance: ArrayLike) -> NDArray[np.float64]:
    """A float64 copy of ``distance`` (N, N), any unit, with NaN on the diagonal and where missing.

    Raises InputError when it is not square, or has an infinite or negative entry.
    """
    matrix = np.array(distance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InputError(f"a distance matrix must be square and not empty, this one is {matrix.shape}")
    np.fill_diagonal(matrix, np.nan)
    # Neither is changed by NaN.
    if np.fmin.reduce(matrix, axis=None) < 0 or np.fmax.reduce(np.abs(matrix), axis=None) == np.inf:
        row, column = np.argwhere(np.isinf(matrix) | (matrix < 0))[0]
        raise InputError(
            f"distance [{row}, {column}] is {matrix[row, column]}; "
            "it must be finite and not negative, or NaN for a missing one"
        )
    return matrix
