"""map -> plan: the rank order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netprobe.core.document import check_same_hosts
from netprobe.core.hosts import Host
from netprobe.core.map import Map
from netprobe.core.plan import Objective, OrderPlan
from netprobe.plan import build_order_plan, message_bytes, one_way_cost_s


def plan_order(
    map_: Map,
    *,
    hosts: Sequence[Host] | None = None,
    objective: Objective = "sum",
    root: str | None = None,
    seed: int = 0,
) -> OrderPlan:
    """Order the ranks for a ring on the denoised RTT/2, or on the time of a megabyte where a map knows goodput only.

    ``hosts`` (default: the map's own) says in which order the hosts were given, and with which slots and
    launcher names; it must hold the same hosts as the map. The first given host stays rank 0 unless
    ``root`` names another. Where the map found no locality the given order is kept: an order tuned to
    noise would only look better.
    """
    if hosts is not None:
        check_same_hosts(list(hosts), list(map_.hosts), what="the hosts file", source="map")
    given = list(hosts if hosts is not None else map_.hosts)
    index = {host.name: i for i, host in enumerate(map_.hosts)}
    where = [index[host.name] for host in given]
    return build_order_plan(
        given,
        one_way_cost_s(map_)[np.ix_(where, where)],
        map_.groups,
        objective=objective,
        root=root,
        seed=seed,
        parents=[map_.parent()],
        left_out=map_.unplaced,
        size_bytes=message_bytes(map_),
        keep_given="no usable locality" if map_.verdict.locality == "none" else None,
    )
