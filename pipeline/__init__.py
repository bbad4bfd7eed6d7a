"""The stages composed: what a library user and the command line call, and the one place where parts are wired.

    hosts -> scan() -> map_scan() -> plan_order() -> export_hostfile()

Each takes documents and gives a document; ``files`` writes them. Nothing here prints.
"""

from netprobe.pipeline.exporting import export_hostfile
from netprobe.pipeline.mapping import MapOptions, map_scan
from netprobe.pipeline.planning import plan_order
from netprobe.pipeline.schemas import schemas

__all__ = ["MapOptions", "export_hostfile", "map_scan", "plan_order", "schemas"]
