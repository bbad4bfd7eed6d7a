"""Lower bounds of exchanges and trees: seconds that no order goes below.

An exchange of k rounds joins its ranks in groups: after any k of the rounds, whichever, each rank has met the
members of its groups, and the ranks that met, directly or not, number the product of the group sizes. So
when the k fastest rounds all cost at most t, the graph of the pairs up to t

- has enough hosts with as many neighbours as the k smallest groups have other members,
- has components that hold enough whole blocks, each a multiple of the product of k group sizes,
- and lets the hosts be matched, each with another one (a fractional perfect matching).

The least t that passes bounds the k-th fastest round, and their sum the whole. It is the per-round matching
bound, sharpened by the fact that rounds never use a pair twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.bounds.matrices import least_that_holds
from netprobe.plan.costs.link import LinkCost

Allowed = NDArray[np.bool_]


def exchange_bound(link_cost: LinkCost, radices: Sequence[int], shares: Sequence[float]) -> float:
    """Seconds of one pass over rounds of groups of ``radices``, round i sending ``shares[i]`` at the least.

    prod(radices) may be below the number of hosts: any of them may then be left out. The larger of two
    sums: the k-th fastest round's bound at the smallest share, and the fastest round's at each round's own.
    """
    if not radices:
        return 0.0
    members = math.prod(radices)
    cost = _both_ways(link_cost.matrix(min(shares)))
    by_rank = math.fsum(_round_bounds(cost, radices, members))
    if len(set(shares)) == 1 or link_cost.beta_s_per_byte is None:
        return by_rank
    first = [
        _round_bounds(_both_ways(link_cost.matrix(share)), [radix], members)[0]
        for radix, share in zip(radices, shares)
    ]
    return max(by_rank, math.fsum(first))


def pairs_bound(link_cost: LinkCost, pairs: int, share: float) -> float:
    """Seconds of a round in which ``pairs`` hosts each send ``share`` to another that no one else sends to."""
    from scipy.sparse import csr_matrix  # here, as below: every command would wait for it otherwise

    cost = link_cost.matrix(share)
    np.fill_diagonal(cost, np.inf)
    return _least(cost, 0.0, lambda allowed: _matched(csr_matrix(allowed)) >= pairs)


def tree_bound(link_cost: LinkCost, depth: int, share: float) -> float:
    """Seconds up and down any tree of ``depth`` over all hosts: the best root's farthest host, there and back.

    A path in the tree is never shorter than the shortest path between its ends, and it has ``depth`` links.
    """
    size = len(link_cost)
    if size < 2:
        return 0.0
    cost = link_cost.matrix(share)
    np.fill_diagonal(cost, np.inf)
    least = float(cost.min())
    distance = cost.copy()
    np.fill_diagonal(distance, 0.0)
    # Floyd and Warshall; scipy's takes a cost near 0 for a missing link.
    for host in range(size):
        np.minimum(distance, distance[:, host, None] + distance[None, host, :], out=distance)
    there_and_back = distance.max(axis=1) + distance.max(axis=0)
    # Sums along other paths may differ by a few units in the last place.
    return max(float(there_and_back.min()) * (1 - 1e-12), 2 * depth * least * (1 - 1e-12))


def _round_bounds(cost: FloatMatrix, radices: Sequence[int], members: int) -> list[float]:
    """For each k, what the k-th fastest round costs at the least."""
    bounds: list[float] = []
    smallest = sorted(radices)
    for k in range(1, len(radices) + 1):
        block = math.gcd(*{math.prod(chosen) for chosen in combinations(smallest, k)})
        degree = sum(radix - 1 for radix in smallest[:k])
        # The threshold at which enough hosts have as many neighbours as they need.
        needed = np.partition(cost, degree - 1, axis=1)[:, degree - 1]
        low = max(float(np.partition(needed, members - 1)[members - 1]), *bounds[-1:], 0.0)
        # Hosts that can be matched at the first threshold can be at all later ones.
        bounds.append(_least(cost, low, _holds_round(members, block, matched=k == 1)))
    return bounds


def _holds_round(members: int, block: int, *, matched: bool) -> Callable[[Allowed], bool]:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    def holds(allowed: Allowed) -> bool:
        graph = csr_matrix(allowed)
        _, label = connected_components(graph, directed=False)
        if int((np.bincount(label) // block).sum()) * block < members:
            return False
        return not matched or _matched(graph) >= members

    return holds


def _matched(graph: Any) -> int:
    """The most arcs of the sparse ``graph`` of which no two leave or enter the same host."""
    from scipy.sparse.csgraph import maximum_bipartite_matching

    match = maximum_bipartite_matching(graph, perm_type="column")
    return int(np.count_nonzero(match >= 0))


def _least(cost: FloatMatrix, low: float, holds: Callable[[Allowed], bool]) -> float:
    """The least value t of ``cost``, at least ``low``, at which ``holds`` of the pairs up to t."""
    values = np.unique(cost[np.isfinite(cost)])
    return least_that_holds(values, lambda value: holds(cost <= value), low=low)


def _both_ways(cost: FloatMatrix) -> FloatMatrix:
    """A pair that exchanges costs its slower direction; no rank exchanges with itself."""
    slower: FloatMatrix = np.maximum(cost, cost.T)
    np.fill_diagonal(slower, np.inf)
    return slower
