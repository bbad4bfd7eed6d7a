"""``netprobe scan``: from hosts, or a lab, to a hostfile."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netprobe.cli.export import FormatOption, SlotsOption
from netprobe.cli.goodput import (
    GoodputOption,
    GoodputSecondsOption,
    MeasureOption,
    SizeOption,
    StreamsOption,
)
from netprobe.cli.latency import (
    Ipv4Option,
    Ipv6Option,
    LatencyOption,
    SourcePortsOption,
    TraceOption,
    latency_fields,
)
from netprobe.cli.launching import (
    FanOutOption,
    ListenOption,
    McaOption,
    PythonOption,
    SetupOption,
    SshConfigOption,
    SshOptionOption,
    ViaOption,
)
from netprobe.cli.mapping import AlphaOption, ElasticityOption, GroupsOption, KOption, MethodOption
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption, SeedOption
from netprobe.cli.plan import ObjectiveOption, RootOption

if TYPE_CHECKING:
    from netprobe.pipeline.chain import Chain, ChainOptions


def scan(
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            help="A hosts file, a list such as a,b or gpu[001-064], or a source such as slurm: or mpich:FILE. "
            "--via slurm has the job's nodes itself.",
        ),
    ] = None,
    lab: Annotated[
        str | None,
        typer.Option("--lab", metavar="SPEC", help="Instead: make a lab of this spec, and remove it after."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Directory to write (a new one otherwise)."),
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="STAGE", help="Stop after this stage: scan, map or plan.")
    ] = None,
    via: ViaOption = None,
    ssh_config: SshConfigOption = None,
    ssh_option: SshOptionOption = None,
    mca: McaOption = None,
    listen: ListenOption = None,
    python: PythonOption = None,
    setup: SetupOption = None,
    fan_out: FanOutOption = None,
    start_timeout: Annotated[
        float,
        typer.Option("--start-timeout", metavar="SECONDS", help="A host not up by then is unreachable."),
    ] = 30.0,
    probes: Annotated[
        int, typer.Option("--probes", help="Probes of one visit; each pair gets two visits.")
    ] = 100,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="Mean time between the probes of a link.")
    ] = 0.001,
    port_range: Annotated[
        str | None, typer.Option("--port-range", metavar="LOW-HIGH", help="UDP ports to use (any otherwise).")
    ] = None,
    subnet: Annotated[
        str | None, typer.Option("--subnet", metavar="CIDR", help="Probe the addresses of this network.")
    ] = None,
    interface: Annotated[
        str | None, typer.Option("--interface", help="Probe the addresses of this interface.")
    ] = None,
    ipv4: Ipv4Option = False,
    ipv6: Ipv6Option = False,
    latency: LatencyOption = "stamp",
    source_ports: SourcePortsOption = 1,
    measure: MeasureOption = "rtt",
    trace: TraceOption = None,
    goodput: GoodputOption = None,
    goodput_seconds: GoodputSecondsOption = None,
    size: SizeOption = None,
    streams: StreamsOption = None,
    groups: GroupsOption = "natural",
    k: KOption = None,
    elasticity: ElasticityOption = 2.0,
    method: MethodOption = "robust",
    alpha: AlphaOption = None,
    objective: ObjectiveOption = "sum",
    root: RootOption = None,
    format_: FormatOption = "openmpi",
    slots: SlotsOption = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Probe every pair of hosts, map them, order the ranks and write the hostfile."""
    from netprobe.cli.launching import KNOW_THEIR_HOSTS
    from netprobe.cli.mapping import map_options
    from netprobe.cli.plan import check_objective
    from netprobe.core.errors import InputError
    from netprobe.pipeline.chain import ChainOptions
    from netprobe.pipeline.measuring import parse_measuring
    from netprobe.probe.options import ScanOptions

    if (hosts is None) == (lab is None) and (lab is not None or via not in KNOW_THEIR_HOSTS):
        raise InputError("give either --hosts FILE or --lab SPEC")
    reach = {
        "--via": via, "--ssh-config": ssh_config, "--ssh-option": ssh_option, "--mca": mca,
        "--listen": listen, "--fan-out": fan_out,
    }  # fmt: skip
    given = [name for name, value in reach.items() if value]
    if lab is not None and given:
        raise InputError(f"{' and '.join(given)} cannot go with --lab: a lab has its own way in")
    if only not in (None, "scan", "map", "plan"):
        raise InputError(f"--only {only!r} is none of scan, map, plan")
    options = ChainOptions(
        scan=ScanOptions(
            probes_per_visit=probes,
            interval_s=interval,
            port_range=ports(port_range),
            subnet=subnet,
            interface=interface,
            **latency_fields(
                latency=latency, source_ports=source_ports, ipv4=ipv4, ipv6=ipv6, port_range=port_range
            ),
            start_timeout_s=start_timeout,
            python=python,
            setup=setup,
            seed=seed,
        ),
        measuring=parse_measuring(
            measure, trace=trace, goodput=goodput, goodput_seconds=goodput_seconds, size=size, streams=streams
        ),
        map=map_options(groups=groups, k=k, elasticity=elasticity, method=method, alpha=alpha),
        objective=check_objective(objective),
        root=root,
        format_name=format_,
        slots=slots,
        seed=seed,
        last=only or "export",  # type: ignore[arg-type]
    )
    folder = out or Path(f"netprobe-{datetime.now():%Y%m%d-%H%M%S}")
    output = Output(json=json, quiet=quiet)
    launch = {
        "ssh_config": ssh_config,
        "ssh_options": ssh_option or [],
        "mca": mca or [],
        "listen": listen,
        "fan_out": fan_out or 16,
    }
    chain = _run(hosts, lab, "ssh" if via is None else via, launch, folder, force, options, output)
    _show(chain, output)
    return 0 if chain.scan.status == "ok" else 3


