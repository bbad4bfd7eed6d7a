"""``netprobe plan 2lha``: map.json -> plan.json of kind schedule."""

from __future__ import annotations

from typing import Annotated

import typer

from netprobe.cli.options.documents import MapArgument, load_capacity
from netprobe.cli.options.schedules import (
    CapacityOption,
    HostsOption,
    OutOption,
    SizeOption,
    chunk_bytes_of,
    tried_rows,
)
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption, SeedOption, VerboseOption
from netprobe.cli.progress import working

GroupingOption = Annotated[
    str,
    typer.Option(
        "--grouping",
        metavar="WHICH",
        help="natural: the map's groups; sqrt: PLink's, balanced; nested: its outer tiers; best: the fastest by the "
        "simulator.",
    ),
]
ChunkOption = Annotated[
    str, typer.Option("--chunk", metavar="SIZE", help="64KiB, another size, or auto: the fastest of several.")
]
ChannelsOption = Annotated[
    int, typer.Option("--channels", min=1, max=64, help="Connections a pair of hosts; chunks take turns.")
]


def two_level(
    map_file: MapArgument,
    out: OutOption = None,
    hosts: HostsOption = None,
    capacity: CapacityOption = None,
    size: SizeOption = "100MB",
    grouping: GroupingOption = "best",
    chunk: ChunkOption = "auto",
    channels: ChannelsOption = 1,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> int:
    """Plan two-level hierarchical aggregation (2LHA) on the map's groups."""
    from netprobe.cli.options.numerics import load_numerics

    load_numerics()
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.formats import input_files, load_hosts
    from netprobe.pipeline import files
    from netprobe.pipeline.planning.plan_two_level import TwoLevelRequest, plan_two_level
    from netprobe.probe.methods.goodput_options import parse_size

    path = out or files.plan_path(map_file.parent, "schedule", "2lha")
    request = TwoLevelRequest(
        hosts=load_hosts(hosts) if hosts is not None else None,
        size_bytes=parse_size(size).bytes,
        grouping=grouping,
        chunk_bytes=chunk_bytes_of(chunk),
        channels=channels,
        seed=seed,
    )
    document = load_document(Map, map_file)
    measured, rates = load_capacity(capacity, document, map_file.parent)
    inputs = [map_file, *rates]
    inputs += input_files(hosts) if hosts is not None else []
    files.prepare_file(path, kind="plan", force=force, inputs=inputs)
    output = Output(json=json, quiet=quiet, verbose=verbose)
    with working(output, "planning"):
        planned = plan_two_level(document, request, capacity=measured)
    files.save(planned.plan, path)

    if not (json or quiet):
        from netprobe.report.schedule import TriedTable, schedule_text, unknown_text

        output.say(TriedTable(planned.plan.candidates, timed=planned.decides, all_rows=verbose), "")
        from netprobe.report.headline import two_level_headline

        output.say(schedule_text(planned.plan), *unknown_text(planned.unknown), f"wrote {path}")
        chosen = planned.tried[0].prediction if planned.decides and planned.tried else None
        time_s = None if chosen is None else chosen.time_s
        output.say(f"{two_level_headline(planned.plan, time_s, by_agents=document.by_agents)}.")
    output.document(path, tried=tried_rows(planned.tried, request.size_bytes), unknown=list(planned.unknown))
    return 0
