"""What an order is compared with: random orders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import round_float
from netprobe.core.documents.plan import Objective, RandomOrders
from netprobe.plan.costs import CostModel, LinkCost
from netprobe.plan.costs.model import RoundModel, cached_phases
from netprobe.plan.order.candidates import price

MOST_ORDERS, FEWEST_ORDERS = 1000, 50
CELLS = 20_000_000
"""Transfers priced in all; large fleets get fewer random orders."""
AT_ONCE = 2_000_000
PERCENTAGES = (1, 5, 10, 25, 50, 75, 90, 95, 99)


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnOrders:
    """Orders (K, N) of hosts, and what each costs (K,), in seconds."""

    orders: NDArray[np.intp]
    costs: NDArray[np.float64]

    @property
    def dearest(self) -> list[int]:
        """The one that costs most."""
        return [int(host) for host in self.orders[self.costs.argmax()]]


def drawn_orders(
    model: CostModel, objective: Objective, link_cost: LinkCost, *, seed: int, root: int | None = None
) -> DrawnOrders:
    """Random orders of all hosts, drawn by ``seed``: as many as are quickly priced, 50 to 1000.

    With ``root`` that host is rank 0 of all, as it is of the order that they are compared with: for what is no ring
    rank 0 may cost more than any other, most of all where the number of hosts is no power of two.
    """
    size = len(link_cost)
    transfers = len(cached_phases(model, size).src) if isinstance(model, RoundModel) else 2 * size
    count = min(max(CELLS // max(transfers, 1), FEWEST_ORDERS), MOST_ORDERS)
    rng = np.random.default_rng([seed, size])
    orders = np.array([rng.permutation(size) for _ in range(count)], dtype=np.intp).reshape(count, size)
    if root is not None:
        _, at = np.nonzero(orders == root)
        orders[np.arange(count), at] = orders[:, 0]
        orders[:, 0] = root
    if objective == "bottleneck" and model.name == "ring":
        costs = np.array([price(model, objective, order.tolist(), link_cost) for order in orders])
    else:
        step = max(AT_ONCE // max(transfers, 1), 1)
        costs = np.concatenate([model.costs(orders[i : i + step], link_cost) for i in range(0, count, step)])
    return DrawnOrders(orders=orders, costs=costs)


def random_orders(drawn: DrawnOrders) -> RandomOrders:
    """What they cost, for a plan."""
    costs = drawn.costs
    return RandomOrders(
        orders=len(costs),
        mean_s=round_float(float(costs.mean())),
        least_s=round_float(float(costs.min())),
        most_s=round_float(float(costs.max())),
        percentiles_s={
            str(percentage): round_float(float(value))
            for percentage, value in zip(PERCENTAGES, np.percentile(costs, PERCENTAGES))
        },
    )
