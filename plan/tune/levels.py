"""What each host can send, held still: a level a host, which moves only where measurements have left it for good."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netprobe.plan.tune.masters import Floats

APART = 1.2
"""Rates within this ratio of each other are the same: the dissertation's 20 % for a sudden change."""


def pooled(rates: Floats, apart: float = APART) -> Floats:
    """``rates`` (N,), those near each other as their median, so that noise favours no host; NaN as that of all."""
    known = np.isfinite(rates) & (rates > 0)
    if not known.any():
        return np.ones(len(rates))
    made = rates.copy()
    order = np.flatnonzero(known)[np.argsort(rates[known], kind="stable")]
    begin = 0
    for place in range(1, len(order) + 1):
        if place == len(order) or made[order[place]] > apart * made[order[begin]]:
            own = order[begin:place]
            made[own] = np.median(made[own])
            begin = place
    made[~known] = np.median(made[known])
    return made


def departed(recent: Sequence[Floats], levels: Floats, apart: float = APART) -> list[int]:
    """The hosts whose last rates (N,) are all above their levels, or all below, by more than ``apart``.

    What has become of most hosts alike (a machine that is busy, a link that all share) is left out of account.
    """
    ratio = np.array([rates if np.isfinite(rates).any() else levels for rates in recent]) / levels
    ratio /= np.nanmedian(ratio, axis=1, keepdims=True)
    beyond = (ratio > apart).all(axis=0) | (ratio < 1 / apart).all(axis=0)
    return [int(host) for host in np.flatnonzero(beyond)]
