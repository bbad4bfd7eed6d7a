"""Orders at given places in the range of predicted costs (dissertation, section 6.3.2).

The i-th of K orders costs i/K of the way from the lowest-cost order known, the plan's, to the most expensive one that
a search finds. Random orders alone would crowd near the upper end: the pool holds those on random walks away from
both ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError
from netprobe.plan.costs import RankOrders, Ranks

Price = Callable[[RankOrders], NDArray[np.float64]]
"""Costs (K,) of orders (K, N)."""

MOST_ORDERS = 1000
POOL_CELLS = 1 << 21
TRIES = 64
STALE = 30


@dataclass(frozen=True, kw_only=True)
class PlacedOrder:
    """``order[rank]`` is a host; ``percentile`` where its cost lies between the cheapest and the most expensive."""

    order: tuple[int, ...]
    cost: float
    percentile: float


def spread_orders(best: tuple[int, ...], price: Price, count: int, *, seed: int = 0) -> list[PlacedOrder]:
    """``count`` different orders, nearest to 1/count, 2/count ... 1 of the range, cheapest first. Raises InputError.

    Fewer where there are no more orders (of three hosts there are six); none where all cost the same.
    """
    if not 2 <= count <= MOST_ORDERS:
        raise InputError(f"{count} orders: 2 to {MOST_ORDERS} are allowed")
    rng = np.random.default_rng(seed)
    start = np.array(best, dtype=np.intp)
    worst = most_expensive(start, price, rng)
    pool = np.unique(np.concatenate([walks(start, rng), walks(worst, rng), worst[None]]), axis=0)
    costs = price(pool)
    low, high = float(price(start[None])[0]), float(costs.max())
    low = min(low, float(costs.min()))
    if not high > low:
        return []
    found = []
    free = np.ones(len(pool), dtype=bool)
    for number in range(1, count + 1):
        if not free.any():
            break
        target = low + (high - low) * number / count
        at = int(np.where(free, np.abs(costs - target), np.inf).argmin())
        free[at] = False
        share = min(100.0, 100.0 * (float(costs[at]) - low) / (high - low))
        found.append(PlacedOrder(order=tuple(pool[at].tolist()), cost=float(costs[at]), percentile=share))
    return sorted(found, key=lambda one: one.cost)


def most_expensive(start: Ranks, price: Price, rng: np.random.Generator) -> Ranks:
    """An expensive order: of many random swaps the one that costs most, until none costs more."""
    if len(start) < 3:
        return start
    orders = np.stack([np.concatenate([start[:1], rng.permutation(start[1:])]) for _ in range(TRIES)])
    costs = price(orders)
    current: Ranks = orders[costs.argmax()]
    cost = float(costs.max())
    stale = 0
    while stale < STALE:
        orders = np.stack([swapped(current, rng) for _ in range(TRIES)])
        costs = price(orders)
        if float(costs.max()) > cost:
            current, cost, stale = orders[costs.argmax()], float(costs.max()), 0
        else:
            stale += 1
    return current


def walks(start: Ranks, rng: np.random.Generator) -> RankOrders:
    """Orders met on random walks from ``start`` of up to two swaps a host."""
    size = len(start)
    steps = 2 * size
    found = [start]
    most = max(64, min(4096, POOL_CELLS // size))
    while len(found) < most:
        current = start
        for _ in range(steps):
            current = swapped(current, rng)
            found.append(current)
    return np.stack(found[:most])


def swapped(order: Ranks, rng: np.random.Generator) -> Ranks:
    """The same with two hosts exchanged; rank 0 keeps its host."""
    changed = order.copy()
    if len(order) > 2:
        i, j = rng.choice(np.arange(1, len(order)), 2, replace=False)
        changed[i], changed[j] = changed[j], changed[i]
    return changed
