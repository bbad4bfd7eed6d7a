"""Max-min fair rates: no flow can be faster without one that is as slow or slower becoming slower still.

Progressive filling (Bertsekas and Gallager, *Data Networks*, 1992, section 6.5.2), many bottlenecks at a time: a
resource all of whose flows have no smaller share elsewhere is full, independently of the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_NEAR = 1 + 1e-12


def fair_rates(passed: NDArray[np.intp], capacity: Floats, most: Floats) -> Floats:
    """Rates (F,) of flows that pass the resources ``passed`` (F, K), -1 where there are fewer than K.

    ``capacity`` (R,) is what each resource carries, ``most`` (F,) what a flow takes at most; any unit, above 0,
    inf where nothing limits. A flow that nothing limits has the rate inf.
    """
    flows, slots = passed.shape
    rates = np.full(flows, np.inf)
    left = np.append(capacity.astype(np.float64), np.inf)
    at = np.where(passed < 0, len(capacity), passed)
    open_ = np.arange(flows)
    while len(open_):
        own = at[open_]
        count = np.bincount(own.ravel(), minlength=len(left))
        count[-1] = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(count > 0, np.maximum(left, 0.0) / count, np.inf)
        share[-1] = np.inf
        least = np.minimum(share[own].min(axis=1) if slots else np.inf, most[open_])
        # A resource is full when no flow of its own is held back more elsewhere.
        lowest = np.full(len(left), np.inf)
        for slot in range(slots):
            np.minimum.at(lowest, own[:, slot], least)
        full = (count > 0) & (lowest * _NEAR >= share) & np.isfinite(share)
        ends = full[own].any(axis=1) | (least >= most[open_]) | np.isinf(least)
        done = open_[ends]
        rates[done] = least[ends]
        finite = np.isfinite(least[ends])
        taken = np.bincount(
            at[done][finite].ravel(), np.repeat(least[ends][finite], slots), minlength=len(left)
        )
        left[:-1] -= taken[:-1]
        open_ = open_[~ends]
    return rates
