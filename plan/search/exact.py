"""Proven best rings of a few hosts: dynamic programming over subsets.

Held and Karp, "A dynamic programming approach to sequencing problems", J. SIAM 10, 1962. The same recursion
with max instead of + gives the least largest hop. The two cannot be joined in one pass (the least
(largest, sum) of a part need not belong to the best whole), so the least sum under a largest hop is a
second pass with the larger hops forbidden.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_EXACT_HOSTS = 18
"""A table of 2^17 subsets by 17 hosts, 18 MB, in less than half a second. Each host more doubles both."""
_FORBIDDEN = 1 << 60
"""More than any ring of so few hosts, of which one hop costs 2^40 units at most; the sum of two is below 2^63."""

Units = NDArray[np.int64]


def best_sum_ring(cost: Units, largest_hop: int | None = None) -> list[int] | None:
    """The ring from host 0 of least sum whose hops cost at most ``largest_hop``; None when there is none.

    ``cost`` is (N, N) [src, dst], in whole units up to 2^40, for 3 to MAX_EXACT_HOSTS hosts.
    """
    arcs = cost if largest_hop is None else np.where(cost <= largest_hop, cost, _FORBIDDEN)
    best = _paths(arcs, np.add)
    total = np.add(best[-1], arcs[1:, 0])
    end, subset = int(total.argmin()), len(best) - 1
    if total[end] >= _FORBIDDEN:
        return None
    path = []
    while True:
        path.append(end + 1)
        subset &= ~(1 << end)
        if not subset:
            return [0, *reversed(path)]
        end = int(np.add(best[subset], arcs[1:, path[-1]]).argmin())


def least_largest_hop(cost: Units) -> int:
    """The least possible largest hop of a ring through all hosts (3 to MAX_EXACT_HOSTS of them)."""
    return int(np.maximum(_paths(cost, np.maximum)[-1], cost[1:, 0]).min())


def _paths(arcs: Units, joined: np.ufunc) -> Units:
    """What the best path from host 0 costs through a subset of the other hosts (bits) to its end: [subset, end].

    ``joined`` is what a path and one hop more cost; _FORBIDDEN where there is no path.
    """
    others = len(arcs) - 1
    best = np.full((1 << others, others), _FORBIDDEN, dtype=np.int64)
    subsets = np.arange(1 << others)
    count = np.array([int(subset).bit_count() for subset in subsets])
    best[1 << np.arange(others), np.arange(others)] = arcs[0, 1:]
    for hosts in range(2, others + 1):
        of_size = subsets[count == hosts]
        for end in range(others):
            to = of_size[of_size >> end & 1 == 1]
            costs = joined(best[to ^ (1 << end)], arcs[1:, end + 1])
            best[to, end] = np.minimum(costs.min(axis=1), _FORBIDDEN)
    return best
