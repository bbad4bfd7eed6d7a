"""Which links are measured next: a Protocol that sees the results so far, and the plain round-robin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.circle import Link, Rounds, two_passes
from netprobe.probe.rounds.leaving import Leaving

FUTILE_ROUNDS, FUTILE_S = 3, 1.0
"""After so many rounds of a try without any reading, or so long in vain, the others are left out."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a chooser sees. Hosts are indices into the list of hosts."""

    hosts: int
    alive: frozenset[int]
    """Hosts whose agents are up now; links of other hosts cost no time and give a reason only."""
    silent: frozenset[int] = frozenset()
    """Those of them whose agents answer nothing at the moment."""
    visits: Sequence[VisitResult]
    """Every visit of this phase so far, in the order in which they ended."""
    elapsed_s: float = 0.0
    """Seconds since the phase began."""


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much a chooser thinks there is in all."""

    rounds: int
    links: int


class Chooser(Protocol):
    """Says which links form the next round. No I/O and no clock: a test drives it with made-up results."""

    def next_round(self, results: Results) -> Sequence[Link] | None:
        """Links to measure at once, no host in two of them unless that is meant; None at the end."""
        ...

    def extent(self) -> Extent | None:
        """How much there is in all; None when that is unknown."""
        ...


class RoundRobin:
    """Every link once, in the two passes of the circle method, among the hosts alive at the start."""

    def __init__(self) -> None:
        self._rounds: Rounds | None = None
        self._next = 0

    def next_round(self, results: Results) -> Sequence[Link] | None:
        """The next round of the plan made at the first call."""
        if self._rounds is None:
            self._rounds = two_passes(sorted(results.alive))
        if self._next >= len(self._rounds):
            return None
        self._next += 1
        return self._rounds[self._next - 1]

    def extent(self) -> Extent | None:
        """Known once the first round has been asked for."""
        if self._rounds is None:
            return None
        return Extent(rounds=len(self._rounds), links=self._rounds.links)


class Retrying:
    """Another chooser's rounds without the hosts that left them, and after its end again what gave no reading.

    Then each host that left is tried once, by one link; those that answer are back. After that the links that gave
    no reading, both of whose ends live and did not leave, are visited again, in rounds of disjoint links: the quiet
    end of a phase, what a busy moment took away may be there then. A try ends when some rounds in a row gave nothing.
    """

    def __init__(self, chooser: Chooser, retries: int, leaving: Leaving | None = None) -> None:
        self._chooser = chooser
        self._left = retries
        self._leaving = leaving if leaving is not None else Leaving()
        self._trials = retries > 0
        self._ended = False
        self._rounds: list[list[Link]] = []
        self._futile = 0
        self._in_vain_s = 0.0
        self._asked_at_s = 0.0
        self._asked: set[Link] = set()
        self._read = 0
        self._added = Extent(rounds=0, links=0)
        self.patient = False
        """Whether the links of the last round are not visited again: they are given all their time."""

    def next_round(self, results: Results) -> Sequence[Link] | None:
        """A check of a suspect, the other chooser's round while it has one, trials, then the retries."""
        self._leaving.take_in(results.visits, results.alive)
        self.patient = self._ended
        if not self._ended:
            if checks := self._leaving.checks(results.alive - results.silent):
                self._add([checks])
                return checks
            links = self._chooser.next_round(replace(results, alive=results.alive - self._leaving.hosts))
            if links is not None:
                return links
            self._ended = self.patient = True
        if self._rounds and self._is_futile(results):
            self._rounds = []
        if not self._rounds:
            self._rounds = self._more(results)
            self._add(self._rounds)
            self._futile, self._in_vain_s = 0, 0.0
        if not self._rounds:
            return None
        self._asked = set(self._rounds[0])
        self._read = len(results.visits)
        self._asked_at_s = results.elapsed_s
        return self._rounds.pop(0)

    def extent(self) -> Extent | None:
        """The other's, and the retries that are known to be needed."""
        extent = self._chooser.extent()
        if extent is None:
            return None
        return Extent(rounds=extent.rounds + self._added.rounds, links=extent.links + self._added.links)

    def _more(self, results: Results) -> list[list[Link]]:
        """The rounds of the trials, then those of each try."""
        if self._trials:
            self._trials = False
            if rounds := disjoint_rounds(self._leaving.trials(results.alive)):
                return rounds
        if self._left == 0:
            return []
        self._left -= 1
        rounds = disjoint_rounds(
            link for link in _without_reading(results) if self._leaving.why_not(link) is None
        )
        if not rounds:
            self._left = 0
        return rounds

    def _is_futile(self, results: Results) -> bool:
        """Whether the last few rounds of a try gave no reading at all, or waited for long."""
        read = any(
            visit.has_reading
            for visit in results.visits[self._read :]
            if Link(visit.src, visit.dst) in self._asked
        )
        self._futile = 0 if read else self._futile + 1
        self._in_vain_s += max(0.0, results.elapsed_s - self._asked_at_s - 2 * self._leaving.usual_s)
        return self._futile >= FUTILE_ROUNDS or self._in_vain_s > FUTILE_S

    def _add(self, rounds: Sequence[Sequence[Link]]) -> None:
        self._added = Extent(
            rounds=self._added.rounds + len(rounds), links=self._added.links + sum(map(len, rounds))
        )


def disjoint_rounds(links: Iterable[Link]) -> list[list[Link]]:
    """``links`` in rounds in which no host occurs twice, each link in the first round with room for it."""
    rounds: list[list[Link]] = []
    busy: list[set[int]] = []
    for link in links:
        ends = {link.src, link.dst}
        place = next((i for i, taken in enumerate(busy) if not taken & ends), len(rounds))
        if place == len(rounds):
            rounds.append([])
            busy.append(set())
        rounds[place].append(link)
        busy[place] |= ends
    return rounds


def _without_reading(results: Results) -> list[Link]:
    """Links between hosts that are up, visited and never with a reading, in the order of the first visit."""
    # Few have none: the links of a large scan that have one are not kept.
    unread = dict.fromkeys(Link(visit.src, visit.dst) for visit in results.visits if not visit.has_reading)
    if unread:
        for visit in results.visits:
            if visit.has_reading:
                unread.pop(Link(visit.src, visit.dst), None)
    return [link for link in unread if link.src in results.alive and link.dst in results.alive]
