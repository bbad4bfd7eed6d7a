"""The assignment step of constrained k-means: the least total cost under the size limits, exactly.

It is a transport problem, points to groups, whose residual graph needs only the k groups and a hub: the arc
from group a to group b is the point of a that would move to b at the least cost, and a group may hand a place
it need not fill to the hub, or take one from it. Successive shortest paths (Ford and Fulkerson; Ahuja,
Magnanti and Orlin 1993, section 9.7) end at the optimum from any prices, so the descent of k-means begins
each step at the prices of the last one, where few points have to move.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

# Differences of cost below this share of the largest cost are rounding.
_ROUNDING = 1e-13


class Assigner:
    """Assigns n points to k groups of ``size_min`` to ``size_max`` again and again, as the costs change.

    The caller checks feasibility (`lloyd.check_sizes`). ``prices`` (k,) are those of the last
    optimum: each point was in the group where its cost plus the group's price was least.
    """

    def __init__(self, n: int, k: int, *, size_min: int, size_max: int) -> None:
        self.n, self.k = n, k
        self.size_min, self.size_max = size_min, min(size_max, n)
        self.prices = np.zeros(k)

    def __call__(self, cost: NDArray[np.float64]) -> NDArray[np.int64]:
        """(n,) groups of the least total ``cost`` (n, k)."""
        labels = np.asarray(cost.argmin(axis=1), dtype=np.int64)
        counts = np.bincount(labels, minlength=self.k)
        if counts.min() >= self.size_min and counts.max() <= self.size_max:
            self.prices = np.zeros(self.k)
            return labels
        # The last prices, unless zero prices are nearer: in the first steps of a descent the costs change a lot.
        starts = (_Start(cost, prices, self) for prices in (self.prices, np.zeros(self.k)))
        flow = _Flow(cost, min(starts, key=lambda start: start.to_move), self)
        flow.balance()
        prices = flow.prices()
        self.prices = np.where(np.abs(prices) > flow.tolerance, prices, 0.0)
        return flow.labels


class _Start:
    """The optimum at fixed prices: each point in its cheapest group, a group of positive price full, one of negative
    price at its least size. ``excess`` (k + 1,) is what each group, and last the hub, has beyond its places.
    """

    def __init__(self, cost: NDArray[np.float64], prices: NDArray[np.float64], limits: Assigner) -> None:
        self.labels = np.asarray((cost + prices).argmin(axis=1), dtype=np.int64)
        counts = np.bincount(self.labels, minlength=limits.k)
        self.places = np.clip(counts, limits.size_min, limits.size_max)
        self.places[prices > 0] = limits.size_max
        self.places[prices < 0] = limits.size_min
        self.excess = np.append(counts - self.places, int(self.places.sum()) - limits.n)
        self.to_move = int(np.maximum(self.excess, 0).sum())


class _Flow:
    """Groups 0 to k - 1 and the hub k; ``places`` are those a group has been promised to fill."""

    def __init__(self, cost: NDArray[np.float64], start: _Start, limits: Assigner) -> None:
        self.cost, self.k = cost, limits.k
        self.size_min, self.size_max = limits.size_min, limits.size_max
        self.tolerance = _ROUNDING * max(float(np.abs(cost).max()), 1e-300)
        self.labels, self.places, self.excess = start.labels, start.places, start.excess
        self.arcs = np.full((self.k + 1, self.k + 1), np.inf)
        self.movers = np.zeros((self.k, self.k), dtype=np.int64)
        for group in range(self.k):
            self._renew(group)

    def balance(self) -> None:
        """Move points along shortest paths until no group has more or less than its places."""
        while (self.excess > 0).any():
            sources = self.excess > 0
            distance, before = _shortest(self.arcs, np.where(sources, 0.0, np.inf), self.tolerance)
            ends = np.flatnonzero((self.excess < 0) & np.isfinite(distance))
            spent: set[int] = set()
            # Paths of different sources share no group, and all of them are shortest: each may be taken.
            for end in ends[np.argsort(distance[ends], kind="stable")].tolist():
                path = [end]
                while not (sources[path[-1]] and before[path[-1]] == path[-1]):
                    path.append(int(before[path[-1]]))
                if path[-1] not in spent:
                    spent.add(path[-1])
                    self._move(path[::-1])

    def prices(self) -> NDArray[np.float64]:
        """(k,) prices that certify the optimum: the value of a place in each group to the hub."""
        start = np.full(self.k + 1, np.inf)
        start[self.k] = 0.0
        to_hub, _ = _shortest(self.arcs.T, start, self.tolerance)
        from_hub, _ = _shortest(self.arcs, start, self.tolerance)
        if np.isfinite(to_hub).all():
            return np.asarray(to_hub[: self.k])
        if np.isfinite(from_hub).all():
            return np.asarray(-from_hub[: self.k])
        # No group has room above its least size: the hub decides nothing, only differences matter.
        start[:] = 0.0
        return np.asarray(_shortest(self.arcs.T, start, self.tolerance)[0][: self.k])

    def _move(self, path: list[int]) -> None:
        """Send one unit along ``path`` of groups, and look at the arcs of those it touched again."""
        for source, target in itertools.pairwise(path):
            if target == self.k:
                self.places[source] += 1
            elif source == self.k:
                self.places[target] -= 1
            else:
                self.labels[self.movers[source, target]] = target
        self.excess[path[0]] -= 1
        self.excess[path[-1]] += 1
        for group in path:
            if group < self.k:
                self._renew(group)

    def _renew(self, group: int) -> None:
        members = np.flatnonzero(self.labels == group)
        if len(members):
            extra = self.cost[members] - self.cost[members, group][:, None]
            first = extra.argmin(axis=0)
            self.movers[group] = members[first]
            self.arcs[group, : self.k] = extra[first, np.arange(self.k)]
        else:
            self.arcs[group, : self.k] = np.inf
        self.arcs[group, group] = np.inf
        self.arcs[group, self.k] = 0.0 if self.places[group] < self.size_max else np.inf
        self.arcs[self.k, group] = 0.0 if self.places[group] > self.size_min else np.inf


def _shortest(
    arcs: NDArray[np.float64], start: NDArray[np.float64], tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Least distances (Bellman and Ford, all arcs at once) from ``start``, and the node before each."""
    nodes = np.arange(len(start))
    distance, before = start, nodes.copy()
    for _ in nodes:
        through = distance[:, None] + arcs
        best = through.argmin(axis=0)
        found = through[best, nodes]
        nearer = found < distance - tolerance
        if not nearer.any():
            break
        before = np.where(nearer, best, before)
        distance = np.where(nearer, found, distance)
    return distance, before
