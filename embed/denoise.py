"""Denoised and complete distances without coordinates: what grouping needs, and no torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.embed.prepare import check_matrix, prepare, winsorise
from netprobe.embed.records import EmbedOptions
from netprobe.embed.smooth import smooth


def denoise(distance_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, N) symmetric distances of ``[src, dst]`` ones with NaN where missing: those that a map's default
    method has.

    Raises InputError for a matrix that is none, or a host without any measured distance.
    """
    matrix = check_matrix(distance_s)
    prepared = prepare(matrix, larger_direction=False)
    if len(matrix) == 1 or not prepared.distance.any():
        return np.zeros_like(matrix)
    return smooth(winsorise(prepared, factor=EmbedOptions().winsorise)) * prepared.scale_s
