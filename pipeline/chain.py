"""The whole chain in one folder: scan, map, plan, hostfile; on a fleet, or on a lab made for it."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from netprobe import lab as lab_
from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import Objective, OrderPlan
from netprobe.core.documents.scan import Scan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import DocumentError, InfeasibleError, InputError
from netprobe.core.hosts import Host, make_host, read_hosts_file
from netprobe.core.units import count
from netprobe.formats import format_named, writer_named
from netprobe.pipeline import files
from netprobe.pipeline.capacity import NoCapacityError, measure_capacity
from netprobe.pipeline.exporting import Exported, export_hostfile, usual_format
from netprobe.pipeline.mapping.confounding import confounding_warnings
from netprobe.pipeline.mapping.map_scan import MapOptions, map_scan
from netprobe.pipeline.planning.plan_auto import AdvisedSchedule, advised_schedule
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.pipeline.planning.predicting import has_all_rates
from netprobe.pipeline.resuming.killed_scan import find_earlier
from netprobe.pipeline.resuming.lost_samples import restore_samples
from netprobe.pipeline.scanning.estimating import estimate_scan
from netprobe.pipeline.scanning.measuring import Measuring, phases_for
from netprobe.pipeline.scanning.scan import scan
from netprobe.pipeline.truth.scoring import Score, score_map
from netprobe.pipeline.verifying.verify_order import NothingVerifiedError, VerifyRequest, verify_order
from netprobe.plan.order.strategies import strategy_of
from netprobe.probe.capacity.run import MOST_AT_ONCE, CapacityOptions
from netprobe.probe.fleet.addressing import check_given
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.events import OnEvent, ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.estimate import PhaseEstimate
from netprobe.verify.comparison import ComparisonOptions
from netprobe.verify.run import LEAST_HOSTS, VerifyOptions

Stage = Literal["scan", "map", "capacity", "plan", "export", "verify"]
STAGES: tuple[Stage, ...] = ("scan", "map", "capacity", "plan", "export", "verify")
LAB_RUN_S, LAB_TIME_S = 0.8, 20.0
"""A run in a good order on a lab, and all runs together: long against a start, short enough for a demo."""
LAB_BYTES = (256_000, 32_000_000)


@dataclass(frozen=True, kw_only=True)
class ChainOptions:
    """The options of the stages. ``last`` is the stage after which to stop; capacity goes with the map.

    ``verify`` runs the order on the hosts at the end; None does not.
    """

    scan: ScanOptions = field(default_factory=ScanOptions)
    measuring: Measuring = field(default_factory=Measuring)
    map: MapOptions = field(default_factory=MapOptions)
    algorithm: str = "ring"
    objective: Objective = "sum"
    root: str | None = None
    format_name: str | None = None
    """None is the usual one (``usual_format``), which never costs a scan."""
    slots: int | None = None
    seed: int = 0
    verify: VerifyOptions | None = None
    last: Stage = "verify"
    via: str | None = None
    """``--via`` as it was given, for the journal: a hint for whoever resumes the scan."""
    resume: bool = False
    """Resume the scan in the folder (``prepare_chain`` checks that it may be resumed)."""


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The documents of the stages; None for a stage that did not run."""

    folder: Path
    scan: Scan
    via: str | None = None
    """The way in, as ``--via`` has it."""
    map: Map | None = None
    capacity: Capacity | None = None
    plan: OrderPlan | None = None
    schedule: AdvisedSchedule | None = None
    """What `advised_schedule` says, where capacities were measured."""
    exported: Exported | None = None
    verify: Verify | None = None
    score: Score | None = None
    warnings: tuple[str, ...] = ()
    """Those of the scan, and what its map makes doubtful."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing that was to be measured is missing."""
        parts = (self.scan, self.capacity, self.verify)
        return all(part is None or part.status == "ok" for part in parts)


