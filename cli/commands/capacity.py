"""``netprobe capacity``: scan.json and map.json -> capacity.json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netprobe.cli.options.addresses import Addresses
from netprobe.cli.options.documents import ScanArgument, document_at
from netprobe.cli.options.groups import grouped
from netprobe.cli.options.launching import Reach, hinting
from netprobe.cli.options.probing import DryRunOption
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption

if TYPE_CHECKING:
    from netprobe.core.documents.capacity import Capacity
    from netprobe.core.documents.map import Map
    from netprobe.probe.capacity.run import CapacityOptions

SecondsOption = Annotated[
    float, typer.Option("--seconds", help="Length of each test; its first fifth does not count.")
]
StreamsOption = Annotated[int, typer.Option("--streams", help="TCP connections per flow.")]
RepeatsOption = Annotated[int, typer.Option("--repeats", help="Tests of each uplink in each direction.")]
AtOnceOption = Annotated[
    int, typer.Option("--flows-at-once", help="Most flows at once inside the groups (0: no cap).")
]


@grouped
def capacity(
    *,
    scan: ScanArgument,
    map_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="MAP",
            help="The map.json made from it (that in the scan's folder).",
            callback=document_at("map"),
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (capacity.json in the map's folder).")
    ] = None,
    reach: Reach,
    addresses: Addresses,
    seconds: SecondsOption = 1.0,
    streams: StreamsOption = 2,
    repeats: RepeatsOption = 2,
    at_once: AtOnceOption = 0,
    dry_run: DryRunOption = False,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Measure with several flows at once what each host and each group's uplink carries."""
    from netprobe.cli.progress import ScanProgress
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.core.documents.scan import Scan
    from netprobe.pipeline import files
    from netprobe.pipeline.capacity import measure_capacity
    from netprobe.pipeline.places import find_document
    from netprobe.probe.capacity.run import CapacityOptions
    from netprobe.probe.records.options import ScanOptions

    map_ = map_file or find_document(scan.parent, "map")
    path = out or map_.parent / files.CAPACITY
    launcher = reach.launcher()
    options = ScanOptions(**reach.fields(), **addresses.fields())
    how = CapacityOptions(seconds=seconds, streams=streams, repeats=repeats, at_once=at_once)
    scanned, mapped = load_document(Scan, scan), load_document(Map, map_)
    output = Output(json=json, quiet=quiet)
    if dry_run:
        show_cost(mapped, how, output)
        return 0
    launcher.check(scanned.hosts)
    files.prepare_file(path, kind="capacity", force=force, inputs=[scan, map_, *reach.inputs()])
    with ScanProgress(output) as progress, hinting(reach.via is None):
        result = measure_capacity(
            scanned,
            mapped,
            launcher=launcher,
            path=path,
            options=options,
            capacity=how,
            choose_addresses=addresses.choose,
            on_event=progress.on_event,
        )
    show_capacity(result, output)
    output.say(f"wrote {path}")
    if result.status != "failed":
        from netprobe.report.headline import capacity_headline

        output.say(f"{capacity_headline(result)}.")
    output.result({"file": str(path)} | capacity_summary(result))
    return 0 if result.status == "ok" else 3


def show_cost(map_: Map, capacity: CapacityOptions, output: Output) -> None:
    """What ``--dry-run`` says."""
    from netprobe.cli.options.probing import show_phases
    from netprobe.pipeline.mapping.nesting import outer_groups
    from netprobe.pipeline.scanning.estimating import estimate_capacity

    outer = list(outer_groups(map_).values())
    phase = estimate_capacity([len(group.hosts) for group in map_.groups], capacity, outer)
    show_phases(len(map_.hosts), [phase], output)
    output.say("flows are assumed to run at 1 Gbit/s each; faster links carry more")


def show_capacity(result: Capacity, output: Output) -> None:
    """The tables of groups and hosts, for people."""
    if output.json or output.quiet:
        return
    from netprobe.report.capacity import capacity_parts

    output.say(*capacity_parts(result))


def capacity_summary(result: Capacity) -> dict[str, Any]:
    """What ``--json`` says of capacities."""
    return {
        "status": result.status,
        "reason": result.reason,
        "resources": [one.model_dump(mode="json") for one in result.resources],
        "oversubscription": [one.model_dump(mode="json") for one in result.oversubscription],
        "warnings": result.warnings,
    }
