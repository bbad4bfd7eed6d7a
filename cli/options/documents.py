"""Arguments and options that are documents: each takes the folder of a scan where it takes a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from netprobe.core.documents.capacity import Capacity
    from netprobe.core.documents.map import Map
    from netprobe.core.documents.plan import OrderPlan
    from netprobe.core.documents.schedule_plan import SchedulePlan


def document_at(kind: str) -> Callable[[Path | None], Path | None]:
    """A callback for typer: the document of a kind at a path, or in the folder at the path. Raises DocumentError."""

    def found(value: Path | None) -> Path | None:
        if value is None:
            return None
        from netprobe.pipeline.places import find_document

        return find_document(value, kind)

    return found


NO_CAPACITY = Path("none")
"""What ``--capacity none`` gives: the capacities in the folder are left out."""


def _capacity_at(value: Path | None) -> Path | None:
    if value == NO_CAPACITY:
        # A file of that name is meant where there is one.
        return value.absolute() if value.exists() else NO_CAPACITY
    return document_at("capacity")(value)


def capacity_option(use: str) -> Any:
    """``--capacity`` with what the command uses it for."""
    return typer.Option(
        "--capacity",
        metavar="CAPACITY",
        help=f"A capacity.json: {use} (found beside the map; none leaves it out).",
        callback=_capacity_at,
    )


def load_capacity(
    given: Path | None, of: Map | OrderPlan | SchedulePlan, folder: Path
) -> tuple[Capacity | None, list[Path]]:
    """The capacities that are named, else those of the map, or of the plan's map, in ``folder``; and their file.

    Raises DocumentError for a file that was named and cannot be read.
    """
    from netprobe.core.documents.capacity import Capacity
    from netprobe.core.documents.document import load_document
    from netprobe.pipeline import files
    from netprobe.pipeline.planning.predicting import capacity_beside, what_capacities_lack

    if given == NO_CAPACITY:
        return None, []
    if given is not None:
        return load_document(Capacity, given), [given]
    found = capacity_beside(of, folder)
    if found is None and (why := what_capacities_lack(of, folder)) is not None:
        typer.echo(f"netprobe: the capacities beside it are left out: {why}", err=True)
    return found, [] if found is None else [folder / files.CAPACITY]


ScanArgument = Annotated[
    Path, typer.Argument(metavar="SCAN", help="A scan.json, or its folder.", callback=document_at("scan"))
]
MapArgument = Annotated[
    Path, typer.Argument(metavar="MAP", help="A map.json, or its folder.", callback=document_at("map"))
]
PlanArgument = Annotated[
    Path, typer.Argument(metavar="PLAN", help="A plan.json, or its folder.", callback=document_at("plan"))
]
LikeOption = Annotated[
    Path | None,
    typer.Option(
        "--like",
        metavar="MAP",
        help="Keep the group ids of an earlier map.json, or of that in a folder.",
        callback=document_at("map"),
    ),
]
MapOption = Annotated[
    Path | None,
    typer.Option(
        "--map",
        metavar="MAP",
        help="The map.json of the plan: the cost of any order, and latencies for --capacity (found next to the plan).",
        callback=document_at("map"),
    ),
]