def check_chain(options: ChainOptions, hosts: Sequence[Host]) -> None:
    """Refuse, before a packet leaves, what a later stage could not do. Raises InputError."""
    strategy_of(options.algorithm, options.objective)
    if options.root is not None and options.root not in {host.name for host in hosts}:
        raise InputError(f"--root {options.root!r} is not one of the {count(len(hosts), 'host')}")
    if options.map.k is not None and options.map.k > len(hosts):
        raise InfeasibleError(
            f"cannot form {options.map.k} groups of {count(len(hosts), 'host')}: give a smaller --k"
        )
    check_given(hosts, options.scan)
    if options.measuring.capacity is not None and options.last == "scan":
        raise InputError(
            "--measure capacity needs the groups of the map: leave --only scan out, or measure without it "
            "and give the scan and its map to netprobe capacity later"
        )
    phases_for(options.scan, options.measuring)
    if options.measuring.budget is not None and len(hosts) > 1:
        options.measuring.budget.pairs_of(len(hosts))
    until = STAGES.index(options.last)
    if until >= STAGES.index("export") and options.format_name is not None:
        # A name that the launcher would misread must not cost a whole scan.
        writer_named(options.format_name)(hosts, slots=options.slots)


def check_lab(spec: lab_.LabSpec, options: ChainOptions) -> None:
    """The same for a chain on a lab: also whether this machine can hold one."""
    lab_.check_machine(sshd=spec.sshd)
    hosts = lab_.lay_out(spec, seed=options.seed).hosts
    check_chain(options, [make_host(host.name, address=host.address, slots=host.slots) for host in hosts])


def run_chain(
    hosts: Sequence[Host],
    *,
    launcher: Launcher,
    folder: Path,
    options: ChainOptions,
    on_event: OnEvent = ignore,
    on_stage: Callable[[Stage], None] = lambda _stage: None,
) -> Chain:
    """Run the stages into ``folder``, which exists and holds none of our files, or the scan to resume.

    A scan that is complete is not made again; the stages after it are, and what they wrote is put aside.
    """
    check_chain(options, hosts)
    until = STAGES.index(options.last)
    on_stage("scan")
    found = find_earlier(folder) if options.resume else None
    complete = None if found is None else found.scan
    if found is not None and complete is not None and found.lacks_samples:
        complete = restore_samples(complete, found.record, folder)
    earlier = _earlier_capacity(folder) if options.resume else None
    if options.resume:
        again = set(files.ours()) - {files.JOURNAL, files.TRUTH}
        if complete is not None:
            again -= {files.SCAN, f"{files.SCAN}.npz", files.SAMPLES}
        files.put_aside(folder, again)
    scanned = complete or scan(
        hosts,
        launcher=launcher,
        folder=folder,
        options=options.scan,
        resume=options.resume,
        measuring=options.measuring,
        via=options.via,
        on_event=on_event,
    )
    if until < STAGES.index("map"):
        return Chain(folder=folder, scan=scanned, via=options.via, warnings=tuple(scanned.warnings))
    on_stage("map")
    mapped = map_scan(scanned, options=options.map, seed=options.seed)
    warnings = (*scanned.warnings, *confounding_warnings(scanned, mapped))
    files.save(mapped, folder / files.MAP)
    capacity = None
    if options.measuring.capacity is not None:
        on_stage("capacity")
        if len(hosts) < 2:
            warnings += ("capacity is not measured: it takes two hosts",)
        elif earlier is not None and earlier.parents == [scanned.parent(), mapped.parent()]:
            capacity = earlier
            files.save(capacity, folder / files.CAPACITY)
        else:
            capacity = _capacity(scanned, mapped, launcher, folder, options, on_event)
    chain = Chain(
        folder=folder, scan=scanned, via=options.via, map=mapped, capacity=capacity, warnings=warnings
    )
    if until < STAGES.index("plan"):
        return chain
    on_stage("plan")
    planned = plan_order(
        mapped,
        PlanRequest(
            algorithm=options.algorithm, objective=options.objective, root=options.root, seed=options.seed
        ),
        scan=scanned,
        capacity=capacity if capacity is not None and has_all_rates(mapped, capacity) else None,
    )
    files.save(planned, folder / files.PLAN)
    advised = None if capacity is None else advised_schedule(mapped, capacity, planned, seed=options.seed)
    chain = replace(chain, plan=planned, schedule=advised)
    if until < STAGES.index("export"):
        return chain
    on_stage("export")
    chain = export_order(chain, planned, options)
    if options.verify is None or until < STAGES.index("verify"):
        return chain
    on_stage("verify")
    if len(planned.order) < LEAST_HOSTS:
        text = f"the order is not verified: it takes {LEAST_HOSTS} hosts with a rank"
        return replace(chain, warnings=(*chain.warnings, text))
    return replace(chain, verify=_verify(planned, mapped, capacity, launcher, folder, options, on_event))


