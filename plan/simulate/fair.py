"""Max-min fair rates: no flow can be faster without one that is as slow or slower becoming slower still.

Progressive filling (Bertsekas and Gallager, *Data Networks*, 1992, section 6.5.2), many bottlenecks at a time: a
resource all of whose flows have no smaller share elsewhere is full, independently of the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_NEAR = 1 + 1e-12


def fair_rates(
    passed: NDArray[np.intp], capacity: Floats, most: Floats, weight: Floats | None = None
) -> Floats:
    """Rates (F,) of flows that pass the resources ``passed`` (F, K), -1 where there are fewer than K.

    ``capacity`` (R,) is what each resource carries, ``most`` (F,) what a flow takes at most; any unit, above 0,
    inf where nothing limits. A flow that nothing limits has the rate inf. Where several share a resource each gets
    what its ``weight`` (F,), above 0, says; 1 where there are none.
    """
    flows, slots = passed.shape
    if not slots:
        return most.astype(np.float64)
    rates = np.full(flows, np.inf)
    none = len(capacity)
    left = np.append(capacity.astype(np.float64), np.inf)
    own = np.where(passed < 0, none, passed)
    part = np.ones(flows) if weight is None else weight
    limit, open_ = most / part, np.arange(flows)
    count = np.bincount(own.ravel(), np.repeat(part, slots), minlength=none + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        while len(open_):
            share = np.where(count > 0, np.maximum(left, 0.0) / count, np.inf)
            share[none] = np.inf
            least = np.minimum(share[own].min(axis=1), limit)
            # A resource is full when no flow of its own is held back more elsewhere.
            lowest = np.full(none + 1, np.inf)
            np.minimum.at(lowest, own.ravel(), np.repeat(least, slots))
            full = (lowest * _NEAR >= share) & (share < np.inf)
            ends = full[own].any(axis=1) | (least >= limit)
            if ends.all():
                rates[open_] = least * part
                break
            reached = least[ends] * part[ends]
            rates[open_[ends]] = reached
            gone, taken = own[ends].ravel(), np.where(np.isinf(reached), 0.0, reached)
            count -= np.bincount(gone, np.repeat(part[ends], slots), minlength=none + 1)
            left -= np.bincount(gone, np.repeat(taken, slots), minlength=none + 1)
            keeps = ~ends
            open_, own, limit, part = open_[keeps], own[keeps], limit[keeps], part[keeps]
    return rates
