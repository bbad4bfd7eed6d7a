"""Proven best rings of a few hosts: dynamic programming over subsets.

Held and Karp, "A dynamic programming approach to sequencing problems", J. SIAM 10, 1962. The same recursion
with max instead of + gives the least largest hop. The two cannot be joined in one pass (the least
(largest, sum) of a part need not belong to the best whole), so the least sum under a largest hop is a
second pass with the larger hops forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_EXACT_HOSTS = 11
_FORBIDDEN = 1 << 200


def best_sum_ring(cost: Sequence[Sequence[int]], largest_hop: int | None = None) -> list[int] | None:
    """The ring from host 0 of least sum whose hops cost at most ``largest_hop``; None when there is none.

    ``cost`` is [src][dst], in whole units, for 3 to MAX_EXACT_HOSTS hosts.
    """
    limit = _FORBIDDEN if largest_hop is None else largest_hop
    arcs = [[c if c <= limit else _FORBIDDEN for c in row] for row in cost]
    size = len(cost)
    others = size - 1
    full = 1 << others
    best = [[_FORBIDDEN] * others for _ in range(full)]
    last = [[-1] * others for _ in range(full)]
    for end in range(others):
        best[1 << end][end] = arcs[0][end + 1]
    for subset in range(1, full):
        here = best[subset]
        for end in range(others):
            value = here[end]
            if value >= _FORBIDDEN:
                continue
            row = arcs[end + 1]
            for new in range(others):
                bit = 1 << new
                if subset & bit:
                    continue
                total = value + row[new + 1]
                if total < best[subset | bit][new]:
                    best[subset | bit][new] = total
                    last[subset | bit][new] = end
    return _trace(best[full - 1], last, [arcs[end + 1][0] for end in range(others)])


def least_largest_hop(cost: Sequence[Sequence[int]]) -> int:
    """The least possible largest hop of a ring through all hosts (3 to MAX_EXACT_HOSTS of them)."""
    size = len(cost)
    others = size - 1
    full = 1 << others
    best = [[_FORBIDDEN] * others for _ in range(full)]
    for end in range(others):
        best[1 << end][end] = cost[0][end + 1]
    for subset in range(1, full):
        here = best[subset]
        for end in range(others):
            value = here[end]
            if value >= _FORBIDDEN:
                continue
            row = cost[end + 1]
            for new in range(others):
                bit = 1 << new
                if subset & bit:
                    continue
                hop = row[new + 1]
                top = value if value > hop else hop
                if top < best[subset | bit][new]:
                    best[subset | bit][new] = top
    return min(max(best[full - 1][end], cost[end + 1][0]) for end in range(others))


def _trace(final: Sequence[int], last: Sequence[Sequence[int]], closing: Sequence[int]) -> list[int] | None:
    others = len(final)
    totals = [final[end] + closing[end] for end in range(others)]
    end = min(range(others), key=totals.__getitem__)
    if totals[end] >= _FORBIDDEN:
        return None
    subset, path = (1 << others) - 1, []
    while end >= 0:
        path.append(end + 1)
        before = last[subset][end]
        subset &= ~(1 << end)
        end = before
    return [0, *reversed(path)]
