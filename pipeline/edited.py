"""What is said of a plan that was edited on purpose: which of its figures are not known to be of it any more."""

from __future__ import annotations

from pathlib import Path

from netprobe.core.documents.document import schema_of
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.errors import DocumentError

MOST_CHECKED = 256
"""Hosts of a map against which orders are priced again: a look at a folder takes a second."""
SEALED_SINCE = (1, 3)
"""The version of plans since which a file has its own hash."""
_PROVED = {
    "order": "the order lists each host once",
    "schedule": "the schedule is proved",
    "ds_sync": "it is proved",
}


def edits_of(plan: Plan, path: Path, map_: Map | None = None) -> list[str]:
    """A line each; none for a plan that loading found as netprobe wrote it.

    ``map_`` (default: the one in the plan's folder) tells whether an order costs what the plan says.
    """
    if plan.own_sha256 is not None:
        return []
    if isinstance(plan, OrderPlan):
        own = {parent.sha256 for parent in plan.parents}
        beside = _map_beside(plan, path) if map_ is None else map_
        if beside is not None and len(beside.hosts) <= MOST_CHECKED and beside.parent().sha256 in own:
            return _contradictions(plan, beside, path)
    if schema_of({"schema": plan.schema_}, source=str(path))[1:] < SEALED_SINCE:
        return []
    return [
        f"{path}: has no own_sha256, as after an edit on purpose: {_PROVED.get(plan.kind, 'it was read')}, and whether "
        "its figures and advice are of it cannot be told"
    ]


def _map_beside(plan: OrderPlan, path: Path) -> Map | None:
    """The map that the plan was made from, in its folder; what finds it is imported where it is needed only."""
    from netprobe.pipeline.planning.predicting import map_next_to

    return map_next_to(plan, path.parent)


def _contradictions(plan: OrderPlan, map_: Map, path: Path) -> list[str]:
    """Costs that are not those of the order on the map that it names as its parent."""
    from netprobe.plan import prove_against_map

    try:
        prove_against_map(plan, map_, source=str(path))
    except DocumentError as error:
        return [f"{error}: it was edited since it was planned; plan it again"]
    return []
