"""What the plan's model says of any order, from the map that the plan was made from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netprobe.core.map import Map
from netprobe.core.plan import OrderPlan
from netprobe.plan.costs import LinkCost, cost_model
from netprobe.plan.order import one_way_cost_s

Orders = NDArray[np.intp]


class Predictor:
    """Prices orders of hosts, each an index into ``plan.hosts``, in seconds."""

    def __init__(self, plan: OrderPlan, map_: Map, algorithm: str) -> None:
        where = {host.name: i for i, host in enumerate(map_.hosts)}
        chosen = [where[host.name] for host in plan.hosts]
        self._cost = one_way_cost_s(map_)[np.ix_(chosen, chosen)]
        self._plan = plan
        self._algorithm = algorithm

    def costs(self, orders: Sequence[Sequence[int]] | Orders) -> NDArray[np.float64]:
        """Costs (K,) of orders (K, N), all of the same hosts."""
        array = np.asarray(orders, dtype=np.intp)
        if self._algorithm == "ring":
            hops = self._cost[array, np.roll(array, -1, axis=1)]
            found: NDArray[np.float64]
            found = hops.sum(axis=1) if self._plan.objective == "sum" else hops.max(axis=1)
            return found
        up, places = np.unique(array[0]), np.zeros(len(self._cost), dtype=np.intp)
        places[up] = np.arange(len(up))
        link_cost = LinkCost(alpha_s=self._cost[np.ix_(up, up)])
        return cost_model(self._algorithm).costs(places[array], link_cost)
