"""What an order should cost or take, by the map or by measured capacities, for plans and for runs of them."""

from __future__ import annotations

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import check_same_hosts
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.errors import InputError
from netprobe.core.hosts import plain_host
from netprobe.plan.schedule.builders import ON_THE_WIRE
from netprobe.plan.simulate.network import network_of
from netprobe.verify.predict import ByCapacity, ByMap, Predictor


def by_capacity(
    plan: OrderPlan, capacity: Capacity, algorithm: str, size_bytes: int, map_: Map | None = None
) -> ByCapacity:
    """Times of orders of the plan's hosts by the simulator, with the latencies of ``map_`` where it is given.

    Raises InputError for capacities of other hosts, or without a reading.
    """
    check_same_hosts(
        [plain_host(host) for host in plan.hosts],
        [plain_host(host) for host in capacity.hosts],
        what="the plan",
        source="capacity",
    )
    return ByCapacity(plan, capacity, ON_THE_WIRE.get(algorithm, algorithm), size_bytes, map_)


def predictor(
    plan: OrderPlan, map_: Map | None, capacity: Capacity | None, algorithm: str, size_bytes: int
) -> Predictor | None:
    """Of times where the capacities are known, else of costs. Raises InputError."""
    if capacity is not None:
        return by_capacity(plan, capacity, algorithm, size_bytes, map_)
    return None if map_ is None else ByMap(plan, map_, algorithm)


def has_all_rates(map_: Map, capacity: Capacity) -> bool:
    """Whether ``capacity`` can predict what orders of the hosts on the map take."""
    placed = [host.name for host in map_.hosts if host.name not in set(map_.unplaced)]
    try:
        network_of(capacity, placed)
    except InputError:
        return False
    return True
