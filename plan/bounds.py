"""Lower bounds of rings: no ring through the hosts can cost less than these.

Sum: the Held-Karp bound (Held and Karp, "The traveling-salesman problem and minimum spanning trees",
Operations Research 18, 1970): 1-trees under node prices, raised by subgradient steps, on the symmetric
costs min(c_ij, c_ji), which never exceed the directed ones; for directed costs also the assignment bound.

Largest hop: a ring whose hops all cost at most t leaves every host by an arc and enters it by another, makes
the graph of the arcs up to t strongly connected, and (three hosts or more) makes its undirected graph
2-connected. The bound is the least t of the matrix at which all of that holds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from netprobe.core.matrix import FloatMatrix
from netprobe.plan.matrices import least_that_holds

SUBGRADIENT_STEPS = 120


def sum_lower_bound(cost: FloatMatrix, upper: float, steps: int = SUBGRADIENT_STEPS) -> float:
    """A bound on the sum round every ring, in the unit of ``cost`` (N, N); ``upper`` is a ring's cost.

    Only element-wise operations and exactly rounded sums are used, so every machine finds the same bound.
    """
    size = len(cost)
    if size < 2:
        return 0.0
    if size <= 3:
        both = (list(range(size)), [0, *range(size - 1, 0, -1)])
        return min(math.fsum(cost[order, np.roll(order, -1)].tolist()) for order in both)
    bound = _held_karp(np.minimum(cost, cost.T), upper, steps)
    if not np.array_equal(cost, cost.T):
        bound = max(bound, _assignment(cost))
    return min(max(bound, 0.0), upper)


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


def _held_karp(cost: FloatMatrix, upper: float, steps: int) -> float:
    """Polyak's rule: step = scale * (upper - bound) / |degrees - 2|^2, the scale halved when stuck."""
    size = len(cost)
    price = np.zeros(size)
    best, scale, stuck = -math.inf, 1.0, 0
    previous = np.zeros(size)
    for _ in range(steps):
        weight, degree = _one_tree(cost + price[:, None] + price[None, :])
        bound = weight - 2 * math.fsum(price.tolist())
        stuck = 0 if bound > best + 1e-9 * abs(upper) else stuck + 1
        best = max(best, bound)
        slope = (degree - 2).astype(np.float64)
        square = float(int(((degree - 2) ** 2).sum()))
        if square == 0:
            break
        if stuck >= 6:
            scale, stuck = scale / 2, 0
        length = scale * max(upper - bound, 1e-6 * abs(upper)) / square
        price = price + length * (0.7 * slope + 0.3 * previous)
        previous = slope
    # The prices and their sums are rounded: give the last digits away rather than claim too much.
    return best - 1e-11 * abs(upper)


def _one_tree(cost: FloatMatrix) -> tuple[float, NDArray[np.int64]]:
    """Weight and degrees of the least 1-tree: a spanning tree of hosts 1.. and two edges of host 0."""
    size = len(cost)
    degree = np.zeros(size, dtype=np.int64)
    distance = cost[1].copy()
    distance[0] = distance[1] = np.inf
    nearest = np.ones(size, dtype=np.int64)
    in_tree = np.zeros(size, dtype=bool)
    in_tree[:2] = True
    weights: list[float] = []
    for _ in range(size - 2):
        new = int(distance.argmin())
        weights.append(float(distance[new]))
        degree[new] += 1
        degree[nearest[new]] += 1
        in_tree[new] = True
        distance[new] = np.inf
        closer = (cost[new] < distance) & ~in_tree
        distance[closer] = cost[new][closer]
        nearest[closer] = new
    two = np.argsort(cost[0][1:], kind="stable")[:2] + 1
    degree[two] += 1
    degree[0] += 2
    weights.extend(cost[0][two].tolist())
    return math.fsum(weights), degree


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
    return size < 3 or _is_biconnected(allowed | allowed.T)


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
