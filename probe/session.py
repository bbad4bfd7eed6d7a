"""A scan from start to end: agents up, phase after phase and round after round, agents gone, document."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netprobe.core.hosts import Host, check_hosts
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.chooser import Chooser, Results, Retrying, RoundRobin
from netprobe.probe.connection import AgentLostError, TaskFailedError
from netprobe.probe.events import OnEvent, RoundDone, ScanWarning, VisitDone, ignore
from netprobe.probe.fleet import Fleet, Member
from netprobe.probe.journal import Journal
from netprobe.probe.launch import Launcher
from netprobe.probe.methods.base import Method, VisitContext, Warns
from netprobe.probe.methods.latency import latency_method
from netprobe.probe.options import ScanOptions
from netprobe.probe.result import ScanOutcome, build_outcome
from netprobe.probe.rounds import Link
from netprobe.probe.visits import VisitResult

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One measurement of a scan: how a link is measured, and which links in which rounds."""

    method: Method
    chooser: Chooser


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
        self._finished = Counter(
            (visit.measurement, Link(visit.src, visit.dst)) for visit in resumed if visit.has_reading
        )

    async def run(self) -> None:
        """Phase after phase, each round after round until its chooser has no more."""
        self._began = self._clock()
        for phase in self._phases:
            unable = await phase.method.prepare(self.fleet.members)
            if phase is self._phases[0]:
                for (
                    index,
                    reason,
                ) in unable.items():  # without the primary measurement it has no place in a map
                    self.fleet.fail(self.fleet.members[index], "failed", reason)
            try:
                await self._run_phase(phase, unable)
            finally:
                await phase.method.finish(self.fleet.members)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first round began, with those of the scan that this one continues."""
        return self._earlier_s + self._clock() - self._began

    async def _run_phase(self, phase: Phase, unable: Mapping[int, str]) -> None:
        id_ = phase.method.measurement.id
        chooser = Retrying(phase.chooser, self._options.retries)
        began, done = self._clock(), 0
        seen = [visit for visit in self.visits if visit.measurement == id_]
        while True:
            alive = self.fleet.alive.difference(unable)
            results = Results(
                hosts=len(self.fleet.members), alive=alive, visits=seen, elapsed_s=self._clock() - began
            )
            links = chooser.next_round(results)
            if links is None:
                return
            for links_at_once in _split(self._unfinished(id_, links), self._options.links_at_once):
                beside = max(0, sum(self._is_up(link, unable) for link in links_at_once) - 1)
                visits = await asyncio.gather(
                    *(self._visit(phase.method, link, beside, unable) for link in links_at_once)
                )
                seen.extend(itertools.chain.from_iterable(visits))
                self.rounds += 1
                done += len(links_at_once)
                self._tell_round(id_, chooser, done, self._clock() - began)

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

    def _is_up(self, link: Link, unable: Mapping[int, str]) -> bool:
        return all(self.fleet.members[end].up and end not in unable for end in (link.src, link.dst))

    async def _visit(
        self, method: Method, link: Link, beside: int, unable: Mapping[int, str]
    ) -> list[VisitResult]:
        started = self.elapsed_s
        measurement = method.measurement
        src, dst = self.fleet.members[link.src], self.fleet.members[link.dst]
        context = VisitContext(round=self.rounds, hosts=len(self.fleet.members), beside=beside)
        readings: list[dict[str, Any]] = []
        try:
            why_not = _why_not(src, unable) or _why_not(dst, unable)
            readings = [{"reason": why_not}] if why_not else await method.visit(src, dst, context)
        except (AgentLostError, TaskFailedError) as error:
            readings = [{"reason": f"{src.outcome.host.name}: {error}"}]
        except ProtocolError as error:
            readings = [{"reason": f"{src.outcome.host.name}: its agent sent {error}"}]
        except TimeoutError:
            reason = f"the agent gave no result within {method.deadline_s:.1f} s"
            if src.connection is not None:
                src.connection.lose(reason)
            readings = [{"reason": f"{src.outcome.host.name}: {reason}"}]
        visits = [
            VisitResult(
                src=link.src,
                dst=link.dst,
                round=self.rounds,
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
            outcome = member.outcome
            name, status, reason = outcome.host.name, outcome.status, outcome.reason
            note = functools.partial(Journal.note, host=name, status=status, reason=reason)
            self._write_down(note)

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
    on_event: OnEvent = ignore,
    clock: Clock = time.monotonic,
    stop: asyncio.Event | None = None,
) -> ScanOutcome:
    """Scan ``hosts``. Setting ``stop`` ends it early, with ``interrupted`` true and what there was by then.

    ``phases`` are run one after the other; the first one is the primary measurement. Without any it is RTT
    (``options.latency``) over the links of ``chooser``, all of them by default. ``resumed`` are the visits of
    a scan that this one continues: a link that has its reading there is not measured again. A single host is
    not probed: its scan is trivial. Raises InputError for what cannot work and
    NothingMeasuredError when no link gave a reading. No agent is left, however it ends.
    """
    hosts = check_hosts(hosts)
    options = options if options is not None else ScanOptions()
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

    async def work() -> None:
        await fleet.start()
        session.note_hosts()
        if len(hosts) > 1:
            await session.run()

    interrupted = False
    try:
        interrupted = await until_stopped(work(), stop)
        duration = session.elapsed_s
    finally:
        try:
            await fleet.end()
        finally:
            fleet.kill()
    return build_outcome(
        [member.outcome for member in fleet.members],
        session.visits,
        options,
        measurements=[phase.method.measurement for phase in phases],
        rounds=session.rounds,
        duration_s=duration,
        interrupted=interrupted,
        warnings=_warnings(phases, on_event),
    )


def _warnings(phases: Sequence[Phase], on_event: OnEvent) -> list[str]:
    """What the methods say of their readings, told as events too."""
    warnings = [text for phase in phases if isinstance(phase.method, Warns) for text in phase.method.warnings]
    for text in warnings:
        on_event(ScanWarning(text=text))
    return warnings


def run_scan(
    hosts: Sequence[Host],
    launcher: Launcher,
    options: ScanOptions | None = None,
    *,
    chooser: Chooser | None = None,
    phases: Sequence[Phase] = (),
    journal: Journal | None = None,
    resumed: Sequence[VisitResult] = (),
    on_event: OnEvent = ignore,
) -> ScanOutcome:
    """``measure`` for callers without an event loop. SIGINT and SIGTERM end it early and cleanly.

    In the main thread both signals are handled while it runs: the outcome is ``interrupted`` then.
    """

    async def main() -> ScanOutcome:
        stop = asyncio.Event()
        with signals_set(stop):
            return await measure(
                hosts,
                launcher,
                chooser,
                options,
                phases=phases,
                journal=journal,
                resumed=resumed,
                on_event=on_event,
                stop=stop,
            )

    return asyncio.run(main())


async def until_stopped(work: Any, stop: asyncio.Event | None) -> bool:
    """Run ``work`` to its end, or cancel it when ``stop`` is set; whether it was stopped."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stop.wait()) if stop is not None else None
    try:
        await asyncio.wait(
            {task} if waiting is None else {task, waiting}, return_when=asyncio.FIRST_COMPLETED
        )
        if task.done():
            task.result()
            return False
        return True
    finally:
        for future in (task, waiting):
            if future is not None:
                future.cancel()
        await asyncio.gather(*(f for f in (task, waiting) if f is not None), return_exceptions=True)


@contextlib.contextmanager
def signals_set(stop: asyncio.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in handled}
    for number in handled:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
