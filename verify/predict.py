"""What any order should cost: by the plan's model on the map that it was made from, or on measured capacities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.plan.auto.known import network_by
from netprobe.plan.costs import RankOrders, cost_model
from netprobe.plan.costs.rough_times import RoughTimes
from netprobe.plan.order.link_costs import links_of
from netprobe.plan.order.strategies import objective_of, strategy_of
from netprobe.plan.schedule.builders import build
from netprobe.plan.simulate import Job
from netprobe.plan.simulate.simulate import interval_s, predicted_s


class Predictor(Protocol):
    """Prices orders of hosts, each an index into the plan's hosts, in seconds."""

    def costs(self, orders: Sequence[Sequence[int]] | RankOrders) -> NDArray[np.float64]:
        """Costs (K,) of orders (K, N), all of the same hosts."""

    def rough(self, orders: Sequence[Sequence[int]] | RankOrders) -> NDArray[np.float64]:
        """About ``costs``, where those take long: for choosing among thousands of orders."""


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

    def rough(self, orders: Sequence[Sequence[int]] | RankOrders) -> NDArray[np.float64]:
        """The costs."""
        return self.costs(orders)


class ByCapacity:
    """Times of ``algorithm`` on measured capacities: the simulator's, with the latencies of ``map_`` where it is given.

    Raises InputError for a host with a rank but in no group there, and for a resource of theirs without a reading.
    """

    def __init__(
        self,
        plan: OrderPlan,
        capacity: Capacity,
        algorithm: str,
        size_bytes: int,
        map_: Map | None = None,
        channels: int = 1,
    ) -> None:
        self.size_bytes = size_bytes
        self._channels = channels
        self.has_latency = map_ is not None
        self._names = list(plan.order)
        place = {name: at for at, name in enumerate(plan.order)}
        self._place = np.array([place.get(host.name, -1) for host in plan.hosts], dtype=np.intp)
        self._algorithm = algorithm
        self._network = network_by(capacity, plan.order, map_)
        self._fast = RoughTimes(cost_model(algorithm), self._network)

    def costs(self, orders: Sequence[Sequence[int]] | RankOrders) -> NDArray[np.float64]:
        """Seconds (K,) of orders (K, N), all of the same hosts."""
        rows = self._place[np.asarray(orders, dtype=np.intp)].tolist()
        return np.array([predicted_s(self._network, self._job(row)) for row in rows])

    def interval(self, order: Sequence[int]) -> tuple[float, float | None]:
        """The least and the most seconds that the capacities allow for an order: both ends of what was measured.

        None where they bound nothing.
        """
        time_s, low, high = interval_s(self._network, self._job(self._place[list(order)].tolist()))
        return (time_s, time_s) if low is None else (low, high)

    def rough(self, orders: Sequence[Sequence[int]] | RankOrders) -> NDArray[np.float64]:
        """About ``costs``, of thousands of orders: bytes over rates, round by round. For choosing among them only."""
        return self._fast.times_s(self._place[np.asarray(orders, dtype=np.intp)], self.size_bytes)

    def _job(self, places: Sequence[int]) -> Job:
        schedule = build(self._algorithm, len(places), self._channels)
        return Job(schedule=schedule, order=[self._names[at] for at in places], size_bytes=self.size_bytes)
