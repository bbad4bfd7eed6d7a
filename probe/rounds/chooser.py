"""Which links are measured next: a Protocol that sees the results so far, and the plain round-robin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.circle import Link, Rounds, two_passes


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a chooser sees. Hosts are indices into the list of hosts."""

    hosts: int
    alive: frozenset[int]
    """Hosts whose agents are up now; links of other hosts cost no time and give a reason only."""
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
        """How much there is in all; None when that cannot be told."""
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
    """Another chooser's rounds, and after its end again the links that gave no reading while both ends live.

    Retries come in rounds of disjoint links of their own, the quiet end of a phase: what a busy moment took
    away may be there then.
    """

    def __init__(self, chooser: Chooser, retries: int) -> None:
        self._chooser = chooser
        self._left = retries
        self._rounds: list[list[Link]] = []
        self._added = Extent(rounds=0, links=0)

    def next_round(self, results: Results) -> Sequence[Link] | None:
        """The other chooser's round while it has one; then the retries, a set of rounds a try."""
        if not self._rounds:
            links = self._chooser.next_round(results) if self._added.rounds == 0 else None
            if links is not None:
                return links
            if self._left == 0:
                return None
            self._left -= 1
            self._rounds = disjoint_rounds(_without_reading(results))
            if not self._rounds:
                self._left = 0
                return None
            self._added = Extent(
                rounds=self._added.rounds + len(self._rounds),
                links=self._added.links + sum(map(len, self._rounds)),
            )
        return self._rounds.pop(0)

    def extent(self) -> Extent | None:
        """The other's, and the retries that are known to be needed."""
        extent = self._chooser.extent()
        if extent is None:
            return None
        return Extent(rounds=extent.rounds + self._added.rounds, links=extent.links + self._added.links)


def disjoint_rounds(links: Iterable[Link]) -> list[list[Link]]:
    """``links`` in rounds in which no host stands twice, each link in the first round with room for it."""
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
