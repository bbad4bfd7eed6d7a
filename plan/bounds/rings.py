"""Lower bounds of rings: no ring through the hosts can cost less than these.

Sum: the Held-Karp bound (`netprobe.plan.bounds.onetree`); for directed costs also the assignment bound.

Largest hop: a ring whose hops all cost at most t leaves every host by an arc and enters it by another, makes
the graph of the arcs up to t strongly connected, and (three hosts or more) makes its undirected graph
2-connected, with no contradiction among the hops it needs (`netprobe.plan.bounds.forced`). The bound is the least t of
the matrix at which all of that holds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.bounds.forced import contradicts_a_ring
from netprobe.plan.bounds.matrices import least_that_holds
from netprobe.plan.bounds.onetree import STEPS, RingBound, held_karp


def sum_bound(cost: FloatMatrix, upper: float, steps: int = STEPS) -> RingBound:
    """A bound on the sum round every ring, in the unit of ``cost`` (N, N) [src, dst].

    With it a ring that was met on the way, if any. ``upper`` is a ring's cost, which the bound does not exceed, unless
    that ring is cheaper. ``steps`` is how often the prices of the Held-Karp bound change. Only element-wise
    operations and exactly rounded sums are used, so every machine finds the same bound.
    """
    size = len(cost)
    if size < 2:
        return RingBound(bound=0.0, ring=None)
    if size <= 3:
        both = (list(range(size)), [0, *range(size - 1, 0, -1)])
        return RingBound(
            bound=min(math.fsum(cost[order, np.roll(order, -1)].tolist()) for order in both), ring=None
        )
    found = held_karp(cost, upper, steps)
    bound = found.bound
    if not np.array_equal(cost, cost.T):
        bound = max(bound, _assignment(cost))
    return RingBound(bound=min(max(bound, 0.0), upper), ring=found.ring)


def sum_lower_bound(cost: FloatMatrix, upper: float, steps: int = STEPS) -> float:
    """The bound of `sum_bound` alone."""
    return sum_bound(cost, upper, steps).bound


def bottleneck_lower_bound(cost: FloatMatrix) -> float:
    """A bound on the largest hop of every ring, in the unit of ``cost`` (N, N): a value of the matrix."""
    size = len(cost)
    if size < 2:
        return 0.0
    off = cost.copy()
    np.fill_diagonal(off, np.inf)
    low = float(max(off.min(axis=0).max(), off.min(axis=1).max()))
    values = np.unique(off[np.isfinite(off) & (off >= low)])
    return least_that_holds(values, lambda value: _may_hold_a_ring(off <= value))


def _assignment(cost: FloatMatrix) -> float:
    """Every host needs one arc out and one arc in."""
    from scipy.optimize import linear_sum_assignment

    work = cost.copy()
    np.fill_diagonal(work, cost.sum() + 1.0)
    rows, columns = linear_sum_assignment(work)
    return math.fsum(work[rows, columns].tolist())


def _may_hold_a_ring(allowed: NDArray[np.bool_]) -> bool:
    size = len(allowed)
    if not (_reaches_all(allowed) and _reaches_all(allowed.T)):
        return False
    either = allowed | allowed.T
    return size < 3 or (not contradicts_a_ring(either) and _is_biconnected(either))


def _reaches_all(allowed: NDArray[np.bool_]) -> bool:
    seen = np.zeros(len(allowed), dtype=bool)
    seen[0] = True
    frontier = seen
    while frontier.any():
        frontier = allowed[frontier].any(axis=0) & ~seen
        seen = seen | frontier
    return bool(seen.all())


def _is_biconnected(graph: NDArray[np.bool_]) -> bool:
    """Hopcroft and Tarjan's low points on a connected undirected graph: is there no articulation point?"""
    size = len(graph)
    unseen = np.ones(size, dtype=bool)
    when = np.full(size, size, dtype=np.int64)
    low = [size] * size
    parent = [-1] * size
    stack, clock, root_children = [0], 1, 0
    when[0], low[0], unseen[0] = 0, 0, False
    while stack:
        host = stack[-1]
        fresh = int((graph[host] & unseen).argmax())
        if graph[host, fresh] and unseen[fresh]:
            parent[fresh] = host
            root_children += host == 0
            when[fresh], low[fresh], unseen[fresh] = clock, clock, False
            clock += 1
            stack.append(fresh)
            continue
        stack.pop()
        back = graph[host].copy()
        back[host] = False
        if parent[host] >= 0:
            back[parent[host]] = False
        if back.any():
            low[host] = min(low[host], int(when[back].min()))
        above = parent[host]
        if above >= 0:
            low[above] = min(low[above], low[host])
            if above != 0 and low[host] >= when[above]:
                return False
    return clock == size and root_children <= 1
