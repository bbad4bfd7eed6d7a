"""What an order is compared with: random orders, and the lower bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import round_float
from netprobe.core.documents.plan import RandomOrders
from netprobe.plan.costs import LinkCost, RankOrders
from netprobe.plan.costs.model import RoundModel, cached_phases
from netprobe.plan.order.strategy import OrderStrategy

MOST_ORDERS, FEWEST_ORDERS = 1000, 50
CELLS = 20_000_000
"""Transfers priced in all; large fleets get fewer random orders."""
AT_ONCE = 2_000_000
PERCENTAGES = (1, 5, 10, 25, 50, 75, 90, 95, 99)


@dataclass(frozen=True, kw_only=True, eq=False)
class PricedOrders:
    """Orders (K, N) of hosts, and what each costs (K,), in seconds."""

    orders: RankOrders
    costs: NDArray[np.float64]

    @property
    def most_expensive(self) -> list[int]:
        """The one that costs most."""
        return [int(host) for host in self.orders[self.costs.argmax()]]

    def figures(self) -> RandomOrders:
        """What they cost, for a plan."""
        costs = self.costs
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


def random_orders(strategy: OrderStrategy, link_cost: LinkCost, *, root: int, seed: int) -> PricedOrders:
    """Random orders of all hosts: as many as are quickly priced, 50 to 1000.

    Except on a ring ``root`` is rank 0 of all, as it is of the order that they are compared with: rank 0 may cost
    more than any other rank, most of all where the number of hosts is not a power of two.
    """
    size, model = len(link_cost), strategy.model
    transfers = len(cached_phases(model, size).src) if isinstance(model, RoundModel) else 2 * size
    count = min(max(CELLS // max(transfers, 1), FEWEST_ORDERS), MOST_ORDERS)
    rng = np.random.default_rng([seed, size])
    orders = np.array([rng.permutation(size) for _ in range(count)], dtype=np.intp).reshape(count, size)
    if not strategy.is_ring:
        _, at = np.nonzero(orders == root)
        orders[np.arange(count), at] = orders[:, 0]
        orders[:, 0] = root
    step = max(AT_ONCE // max(transfers, 1), 1)
    costs = [strategy.prices(orders[i : i + step], link_cost) for i in range(0, count, step)]
    return PricedOrders(orders=orders, costs=np.concatenate(costs))


def optimality_gap(cost_s: float, lower_bound_s: float) -> float:
    """By how much a cost is above its bound, as a share of it; 0 where both are 0. A plan's proof checks it again."""
    if cost_s <= lower_bound_s:
        return 0.0
    return round_float(cost_s / lower_bound_s - 1.0) if lower_bound_s > 0 else 0.0
