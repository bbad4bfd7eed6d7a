"""A quick price of orders where hosts share uplinks: the least time of each round, added up.

For choosing among thousands of orders only; what is shown comes from the simulator (`netprobe.plan.simulate`). A round
takes as long as its fullest resource: bytes through it over what it carries. Rounds overlap in truth, and latency and
the uplinks of outer tiers are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.capacity import Capacity
from netprobe.core.errors import InputError
from netprobe.plan.costs.link import RankOrders
from netprobe.plan.costs.model import CostModel
from netprobe.plan.schedule.builders.rounds import Triple
from netprobe.plan.simulate.network import pooled_rates

MOST_CELLS = 1 << 19
"""Transfers of all orders together that are priced at once."""


class SharedLinks:
    """Prices orders of ``hosts`` (names) for an algorithm on measured capacities.

    Raises InputError for a host that is in no group of ``capacity``, and for one of their resources that has
    no reading there.
    """

    def __init__(self, model: CostModel, hosts: Sequence[str], capacity: Capacity) -> None:
        ids = {name: group.id for group in capacity.groups for name in group.hosts}
        unknown = [name for name in hosts if name not in ids]
        if unknown:
            raise InputError(f"host {unknown[0]!r} is in no group of the capacity document")
        self._model = model
        groups = sorted({ids[name] for name in hosts})
        place = {id_: at for at, id_ in enumerate(groups)}
        self._group = np.array([place[ids[name]] for name in hosts], dtype=np.intp)
        # What leaves a group of one host has passed that host's own resources already.
        alone = {
            f"{kind}:{g.id}": np.inf for g in capacity.groups if len(g.hosts) == 1 for kind in ("up", "down")
        }
        rates = alone | pooled_rates(capacity.resources)
        between = groups if len(groups) > 1 else []
        kinds = (("tx", hosts), ("rx", hosts), ("up", between), ("down", between))
        ids_of = [[f"{kind}:{name}" for name in names] for kind, names in kinds]
        missing = [id_ for resources in ids_of for id_ in resources if id_ not in rates]
        if missing:
            raise InputError(
                f"the capacity of {missing[0]} was not measured: measure it again (netprobe capacity)"
            )
        self._rates = [np.array([rates[id_] for id_ in resources]) for resources in ids_of]

    def times_s(self, orders: RankOrders, size_bytes: int) -> NDArray[np.float64]:
        """Seconds (K,) of a buffer of ``size_bytes`` in each of ``orders`` (K, N), indices into ``hosts``."""
        orders = np.asarray(orders, dtype=np.intp)
        times = np.zeros(len(orders))
        equal = Counter(tuple(sorted(transfers)) for transfers in self._model.rounds(orders.shape[1]))
        for transfers, often in equal.items():
            if transfers:
                at_once = max(1, MOST_CELLS // len(transfers))
                for first in range(0, len(orders), at_once):
                    part = slice(first, first + at_once)
                    times[part] += often * size_bytes * self._round(orders[part], transfers)
        return times

    def _round(self, orders: RankOrders, transfers: Sequence[Triple]) -> NDArray[np.float64]:
        """Seconds a byte of the buffer (K,): that of the fullest resource."""
        senders, receivers, shares = (np.array(column) for column in zip(*transfers))
        src, dst = orders[:, senders.astype(np.intp)], orders[:, receivers.astype(np.intp)]
        from_, to = self._group[src], self._group[dst]
        share = np.broadcast_to(shares.astype(np.float64), src.shape)
        leaving = np.where(from_ != to, share, 0.0)
        longest = np.zeros(len(orders))
        passed = ((src, share), (dst, share), (from_, leaving), (to, leaving))
        for rates, (at, load) in zip(self._rates, passed):
            if not len(rates):
                continue
            rows = np.arange(len(orders))[:, None] * len(rates) + at
            sent = np.bincount(rows.ravel(), load.ravel(), len(orders) * len(rates))
            longest = np.maximum(longest, (sent.reshape(len(orders), len(rates)) / rates).max(axis=1))
        return longest


def shared_time_s(model: CostModel, order: Sequence[str], capacity: Capacity, size_bytes: int) -> float:
    """Seconds of ``size_bytes`` by ``model`` in ``order`` (host names). Raises InputError as ``SharedLinks``."""
    links = SharedLinks(model, order, capacity)
    return float(links.times_s(np.arange(len(order))[None], size_bytes)[0])


def worst_uplink_crossings(order: Sequence[str], groups: Sequence[Sequence[str]]) -> int:
    """Most hops of the ring that leave one group: as often each byte passes that group's uplink."""
    of = {name: g for g, names in enumerate(groups) for name in names}
    left: Counter[int] = Counter(
        of[a] for a, b in zip(order, [*order[1:], *order[:1]], strict=True) if of[a] != of[b]
    )
    return max(left.values(), default=0)
