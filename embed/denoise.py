"""Denoised and complete distances without coordinates: what grouping needs, and no fit of points.

Sources: `methods`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.embed.methods import DENOISERS
from netprobe.embed.mix import choose, mixed
from netprobe.embed.prepare import canonical_order, check_matrix, prepare, reordered
from netprobe.embed.records import EmbedOptions, Method


def denoise(
    distance_s: NDArray[np.float64], *, method: Method = "block", seed: int = 0
) -> NDArray[np.float64]:
    """(N, N) symmetric distances of ``[src, dst]`` ones with NaN where missing, in the same unit.

    One run of the method with its default weights and nothing held out: quick enough to be called
    while a scan is running. A map needs `fit_embedding`.

    Raises InputError for a bad matrix, or a host without any measured distance.
    """
    matrix = check_matrix(distance_s)
    prepared = prepare(matrix, larger_direction=method == "plink")
    if len(matrix) == 1 or not prepared.distance.any():
        return np.zeros_like(matrix)
    order = canonical_order(prepared)
    ordered = reordered(prepared, order)
    candidates = DENOISERS[method](ordered, options=EmbedOptions(method=method), seed=seed)
    nothing = np.zeros(ordered.measured.shape, dtype=np.bool_)
    back = np.argsort(order)
    return (
        mixed(candidates, choose(candidates, ordered.distance, nothing))[np.ix_(back, back)]
        * prepared.scale_s
    )
