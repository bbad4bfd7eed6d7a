"""A scan from start to end: agents up, round after round, agents gone, document."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from netprobe.core.hosts import Host, check_hosts
from netprobe.core.scan import Stamps
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.chooser import Chooser, Results, RoundRobin
from netprobe.probe.connection import AgentLostError, TaskFailedError, text_field, whole_field
from netprobe.probe.events import OnEvent, RoundDone, ScanWarning, VisitDone, ignore
from netprobe.probe.fleet import Fleet, Member
from netprobe.probe.journal import Journal
from netprobe.probe.launch import Launcher
from netprobe.probe.options import ScanOptions
from netprobe.probe.result import ScanOutcome, build_outcome
from netprobe.probe.rounds import Link
from netprobe.probe.visits import NS_PER_S, VisitResult, sample_arrays

Clock = Callable[[], float]
_MAX_COUNT = 1 << 40


class Session:
    """The state of a running scan."""

    def __init__(
        self,
        fleet: Fleet,
        chooser: Chooser,
        options: ScanOptions,
        *,
        journal: Journal | None,
        on_event: OnEvent,
        clock: Clock,
    ) -> None:
        self.fleet = fleet
        self.visits: list[VisitResult] = []
        self.rounds = 0
        self._chooser = chooser
        self._options = options
        self._journal = journal
        self._on_event = on_event
        self._clock = clock
        self._began = clock()

    async def run(self) -> None:
        """Round after round until the chooser has no more."""
        self._began = self._clock()
        while True:
            results = Results(hosts=len(self.fleet.members), alive=self.fleet.alive, visits=self.visits)
            links = self._chooser.next_round(results)
            if links is None:
                return
            beside = sum(self._is_up(link) for link in links) - 1
            await asyncio.gather(*(self._visit(link, max(0, beside)) for link in links))
            self.rounds += 1
            self._tell_round()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first round began."""
        return self._clock() - self._began

    def _is_up(self, link: Link) -> bool:
        return self.fleet.members[link.src].up and self.fleet.members[link.dst].up

    async def _visit(self, link: Link, beside: int) -> None:
        started = self.elapsed_s
        src, dst = self.fleet.members[link.src], self.fleet.members[link.dst]
        fields: dict[str, Any] = {}
        try:
            fields = await self._probe(src, dst)
        except (AgentLostError, TaskFailedError) as error:
            fields = {"reason": f"{src.outcome.host.name}: {error}"}
        except ProtocolError as error:
            fields = {"reason": f"{src.outcome.host.name}: its agent sent {error}"}
        except TimeoutError:
            reason = f"the agent gave no result within {self._options.visit_deadline_s:.1f} s"
            if src.connection is not None:
                src.connection.lose(reason)
            fields = {"reason": f"{src.outcome.host.name}: {reason}"}
        visit = VisitResult(
            src=link.src,
            dst=link.dst,
            round=self.rounds,
            started_s=started,
            duration_s=self.elapsed_s - started,
            beside=beside,
            **fields,
        )
        self.visits.append(visit)
        self._write_down(lambda journal: journal.visit(visit))
        self._on_event(
            VisitDone(
                src=src.outcome.host.name,
                dst=dst.outcome.host.name,
                round=visit.round,
                rtt_s=visit.p10_s,
                loss_ratio=visit.loss_ratio,
                reason=visit.reason,
            )
        )

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

    async def _probe(self, src: Member, dst: Member) -> dict[str, Any]:
        """Have ``src`` probe ``dst``; the fields of the visit that come from the agent."""
        for member in (src, dst):
            if not member.up or member.connection is None:
                return {"reason": f"{member.outcome.host.name}: {member.outcome.reason or 'is not up'}"}
        options = self._options
        assert src.connection is not None
        answer = await src.connection.request(
            {
                "type": "probe",
                "address": dst.address,
                "port": dst.port,
                "token": dst.token.hex(),
                "source": src.address,
                "ssid": (self.rounds * len(self.fleet.members) + src.index) & 0xFFFF,
                "count": options.probes_per_visit,
                "interval_ns": round(options.interval_s * NS_PER_S),
                "timeout_ns": round(options.timeout_s * NS_PER_S),
                "stamps": options.stamps,
            },
            options.visit_deadline_s,
        )
        fields = checked_answer(answer, options.probes_per_visit)
        if fields["reason"] is None:
            fields["reason"] = _why_nothing(fields, dst)
        return fields | {"dst_port": dst.port}

    def _tell_round(self) -> None:
        extent = self._chooser.extent()
        elapsed = self.elapsed_s
        left = None
        if extent is not None and self.rounds:
            left = max(0, extent.rounds - self.rounds) * elapsed / self.rounds
        self._on_event(
            RoundDone(
                rounds_done=self.rounds,
                rounds_total=None if extent is None else extent.rounds,
                links_done=len(self.visits),
                links_total=None if extent is None else extent.links,
                elapsed_s=elapsed,
                left_s=left,
            )
        )


