"""What the plan's model says of any order, from the map that the plan was made from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netprobe.core.map import Map
from netprobe.core.plan import OrderPlan
from netprobe.plan.costs import cost_model
from netprobe.plan.order import links_of

Orders = NDArray[np.intp]


class Predictor:
    """Prices orders of hosts, each an index into ``plan.hosts``, in seconds; sizes as the plan prices them.

    Raises InputError where the plan prices bytes and the map knows no goodput.
    """

    def __init__(self, plan: OrderPlan, map_: Map, algorithm: str) -> None:
        where = {host.name: i for i, host in enumerate(map_.hosts)}
        self._in_map = [where[host.name] for host in plan.hosts]
        self._links = links_of(map_, plan.size_bytes)
        self._largest = algorithm == "ring" and plan.objective == "bottleneck"
        self._model = cost_model(algorithm)

    def costs(self, orders: Sequence[Sequence[int]] | Orders) -> NDArray[np.float64]:
        """Costs (K,) of orders (K, N), all of the same hosts."""
        array = np.asarray(orders, dtype=np.intp)
        up = np.unique(array[0])
        places = np.zeros(len(self._in_map), dtype=np.intp)
        places[up] = np.arange(len(up))
        link_cost = self._links.among([self._in_map[host] for host in up])
        ranks = places[array]
        found: NDArray[np.float64]
        if self._largest:
            found = link_cost.matrix()[ranks, np.roll(ranks, -1, axis=1)].max(axis=1)
        else:
            found = self._model.costs(ranks, link_cost)
        return found
