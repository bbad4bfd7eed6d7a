"""netprobe: measure the network between rented hosts, find which share a rack, and order the ranks accordingly.

    import netprobe

    scan = netprobe.scan(["vm1", "vm2", "vm3"])
    plan = netprobe.plan_order(netprobe.map_scan(scan), scan=scan)
    print(plan.order)

The names in ``__all__`` are the stable interface (docs/python.md); every other name and module is private, and may
change in any version. They are loaded when they are first used, so that the import itself costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from netprobe._version import __version__

if TYPE_CHECKING:
    from netprobe.core.documents.capacity import Capacity
    from netprobe.core.documents.map import Map
    from netprobe.core.documents.plan import OrderPlan, Plan
    from netprobe.core.documents.scan import Scan
    from netprobe.core.documents.schedule_plan import SchedulePlan
    from netprobe.core.documents.verify import Verify
    from netprobe.core.errors import (
        DocumentError,
        HostsError,
        InputError,
        InterruptedScanError,
        NetprobeError,
        NothingMeasuredError,
        OutputExistsError,
        PlatformError,
    )
    from netprobe.face.folders import Folder, load, save
    from netprobe.face.labs import Lab
    from netprobe.face.making import map_scan, plan_order, plan_schedule
    from netprobe.face.measuring import measure_capacity, scan, verify_plan
    from netprobe.face.running import Progress, Reach
    from netprobe.face.showing import show
    from netprobe.pipeline.mapping.map_scan import MapOptions
    from netprobe.pipeline.planning.plan_order import PlanRequest as OrderOptions
    from netprobe.probe.capacity.run import CapacityOptions
    from netprobe.probe.records.options import ScanOptions

__all__ = [
    "Capacity",
    "CapacityOptions",
    "DocumentError",
    "Folder",
    "HostsError",
    "InputError",
    "InterruptedScanError",
    "Lab",
    "Map",
    "MapOptions",
    "NetprobeError",
    "NothingMeasuredError",
    "OrderOptions",
    "OrderPlan",
    "OutputExistsError",
    "Plan",
    "PlatformError",
    "Progress",
    "Reach",
    "Scan",
    "ScanOptions",
    "SchedulePlan",
    "Verify",
    "__version__",
    "load",
    "map_scan",
    "measure_capacity",
    "plan_order",
    "plan_schedule",
    "save",
    "scan",
    "show",
    "verify_plan",
]

_HOMES = {
    "core.documents.capacity": "Capacity",
    "core.documents.map": "Map",
    "core.documents.plan": "OrderPlan Plan",
    "core.documents.scan": "Scan",
    "core.documents.schedule_plan": "SchedulePlan",
    "core.documents.verify": "Verify",
    "core.errors": "DocumentError HostsError InputError InterruptedScanError NetprobeError NothingMeasuredError "
    "OutputExistsError PlatformError",
    "face.folders": "Folder load save",
    "face.labs": "Lab",
    "face.measuring": "measure_capacity scan verify_plan",
    "face.running": "Progress Reach",
    "face.showing": "show",
    "face.making": "map_scan plan_order plan_schedule",
    "pipeline.mapping.map_scan": "MapOptions",
    "pipeline.planning.plan_order": "PlanRequest:OrderOptions",
    "probe.capacity.run": "CapacityOptions",
    "probe.records.options": "ScanOptions",
}
"""Where each name is, and what it is called there where that differs (``there:here``)."""


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        for entry in names.split():
            there, _, here = entry.partition(":")
            if name == (here or there):
                found = getattr(importlib.import_module(f"{__name__}.{module}"), there)
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