def ports(text: str | None) -> tuple[int, int]:
    """``LOW-HIGH`` or one port; (0, 0) for None."""
    from netprobe.core.errors import InputError

    if text is None:
        return (0, 0)
    low, dash, high = text.partition("-")
    ends = (low, high if dash else low)
    if not all(end.isascii() and end.isdigit() and len(end) <= 5 for end in ends):
        raise InputError(f"--port-range {text!r} is no range of ports such as 9000-9100")
    return int(ends[0]), int(ends[1])


def _run(
    hosts: str | None,
    lab: str | None,
    via: str,
    launch: dict[str, Any],
    folder: Path,
    force: bool,
    options: ChainOptions,
    output: Output,
) -> Chain:
    """Everything is read and checked before the folder is made or a packet leaves."""
    from netprobe.cli.launching import hosts_to_scan
    from netprobe.cli.progress import ScanProgress
    from netprobe.lab import load_spec
    from netprobe.pipeline import files
    from netprobe.pipeline.chain import check_chain, check_lab, run_chain, run_chain_on_lab
    from netprobe.probe.via import parse_via

    if lab is not None:
        spec = load_spec(lab)
        check_lab(spec, options)
        files.prepare_folder(folder, force=force)
        with ScanProgress(output) as progress:
            return run_chain_on_lab(
                spec, folder=folder, options=options, on_event=progress.on_event, on_stage=progress.on_stage
            )
    launcher = parse_via(via, **launch)
    if hosts is None:
        launcher.check(())  # that it can know hosts here at all
    given = hosts_to_scan(hosts, via)
    launcher.check(given)
    check_chain(options, given)
    files.prepare_folder(folder, force=force)
    with ScanProgress(output) as progress:
        return run_chain(
            given,
            launcher=launcher,
            folder=folder,
            options=options,
            on_event=progress.on_event,
            on_stage=progress.on_stage,
        )


def _show(chain: Chain, output: Output) -> None:
    output.result(summary(chain))
    if output.json or output.quiet:
        return
    from netprobe.report import terminal
    from netprobe.report.goodput import goodput_text
    from netprobe.report.paths import paths_text

    output.say(terminal.scan_text(chain.scan), *paths_text(chain.scan), *goodput_text(chain.scan), "")
    if chain.map is not None and len(chain.scan.hosts) > 1:
        console = output.console()
        output.say(
            terminal.heat_map(chain.scan, chain.map, width=console.width, encoding=console.encoding),
            "",
            terminal.group_table(chain.map),
            "",
        )
    if chain.map is not None:
        output.say(chain.map.verdict.text)
    if chain.plan is not None:
        output.say(terminal.order_text(chain.plan))
    if chain.score is not None:
        hops = "" if chain.score.crossings is None else f", {chain.score.crossings} crossings of the ring"
        output.say(f"against the lab's truth: ARI {chain.score.ari:.2f}{hops} for {chain.score.racks} racks")
    output.say("", f"files in {chain.folder}: {' '.join(written(chain))}", f"next: {next_command(chain)}")


def written(chain: Chain) -> list[str]:
    """The names of the files in the folder."""
    return sorted(path.name for path in chain.folder.iterdir() if not path.name.startswith("."))


def next_command(chain: Chain) -> str:
    """What to type after this."""
    if chain.exported is not None and chain.exported.command is not None:
        return chain.exported.command
    if chain.plan is not None:
        return f"netprobe export hostfile {chain.folder / 'plan.json'}"
    if chain.map is not None:
        return f"netprobe plan order {chain.folder / 'map.json'}"
    return f"netprobe map {chain.folder / 'scan.json'}"


def summary(chain: Chain) -> dict[str, Any]:
    """What ``--json`` says."""
    from netprobe.cli.mapping import map_summary
    from netprobe.cli.plan import plan_summary

    data: dict[str, Any] = {
        "out": str(chain.folder),
        "files": written(chain),
        "status": chain.scan.status,
        "reason": chain.scan.reason,
        "hosts": [{"name": h.name, "status": h.status, "reason": h.reason} for h in chain.scan.hosts],
        "duration_s": chain.scan.duration_s,
    }
    if chain.map is not None:
        data |= map_summary(chain.map)
    if chain.plan is not None:
        data |= plan_summary(chain.plan)
    if chain.exported is not None:
        data["command"] = chain.exported.command
    if chain.score is not None:
        data |= {
            "ari": chain.score.ari,
            "racks": chain.score.racks,
            "rack_crossings": chain.score.crossings,
        }
    return data