def checked_answer(answer: dict[str, Any], count: int) -> dict[str, Any]:
    """The counts and samples of an agent's answer to a probe task. Raises ProtocolError."""
    if answer.get("type") != "done":
        raise ProtocolError("an answer that is no result")
    sent = whole_field(answer, "sent", count)
    received = whole_field(answer, "received", sent)
    samples = answer["samples"]
    stamps = text_field(answer, "stamps")
    if len(samples) > received or (samples and stamps not in get_args(Stamps)):
        raise ProtocolError("a result that does not fit its samples")
    unsent = whole_field(answer, "unsent", count + 16)
    reason = text_field(answer, "reason")
    if unsent and reason is None:
        reason = f"{unsent} probes could not be sent: the host's queue was full (ENOBUFS)"
    last = 0
    for seq, _sent_at, rtt in samples:
        if not last < seq <= count or rtt <= 0:
            raise ProtocolError("a sample that cannot be")
        last = seq
    return {
        "sent": sent,
        "received": received,
        "duplicates": whole_field(answer, "duplicates", _MAX_COUNT),
        "rejected": whole_field(answer, "rejected", received),
        "src_port": whole_field(answer, "source_port", 65535),
        "stamps": stamps if samples else None,
        "reason": reason,
        **sample_arrays(samples),
    }


def _why_nothing(fields: dict[str, Any], dst: Member) -> str | None:
    if fields["rtt_s"].size:
        return None
    where = f"{dst.address} port {dst.port} (UDP)"
    if fields["received"] == 0:
        return f"no answer from {where}: a firewall, or no route?"
    if fields["rejected"]:
        return f"all {fields['rejected']} readings from {where} were impossible: does a clock step?"
    return f"the answers from {where} carried no usable stamps"


async def measure(
    hosts: Sequence[Host],
    launcher: Launcher,
    chooser: Chooser | None = None,
    options: ScanOptions | None = None,
    *,
    journal: Journal | None = None,
    on_event: OnEvent = ignore,
    clock: Clock = time.monotonic,
    stop: asyncio.Event | None = None,
) -> ScanOutcome:
    """Scan ``hosts``. Setting ``stop`` ends it early, with ``interrupted`` true and what there was by then.

    A single host is not probed: its scan is trivial. Raises InputError for what cannot work and
    NothingMeasuredError when no link gave a reading. No agent is left, however it ends.
    """
    hosts = check_hosts(hosts)
    options = options if options is not None else ScanOptions()
    fleet = Fleet(hosts, launcher, options, on_event, clock)
    session = Session(
        fleet,
        chooser if chooser is not None else RoundRobin(),
        options,
        journal=journal,
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
        interrupted = await _until_stopped(work(), stop)
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
        rounds=session.rounds,
        duration_s=duration,
        interrupted=interrupted,
    )


def run_scan(
    hosts: Sequence[Host],
    launcher: Launcher,
    options: ScanOptions | None = None,
    *,
    chooser: Chooser | None = None,
    journal: Journal | None = None,
    on_event: OnEvent = ignore,
) -> ScanOutcome:
    """``measure`` for callers without an event loop. SIGINT and SIGTERM end it early and cleanly.

    In the main thread both signals are handled while it runs: the outcome is ``interrupted`` then.
    """

    async def main() -> ScanOutcome:
        stop = asyncio.Event()
        with _signals_set(stop):
            return await measure(
                hosts, launcher, chooser, options, journal=journal, on_event=on_event, stop=stop
            )

    return asyncio.run(main())


async def _until_stopped(work: Any, stop: asyncio.Event | None) -> bool:
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
def _signals_set(stop: asyncio.Event) -> Iterator[None]:
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
