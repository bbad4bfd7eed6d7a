"""map [, capacity] -> plan: the schedule that is fastest on this network, as far as that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.schedule_plan import LATENCIES_ALONE, Prediction, SchedulePlan, SizeRange
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.units import seconds_text, size_text
from netprobe.pipeline.planning.groupings import groupings_of
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.pipeline.planning.plan_two_level import (
    SIZE_BYTES,
    known_with,
    placed_order,
    range_text,
    schedule_plan,
)
from netprobe.plan.auto.candidates import (
    GIVEN,
    Candidate,
    flat_candidates,
    two_level_candidates,
    with_shares,
)
from netprobe.plan.auto.choice import CLOSE, MOST_BYTES, Chooser, Decision, Range
from netprobe.plan.auto.known import KnownNetwork
from netprobe.plan.auto.predicting import Tried, rows_of
from netprobe.plan.costs import MODELS
from netprobe.plan.schedule.builders import ALGORITHMS

STEPS_A_HOST = 300
"""The effort of a search for an order, which the simulator then judges: a tenth of that of `plan_order`."""
MOST_CONNECTIONS = 8
MOST_ADVISED = 64
"""Hosts, at the end of a scan."""


@dataclass(frozen=True, kw_only=True)
class AutoRequest:
    """A choice for a buffer of ``size_bytes``.

    ``hosts`` (default: the map's own) gives the original order. ``ranges``: also find the sizes at which the choice
    changes. ``orders``: names and orders (host names) to try besides the original one; None searches one per algorithm.
    """

    hosts: Sequence[Host] | None = None
    size_bytes: int = SIZE_BYTES
    ranges: bool = True
    orders: Mapping[str, Sequence[str]] | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class AutoPlanned:
    """The plan, every candidate (the plan's own first), the choice for each size, and what remains unknown."""

    plan: SchedulePlan
    tried: tuple[Tried, ...]
    ranges: tuple[Range, ...]
    decision: Decision
    unknown: tuple[str, ...]
    decides: bool

    @property
    def ratio(self) -> float | None:
        """How many times as fast the choice is as the baseline; None where nothing is surely faster."""
        found = {one.candidate: one.prediction for one in self.tried}
        own, base = found.get(self.decision.candidate), found.get(self.decision.baseline)
        if self.decision.reason != "faster" or own is None or base is None or not own.time_s:
            return None
        return base.time_s / own.time_s


DEFAULT = AutoRequest()


def plan_auto(map_: Map, request: AutoRequest = DEFAULT, *, capacity: Capacity | None = None) -> AutoPlanned:
    """Choose algorithm, order, groups, chunks and channels of an all-reduce by the simulator; proved.

    Raises InputError for a size outside 1 B to 1 GB, for fewer than two hosts with a place, and for capacities of other
    hosts or without a reading.
    """
    if not 1 <= request.size_bytes <= MOST_BYTES:
        raise InputError(f"a buffer of {request.size_bytes} B: 1 B to {size_text(MOST_BYTES)} can be planned")
    hosts, order = placed_order(map_, request.hosts)
    if len(order) < 2:
        raise InputError(f"only {order[0]} has a place on the map: two hosts at least are needed")
    known = known_with(map_, order, capacity)
    chooser = Chooser(known=known, candidates=_candidates(map_, hosts, order, known, capacity, request))
    decision = chooser.decide(request.size_bytes)
    tried = chooser.table(decision)
    ranges = chooser.ranges(decision) if request.ranges else []
    found = next(one.prediction for one in tried if one.candidate == decision.candidate)
    plan = schedule_plan(
        decision.candidate,
        hosts,
        predictions=[] if found is None else [found],
        size_bytes=request.size_bytes,
        advice=_reason(known, decision, tried),
        parents=[map_.parent(), *([] if capacity is None else [capacity.parent()])],
        seed=request.seed,
    )
    rows = {
        "candidates": rows_of(tried, request.size_bytes),
        "ranges": [
            SizeRange(
                first_bytes=one.first_bytes,
                last_bytes=one.last_bytes,
                choice=None if one.candidate is None else one.candidate.label,
                reason=one.reason,
            )
            for one in ranges
        ],
        "unknown": list(known.unknown),
    }
    return AutoPlanned(
        plan=plan.model_copy(update=rows),
        tried=tuple(tried),
        ranges=tuple(ranges),
        decision=decision,
        unknown=known.unknown,
        decides=known.decides(request.size_bytes),
    )


@dataclass(frozen=True, kw_only=True)
class AdvisedSchedule:
    """What a scan with capacities says of schedules at its end.

    ``text``: the advice; ``label`` is ``ratio`` times as fast as ``baseline``, None where nothing is surely faster.
    """

    text: str
    label: str
    baseline: str
    ratio: float | None


def advised_schedule(
    map_: Map, capacity: Capacity, found: OrderPlan, *, seed: int = 0
) -> AdvisedSchedule | None:
    """The fastest all-reduce of SIZE_BYTES; no order is searched besides that of ``found``.

    None without an answer, and beyond MOST_ADVISED hosts, where it would take longer than a user waits.
    """
    if not 2 <= len(found.order) <= MOST_ADVISED:
        return None
    try:
        request = AutoRequest(hosts=found.hosts, ranges=False, orders={"found": found.order}, seed=seed)
        planned = plan_auto(map_, request, capacity=capacity)
    except InputError:
        return None
    return AdvisedSchedule(
        text=planned.plan.advice or "",
        label=planned.decision.candidate.label,
        baseline=planned.decision.baseline.label,
        ratio=planned.ratio,
    )


def _candidates(
    map_: Map,
    hosts: Sequence[Host],
    order: Sequence[str],
    known: KnownNetwork,
    capacity: Capacity | None,
    request: AutoRequest,
) -> list[Candidate]:
    """All candidates; several connections per pair where one is known to carry less than its hosts."""
    channels = _channels(known)
    groupings = groupings_of(map_, order, seed=request.seed)
    natural = [name for group in groupings[0].groups for name in group]
    orders: dict[str, dict[str, Sequence[str]]] = {}
    for algorithm, its in ALGORITHMS.items():
        if its.scatters:
            continue
        orders[algorithm] = {GIVEN: order, "by group": natural}
        if request.orders is not None:
            orders[algorithm] |= request.orders
        elif algorithm in MODELS:
            orders[algorithm]["found"] = _found_order(map_, hosts, algorithm, request)
    orders["two-way-ring"]["found"] = orders["chunked-ring"].get("found", order)
    made = flat_candidates(orders, channels=channels)
    for grouping in groupings:
        if not 1 < len(grouping.groups) < len(order):
            continue
        groups = with_shares(grouping.name, grouping.groups, order, capacity)
        for count in channels:
            made += two_level_candidates(order, groups, None, chunk_bytes=None, channels=count)
            made.append(
                Candidate(algorithm="hierarchical", order=tuple(order), groups=groups, channels=count)
            )
    return made


def _found_order(map_: Map, hosts: Sequence[Host], algorithm: str, request: AutoRequest) -> list[str]:
    """The order that `plan_order` finds in a short search; the original one where it keeps that."""
    annealed = algorithm not in ("ring", "chunked-ring")
    return plan_order(
        map_,
        PlanRequest(
            hosts=hosts,
            algorithm=algorithm,
            size_bytes=request.size_bytes if map_.layers.beta is not None else None,
            seed=request.seed,
            iterations=STEPS_A_HOST * len(hosts) if annealed else None,
        ),
    ).order


def _channels(known: KnownNetwork) -> tuple[int, ...]:
    """One connection, and as many as fill a host where one connection is known to carry less than it."""
    net = known.network
    size = len(net.hosts)
    stream = net.stream[~np.eye(size, dtype=bool)]
    stream = stream[np.isfinite(stream)]
    if known.basis != "capacity" or not len(stream):
        return (1,)
    host = float(np.median(net.capacity[: 2 * size]))
    needed = int(np.ceil(host / float(np.median(stream)) - 0.1)) if np.isfinite(host) else 1
    return (1,) if needed <= 1 else (1, min(needed, MOST_CONNECTIONS))


def _reason(known: KnownNetwork, decision: Decision, tried: Sequence[Tried]) -> str:
    """What was chosen, against what, and what makes the difference."""
    size = size_text(decision.size_bytes)
    found = {one.candidate: one.prediction for one in tried}
    own, base, likely = (found.get(one) for one in (decision.candidate, decision.baseline, decision.likely))
    label = decision.candidate.label
    if not known.decides(decision.size_bytes):
        return (
            f"what is fastest for {size} is not known: {LATENCIES_ALONE}; {label} is written, "
            "which is not a choice but what libraries run for large buffers; netprobe plan order looks for an order of "
            "ranks with less latency"
        )
    assert own is not None and base is not None  # both were predicted
    took = f"{seconds_text(own.time_s)} for {size} by {known.basis}{range_text(own)}"
    if decision.reason == "faster":
        ratio = base.time_s / own.time_s if own.time_s else 1.0
        return (
            f"{label}: {took}, {ratio:.2f}x as fast as {decision.baseline.label} ({seconds_text(base.time_s)}"
            f"{range_text(base)}){_same_network(own, base)}"
            f"{_difference(own, base)}{_passed_over(decision, own, likely)}"
        )
    if decision.reason == "close":
        return f"{label} is kept: {took}, and nothing is more than 2 % faster"
    if likely is None or decision.likely == decision.candidate or likely.time_s * (1 + CLOSE) >= own.time_s:
        return f"{label} is kept: {took}; whether another is faster is left open by what is known"
    other = f"{decision.likely.label} may be faster ({seconds_text(likely.time_s)}{range_text(likely)})"
    return f"{label} is kept: {took}; {other}, but what is known leaves it open"


def _same_network(own: Prediction, base: Prediction) -> str:
    """Why it is surely faster where the two intervals overlap."""
    if own.high_s is None or base.low_s is None or own.high_s < base.low_s:
        return ""
    return ", whatever the capacities are within what was read"


def _passed_over(decision: Decision, own: Prediction, likely: Prediction | None) -> str:
    """The fastest by the readings, where it is not what was chosen: it is not surely faster, and takes a new order."""
    if likely is None or decision.likely == decision.candidate or likely.time_s * (1 + CLOSE) >= own.time_s:
        return ""
    return (
        f"; {decision.likely.label} may be faster ({seconds_text(likely.time_s)}{range_text(likely)}), "
        "but not surely, and it changes the order"
    )


_PLACES = {
    "tx": "what {} sends",
    "rx": "what {} receives",
    "up": "the uplink out of {}",
    "down": "the uplink into {}",
}


def _resource_text(resource: str) -> str:
    """What a resource is, in brackets: ``down:g2`` is the uplink into g2; nothing of one of another kind."""
    kind, _, name = resource.partition(":")
    return f" ({_PLACES[kind].format(name)})" if kind in _PLACES and name else ""


def _difference(own: Prediction, base: Prediction) -> str:
    """Fewer bytes between groups, or fewer steps."""
    parts = []
    ours, theirs = own.bytes_across_groups, base.bytes_across_groups
    if ours is not None and theirs is not None and ours < theirs:
        parts.append(f"{size_text(ours)} between groups instead of {size_text(theirs)}")
    if own.steps < base.steps:
        parts.append(f"{own.steps} steps instead of {base.steps}")
    if base.busiest is not None and base.busiest != own.busiest:
        parts.append(
            f"the other's busiest resource is {base.busiest}{_resource_text(base.busiest)}, "
            f"{base.utilisation or 0:.0%} of its time"
        )
    return f": {', '.join(parts)}" if parts else ""
