"""Held and Karp's bound of rings, for directed costs: 1-trees under two prices a host.

A ring leaves and enters every host once, and without its two arcs at host 0 it joins the other hosts. Require only
that one arc leaves and one enters host 0, and that arcs, in either direction, join the others in a tree:
the least such 1-tree costs no more than the best ring. A price u on leaving a host and v on entering it
changes all rings by the same sum(u + v), and the 1-tree's bound is raised by pricing the hosts it uses too often
(Held and Karp, "The traveling-salesman problem and minimum spanning trees", Operations Research 18, 1970).
With symmetric costs u = v and this is their bound; with directed ones it is what their bound gives for the
symmetric problem of 2N hosts, each host's two halves joined for good.

The first prices of a host take away the largest hop on the way to it from host 0 over a least spanning tree (the
single-linkage distance between the two), for leaving and for entering. Where costs are those of a hierarchy these
are the best prices at once: a ring of a tree's leaves costs at least twice all its branches, and the bound is
that. From nothing, thousands of steps do not move the price of a whole rack that far. The steps then add what
noise needs.

The prices are searched on the short arcs only, which is quick; the bound is that of all arcs at the best prices.
Element-wise operations, exactly rounded sums and ties broken by place: every machine finds the same bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix

STEPS = 800
"""Subgradient steps on the short arcs."""
LOOK_EVERY = 50
"""Steps, until all arcs are looked at and those that were missing join the short ones."""
NEAREST = 12
MEMORY = 0.9
"""Share of the steps before in the direction of the next one."""
PATIENCE = 20
ROUNDING = 1e-11
"""Share of the cost of a ring that the bound gives away."""

Indices = NDArray[np.int64]
Prices = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RingBound:
    """No ring costs less than ``bound``. ``ring``: a 1-tree that was one, if any was met; as a rule the best ring."""

    bound: float
    ring: tuple[int, ...] | None


def held_karp(cost: FloatMatrix, upper: float, steps: int = STEPS) -> RingBound:
    """A bound on the sum round every ring of N >= 4 hosts, in the unit of ``cost`` (N, N) [src, dst].

    ``upper`` is the cost of a ring; the nearer it is to the best one, the sooner the prices converge.
    """
    search = _Search(cost, upper)
    search.look_at_all()
    for _ in range(0, steps, LOOK_EVERY):
        search.step(LOOK_EVERY)
        if not search.look_at_all() and search.converged:
            break
    # The prices and their sums are rounded: give the last digits away rather than claim too much.
    return RingBound(bound=search.proven - ROUNDING * abs(upper), ring=search.ring)


class _Search:
    """Prices on the way up.

    Polyak's rule, step = scale * (upper - bound) / |slope|^2, along a mean of the slopes met that fades, as in the
    volume algorithm (Barahona and Anbil, Mathematical Programming 87, 2000): single slopes jump to and fro
    between the trees of a rack, and the price of the whole rack hardly moves. When stuck the scale is halved and the
    prices go back to the best ones; it grows while a better bound's own slope still points ahead.
    """

    def __init__(self, cost: FloatMatrix, upper: float) -> None:
        size = len(cost)
        self.cost, self.upper, self.size = cost, upper, size
        self.symmetric = bool(np.array_equal(cost, cost.T))
        nearer = np.minimum(cost, cost.T)
        self.price = np.tile(-_largest_hops(nearer), 2)
        # The best bound so far, by the short arcs; and by all arcs, which is the one that counts.
        self.best, self.best_price, self.best_square = -math.inf, self.price, math.inf
        self.proven, self.proven_price, self.proven_square = -math.inf, self.price, math.inf
        self.direction = np.zeros(2 * size)
        self.scale, self.stuck, self.converged = 1.0, 0, False
        self.ring: tuple[int, ...] | None = None
        self.use(np.union1d(_near_pairs(nearer), _least_tree(nearer)))

    def use(self, pairs: Indices) -> None:
        """Seek on these pairs of hosts from 1 on, each written once as low * N + high, sorted."""
        self.pairs = pairs
        self.low, self.high = np.divmod(pairs, self.size)
        self.there, self.back = self.cost[self.low, self.high], self.cost[self.high, self.low]
        self.starts = np.searchsorted(self.low, np.arange(self.size + 1)).astype(np.int32)
        self.ends = self.high.astype(np.int32)

    def step(self, steps: int) -> None:
        """Change the prices ``steps`` times."""
        for _ in range(steps):
            tails, heads = self._tree(self.price)
            bound, slope = self._bound(self.price, tails, heads)
            square = math.fsum((slope * slope).tolist())
            first = not self.direction.any()
            self.direction = slope if first else MEMORY * self.direction + (1 - MEMORY) * slope
            self.stuck += 1
            if bound > self.best:
                self.best, self.best_price, self.stuck = bound, self.price, 0
                if math.fsum((self.direction * slope).tolist()) > 0:
                    self.scale = min(2.0, self.scale * 1.1)
                self.best_square = square
            elif self.stuck >= PATIENCE:
                # Shorter steps, from where the bound was best: not from wherever the long ones have led.
                self.scale, self.stuck = self.scale / 2, 0
                self.price, bound, square = self.best_price, self.best, self.best_square
            # The 1-tree is a ring, or no ring is cheaper.
            self.converged = square == 0 or self.best >= self.upper * (1 - ROUNDING)
            if self.converged:
                self.ring = _ring_of(tails, heads) if square == 0 else self.ring
                return
            length = self.scale * max(self.upper - bound, 1e-6 * abs(self.upper)) / square
            self.price = self.price + length * self.direction

    def look_at_all(self) -> bool:
        """Prove the bound at the best prices with all arcs; whether it uses any that were not among the short ones."""
        leave, enter = self.best_price[: self.size], self.best_price[self.size :]
        priced = self.cost + leave[:, None] + enter[None, :]
        pairs = _least_tree(np.minimum(priced, priced.T))
        tails, heads = np.divmod(pairs, self.size)
        forth = priced[tails, heads] <= priced[heads, tails]
        tails, heads = np.where(forth, tails, heads), np.where(forth, heads, tails)
        bound, slope = self._bound(self.best_price, tails, heads)
        if bound > self.proven:
            self.proven, self.proven_price = bound, self.best_price
            self.proven_square = math.fsum((slope * slope).tolist())
        more = np.union1d(self.pairs, pairs)
        if len(more) == len(self.pairs):
            return False
        self.use(more)
        if bound < self.proven:
            self.price = self.proven_price
        self.best, self.best_price, self.best_square = self.proven, self.proven_price, self.proven_square
        return True

    def _tree(self, price: Prices) -> tuple[Indices, Indices]:
        """Tails and heads of the least tree of the hosts from 1 on, on the short pairs."""
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import minimum_spanning_tree

        leave, enter = price[: self.size], price[self.size :]
        forth = self.there + leave[self.low] + enter[self.high]
        backwards = self.back + leave[self.high] + enter[self.low]
        weight = np.minimum(forth, backwards)
        # Ranks in place of weights: no two are equal, so there is one least tree, and none is 0 (no arc to scipy).
        ranked = np.argsort(weight, kind="stable")
        rank = np.empty(len(ranked))
        rank[ranked] = np.arange(1, len(ranked) + 1)
        graph = csr_matrix((rank, self.ends, self.starts), shape=(self.size, self.size))
        used = ranked[minimum_spanning_tree(graph).data.astype(np.int64) - 1]
        turned = backwards[used] < forth[used]
        low, high = self.low[used], self.high[used]
        return np.where(turned, high, low), np.where(turned, low, high)

    def _bound(self, price: Prices, tails: Indices, heads: Indices) -> tuple[float, Prices]:
        """Weight of the 1-tree with that tree, less all prices; and how often each price is paid too much."""
        size, cost = self.size, self.cost
        leave, enter = price[:size], price[size:]
        arcs = cost[tails, heads] + leave[tails] + enter[heads]
        out = cost[0, 1:] + leave[0] + enter[1:]
        back = cost[1:, 0] + leave[1:] + enter[0]
        weight, to, of = _two_arcs(out, back)
        bound = math.fsum([*arcs.tolist(), weight, *(-price).tolist()])
        leaving = np.bincount(np.append(tails, [0, of + 1]), minlength=size) - 1.0
        entering = np.bincount(np.append(heads, [0, to + 1]), minlength=size) - 1.0
        if self.symmetric:
            leaving = entering = (leaving + entering) / 2
        return bound, np.concatenate([leaving, entering])


def _two_arcs(out: NDArray[np.float64], back: NDArray[np.float64]) -> tuple[float, int, int]:
    """The cheapest two arcs, one out to a host and one back from another one: their sum and the two hosts."""
    to, of = int(out.argmin()), int(back.argmin())
    if to != of:
        return float(out[to] + back[of]), to, of
    others_out, others_back = out.copy(), back.copy()
    others_out[to] = others_back[of] = np.inf
    other_to, other_of = int(others_out.argmin()), int(others_back.argmin())
    first, second = float(out[to] + back[other_of]), float(out[other_to] + back[of])
    return (first, to, other_of) if first <= second else (second, other_to, of)


def _ring_of(tails: Indices, heads: Indices) -> tuple[int, ...]:
    """The ring of a path of the hosts from 1 on, whose ends host 0 joins, from host 0 on."""
    neighbours: dict[int, list[int]] = {}
    for tail, head in zip(tails.tolist(), heads.tolist()):
        neighbours.setdefault(tail, []).append(head)
        neighbours.setdefault(head, []).append(tail)
    entered = set(heads.tolist())
    # Directed, the end that no arc enters is the first; otherwise any end will do.
    at = min(
        (host for host, others in neighbours.items() if len(others) == 1), key=lambda host: host in entered
    )
    ring = [0, at]
    while len(ring) <= len(tails) + 1:
        at = next(host for host in neighbours[at] if host != ring[-2])
        ring.append(at)
    return tuple(ring)


def _near_pairs(cost: FloatMatrix) -> Indices:
    """The pairs of each host from 1 on with its nearest ones, low * N + high."""
    size = len(cost)
    work = cost.copy()
    np.fill_diagonal(work, np.inf)
    work[0, :] = work[:, 0] = np.inf
    near = np.argsort(work, axis=1, kind="stable")[:, : min(NEAREST, size - 2)]
    hosts = np.repeat(np.arange(size), near.shape[1])
    others = near.ravel()
    kept = (hosts > 0) & (others > 0) & (hosts != others)
    low, high = np.minimum(hosts, others)[kept], np.maximum(hosts, others)[kept]
    pairs: Indices = low * size + high
    return pairs


def _least_tree(cost: FloatMatrix) -> Indices:
    """Pairs (low * N + high) of a least spanning tree of the hosts from 1 on."""
    size = len(cost)
    pairs: Indices = np.array(sorted(min(p) * size + max(p) for p in _grown(cost, 1)), dtype=np.int64)
    return pairs


def _largest_hops(cost: FloatMatrix) -> Prices:
    """For each host the largest hop on the way to it from host 0, on the way where that is least."""
    largest = np.zeros(len(cost))
    for old, new in _grown(cost, 0):
        largest[new] = max(largest[old], cost[old, new])
    return largest


def _grown(cost: FloatMatrix, first: int) -> list[tuple[int, int]]:
    """A least spanning tree of the hosts from ``first`` on, by Prim's algorithm: host joined to, host that joins."""
    distance = cost[first].copy()
    nearest = np.full(len(cost), first)
    outside = np.arange(len(cost)) > first
    distance[~outside] = np.inf
    grown = []
    for _ in range(len(cost) - first - 1):
        new = int(distance.argmin())
        grown.append((int(nearest[new]), new))
        outside[new] = False
        distance[new] = np.inf
        closer = (cost[new] < distance) & outside
        distance[closer] = cost[new][closer]
        nearest[closer] = new
    return grown
