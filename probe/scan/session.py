"""A scan from start to end: start the agents, run each phase round by round, stop the agents, build the document."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from netprobe.core.hosts import Host, check_hosts
from netprobe.probe.agent.audit import PROGRAMS
from netprobe.probe.audit.audit import ScanAudit
from netprobe.probe.fleet.fleet import Fleet
from netprobe.probe.fleet.stopping import run_stoppable
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.methods.base import Warns
from netprobe.probe.methods.blocked import BY_TCP, blocked_hosts, blocked_text, only_tcp_passes
from netprobe.probe.methods.latency import latency_method
from netprobe.probe.records.events import OnEvent, ScanWarning, Teller, ignore
from netprobe.probe.records.journal import Journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import ScanOutcome, ScanRun, build_outcome
from netprobe.probe.records.visits import RTT, VisitResult
from netprobe.probe.rounds.chooser import RoundRobin
from netprobe.probe.scan.phase import Phase, links_at_once
from netprobe.probe.scan.scheduler import Clock, Scheduler

__all__ = ["Phase", "ScanLog", "links_at_once", "measure", "run_scan"]


@dataclass(frozen=True, kw_only=True)
class ScanLog:
    """Where a scan records its visits, and what an earlier part of the same scan recorded."""

    journal: Journal | None = None
    resumed: Sequence[VisitResult] = ()
    """Visits of the scan that is resumed. A link with a reading there is not measured again, unless one of its
    hosts has booted since."""
    boots: Mapping[str, str] = field(default_factory=dict)
    """Boot of each host at that time, by name."""


NO_LOG = ScanLog()


async def measure(
    hosts: Sequence[Host],
    launcher: Launcher,
    options: ScanOptions | None = None,
    *,
    phases: Sequence[Phase] = (),
    log: ScanLog = NO_LOG,
    on_event: OnEvent = ignore,
    clock: Clock = time.monotonic,
    stop: asyncio.Event | None = None,
) -> ScanOutcome:
    """Scan ``hosts``. Setting ``stop`` ends it early, with ``interrupted`` true and what there was by then.

    ``phases`` run one after the other; the first one is the primary measurement. Without any it is the RTT
    (``options.latency``) of every link. A single host is not probed: its scan is trivial. Raises InputError for
    invalid input and NothingMeasuredError when no link gave a reading. No agent is left running, however it ends.
    """
    hosts = check_hosts(hosts)
    options = options if options is not None else ScanOptions()
    on_event = teller = Teller(on_event)
    fleet = Fleet(hosts, launcher, options, on_event, clock)
    phases = tuple(phases) or (Phase(method=latency_method(options), chooser=RoundRobin()),)
    scheduler = Scheduler(
        fleet,
        phases,
        options,
        journal=log.journal,
        resumed=log.resumed,
        on_event=on_event,
        clock=clock,
    )

    programs = any(phase.method.measurement.method in PROGRAMS for phase in phases)
    audit = ScanAudit(fleet, programs=programs) if options.audit else None
    duration: float | None = None
    hints: list[str] = []

    async def work() -> None:
        nonlocal duration, phases
        scheduler.void_replaced(log.boots)
        scheduler.note_hosts()
        try:
            if audit is not None:
                await audit.start()
            if await _needs_tcp(fleet, phases, scheduler.visits, options, on_event):
                phases = (
                    replace(phases[0], method=latency_method(replace(options, latency="tcp"))),
                    *phases[1:],
                )
                scheduler.use(phases, latency="tcp")
            if len(hosts) > 1:
                await scheduler.run()
        finally:
            duration = scheduler.elapsed_s
        hints.extend(await _udp_hints(fleet, phases, scheduler.visits, options))
        if audit is not None:
            await audit.end()

    interrupted, _seconds = await fleet.run(work, stop)
    duration = scheduler.elapsed_s if duration is None else duration
    if audit is not None:
        for text in audit.warnings(scheduler.visits):
            on_event(ScanWarning(text=text))
    _tell_warnings(phases, on_event)
    for text in hints:
        on_event(ScanWarning(text=text))
    return build_outcome(
        [member.outcome for member in fleet.members],
        scheduler.visits,
        options,
        measurements=[phase.method.measurement for phase in phases],
        run=ScanRun(
            rounds=scheduler.rounds,
            duration_s=duration,
            interrupted=interrupted,
            warnings=teller.warnings,
            hint=next(iter(hints), None),
            controller=None if audit is None else audit.controller,
        ),
    )


async def _needs_tcp(
    fleet: Fleet,
    phases: Sequence[Phase],
    visits: Sequence[VisitResult],
    options: ScanOptions,
    on_event: OnEvent,
) -> bool:
    """Whether ``auto`` means TCP here, which is told. A scan that goes on keeps to the method of its readings."""
    if options.latency != "auto" or phases[0].method.measurement.method != "stamp":
        return False
    if any(visit.has_reading for visit in visits if visit.measurement == RTT):
        return False
    found = await only_tcp_passes(fleet.members, options)
    if found:
        on_event(ScanWarning(text=BY_TCP))
    return found


async def _udp_hints(
    fleet: Fleet, phases: Sequence[Phase], visits: Sequence[VisitResult], options: ScanOptions
) -> list[str]:
    """Where hosts answered no UDP probe of the primary measurement: whether TCP would do."""
    if phases[0].method.measurement.method != "stamp":
        return []
    heard = {end for visit in visits if visit.received for end in (visit.src, visit.dst)}
    probed = {
        end for visit in visits if visit.sent and visit.measurement == RTT for end in (visit.src, visit.dst)
    }
    names = await blocked_hosts(fleet.members, sorted(probed - heard), options)
    return [blocked_text(names)] if names else []


def _tell_warnings(phases: Sequence[Phase], on_event: OnEvent) -> None:
    """What the methods say of their readings."""
    for phase in phases:
        if isinstance(phase.method, Warns):
            for text in phase.method.warnings:
                on_event(ScanWarning(text=text))


def run_scan(
    hosts: Sequence[Host],
    launcher: Launcher,
    options: ScanOptions | None = None,
    *,
    phases: Sequence[Phase] = (),
    log: ScanLog = NO_LOG,
    on_event: OnEvent = ignore,
) -> ScanOutcome:
    """``measure`` for callers without an event loop. SIGINT and SIGTERM end it early and cleanly.

    In the main thread both signals are handled while it runs (one that is ignored stays ignored): the outcome
    is ``interrupted`` then.
    """

    return run_stoppable(
        lambda stop: measure(hosts, launcher, options, phases=phases, log=log, on_event=on_event, stop=stop)
    )
