"""Arguments and options that are documents: each takes the folder of a scan where it takes a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer


def document_at(kind: str) -> Callable[[Path | None], Path | None]:
    """A callback for typer: the document of a kind at a path, or in the folder at the path. Raises DocumentError."""

    def found(value: Path | None) -> Path | None:
        if value is None:
            return None
        from netprobe.pipeline.places import find_document

        return find_document(value, kind)

    return found


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
