"""The stages composed: what a library user and the command line call, and where parts are wired.

    hosts -> scan() -> map_scan() -> plan_order() -> export_hostfile()

Each takes documents and gives a document; ``files`` writes them. Nothing here prints. The names below are
loaded when they are first used: a scan should not carry the solvers' libraries in memory.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netprobe.pipeline.capacity import measure_capacity
    from netprobe.pipeline.chain import Chain, ChainOptions, run_chain, run_chain_on_lab
    from netprobe.pipeline.exporting import export_hostfile, export_topology
    from netprobe.pipeline.mapping.map_scan import MapOptions, map_scan
    from netprobe.pipeline.planning.plan_order import plan_order
    from netprobe.pipeline.published import schemas
    from netprobe.pipeline.scanning.scan import scan
    from netprobe.pipeline.verifying.verify_order import verify_order

__all__ = [
    "Chain",
    "ChainOptions",
    "MapOptions",
    "export_hostfile",
    "export_topology",
    "map_scan",
    "measure_capacity",
    "plan_order",
    "run_chain",
    "run_chain_on_lab",
    "scan",
    "schemas",
    "verify_order",
]

_HOMES = {
    "Chain": "chain",
    "ChainOptions": "chain",
    "MapOptions": "mapping.map_scan",
    "export_hostfile": "exporting",
    "export_topology": "exporting",
    "map_scan": "mapping.map_scan",
    "measure_capacity": "capacity",
    "plan_order": "planning.plan_order",
    "run_chain": "chain",
    "run_chain_on_lab": "chain",
    "scan": "scanning.scan",
    "schemas": "published",
    "verify_order": "verifying.verify_order",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
