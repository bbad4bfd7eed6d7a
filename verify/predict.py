"""What any order should cost: by the plan's model on the map that it was made from, or on measured capacities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.plan.costs import RankOrders, cost_model
from netprobe.plan.costs.shared_links import SharedLinks
from netprobe.plan.order.link_costs import links_of
from netprobe.plan.order.strategies import objective_of, strategy_of


class Predictor(Protocol):
    """Prices orders of hosts, each an index into the plan's hosts, in seconds."""

    def costs(self, orders: Sequence[Sequence[int]] | RankOrders) -> NDArray[np.float64]:
        """Costs (K,) of orders (K, N), all of the same hosts."""


class ByMap:
    """Prices orders of hosts, each an index into ``plan.hosts``, in seconds; sizes as the plan prices them.

    Raises InputError where the plan prices bytes and the map knows no goodput.
    """

    def __init__(self, plan: OrderPlan, map_: Map, algorithm: str) -> None:
        where = {host.name: i for i, host in enumerate(map_.hosts)}
        self._in_map = [where[host.name] for host in plan.hosts]
        self._links = links_of(map_, plan.size_bytes)
        self._strategy = strategy_of(algorithm, objective_of(algorithm, plan.objective))

    def costs(self, orders: Sequence[Sequence[int]] | RankOrders) -> NDArray[np.float64]:
        """Costs (K,) of orders (K, N), all of the same hosts."""
        array = np.asarray(orders, dtype=np.intp)
        up = np.unique(array[0])
        places = np.zeros(len(self._in_map), dtype=np.intp)
        places[up] = np.arange(len(up))
        link_cost = self._links.among([self._in_map[host] for host in up])
        ranks = places[array]
        return self._strategy.prices(ranks, link_cost)


class ByCapacity:
    """Times of ``algorithm`` where the plan's hosts share what ``capacity`` measured (``plan.shared_links``).

    Unlike a cost this is what a run should take: bytes over rates, latency left out. Raises InputError for a
    host with a rank but in no group there, and for a resource of theirs without a reading.
    """

    def __init__(self, plan: OrderPlan, capacity: Capacity, algorithm: str, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        place = {name: at for at, name in enumerate(plan.order)}
        self._place = np.array([place.get(host.name, -1) for host in plan.hosts], dtype=np.intp)
        self._links = SharedLinks(cost_model(algorithm), plan.order, capacity)

    def costs(self, orders: Sequence[Sequence[int]] | RankOrders) -> NDArray[np.float64]:
        """Seconds (K,) of orders (K, N), all of the same hosts."""
        return self._links.times_s(self._place[np.asarray(orders, dtype=np.intp)], self.size_bytes)
