"""How long an iteration takes: table II of the paper, corrected, for groups of any sizes and hosts of any rates.

A group of g hosts averages by a ring all-reduce: 2 (g - 1) latencies, and 2 (g - 1) / g of the buffer at the slowest
rate among its hosts, and uplinks where it spans racks. (The paper has 2 S beta for a group of two, which is S beta, and
2 (G - 1) latencies inside a rack whose group has G - 1 hosts.) An iteration takes as long as its slowest group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.ds_sync.consensus import Groups


@dataclass(frozen=True, kw_only=True, eq=False)
class Rates:
    """One-way latencies (N, N) in seconds, seconds a byte of hosts (N,) and uplinks (C,), and each host's rack (N,)."""

    alpha_s: FloatMatrix
    host: NDArray[np.float64]
    uplink: NDArray[np.float64]
    rack: NDArray[np.intp]


def group_time_s(group: Sequence[int], rates: Rates, size_bytes: int) -> float:
    """Seconds of the ring all-reduce of one group."""
    count = len(group)
    if count < 2:
        return 0.0
    at = np.array(group, dtype=np.intp)
    beta = float(rates.host[at].max())
    if len(set(rates.rack[at].tolist())) > 1:
        beta = max(beta, float(rates.uplink[np.unique(rates.rack[at])].max()))
    between = rates.alpha_s[np.ix_(at, at)][~np.eye(count, dtype=bool)]
    return 2 * (count - 1) * float(between.max()) + 2 * (count - 1) / count * size_bytes * beta


def iteration_time_s(iteration: Groups, rates: Rates, size_bytes: int) -> float:
    """The slowest group's."""
    return max(group_time_s(group, rates, size_bytes) for group in iteration.groups)


def pattern_time_s(pattern: Sequence[Groups], rates: Rates, size_bytes: int) -> float:
    """The mean over a period."""
    return float(np.mean([iteration_time_s(one, rates, size_bytes) for one in pattern]))


def all_reduce_time_s(hosts: int, rates: Rates, size_bytes: int) -> float:
    """One ring through all hosts."""
    return group_time_s(range(hosts), rates, size_bytes)


def hierarchical_time_s(racks: Sequence[Sequence[int]], rates: Rates, size_bytes: int) -> float:
    """Reduce-scatter and all-gather inside racks, an all-reduce between them: one after the other."""
    inside = max(group_time_s(rack, rates, size_bytes) for rack in racks)
    if len(racks) < 2:
        return inside
    leaders = [rack[0] for rack in racks]
    return inside + group_time_s(leaders, rates, size_bytes)
