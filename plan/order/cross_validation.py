"""What an order costs on readings that it was not searched on.

Each pair of hosts has two readings, visited in rounds far apart. Each half of the readings gets one of the two, chosen
at random; an order is searched on one half and priced on the other, and the reverse (two folds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from netprobe.plan.order.readings import Fold
from netprobe.plan.order.strategy import Effort, OrderStrategy


def held_out_costs(
    strategy: OrderStrategy,
    folds: Sequence[Fold],
    hosts: Sequence[int],
    original: Sequence[int],
    effort: Effort,
) -> dict[str, float]:
    """Mean cost in seconds, by kind of order, on the readings that it did not see; nothing without ``folds``.

    ``original`` holds places in ``hosts``, which are indices of the document's hosts, its root first.
    """
    found: dict[str, list[float]] = {}
    for fold in folds:
        costs, unseen = fold.among(hosts), fold.unseen.among(hosts)
        leaf = strategy.leaf(costs.denoised, original[0])
        searched = strategy.search(strategy.costs_of_fold(costs), original, leaf.order, effort)
        for kind, order in (
            ("given", tuple(original)),
            ("leaf", leaf.order),
            (searched.kind, searched.order),
        ):
            found.setdefault(kind, []).append(strategy.price(order, unseen))
    return {kind: math.fsum(costs) / len(costs) for kind, costs in found.items()}
