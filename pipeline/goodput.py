"""Goodput as phases of a scan: its rounds follow the groups that the RTT of the same scan shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from netprobe.cluster import find_groups
from netprobe.embed import denoise
from netprobe.pipeline.mapping import connected
from netprobe.probe.chooser import Chooser, Extent, Results
from netprobe.probe.goodput_rounds import GoodputRounds
from netprobe.probe.methods.goodput import goodput_methods
from netprobe.probe.methods.goodput_options import GoodputOptions, GoodputSize
from netprobe.probe.options import ScanOptions
from netprobe.probe.result import link_matrices
from netprobe.probe.rounds import Link
from netprobe.probe.session import Phase
from netprobe.probe.visits import VisitResult


class Watched:
    """A chooser whose phase is looked back upon by a later one: ``visits`` are all that it gave."""

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


def goodput_phases(
    options: ScanOptions,
    goodput: GoodputOptions,
    rtt: Watched,
    *,
    sizes: Sequence[GoodputSize | None] = (None,),
    streams: Sequence[int] = (1,),
    links: Iterable[Link] | None = None,
) -> list[Phase]:
    """A phase for each size and number of streams, to run after the phase whose chooser is ``rtt``.

    ``links`` are the ones to test, all of them by default. Raises InputError for a size or a number of
    streams that is given twice.
    """
    wanted = None if links is None else list(links)

    def groups(results: Results) -> Sequence[Collection[int]]:
        return rtt_groups(rtt.visits, results.hosts, seed=options.seed)

    return [
        Phase(method=method, chooser=GoodputRounds(groups, wanted))
        for method in goodput_methods(options, goodput, sizes, streams)
    ]
