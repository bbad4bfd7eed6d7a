"""A chain that is read and checked, and not yet started: what it would cost, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from netprobe import lab as lab_
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.formats import input_files
from netprobe.pipeline import files
from netprobe.pipeline.chain import (
    Chain,
    ChainOptions,
    Stage,
    check_chain,
    check_lab,
    left_of_complete,
    run_chain,
    run_chain_on_lab,
    verify_on_lab,
)
from netprobe.pipeline.resuming.killed_scan import (
    Earlier,
    check_same_hosts,
    check_same_measurements,
    check_way_in,
    continued_measuring,
    continued_options,
    find_earlier,
)
from netprobe.pipeline.scanning.estimating import estimate_scan
from netprobe.pipeline.scanning.hosts import hosts_to_scan
from netprobe.pipeline.scanning.measuring import Measuring, measured_ids
from netprobe.pipeline.scanning.pace import Pace
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.events import OnEvent, ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.estimate import PhaseEstimate

OnStage = Callable[[Stage], None]


def _ignore_text(_text: str) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class ChainRequest:
    """A chain as the user asks for it: on the hosts that ``launcher`` reaches, or on a lab."""

    folder: Path
    options: ChainOptions
    """``options.resume`` continues the scan in the folder; ``options.via`` is the launcher's name."""
    hosts: str | None = None
    """A hosts file, list or source; None for those of the earlier scan, or those the launcher knows."""
    launcher: Launcher | None = None
    """None only with ``lab``."""
    via: str | None = None
    """``--via``, None where the user did not give it."""
    lab: str | None = None
    """The spec of a lab."""
    verify: bool | None = None
    """For a lab: None verifies the order where the lab has rates."""
    pace: Pace = field(default_factory=Pace)
    explicit_measuring: Mapping[str, str] = field(default_factory=dict)
    """Arguments of ``parse_measuring`` that the user gave, and the name of the option of each."""
    inputs: tuple[Path, ...] = ()
    """Files that are read, which the chain must not overwrite."""
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class ChainEstimate:
    """What the measurements of a chain would cost."""

    hosts: int
    phases: tuple[PhaseEstimate, ...]
    options: ScanOptions
    measuring: Measuring
    resumed: bool = False
    """Only what an unfinished scan leaves is estimated."""
    complete: bool = False
    """The scan is complete: at most its capacity is left to measure."""


class PreparedChain(Protocol):
    """A checked chain: nothing is written and no packet is sent before ``run``."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for the user."""

    def estimate(self) -> ChainEstimate:
        """What it would cost, where its folder can be made. Raises InputError and OutputExistsError."""

    def run(self, *, on_event: OnEvent = ignore, on_stage: OnStage = ...) -> Chain:
        """Make the folder and run the stages. Everything is checked before the folder is made."""


def prepare_chain(request: ChainRequest, *, on_note: Callable[[str], None] = _ignore_text) -> PreparedChain:
    """Read and check the request. Raises InputError, InfeasibleError and DocumentError.

    ``on_note`` receives lines about hosts that are left out.
    """
    if request.lab is not None:
        return _prepare_on_lab(request, request.lab)
    return _prepare_on_fleet(request, on_note)


def _prepare_on_lab(request: ChainRequest, lab: str) -> _OnLab:
    spec = lab_.load_spec(lab)
    hosts = sum(rack.hosts for rack in spec.racks)
    options = request.options
    options = replace(options, scan=request.pace.apply(options.scan, options.measuring, hosts)[0])
    if request.verify is not False:
        options = replace(options, verify=verify_on_lab(spec, options.seed))
    if request.verify and options.verify is None:
        raise InputError(
            f"--verify: the lab {spec.name} has no rates, and an order would make no difference: give it a "
            "host_rate and an uplink_rate"
        )
    return _OnLab(request=request, spec=spec, hosts=hosts, options=options)


