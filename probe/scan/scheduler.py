"""The rounds of a running scan: phase after phase and round after round, with hosts that fail, hang or come late."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from netprobe.core.documents.scan import Measurement
from netprobe.probe.fleet.fleet import Fleet, Member
from netprobe.probe.fleet.replaced import find_replaced, replaced_text
from netprobe.probe.methods.base import Method, VisitContext
from netprobe.probe.records.events import OnEvent, RoundDone, ScanWarning, VisitDone
from netprobe.probe.records.journal import Journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.visits import VisitResult, spent_s
from netprobe.probe.rounds.chooser import Chooser, Results, Retrying
from netprobe.probe.rounds.circle import Link
from netprobe.probe.rounds.leaving import Leaving
from netprobe.probe.scan.phase import Phase, links_at_once
from netprobe.probe.scan.visiting import Round

Clock = Callable[[], float]
LATE_S = 0.5
"""A visit that takes this much longer than twice its cost makes the scheduler ping its agents."""
ANSWER_S = 1.0
"""An agent that answers no ping for so long is silent: its links wait for a later round. Whether it hangs
(``ScanOptions.silence_s``) is found out meanwhile: it costs one short wait, not one a round."""
LOOK_S = 0.1


class Scheduler:
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
        self._under_way: list[Round] = []
        self._suspects: frozenset[int] = frozenset()
        self._finished = self._count_finished()

    def use(self, phases: Sequence[Phase], *, latency: str) -> None:
        """Other phases than those given, before they run; the journal has the method that was chosen."""
        self._phases = phases
        self._write_down(lambda journal: journal.note(latency=latency))

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
                if self._under_way:
                    await asyncio.wait([round_.over for round_ in self._under_way])
                self._leave_finished()
            finally:
                for round_ in self._under_way:
                    await round_.cancel()
                self._under_way.clear()
                await phase.method.finish(self.fleet.members)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first round began, with those of the scan that this one continues."""
        return self._earlier_s + self._clock() - self._began

    async def _run_phase(self, phase: Phase, unable: Mapping[int, str]) -> None:
        measurement = phase.method.measurement
        id_ = measurement.id
        cost = phase.method.cost()
        leaving = Leaving(
            [member.outcome.host.name for member in self.fleet.members],
            late_s=2 * cost.seconds + LATE_S if cost.paced else None,
            suspects=self._suspects,
        )
        chooser = Retrying(phase.chooser, self._options.retries, leaving)
        began, done = self._clock(), 0
        seen = [visit for visit in self.visits if visit.measurement == id_]
        # What the scan that this one continues took of a budget of time is gone.
        spent = spent_s(seen)
        while True:
            alive = self.fleet.alive.difference(unable)
            results = Results(
                hosts=len(self.fleet.members),
                alive=alive,
                silent=frozenset(member.index for member in self.fleet.members if self._is_silent(member)),
                visits=seen,
                elapsed_s=spent + self._clock() - began,
            )
            # In a thread: forming groups of a large fleet takes seconds, and agents without pings for so long end.
            links = await asyncio.to_thread(chooser.next_round, results)
            for text in leaving.news():
                self._on_event(ScanWarning(text=f"{id_}: {text}"))
            if links is None:
                self._suspects |= leaving.hosts
                return
            for together in _split(self._unfinished(id_, links), links_at_once(phase, self._options)):
                why_not = functools.partial(
                    self._why_not, unable=unable, leaving=None if chooser.patient else leaving
                )
                await self._round(
                    phase.method, measurement, together, why_not, seen, chooser.patient, leaving.late_after_s
                )
                self.rounds += 1
                done += len(together)
                self._tell_round(id_, chooser, done, self._clock() - began)

    async def _round(
        self,
        method: Method,
        measurement: Measurement,
        links: Sequence[Link],
        reason_of: Callable[[Link], str | None],
        seen: list[VisitResult],
        patient: bool,
        late_after_s: float | None,
    ) -> None:
        """Visit ``links``; ``seen`` grows. A visit whose source is silent, or that takes long, is left behind, and ends
        when it does."""
        why_not = [reason_of(link) for link in links]
        if None not in why_not and any(map(self._silent, links)):
            await self._wait_for_silent(links)
            why_not = [reason_of(link) for link in links]
        members = self.fleet.members

        def deliver(visits: Sequence[VisitResult]) -> None:
            seen.extend(visits)
            self._deliver(visits)

        round_ = Round(
            method,
            measurement,
            VisitContext(
                round=self.rounds, hosts=len(members), beside=max(0, why_not.count(None) - 1), patient=patient
            ),
            clock=self._clock,
            zero_s=self._began - self._earlier_s,
            deliver=deliver,
        )
        self._under_way.append(round_)
        round_.begin(
            [
                (members[link.src], members[link.dst], reason)
                for link, reason in zip(links, why_not, strict=True)
            ]
        )
        began = self._clock()
        await asyncio.wait({round_.over}, timeout=2 * method.cost().seconds + LATE_S)
        while not round_.over.done() and (waiting := [visit for visit in round_.pending if not visit.behind]):
            for visit in waiting:
                for member in (visit.src, visit.dst):
                    if member.connection is not None and member.connection.unanswered_s == 0:
                        member.connection.ping()
            await asyncio.wait({round_.over}, timeout=LOOK_S)
            late = late_after_s is not None and self._clock() - began > late_after_s + ANSWER_S
            for visit in waiting:
                visit.behind = late or self._is_silent(visit.src)
        self._leave_finished()

    def _leave_finished(self) -> None:
        """The rounds that are over, those with visits that were left behind among them. Raises what went wrong."""
        for round_ in self._under_way:
            if round_.over.done():
                round_.over.result()
        self._under_way = [round_ for round_ in self._under_way if not round_.over.done()]

    def _deliver(self, visits: Sequence[VisitResult]) -> None:
        """Visits that have ended go to the journal, and are reported."""
        self.visits.extend(visits)
        self._write_down(lambda journal: journal.visits(visits))
        members = self.fleet.members
        for visit in visits:
            src, dst = members[visit.src].outcome.host.name, members[visit.dst].outcome.host.name
            self._on_event(VisitDone(src=src, dst=dst, visit=visit))

    def _is_silent(self, member: Member) -> bool:
        connection = member.connection
        return connection is not None and connection.lost is None and connection.unanswered_s > ANSWER_S

    def _silent(self, link: Link) -> bool:
        members = self.fleet.members
        return self._is_silent(members[link.src]) or self._is_silent(members[link.dst])

    def _why_not(self, link: Link, unable: Mapping[int, str], leaving: Leaving | None) -> str | None:
        """Why a link cannot be visited now, or is left out; None when it can."""
        ends = self.fleet.members[link.src], self.fleet.members[link.dst]
        for member in ends:
            if not member.up or member.connection is None:
                return f"{member.outcome.host.name}: {member.outcome.reason or 'is not up'}"
            if member.index in unable:
                return f"{member.outcome.host.name}: {unable[member.index]}"
        for member in ends:
            if self._is_silent(member):
                return f"{member.outcome.host.name}: its agent is silent"
            if any(visit.src is member for round_ in self._under_way for visit in round_.pending):
                return f"{member.outcome.host.name}: its agent is busy with an earlier visit"
        return None if leaving is None else leaving.why_not(link)

    async def _wait_for_silent(self, links: Sequence[Link]) -> None:
        """Until it is known of every silent host whether it hangs: nothing else is left to do."""
        while any(self._silent(link) for link in links):
            await asyncio.sleep(LOOK_S)

    def _unfinished(self, id_: str, links: Sequence[Link]) -> list[Link]:
        """The links that the resumed scan has not measured yet."""
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
        """Drop the visits of hosts whose boot differs from that in ``boots``."""
        replaced = find_replaced(self.fleet.members, boots)
        if not replaced:
            return
        kept = [visit for visit in self.visits if replaced.keys().isdisjoint((visit.src, visit.dst))]
        void, self.visits = len(self.visits) - len(kept), kept
        self._finished = self._count_finished()
        names = list(replaced.values())
        self._write_down(lambda journal: journal.note(void=names))
        self._on_event(ScanWarning(text=replaced_text(names, void)))

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