def export_order(chain: Chain, planned: OrderPlan, options: ChainOptions) -> Chain:
    """The chain with its hostfile, in the format that was named, or in the usual one where that can be written."""
    name, slots = options.format_name, options.slots
    if name is None:
        ranked = [host for host in planned.hosts if host.name in planned.order]
        name, faults = usual_format(ranked, via=options.via, slots=slots)
        chain = replace(chain, warnings=(*chain.warnings, *faults))
        slots = None if name == "plain" else slots
    if name is None:
        return chain
    path = chain.folder / format_named(name).file
    exported = export_hostfile(planned, format_name=name, slots=slots, path=path)
    files.save_text(exported.text, path)
    return replace(chain, exported=exported)


def _capacity(
    scanned: Scan, mapped: Map, launcher: Launcher, folder: Path, options: ChainOptions, on_event: OnEvent
) -> Capacity:
    """Measured in the groups of the map. Without a reading the rest of the chain is as good as it was."""
    at_once = min(options.scan.links_at_once, MOST_AT_ONCE)
    capacity = replace(options.measuring.capacity or CapacityOptions(), at_once=at_once)
    try:
        return measure_capacity(
            scanned,
            mapped,
            launcher=launcher,
            path=folder / files.CAPACITY,
            options=options.scan,
            capacity=capacity,
            on_event=on_event,
        )
    except NoCapacityError as error:
        return error.document


def _verify(
    planned: OrderPlan,
    mapped: Map,
    capacity: Capacity | None,
    launcher: Launcher,
    folder: Path,
    options: ChainOptions,
    on_event: OnEvent,
) -> Verify:
    """The plan's order against the given one. Without a run the rest of the chain is as good as it was."""
    try:
        return verify_order(
            planned,
            VerifyRequest(options=options.verify or VerifyOptions()),
            launcher=launcher,
            map_=mapped,
            capacity=capacity if capacity is not None and has_all_rates(mapped, capacity) else None,
            path=folder / files.VERIFY,
            options=options.scan,
            on_event=on_event,
        )
    except NothingVerifiedError as error:
        return error.document


def verify_on_lab(spec: lab_.LabSpec, seed: int) -> VerifyOptions | None:
    """What suits the rates of a lab; None where it has none, and an order cannot make a difference in rate."""
    racks = range(len(spec.racks))
    rate = min(min(spec.host_rate_bytes_per_s(r), spec.uplink_rate_bytes_per_s(r)) for r in racks)
    if math.isinf(rate):
        return None
    low, high = LAB_BYTES
    # Each host sends nearly twice the buffer.
    size = int(min(max(rate * LAB_RUN_S / 2, low), high))
    return VerifyOptions(size_bytes=size, comparison=ComparisonOptions(time_s=LAB_TIME_S), seed=seed)


def _earlier_capacity(folder: Path) -> Capacity | None:
    """The capacity in a folder, where nothing of it is missing."""
    path = folder / files.CAPACITY
    try:
        capacity = load_document(Capacity, path) if path.is_file() else None
    except DocumentError:
        return None
    return capacity if capacity is not None and capacity.status == "ok" else None


def left_of_complete(folder: Path, hosts: int, options: ChainOptions) -> list[PhaseEstimate]:
    """What resuming a complete scan would measure: its capacity, where that is missing."""
    if options.measuring.capacity is None or hosts < 2 or _earlier_capacity(folder) is not None:
        return []
    return estimate_scan(hosts, options.scan, options.measuring)[-1:]


def run_chain_on_lab(
    spec: lab_.LabSpec,
    *,
    folder: Path,
    options: ChainOptions,
    on_event: OnEvent = ignore,
    on_stage: Callable[[Stage], None] = lambda _stage: None,
) -> Chain:
    """The chain on a lab that is made for it and always removed; scored against the truth."""
    # This Python rather than the python3 that PATH finds: the lab's hosts are this machine.
    python = options.scan.python or shlex.quote(sys.executable)
    options = replace(options, scan=replace(options.scan, python=python))
    with lab_.temporary(spec, seed=options.seed) as made:
        truth = made.truth()
        files.save_bytes(made.truth_path.read_bytes(), folder / files.TRUTH)
        chain = run_chain(
            read_hosts_file(made.hosts_path),
            launcher=parse_via(made.via_template),
            folder=folder,
            options=replace(options, via=made.via_template),
            on_event=on_event,
            on_stage=on_stage,
        )
    if chain.map is None:
        return chain
    return replace(chain, score=score_map(chain.map, truth, chain.plan))
