"""Which links are measured next: a Protocol that sees the results so far, and the plain round-robin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from netprobe.probe.rounds import Link, two_passes
from netprobe.probe.visits import VisitResult


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a chooser sees. Hosts are indices into the list of hosts."""

    hosts: int
    alive: frozenset[int]
    """Hosts whose agents are up now; links of other hosts cost no time and give a reason only."""
    visits: Sequence[VisitResult]
    """Every visit so far, in the order in which they ended."""


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
        self._rounds: list[list[Link]] | None = None
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
        return Extent(rounds=len(self._rounds), links=sum(map(len, self._rounds)))