def _prepare_on_fleet(request: ChainRequest, on_note: Callable[[str], None]) -> _OnFleet:
    launcher, options = request.launcher, request.options
    if launcher is None:
        raise InputError("a chain needs a launcher or a lab")
    earlier = find_earlier(request.folder) if options.resume else None
    if request.hosts is None and earlier is None:
        launcher.check(())  # that it can know hosts here at all
    if request.hosts is None and earlier is not None:
        hosts = tuple(earlier.record.hosts)
    else:
        hosts = hosts_to_scan(request.hosts, options.via or "ssh", launcher, on_note, options=options.scan)
    if earlier is None:
        scan, _ = request.pace.apply(options.scan, options.measuring, len(hosts))
        options = replace(options, scan=scan)
    else:
        options = _continued(request, earlier, hosts)
    check_chain(options, hosts)
    return _OnFleet(request=request, launcher=launcher, hosts=hosts, options=options, earlier=earlier)


def _continued(request: ChainRequest, earlier: Earlier, hosts: tuple[Host, ...]) -> ChainOptions:
    """The options of the earlier scan, after the check that the user asks for nothing else."""
    options, record = request.options, earlier.record
    check_way_in(record, request.via)
    check_same_hosts(record, hosts)
    measuring = continued_measuring(record, options.measuring, given=request.explicit_measuring)
    check_same_measurements(record, measured_ids(options.scan, measuring))
    scan, chosen = request.pace.apply(options.scan, measuring, len(hosts))
    scan = continued_options(record, scan, given=chosen)
    return replace(options, measuring=measuring, scan=scan, seed=scan.seed)


def _check_has_links(hosts: int) -> None:
    """Refuse to say what nothing costs: one host is scanned for its hostfile alone. Raises InputError."""
    if hosts < 2:
        raise InputError("1 host has no links to measure: at least two hosts are needed")


@dataclass(frozen=True, kw_only=True)
class _OnLab:
    request: ChainRequest
    spec: lab_.LabSpec
    hosts: int
    options: ChainOptions
    notes: tuple[str, ...] = ()

    def estimate(self) -> ChainEstimate:
        files.check_out(self.request.folder, force=self.request.force)
        _check_has_links(self.hosts)
        scan, measuring = self.options.scan, self.options.measuring
        phases = tuple(estimate_scan(self.hosts, scan, measuring))
        return ChainEstimate(hosts=self.hosts, phases=phases, options=scan, measuring=measuring)

    def run(self, *, on_event: OnEvent = ignore, on_stage: OnStage = _ignore_text) -> Chain:
        folder = self.request.folder
        files.check_folder(folder, self.request.inputs)
        check_lab(self.spec, self.options)
        files.prepare_folder(folder, force=self.request.force)
        return run_chain_on_lab(
            self.spec, folder=folder, options=self.options, on_event=on_event, on_stage=on_stage
        )


@dataclass(frozen=True, kw_only=True)
class _OnFleet:
    request: ChainRequest
    launcher: Launcher
    hosts: tuple[Host, ...]
    options: ChainOptions
    earlier: Earlier | None

    @property
    def notes(self) -> tuple[str, ...]:
        if self.earlier is None or self.earlier.scan is None:
            return ()
        note = f"the scan in {self.request.folder} is complete: nothing is measured again"
        return (
            note + ", and its samples are taken from the journal" if self.earlier.lacks_samples else note,
        )

    def estimate(self) -> ChainEstimate:
        if self.earlier is None:
            files.check_out(self.request.folder, force=self.request.force)
        hosts, earlier = len(self.hosts), self.earlier
        _check_has_links(hosts)
        scan, measuring = self.options.scan, self.options.measuring
        complete = earlier is not None and earlier.scan is not None
        if complete:
            phases = left_of_complete(self.request.folder, hosts, self.options)
        else:
            visits = () if earlier is None else earlier.record.visits
            phases = estimate_scan(hosts, scan, measuring, earlier=visits)
        return ChainEstimate(
            hosts=hosts,
            phases=tuple(phases),
            options=scan,
            measuring=measuring,
            resumed=earlier is not None and not complete,
            complete=complete,
        )

    def run(self, *, on_event: OnEvent = ignore, on_stage: OnStage = _ignore_text) -> Chain:
        request = self.request
        self.launcher.check(self.hosts)
        sources = input_files(request.hosts) if request.hosts is not None else []
        files.check_folder(request.folder, [*request.inputs, *sources])
        if self.earlier is None:
            files.prepare_folder(request.folder, force=request.force)
        return run_chain(
            self.hosts,
            launcher=self.launcher,
            folder=request.folder,
            options=self.options,
            on_event=on_event,
            on_stage=on_stage,
        )
