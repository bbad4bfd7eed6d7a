"""Documents made from documents: the map of a scan, orders and schedules of a map. Nothing is written."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.scan import Scan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.face import arguments
from netprobe.face.arguments import HostsLike, Place
from netprobe.face.folders import Folder
from netprobe.pipeline.mapping import map_scan as mapping
from netprobe.pipeline.places import find_document
from netprobe.pipeline.planning import plan_order as ordering
from netprobe.pipeline.planning.held_out import readings_in_folder
from netprobe.pipeline.planning.plan_auto import AutoRequest, plan_auto
from netprobe.pipeline.planning.plan_two_level import TwoLevelRequest, plan_two_level
from netprobe.plan.costs import cost_model


def map_scan(
    scan: Scan | Place,
    *,
    groups: str | None = None,
    k: int | None = None,
    like: Map | Place | None = None,
    seed: int = 0,
    options: mapping.MapOptions | None = None,
) -> Map:
    """Denoise the distances of a scan (or of the one at a path, or in a folder), judge locality and form groups.

    ``groups`` is natural, sqrt or auto; ``k`` forms exactly so many; ``like`` is an earlier map whose group ids are
    kept. ``options`` holds these and the rest. Raises InputError, InfeasibleError for a ``k`` that the hosts cannot
    form, and NothingMeasuredError for a scan without a measured link.
    """
    found = arguments.document(Scan, scan, "scan")
    chosen = arguments.options(options, mapping.MapOptions, "options")
    if groups is not None:
        word = arguments.word(groups, "groups", ("natural", "sqrt", "auto"))
        chosen = replace(chosen, groups=word)  # type: ignore[arg-type]
    if k is not None:
        chosen = replace(chosen, k=arguments.whole(k, "k", least=1))
    if like is not None:
        chosen = replace(chosen, like=arguments.document(Map, like, "like"))
    return mapping.map_scan(found, options=chosen, seed=arguments.whole(seed, "seed"))


def plan_order(
    map: Map | Place,
    *,
    scan: Scan | Place | None = None,
    capacity: Capacity | Place | None = None,
    algorithm: str | None = None,
    size: int | str | None = None,
    hosts: HostsLike | None = None,
    options: ordering.PlanRequest | None = None,
) -> OrderPlan:
    """Order the ranks for an ``algorithm`` of a collective (ring), for a buffer of ``size`` (``"100MB"``) if given.

    Orders are judged by readings of the map's ``scan`` that were held out; where the map is given by its path or its
    folder, the scan there is found. Without a scan nobody can tell whether an order was tuned to noise, and
    the plan says so. ``hosts`` gives the original order; ``options`` holds these and the rest. Raises InputError, and
    DocumentError for documents that do not belong together.
    """
    found = arguments.document(Map, map, "map")
    request = arguments.options(options, ordering.PlanRequest, "options")
    if algorithm is not None:
        cost_model(str(algorithm))
        request = replace(request, algorithm=algorithm)
    if size is not None:
        request = replace(request, size_bytes=arguments.size_bytes(size, "size"))
    if hosts is not None:
        request = replace(request, hosts=arguments.hosts(hosts))
    measured = arguments.maybe(Capacity, capacity, "capacity")
    if scan is None and isinstance(map, (str, os.PathLike, Folder)):
        path: Path = find_document(arguments.place(map, "map"), "map")
        readings = readings_in_folder(
            path, found, None, size_bytes=request.size_bytes, held_out=request.held_out, seed=request.seed
        )
        return ordering.plan_order(found, request, capacity=measured, readings=readings)
    return ordering.plan_order(found, request, scan=arguments.maybe(Scan, scan, "scan"), capacity=measured)


def plan_schedule(
    map: Map | Place,
    *,
    algorithm: str = "auto",
    size: int | str = "100MB",
    capacity: Capacity | Place | None = None,
    hosts: HostsLike | None = None,
    seed: int = 0,
) -> SchedulePlan:
    """The schedule of an all-reduce of ``size``: the fastest that the simulator finds (``auto``), or ``2lha``.

    ``capacity`` says what hosts and uplinks carry; a map of latencies alone cannot tell, and the plan's
    ``advice`` says so. Raises InputError, and DocumentError for documents that do not belong together.
    """
    arguments.word(algorithm, "algorithm", ("auto", "2lha"))
    found = arguments.document(Map, map, "map")
    measured = arguments.maybe(Capacity, capacity, "capacity")
    original, size_bytes = arguments.hosts(hosts), arguments.size_bytes(size, "size")
    seed = arguments.whole(seed, "seed")
    if algorithm == "2lha":
        two_level = TwoLevelRequest(hosts=original, size_bytes=size_bytes, seed=seed)
        return plan_two_level(found, two_level, capacity=measured).plan
    return plan_auto(
        found, AutoRequest(hosts=original, size_bytes=size_bytes, ranges=False, seed=seed), capacity=measured
    ).plan
