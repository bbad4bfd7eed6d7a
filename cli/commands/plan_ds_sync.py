"""``netprobe plan ds-sync``: map.json -> which hosts average in each iteration."""

from __future__ import annotations

from typing import Annotated

import typer

from netprobe.cli.options.schedules import MapArgument
from netprobe.cli.output import JsonOption, Output, QuietOption

ContendedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--contended",
        metavar="KIND:NAME",
        help="group:NAME, its uplink, or host:NAME, its link, shared with others.",
    ),
]


def ds_sync(
    map_file: MapArgument,
    contended: ContendedOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Groups that average in turn (DS-Sync), proved to bring all hosts to one value."""
    from netprobe.cli.options.numerics import load_numerics

    load_numerics()
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.pipeline.planning.plan_ds_sync import plan_ds_sync

    result = plan_ds_sync(load_document(Map, map_file), contended or [])
    output = Output(json=json, quiet=quiet)
    for number, iteration in enumerate(result["pattern"]):
        output.say(f"{number}: " + " | ".join(" ".join(group) for group in iteration["groups"]))
    if result["left_out"]:
        output.say("left out, since they are not placed on the map: " + ", ".join(result["left_out"]))
    if result["all_contended"]:
        output.say("every group is contended: planned as if none were")
    output.say(
        f"rho {result['rho']:.3f} a pattern, {result['rho_per_iteration']:.3f} an iteration; "
        f"{result['iterations_to_1e3']} iterations until 1/1000 of a difference is left"
    )
    output.result(result)
    return 0
