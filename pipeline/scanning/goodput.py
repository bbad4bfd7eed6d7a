"""Goodput as phases of a scan: its rounds follow the groups that the RTT of the same scan shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from netprobe.cluster import find_groups
from netprobe.embed import denoise
from netprobe.pipeline.mapping.map_scan import connected
from netprobe.probe.methods.goodput import goodput_methods
from netprobe.probe.methods.goodput_options import (
    GoodputOptions,
    GoodputSize,
    parse_sizes,
    parse_streams,
)
from netprobe.probe.records.matrices import link_matrices
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.chooser import Chooser, Extent, Results
from netprobe.probe.rounds.circle import Link
from netprobe.probe.rounds.goodput_rounds import GoodputRounds, least_extent
from netprobe.probe.scan.session import Phase


@dataclass(frozen=True, kw_only=True)
class GoodputRequest:
    """Which goodput is to be measured: a matrix for each size (None is timed) with each number of streams."""

    options: GoodputOptions = field(default_factory=GoodputOptions)
    sizes: Sequence[GoodputSize | None] = (None,)
    streams: Sequence[int] = (1,)

    @classmethod
    def parse(
        cls, *, way: str = "auto", seconds: float | None = None, sizes: str | None, streams: str | None
    ) -> GoodputRequest:
        """From what a command line has: ``1MB,100MB`` and ``1,4``. Raises InputError."""
        given = {} if seconds is None else {"seconds": seconds}
        return cls(
            options=GoodputOptions(way=way, **given),  # type: ignore[arg-type]
            sizes=parse_sizes(sizes),
            streams=parse_streams(streams),
        )


class Watched:
    """A chooser that records its phase for a later one: ``visits`` are all that it chose."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self._results: Results | None = None

    @property
    def visits(self) -> Sequence[VisitResult]:
        """Of the phase so far."""
        return self._results.visits if self._results is not None else ()

    def next_round(self, results: Results) -> Sequence[Link] | None:
        """The chooser's."""
        self._results = results
        return self._chooser.next_round(results)

    def extent(self) -> Extent | None:
        """The chooser's."""
        return self._chooser.extent()


def rtt_groups(visits: Sequence[VisitResult], hosts: int, *, seed: int = 0) -> list[list[int]]:
    """Groups of hosts (indices) by the p10 of their RTT, as a map of these visits has them.

    Hosts that no reading ties to the rest are in no group. Without usable locality all are one group.
    """
    raw = link_matrices(hosts, visits)["p10"]
    np.fill_diagonal(raw, 0.0)
    placed = connected(raw)
    if len(placed) < 2:
        return []
    part = raw[np.ix_(placed, placed)]
    grouping, _verdict = find_groups(denoise(part), part, elasticity=2.0, seed=seed)
    return [[placed[i] for i in np.flatnonzero(grouping.labels == label)] for label in range(grouping.k)]


def assumed_sizes(hosts: int) -> list[int]:
    """Sizes of groups before they are known: about sqrt(N) equal ones. For ``--dry-run``."""
    groups = max(1, round(hosts**0.5))
    return [hosts // groups + (i < hosts % groups) for i in range(groups)]


def assumed_extent(hosts: int) -> Extent:
    """What all links of a goodput phase will be, before the groups are known."""
    return least_extent(assumed_sizes(hosts))


def goodput_phases(
    options: ScanOptions,
    request: GoodputRequest,
    rtt: Watched,
    *,
    links: Iterable[Link] | None = None,
) -> list[Phase]:
    """A phase for each size and number of streams, to run after the phase whose chooser is ``rtt``.

    ``links`` are the ones to test, all of them by default. Raises InputError for a size or a number of
    streams that is given twice.
    """
    remaining = None if links is None else list(links)

    def groups(results: Results) -> Sequence[Collection[int]]:
        return rtt_groups(rtt.visits, results.hosts, seed=options.seed)

    return [
        Phase(method=method, chooser=GoodputRounds(groups, remaining), links_at_once=options.goodput_at_once)
        for method in goodput_methods(options, request.options, request.sizes, request.streams)
    ]
