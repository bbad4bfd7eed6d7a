"""What an order should cost or take, by the map or by measured capacities, for plans and for runs of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import check_same_hosts, load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import DocumentError, InputError, NetprobeError
from netprobe.core.hosts import plain_host
from netprobe.pipeline import files
from netprobe.plan.schedule.builders import ON_THE_WIRE
from netprobe.plan.simulate.network import network_of
from netprobe.verify.predict import ByCapacity, ByMap, Predictor


def by_capacity(
    plan: OrderPlan,
    capacity: Capacity,
    algorithm: str,
    size_bytes: int,
    map_: Map | None = None,
    channels: int = 1,
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
    return ByCapacity(plan, capacity, ON_THE_WIRE.get(algorithm, algorithm), size_bytes, map_, channels)


def predictor(
    plan: OrderPlan,
    map_: Map | None,
    capacity: Capacity | None,
    algorithm: str,
    size_bytes: int,
    channels: int = 1,
) -> Predictor | None:
    """Of times where the capacities are known, else of costs. Raises InputError."""
    if capacity is not None:
        return by_capacity(plan, capacity, algorithm, size_bytes, map_, channels)
    return None if map_ is None else ByMap(plan, map_, algorithm)


def check_own_map(plan: Plan, map_: Map) -> None:
    """Raises DocumentError where the plan names another map as its parent, or has other hosts."""
    check_same_hosts(
        [plain_host(host) for host in plan.hosts],
        [plain_host(host) for host in map_.hosts],
        what="the plan",
        source="map",
    )
    maps = _maps_of(plan)
    if maps and map_.parent().sha256 not in maps:
        raise DocumentError("the plan was made from another map than this one", source="map")


def map_next_to(plan: Plan, folder: Path) -> Map | None:
    """The map that the plan was made from, where it is in ``folder`` under its usual name; None otherwise."""
    path = folder / files.MAP
    if not _maps_of(plan) or not path.is_file():
        return None
    try:
        found = load_document(Map, path)
    except NetprobeError:
        return None
    return found if found.parent().sha256 in _maps_of(plan) else None


def capacity_beside(of: Map | OrderPlan | SchedulePlan, folder: Path) -> Capacity | None:
    """The capacities of a map, or of a plan's map, in ``folder`` under their usual name; None otherwise.

    Nor are they there for a user who did not name them where they cannot predict what orders take.
    """
    path = folder / files.CAPACITY
    maps = {of.parent().sha256} if isinstance(of, Map) else _maps_of(of)
    if not maps or not path.is_file():
        return None
    try:
        found = load_document(Capacity, path)
    except NetprobeError:
        return None
    own = {parent.sha256 for parent in found.parents if parent.schema_.startswith("netprobe.map/")}
    names = [h.name for h in of.hosts if h.name not in set(of.unplaced)] if isinstance(of, Map) else of.order
    return found if own & maps and _has_rates_of(found, names) else None


def what_capacities_lack(of: Map | OrderPlan | SchedulePlan, folder: Path) -> str | None:
    """Why a map's capacities in ``folder``, under their usual name, predict nothing.

    None where they do, or are those of another map.
    """
    path = folder / files.CAPACITY
    maps = {of.parent().sha256} if isinstance(of, Map) else _maps_of(of)
    try:
        found = load_document(Capacity, path) if path.is_file() else None
    except NetprobeError as error:
        return str(error)
    if found is None or not maps & {parent.sha256 for parent in found.parents}:
        return None
    names = [h.name for h in of.hosts if h.name not in set(of.unplaced)] if isinstance(of, Map) else of.order
    try:
        network_of(found, list(names))
    except InputError as error:
        return f"{path}: {error}"
    return None


def _maps_of(plan: Plan) -> set[str]:
    return {parent.sha256 for parent in plan.parents if parent.schema_.startswith("netprobe.map/")}


def has_all_rates(map_: Map, capacity: Capacity) -> bool:
    """Whether ``capacity`` can predict what orders of the hosts on the map take."""
    return _has_rates_of(capacity, [host.name for host in map_.hosts if host.name not in set(map_.unplaced)])


def _has_rates_of(capacity: Capacity, names: Sequence[str]) -> bool:
    try:
        network_of(capacity, list(names))
    except InputError:
        return False
    return True
