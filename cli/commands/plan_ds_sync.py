"""``netprobe plan ds-sync``: map.json -> a DS-Sync pattern."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netprobe.cli.options.documents import MapArgument, capacity_option, load_capacity
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption, SeedOption
from netprobe.cli.progress import working


def ds_sync(
    map_file: MapArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write (plan.json in the map's folder; beside another kind of plan plan-ds-sync.json).",
        ),
    ] = None,
    capacity: Annotated[
        Path | None,
        capacity_option("tells contended links, and times"),
    ] = None,
    contended: Annotated[
        list[str] | None,
        typer.Option(
            "--contended", metavar="group:ID|host:NAME", help="A group's uplink or a host that is contended."
        ),
    ] = None,
    size: Annotated[str, typer.Option("--size", help="Size of the model's parameters.")] = "100MB",
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Plan DS-Sync: which hosts average their parameters with which, iteration by iteration."""
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.pipeline import files
    from netprobe.pipeline.planning.plan_ds_sync import DsSyncRequest, plan_ds_sync
    from netprobe.probe.methods.goodput_options import parse_size

    path = out or files.plan_path(map_file.parent, "ds_sync", "ds-sync")
    request = DsSyncRequest(size_bytes=parse_size(size).bytes, contended=contended or None, seed=seed)
    document = load_document(Map, map_file)
    measured, rates = load_capacity(capacity, document, map_file.parent)
    inputs = [map_file, *rates]
    files.prepare_file(path, kind="plan", force=force, inputs=inputs)
    output = Output(json=json, quiet=quiet)
    with working(output, "planning"):
        plan = plan_ds_sync(document, request, capacity=measured)
    files.save(plan, path)
    if not (json or quiet):
        from netprobe.report.headline import ds_sync_headline
        from netprobe.report.schedule import pattern_lines

        output.say(
            *pattern_lines(plan), f"wrote {path}", f"{ds_sync_headline(plan, by_agents=document.by_agents)}."
        )
    output.document(path)
    return 0
