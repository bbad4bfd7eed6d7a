"""A scan from start to end: agents up, phase after phase and round after round, agents gone, document."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netprobe.core.hosts import Host, check_hosts
from netprobe.core.scan import Measurement
from netprobe.probe.agent.audit import PROGRAMS
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.audit import ScanAudit
from netprobe.probe.chooser import Chooser, Results, Retrying, RoundRobin
from netprobe.probe.connection import AgentLostError, TaskFailedError
from netprobe.probe.events import OnEvent, RoundDone, ScanWarning, Teller, VisitDone, ignore
from netprobe.probe.fleet import Fleet, Member
from netprobe.probe.journal import Journal
from netprobe.probe.launch import Launcher
from netprobe.probe.methods.base import Method, VisitContext, Warns
from netprobe.probe.methods.latency import latency_method
from netprobe.probe.options import ScanOptions
from netprobe.probe.replaced import find_replaced, replaced_text
from netprobe.probe.result import ScanOutcome, build_outcome
from netprobe.probe.rounds import Link
from netprobe.probe.stopping import run_stoppable, until_stopped
from netprobe.probe.visits import VisitResult, spent_s

Clock = Callable[[], float]
LATE_S = 0.5
"""A visit that takes this much longer than twice its cost makes the session ask its agents whether they live."""
ANSWER_S = 1.0
"""An agent that answers no ping for so long is silent: its links wait for a later round. Whether it hangs
(``ScanOptions.silence_s``) is found out meanwhile: it costs one short wait, not one a round."""
LOOK_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One measurement of a scan: how a link is measured, and which links in which rounds."""

    method: Method
    chooser: Chooser
    links_at_once: int = 0
    """A cap of its own, beside that of the options; 0 is none."""


def links_at_once(phase: Phase, options: ScanOptions) -> int:
    """How many links of a phase are measured at the same time, at the most; 0 is no cap."""
    return min(filter(None, (phase.links_at_once, options.links_at_once)), default=0)


