"""``netprobe scan``: from hosts, or a lab, to a hostfile."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netprobe.cli.commands.export import FormatOption, SlotsOption
from netprobe.cli.commands.mapping import (
    AlphaOption,
    ElasticityOption,
    GroupsOption,
    KOption,
    LikeOption,
    MethodOption,
)
from netprobe.cli.commands.plan import AlgorithmOption, ObjectiveOption, RootOption
from netprobe.cli.commands.scan_output import show_chain
from netprobe.cli.options.addresses import Addresses
from netprobe.cli.options.goodput import (
    GoodputOption,
    GoodputSecondsOption,
    MeasureOption,
    SizeOption,
    StreamsOption,
)
from netprobe.cli.options.groups import grouped
from netprobe.cli.options.latency import LatencyOption, SourcePortsOption, TraceOption
from netprobe.cli.options.launching import Reach, SelectorOption
from netprobe.cli.options.numerics import load_numerics
from netprobe.cli.options.probing import (
    Asked,
    DryRunOption,
    GentleOption,
    IntervalOption,
    LinksAtOnceOption,
    PairsOption,
    ProbesOption,
    RateOption,
    ResumeOption,
    TimeOption,
    given_fields,
    given_words,
)
from netprobe.cli.output import JsonOption, Output, PutAsideOption, QuietOption, SeedOption
from netprobe.cli.progress import ScanProgress

if TYPE_CHECKING:
    from netprobe.pipeline.chain import Chain, ChainOptions


@grouped
def scan(
    *,
    ctx: typer.Context,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            help="A hosts file, a list such as a,b or gpu[001-064], or a source such as slurm:, mpich:FILE or "
            "k8s:app=worker. --via slurm has the job's nodes itself.",
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
    reach: Reach,
    addresses: Addresses,
    selector: SelectorOption = None,
    probes: ProbesOption = 100,
    interval: IntervalOption = 0.001,
    latency: LatencyOption = "stamp",
    source_ports: SourcePortsOption = 1,
    pairs: PairsOption = None,
    time: TimeOption = None,
    links_at_once: LinksAtOnceOption = 0,
    rate: RateOption = None,
    gentle: GentleOption = False,
    dry_run: DryRunOption = False,
    resume: ResumeOption = False,
    measure: MeasureOption = "rtt",
    trace: TraceOption = None,
    goodput: GoodputOption = None,
    goodput_seconds: GoodputSecondsOption = None,
    size: SizeOption = None,
    streams: StreamsOption = None,
    groups: GroupsOption = "natural",
    k: KOption = None,
    elasticity: ElasticityOption = 2.0,
    method: MethodOption = "ensemble",
    alpha: AlphaOption = None,
    like: LikeOption = None,
    algorithm: AlgorithmOption = "ring",
    objective: ObjectiveOption = "sum",
    root: RootOption = None,
    format_: FormatOption = "openmpi",
    slots: SlotsOption = None,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="At the end run the order against the given one on the hosts, for a minute at most. A lab with "
            "rates does so unless told not to.",
        ),
    ] = None,
    seed: SeedOption = 0,
    force: PutAsideOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Probe every pair of hosts, map them, order the ranks and write the hostfile."""
    from netprobe.cli import rootless

    if lab is not None and rootless.is_needed():
        rootless.enter_own()  # first: nothing that starts threads is loaded yet
        Output(json=json, quiet=quiet).note(rootless.NOTE)
    load_numerics()
    from netprobe.cli.commands.mapping import map_options
    from netprobe.cli.commands.plan import check_objective
    from netprobe.cli.options.launching import KNOW_THEIR_HOSTS, hosts_or_selector
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.core.errors import InputError
    from netprobe.pipeline.chain import ChainOptions
    from netprobe.pipeline.scanning.measuring import parse_measuring
    from netprobe.probe.records.options import ScanOptions
    from netprobe.verify.run import VerifyOptions

    hosts = hosts_or_selector(hosts, selector)
    own = reach.via in KNOW_THEIR_HOSTS or resume
    if (hosts is None) == (lab is None) and (lab is not None or not own):
        raise InputError("give either --hosts FILE or --lab SPEC")
    if resume and (lab is not None or out is None or force):
        raise InputError(
            "--resume goes with --out DIR (of the scan that ended early), not with --lab or --force"
        )
    given = reach.given()
    if lab is not None and given:
        raise InputError(f"{' and '.join(given)} cannot go with --lab: a lab has its own way in")
    if only not in (None, "scan", "map", "plan"):
        raise InputError(f"--only {only!r} is none of scan, map, plan")
    if like is not None and only == "scan":
        raise InputError(
            "--like is of the groups of a map: leave --only scan out, or give it to netprobe map"
        )
    mapping = map_options(groups=groups, k=k, elasticity=elasticity, method=method, alpha=alpha)
    if like is not None:
        mapping = replace(mapping, like=load_document(Map, like))
    if only is not None and verify:
        raise InputError(f"--verify is the last stage, and --only {only} stops before it: leave one out")
    options = ChainOptions(
        scan=ScanOptions(
            probes_per_visit=probes,
            interval_s=interval,
            links_at_once=links_at_once,
            latency=latency,  # type: ignore[arg-type]
            source_ports=source_ports,
            **reach.fields(),
            **addresses.fields(),
            seed=seed,
        ),
        measuring=parse_measuring(
            measure,
            trace=trace,
            pairs=pairs,
            time=time,
            goodput=goodput,
            goodput_seconds=goodput_seconds,
            size=size,
            streams=streams,
        ),
        map=mapping,
        algorithm=algorithm,
        objective=check_objective(objective),
        root=root,
        format_name=format_,
        slots=slots,
        seed=seed,
        verify=VerifyOptions(seed=seed) if verify and lab is None else None,
        last=only or "verify",  # type: ignore[arg-type]
        via=reach.way,
        resume=resume,
    )
    folder = out or Path(f"netprobe-{datetime.now():%Y%m%d-%H%M%S}")
    output = Output(json=json, quiet=quiet)
    asked = Asked(
        resume=resume,
        dry_run=dry_run,
        rate=rate,
        gentle=gentle,
        given=given_fields(ctx),
        words=given_words(ctx, options.measuring.words),
    )
    inputs = [] if like is None else [like]
    progress = ScanProgress(output)
    chain = _run(hosts, lab, reach, folder, force, inputs, options, verify, asked, output, progress)
    if chain is None:
        return 0
    show_chain(chain, output, progress.warned)
    return 0 if chain.is_whole else 3


