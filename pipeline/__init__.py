"""The stages composed: what a library user and the command line call, and where parts are wired.

    hosts -> scan() -> map_scan() -> plan_order() -> export_hostfile()

Each takes documents and gives a document; ``files`` writes them. Nothing here prints.
"""

from netprobe.pipeline.chain import Chain, ChainOptions, run_chain, run_chain_on_lab
from netprobe.pipeline.exporting import export_hostfile
from netprobe.pipeline.mapping import MapOptions, map_scan
from netprobe.pipeline.planning import plan_order
from netprobe.pipeline.published import schemas
from netprobe.pipeline.scanning import scan

__all__ = [
    "Chain",
    "ChainOptions",
    "MapOptions",
    "export_hostfile",
    "map_scan",
    "plan_order",
    "run_chain",
    "run_chain_on_lab",
    "scan",
    "schemas",
]