class Session:
    """The state of a running scan."""

    def __init__(
        self,
        fleet: Fleet,
        phases: Sequence[Phase],
        options: ScanOptions,
        *,
        journal: Journal | None,
        resumed: Sequence[VisitResult] = (),
        on_event: OnEvent,
        clock: Clock,
    ) -> None:
        self.fleet = fleet
        self.visits: list[VisitResult] = list(resumed)
        self.rounds = max((visit.round for visit in resumed), default=-1) + 1
        self._phases = phases
        self._options = options
        self._journal = journal
        self._on_event = on_event
        self._clock = clock
        # A resumed scan goes on where the other one was, so that times of visits stay in order.
        self._earlier_s = max((visit.started_s + visit.duration_s for visit in resumed), default=0.0)
        self._began = clock()
        self._behind: set[asyncio.Task[None]] = set()
        self._finished = self._count_finished()

    async def run(self) -> None:
        """Phase after phase, each round after round until its chooser has no more."""
        self._began = self._clock()
        for phase in self._phases:
            unable = await phase.method.prepare(self.fleet.members)
            if phase is self._phases[0]:
                # Without the primary measurement a host has no place in a map.
                for index, reason in unable.items():
                    self.fleet.fail(self.fleet.members[index], "failed", reason)
            try:
                await self._run_phase(phase, unable)
                await asyncio.gather(*self._behind)
            finally:
                for task in self._behind:
                    task.cancel()
                await asyncio.gather(*self._behind, return_exceptions=True)
                await phase.method.finish(self.fleet.members)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first round began, with those of the scan that this one continues."""
        return self._earlier_s + self._clock() - self._began

    async def _run_phase(self, phase: Phase, unable: Mapping[int, str]) -> None:
        measurement = phase.method.measurement
        id_ = measurement.id
        chooser = Retrying(phase.chooser, self._options.retries)
        began, done = self._clock(), 0
        seen = [visit for visit in self.visits if visit.measurement == id_]
        # What the scan that this one continues took of a budget of time is gone.
        spent = spent_s(seen)
        while True:
            alive = self.fleet.alive.difference(unable)
            results = Results(
                hosts=len(self.fleet.members),
                alive=alive,
                visits=seen,
                elapsed_s=spent + self._clock() - began,
            )
            # In a thread: forming groups of a large fleet takes seconds, and agents without pings for so long end.
            links = await asyncio.to_thread(chooser.next_round, results)
            if links is None:
                return
            for together in _split(self._unfinished(id_, links), links_at_once(phase, self._options)):
                beside = max(0, sum(self._is_up(link, unable) for link in together) - 1)
                await self._round(phase.method, measurement, together, beside, unable, seen)
                self.rounds += 1
                done += len(together)
                self._tell_round(id_, chooser, done, self._clock() - began)

    async def _round(
        self,
        method: Method,
        measurement: Measurement,
        links: Sequence[Link],
        beside: int,
        unable: Mapping[int, str],
        seen: list[VisitResult],
    ) -> None:
        """Visit ``links``; ``seen`` grows. A visit whose source is silent is left behind, and ends when it does."""
        if not any(self._is_up(link, unable) and not self._silent(link) for link in links):
            await self._wait_for_silent(links)

        async def visit(link: Link) -> None:
            seen.extend(await self._visit(method, measurement, link, beside, unable))

        tasks = {asyncio.create_task(visit(link)): link for link in links}
        pending = set(tasks)
        try:
            _done, pending = await asyncio.wait(pending, timeout=2 * method.cost().seconds + LATE_S)
            while pending:
                for link in map(tasks.__getitem__, pending):
                    for end in (link.src, link.dst):
                        connection = self.fleet.members[end].connection
                        if connection is not None and connection.unanswered_s == 0:
                            connection.ask()
                _done, pending = await asyncio.wait(pending, timeout=LOOK_S)
                silent = {task for task in pending if self._is_silent(tasks[task].src)}
                self._behind |= silent
                pending -= silent
        except BaseException:
            self._behind |= pending
            raise
        for task in [task for task in self._behind if task.done()]:
            self._behind.discard(task)
        for task in tasks.keys() - self._behind:
            task.result()

    def _is_silent(self, index: int) -> bool:
        connection = self.fleet.members[index].connection
        return connection is not None and connection.lost is None and connection.unanswered_s > ANSWER_S

    def _silent(self, link: Link) -> bool:
        return self._is_silent(link.src) or self._is_silent(link.dst)

    async def _wait_for_silent(self, links: Sequence[Link]) -> None:
        """Until it is known of every silent host whether it hangs: nothing else is left to do."""
        while any(self._silent(link) for link in links):
            await asyncio.sleep(LOOK_S)

    def _unfinished(self, id_: str, links: Sequence[Link]) -> list[Link]:
        """Without those that the scan which this one continues has measured."""
        if not self._finished:
            return list(links)
        left = []
        for link in links:
            if self._finished[id_, link] > 0:
                self._finished[id_, link] -= 1
            else:
                left.append(link)
        return left

    def _count_finished(self) -> Counter[tuple[str, Link]]:
        return Counter(
            (visit.measurement, Link(visit.src, visit.dst)) for visit in self.visits if visit.has_reading
        )

    def void_replaced(self, boots: Mapping[str, str]) -> None:
        """Leave out what is known of links of hosts whose boot is not that of ``boots`` any more."""
        replaced = find_replaced(self.fleet.members, boots)
        if not replaced:
            return
        kept = [visit for visit in self.visits if replaced.keys().isdisjoint((visit.src, visit.dst))]
        void, self.visits = len(self.visits) - len(kept), kept
        self._finished = self._count_finished()
        names = list(replaced.values())
        self._write_down(lambda journal: journal.note(void=names))
        self._on_event(ScanWarning(text=replaced_text(names, void)))

    def _is_up(self, link: Link, unable: Mapping[int, str]) -> bool:
        return all(self.fleet.members[end].up and end not in unable for end in (link.src, link.dst))

    async def _visit(
        self, method: Method, measurement: Measurement, link: Link, beside: int, unable: Mapping[int, str]
    ) -> list[VisitResult]:
        started = self.elapsed_s
        src, dst = self.fleet.members[link.src], self.fleet.members[link.dst]
        context = VisitContext(round=self.rounds, hosts=len(self.fleet.members), beside=beside)
        readings: list[dict[str, Any]] = []
        try:
            why_not = _why_not(src, unable) or _why_not(dst, unable)
            for end in (link.src, link.dst):
                if why_not is None and self._is_silent(end):
                    why_not = f"{self.fleet.members[end].outcome.host.name}: its agent is silent"
            readings = [{"reason": why_not}] if why_not else await method.visit(src, dst, context)
        except (AgentLostError, TaskFailedError) as error:
            readings = [{"reason": f"{src.outcome.host.name}: {error}"}]
        except ProtocolError as error:
            reason = f"the agent sent {error}"
            if src.connection is not None:
                src.connection.lose(reason)
            readings = [{"reason": f"{src.outcome.host.name}: {reason}"}]
        except TimeoutError:
            reason = f"the agent gave no result within {method.deadline_s:.1f} s"
            if src.connection is not None:
                src.connection.lose(reason)
            readings = [{"reason": f"{src.outcome.host.name}: {reason}"}]
        visits = [
            VisitResult(
                src=link.src,
                dst=link.dst,
                round=context.round,
                started_s=started,
                duration_s=self.elapsed_s - started,
                measurement=measurement.id,
                method=measurement.method,
                beside=beside,
                **fields,
            )
            for fields in readings
        ]
        for visit in visits:
            self.visits.append(visit)
            self._write_down(lambda journal, visit=visit: journal.visit(visit))  # type: ignore[misc]
            self._on_event(
                VisitDone(
                    src=src.outcome.host.name,
                    dst=dst.outcome.host.name,
                    round=visit.round,
                    measurement=visit.measurement,
                    rtt_s=visit.p10_s,
                    loss_ratio=visit.loss_ratio,
                    reason=visit.reason,
                )
            )
        return visits

    def note_hosts(self) -> None:
        """Write down which hosts are up, and why the others are not."""
        for member in self.fleet.members:
            self.note_host(member)
        self.fleet.on_failed = self.note_host

    def note_host(self, member: Member) -> None:
        """Write down what became of a host."""
        outcome = member.outcome
        note: dict[str, Any] = {"host": outcome.host.name, "status": outcome.status, "reason": outcome.reason}
        if member.hello is not None and member.hello.boot_id:
            note["boot_id"] = member.hello.boot_id
        self._write_down(functools.partial(Journal.note, **note))

    def _write_down(self, write: Callable[[Journal], None]) -> None:
        """To the journal. A full disk costs the journal, not the scan: what was measured is in memory."""
        if self._journal is None:
            return
        try:
            write(self._journal)
        except OSError as error:
            self._journal = None
            self._on_event(ScanWarning(text=f"the journal ends here, it cannot be written: {error.strerror}"))

    def _tell_round(self, id_: str, chooser: Chooser, done: int, phase_s: float) -> None:
        extent = chooser.extent()
        left = None if extent is None or not done else max(0, extent.links - done) * phase_s / done
        self._on_event(
            RoundDone(
                measurement=id_,
                rounds_done=self.rounds,
                rounds_total=None if extent is None else extent.rounds,
                links_done=done,
                links_total=None if extent is None else extent.links,
                elapsed_s=self.elapsed_s,
                left_s=left,
            )
        )


def _split(links: Sequence[Link], at_once: int) -> Iterator[Sequence[Link]]:
    """Rounds of at most ``at_once`` links (0: no cap); nothing where there are none."""
    step = at_once or max(1, len(links))
    for start in range(0, len(links), step):
        yield links[start : start + step]


def _why_not(member: Member, unable: Mapping[int, str]) -> str | None:
    """Why a host cannot take part; None when it can."""
    name = member.outcome.host.name
    if not member.up or member.connection is None:
        return f"{name}: {member.outcome.reason or 'is not up'}"
    return f"{name}: {unable[member.index]}" if member.index in unable else None


async def measure(
    hosts: Sequence[Host],
    launcher: Launcher,
    chooser: Chooser | None = None,
    options: ScanOptions | None = None,
    *,
    phases: Sequence[Phase] = (),
    journal: Journal | None = None,
    resumed: Sequence[VisitResult] = (),
    boots: Mapping[str, str] | None = None,
    on_event: OnEvent = ignore,
    clock: Clock = time.monotonic,
    stop: asyncio.Event | None = None,
) -> ScanOutcome:
    """Scan ``hosts``. Setting ``stop`` ends it early, with ``interrupted`` true and what there was by then.

    ``phases`` are run one after the other; the first one is the primary measurement. Without any it is RTT
    (``options.latency``) over the links of ``chooser``, all of them by default. ``resumed`` are the visits of
    a scan that this one continues: a link that has its reading there is not measured again, unless a host of it
    has another boot than in ``boots`` (by name). A single host is not probed: its scan is trivial. Raises
    InputError for what cannot work and NothingMeasuredError when no link gave a reading. No agent is left,
    however it ends.
    """
    hosts = check_hosts(hosts)
    options = options if options is not None else ScanOptions()
    on_event = teller = Teller(on_event)
    fleet = Fleet(hosts, launcher, options, on_event, clock)
    first = Phase(method=latency_method(options), chooser=chooser if chooser is not None else RoundRobin())
    phases = tuple(phases) or (first,)
    session = Session(
        fleet,
        phases,
        options,
        journal=journal,
        resumed=resumed,
        on_event=on_event,
        clock=clock,
    )

    programs = any(phase.method.measurement.method in PROGRAMS for phase in phases)
    audit = ScanAudit(fleet, programs=programs) if options.audit else None
    duration: float | None = None

    async def work() -> None:
        nonlocal duration
        await fleet.start()
        session.void_replaced(boots or {})
        session.note_hosts()
        if audit is not None:
            await audit.start()
        if len(hosts) > 1:
            await session.run()
        duration = session.elapsed_s
        if audit is not None:
            await audit.end()

    interrupted = False
    try:
        interrupted = await until_stopped(work(), stop)
        duration = session.elapsed_s if duration is None else duration
    finally:
        try:
            await fleet.end()
        finally:
            fleet.kill()
    if audit is not None:
        for text in audit.warnings(session.visits):
            on_event(ScanWarning(text=text))
    _tell_warnings(phases, on_event)
    return build_outcome(
        [member.outcome for member in fleet.members],
        session.visits,
        options,
        measurements=[phase.method.measurement for phase in phases],
        rounds=session.rounds,
        duration_s=duration,
        interrupted=interrupted,
        warnings=teller.warnings,
        controller=None if audit is None else audit.controller,
    )


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
    chooser: Chooser | None = None,
    phases: Sequence[Phase] = (),
    journal: Journal | None = None,
    resumed: Sequence[VisitResult] = (),
    boots: Mapping[str, str] | None = None,
    on_event: OnEvent = ignore,
) -> ScanOutcome:
    """``measure`` for callers without an event loop. SIGINT and SIGTERM end it early and cleanly.

    In the main thread both signals are handled while it runs (one that is ignored stays ignored): the outcome
    is ``interrupted`` then.
    """

    return run_stoppable(
        lambda stop: measure(
            hosts,
            launcher,
            chooser,
            options,
            phases=phases,
            journal=journal,
            resumed=resumed,
            boots=boots,
            on_event=on_event,
            stop=stop,
        )
    )