def _run(
    hosts: str | None,
    lab: str | None,
    reach: Reach,
    folder: Path,
    force: bool,
    inputs: list[Path],
    options: ChainOptions,
    verify: bool | None,
    asked: Asked,
    output: Output,
    progress: ScanProgress,
) -> Chain | None:
    """Everything is read and checked before the folder is made or a packet leaves. None for a dry run."""
    from netprobe.cli.options.launching import hosts_to_scan
    from netprobe.cli.options.probing import show_estimate, show_phases
    from netprobe.core.errors import InputError
    from netprobe.formats import input_files
    from netprobe.lab import load_spec
    from netprobe.pipeline import files
    from netprobe.pipeline.chain import (
        check_chain,
        check_lab,
        left_of_complete,
        run_chain,
        run_chain_on_lab,
        verify_on_lab,
    )
    from netprobe.pipeline.scanning.measuring import measured_ids
    from netprobe.pipeline.scanning.resuming import (
        check_same_hosts,
        check_same_measurements,
        check_way_in,
        continued_measuring,
        continued_options,
        find_earlier,
    )

    if lab is not None:
        spec = load_spec(lab)
        count = sum(rack.hosts for rack in spec.racks)
        options = replace(options, scan=asked.settle(options.scan, options.measuring, count)[0])
        if verify is not False:
            options = replace(options, verify=verify_on_lab(spec, options.seed))
        if verify and options.verify is None:
            raise InputError(
                f"--verify: the lab {spec.name} has no rates, and an order would make no difference: give it a "
                "host_rate and an uplink_rate"
            )
        if asked.dry_run:
            show_estimate(count, options.scan, options.measuring, output)
            return None
        files.check_folder(folder, inputs)
        check_lab(spec, options)
        files.prepare_folder(folder, force=force)
        with progress:
            return run_chain_on_lab(
                spec, folder=folder, options=options, on_event=progress.on_event, on_stage=progress.on_stage
            )
    launcher = reach.launcher()
    earlier = find_earlier(folder) if asked.resume else None
    if hosts is None and earlier is None:
        launcher.check(())  # that it can know hosts here at all
    given = (
        earlier.record.hosts
        if hosts is None and earlier is not None
        else hosts_to_scan(hosts, reach.way, launcher, output.note)
    )
    if earlier is not None:
        check_way_in(earlier.record, reach.via)
        check_same_hosts(earlier.record, given)
        measuring = continued_measuring(earlier.record, options.measuring, given=asked.words)
        check_same_measurements(earlier.record, measured_ids(options.scan, measuring))
        options = replace(options, measuring=measuring)
    scan_options, chosen = asked.settle(options.scan, options.measuring, len(given))
    if earlier is not None:
        scan_options = continued_options(earlier.record, scan_options, given=chosen)
        options = replace(options, seed=scan_options.seed)
        if earlier.scan is not None:
            output.note(f"the scan in {folder} is complete: nothing is measured again")
    options = replace(options, scan=scan_options)
    check_chain(options, given)
    if asked.dry_run:
        if earlier is None:
            show_estimate(len(given), options.scan, options.measuring, output)
        elif earlier.scan is None:
            show_estimate(len(given), options.scan, options.measuring, output, earlier=earlier.record.visits)
        else:
            show_phases(len(given), left_of_complete(folder, len(given), options), output)
        return None
    launcher.check(given)
    check_chain(options, given)
    inputs = [*inputs, *reach.inputs(), *(input_files(hosts) if hosts is not None else [])]
    files.check_folder(folder, inputs)
    if earlier is None:
        files.prepare_folder(folder, force=force)
    with progress:
        return run_chain(
            given,
            launcher=launcher,
            folder=folder,
            options=options,
            on_event=progress.on_event,
            on_stage=progress.on_stage,
        )
