"""Denoised and complete distances without coordinates: what grouping needs, and no fit of points.

Sources: `methods`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netprobe.embed.estimates.kriging import direction_noise
from netprobe.embed.fit import finished, fitting_cap, judged_in_turn
from netprobe.embed.methods import DENOISERS
from netprobe.embed.mix import choose
from netprobe.embed.prepare import canonical_order, check_matrix, prepare, reordered
from netprobe.embed.records import EmbedOptions, Method


def denoise(
    distance_s: NDArray[np.float64], *, method: Method = "block", seed: int = 0
) -> NDArray[np.float64]:
    """(N, N) symmetric distances of ``[src, dst]`` ones with NaN where missing, in the same unit.

    One run of the method with its default weights, and those that decide the cap (`fitting_cap`): quick enough to be
    called while a scan is running. A map needs `fit_embedding`.

    Raises InputError for a bad matrix, or a host without any measured distance.
    """
    matrix = check_matrix(distance_s)
    prepared = prepare(matrix, larger_direction=method == "plink")
    if len(matrix) == 1 or not prepared.distance.any():
        return np.zeros_like(matrix)
    order = canonical_order(prepared)
    ordered = reordered(prepared, order)
    noise = direction_noise(matrix)
    options = EmbedOptions(method=method)
    cap, tried = fitting_cap(ordered, options, noise=noise, seed=seed)
    options = replace(options, winsorise=cap)
    candidates = DENOISERS[method](ordered, options=options, seed=seed)
    if tried is not None:
        mix = judged_in_turn(tried, ordered).mix
    else:
        mix = choose(candidates, ordered.distance, np.zeros(ordered.measured.shape, dtype=np.bool_))
    back = np.argsort(order)
    found = finished(ordered, candidates, mix, options, noise=noise)
    return found[np.ix_(back, back)] * prepared.scale_s
