"""What a scan will cost, phase by phase, before anything is started: for ``--dry-run``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace

from netprobe.core.errors import InfeasibleError
from netprobe.pipeline.scanning.goodput import assumed_extent, assumed_sizes
from netprobe.pipeline.scanning.measuring import Measuring, phases_for
from netprobe.probe.capacity.experiments import extent_of_tests, most_flows
from netprobe.probe.capacity.run import MEASUREMENT, MOST_AT_ONCE, CapacityOptions
from netprobe.probe.methods.base import Cost
from netprobe.probe.methods.goodput import ASSUMED_BYTES_PER_S
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.visits import VisitResult, spent_s
from netprobe.probe.rounds.budget import Budgeted
from netprobe.probe.rounds.chooser import Extent
from netprobe.probe.rounds.circle import Link
from netprobe.probe.rounds.goodput_rounds import GoodputRounds
from netprobe.probe.scan.estimate import (
    PhaseEstimate,
    cut_short,
    estimate_phase,
    full_mesh,
    pace_under,
    wire_bytes,
)
from netprobe.probe.scan.session import links_at_once

SET_UP_S = 0.3
"""What a test of capacity takes besides its flows: to open ports, read clocks and collect."""


def estimate_scan(
    hosts: int, options: ScanOptions, measuring: Measuring, *, earlier: Sequence[VisitResult] = ()
) -> list[PhaseEstimate]:
    """An estimate a phase, and one of capacity, with all hosts up and nothing tried again.

    Where the groups matter (goodput, capacity) the hosts are assumed to form about sqrt(N) equal ones, and a
    flow to run at a gigabit a second. ``earlier`` are the visits of a scan that is resumed: only what they
    leave is estimated. Raises InputError for what contradicts itself.
    """
    found = []
    for number, phase in enumerate(phases_for(options, measuring)):
        budget = measuring.budget if number == 0 else None
        id_ = phase.method.measurement.id
        if budget is not None:
            extent = Budgeted(budget).extent_of(hosts)
        else:
            extent = assumed_extent(hosts) if isinstance(phase.chooser, GoodputRounds) else full_mesh(hosts)
        seen = [visit for visit in earlier if visit.measurement == id_]
        read = {Link(visit.src, visit.dst) for visit in seen if visit.has_reading}
        estimate = estimate_phase(
            id_,
            phase.method.measurement.method,
            phase.method.cost(),
            _left(extent, read, hosts, all_links=budget is None),
            links_at_once=links_at_once(phase, options),
        )
        if budget is not None and budget.seconds is not None:
            estimate = cut_short(estimate, budget.seconds - spent_s(seen))
        found.append(estimate)
    if measuring.capacity is not None:
        capacity = replace(measuring.capacity, at_once=min(options.links_at_once, MOST_AT_ONCE))
        found.append(estimate_capacity(assumed_sizes(hosts), capacity))
    return found


def _left(extent: Extent, read: Set[Link], hosts: int, *, all_links: bool) -> Extent:
    """What is left of an extent without the links that were read; no host is in two links of a round."""
    links = max(0, extent.links - len(read))
    if not read or not links:
        return Extent(rounds=extent.rounds if links else 0, links=links)
    rounds = -(-extent.rounds * links // extent.links)
    if all_links:
        # The missing links of one host need as many rounds, however few they are of all links.
        busy = Counter(end for link in read for end in (link.src, link.dst))
        rounds = max(rounds, 2 * (hosts - 1) - min(busy[host] for host in range(hosts)))
    return Extent(rounds=min(rounds, extent.rounds, links), links=links)


def estimate_capacity(
    sizes: Sequence[int], capacity: CapacityOptions, outer: Sequence[Sequence[int]] = ()
) -> PhaseEstimate:
    """What the tests of groups of these sizes cost, and of outer groups (indices of groups); a flow is assumed to run
    at a gigabit a second."""
    at_once = capacity.at_once
    extent = extent_of_tests(sizes, outer, repeats=capacity.repeats, at_once=at_once)
    most = most_flows(sizes, outer, at_once=at_once)
    one = wire_bytes(Cost(seconds=capacity.seconds, bytes=round(capacity.seconds * ASSUMED_BYTES_PER_S)))
    return PhaseEstimate(
        measurement=MEASUREMENT,
        method="tcp",
        rounds=extent.rounds,
        links=extent.links,
        links_at_once=most,
        seconds=extent.rounds * (capacity.seconds + SET_UP_S),
        bytes=extent.links * one,
        bytes_per_s=most * one / capacity.seconds,
    )


def options_below(
    rate_bytes_per_s: float, hosts: int, options: ScanOptions, measuring: Measuring, *, stretch: bool = True
) -> tuple[int, float]:
    """Links at once and the interval (s) at which a scan's probes stay below a rate.

    ``stretch`` allows a longer interval than the options'. Raises InfeasibleError where that is not possible,
    and for goodput and capacity: a flow that is held back measures what holds it.
    """
    flows = [("goodput", measuring.goodput), ("capacity", measuring.capacity)]
    if named := [name for name, value in flows if value is not None]:
        raise InfeasibleError(
            f"--rate does not go with {' and '.join(named)}: their flows go as fast as they can, and one that is "
            "held back measures the cap; leave --rate out (--gentle, or --links-at-once 1, has one at a time)"
        )
    methods = [phase.method for phase in phases_for(options, measuring)]
    pace = pace_under(
        rate_bytes_per_s,
        [(method.measurement.id, method.cost()) for method in methods],
        hosts=hosts,
        interval_s=options.interval_s,
        links_at_once=options.links_at_once,
        stretch=stretch,
    )
    return pace.links_at_once, pace.interval_s
