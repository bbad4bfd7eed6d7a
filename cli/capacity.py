"""``netprobe capacity``: scan.json and map.json -> capacity.json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netprobe.cli.launching import (
    ContainerOption,
    ContextOption,
    FanOutOption,
    KubeconfigOption,
    ListenOption,
    McaOption,
    NamespaceOption,
    PythonOption,
    SetupOption,
    SshConfigOption,
    SshOptionOption,
    ViaOption,
)
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption
from netprobe.cli.probing import PortRangeOption

if TYPE_CHECKING:
    from netprobe.core.capacity import Capacity

SecondsOption = Annotated[
    float, typer.Option("--seconds", help="Length of each test; its first fifth does not count.")
]
StreamsOption = Annotated[int, typer.Option("--streams", help="TCP connections a flow.")]
RepeatsOption = Annotated[int, typer.Option("--repeats", help="Tests of each uplink, each way.")]
AtOnceOption = Annotated[
    int, typer.Option("--flows-at-once", help="Most flows at once inside the groups (0: no cap).")
]


def capacity(
    scan: Annotated[Path, typer.Argument(metavar="SCAN", help="A scan.json.")],
    map_: Annotated[Path, typer.Argument(metavar="MAP", help="The map.json made from it.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (capacity.json beside the map).")
    ] = None,
    via: ViaOption = None,
    ssh_config: SshConfigOption = None,
    ssh_option: SshOptionOption = None,
    mca: McaOption = None,
    listen: ListenOption = None,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
    container: ContainerOption = None,
    kubeconfig: KubeconfigOption = None,
    python: PythonOption = None,
    setup: SetupOption = None,
    fan_out: FanOutOption = None,
    port_range: PortRangeOption = None,
    seconds: SecondsOption = 1.0,
    streams: StreamsOption = 2,
    repeats: RepeatsOption = 2,
    at_once: AtOnceOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Measure with several flows at once what each host and each group's uplink carries."""
    from netprobe.cli.probing import ports
    from netprobe.cli.progress import ScanProgress
    from netprobe.core.document import load_document
    from netprobe.core.map import Map
    from netprobe.core.scan import Scan
    from netprobe.pipeline import files
    from netprobe.pipeline.capacity import measure_capacity
    from netprobe.probe.capacity.run import CapacityOptions
    from netprobe.probe.options import ScanOptions
    from netprobe.probe.via import parse_via

    path = out or map_.parent / files.CAPACITY
    launcher = parse_via(
        via or "ssh",
        ssh_config=ssh_config,
        ssh_options=ssh_option or [],
        mca=mca or [],
        listen=listen,
        context=context,
        namespace=namespace,
        container=container,
        kubeconfig=kubeconfig,
        fan_out=fan_out or 16,
    )
    options = ScanOptions(python=python, setup=setup, port_range=ports(port_range))
    how = CapacityOptions(seconds=seconds, streams=streams, repeats=repeats, at_once=at_once)
    scanned, mapped = load_document(Scan, scan), load_document(Map, map_)
    launcher.check(scanned.hosts)
    inputs = [scan, map_, *filter(None, (ssh_config, kubeconfig))]
    files.prepare_file(path, kind="capacity", force=force, inputs=inputs)
    output = Output(json=json, quiet=quiet)
    with ScanProgress(output) as progress:
        result = measure_capacity(
            scanned,
            mapped,
            launcher=launcher,
            path=path,
            options=options,
            capacity=how,
            on_event=progress.on_event,
        )
    show_capacity(result, output)
    output.say(f"wrote {path}")
    output.result({"file": str(path)} | capacity_summary(result))
    return 0 if result.status == "ok" else 3


def show_capacity(result: Capacity, output: Output) -> None:
    """The tables of groups and hosts, for people."""
    if output.json or output.quiet:
        return
    from netprobe.report.capacity import capacity_text, group_table, host_table

    if result.status == "failed":
        output.say(f"no capacity: {result.reason or 'no flow gave a reading'}")
        return
    output.say(group_table(result), "", host_table(result), "", capacity_text(result))


def capacity_summary(result: Capacity) -> dict[str, Any]:
    """What ``--json`` says of capacities."""
    return {
        "status": result.status,
        "reason": result.reason,
        "resources": [one.model_dump(mode="json") for one in result.resources],
        "oversubscription": [one.model_dump(mode="json") for one in result.oversubscription],
        "warnings": result.warnings,
    }
