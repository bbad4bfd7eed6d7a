"""map [, capacity] -> plan: two-level hierarchical aggregation (2LHA)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import Parent, check_same_hosts
from netprobe.core.documents.map import Map
from netprobe.core.documents.schedule_plan import LATENCIES_ALONE, Prediction, SchedulePlan
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, plain_host
from netprobe.core.units import count, seconds_text, size_text
from netprobe.pipeline.planning.groupings import Grouping, groupings_named
from netprobe.plan import build_schedule_plan
from netprobe.plan.auto.candidates import CHUNK_BYTES, Candidate, two_level_candidates, with_shares
from netprobe.plan.auto.known import KnownNetwork, known_network
from netprobe.plan.auto.predicting import (
    Read,
    Tried,
    bound_s,
    interval_of,
    latency_of,
    prediction_of,
    rows_of,
    surely_faster,
    time_of,
)
from netprobe.plan.schedule.document import Placement

SIZE_BYTES = 100_000_000
"""The buffer that is planned for, where none is named."""


@dataclass(frozen=True, kw_only=True)
class TwoLevelRequest:
    """2LHA for a buffer of ``size_bytes``.

    ``hosts`` (default: the map's own) gives the original order, which is that of the ranks. ``grouping`` is natural,
    sqrt, nested, or best: whichever the simulator says is fastest. ``chunk_bytes`` None tries several. ``channels`` are
    connections per pair of hosts.
    """

    hosts: Sequence[Host] | None = None
    size_bytes: int = SIZE_BYTES
    grouping: str = "best"
    chunk_bytes: int | None = None
    channels: int = 1
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class TwoLevelPlanned:
    """The plan, all that was tried for it (the plan's own first), and what remains unknown.

    ``decides``: whether anything is known of what so many bytes take.
    """

    plan: SchedulePlan
    tried: tuple[Tried, ...]
    unknown: tuple[str, ...]
    decides: bool = True


DEFAULT = TwoLevelRequest()


def plan_two_level(
    map_: Map, request: TwoLevelRequest = DEFAULT, *, capacity: Capacity | None = None
) -> TwoLevelPlanned:
    """Plan 2LHA on the groups of ``map_``, or others; proved.

    ``capacity`` says what hosts and uplinks carry: masters are then shared by that. Raises InputError for an unknown
    grouping, a size or chunk below 1 byte, for capacities of other hosts, or without a reading.
    """
    if request.size_bytes < 1 or (request.chunk_bytes is not None and request.chunk_bytes < 1):
        raise InputError(
            f"a buffer of {request.size_bytes} B in chunks of {request.chunk_bytes} B: 1 B at least is needed"
        )
    hosts, order = placed_order(map_, request.hosts)
    known = known_with(map_, order, capacity)
    groupings = groupings_named(map_, order, request.grouping, seed=request.seed)
    tried = _tried(known, groupings, order, capacity, request)
    chosen, why = _chosen(known, tried, request)
    tried.sort(key=lambda one: one is not chosen)
    plan = schedule_plan(
        chosen.candidate,
        hosts,
        predictions=[one for one in [chosen.prediction] if one is not None],
        size_bytes=request.size_bytes,
        advice=_advice(known, chosen, why, request),
        parents=[map_.parent(), *([] if capacity is None else [capacity.parent()])],
        seed=request.seed,
    )
    rows = {"candidates": rows_of(tried, request.size_bytes), "unknown": list(known.unknown)}
    return TwoLevelPlanned(
        plan=plan.model_copy(update=rows),
        tried=tuple(tried),
        unknown=known.unknown,
        decides=known.decides(request.size_bytes),
    )


def placed_order(map_: Map, hosts: Sequence[Host] | None) -> tuple[list[Host], list[str]]:
    """The hosts in their original order, and the names of those that have a place on the map.

    Raises DocumentError for other hosts than the map's, InputError where none has a place.
    """
    if hosts is not None:
        check_same_hosts(list(hosts), list(map_.hosts), what="the hosts file", source="map")
    every = [plain_host(host) for host in (hosts if hosts is not None else map_.hosts)]
    unplaced = set(map_.unplaced)
    order = [host.name for host in every if host.name not in unplaced]
    if not order:
        raise InputError("no host has a place on the map: measure again")
    return every, order


def known_with(map_: Map, order: Sequence[str], capacity: Capacity | None) -> KnownNetwork:
    """The network among ``order``. Raises InputError for capacities of other hosts than the map's."""
    if capacity is not None:
        check_same_hosts(
            [plain_host(host) for host in map_.hosts],
            [plain_host(host) for host in capacity.hosts],
            what="the map",
            source="capacity",
        )
    return known_network(map_, order, capacity)


def schedule_plan(
    candidate: Candidate,
    hosts: Sequence[Host],
    *,
    predictions: Sequence[Prediction],
    size_bytes: int,
    advice: str,
    parents: Sequence[Parent],
    seed: int,
) -> SchedulePlan:
    """The proved document of a candidate."""
    groups = candidate.groups
    return build_schedule_plan(
        candidate.schedule(size_bytes),
        Placement(
            hosts=hosts,
            order=candidate.order,
            groups=() if groups is None else [[candidate.order[r] for r in ranks] for ranks in groups.ranks],
            grouping=None if groups is None else groups.name,
        ),
        size_bytes=size_bytes,
        predictions=predictions,
        advice=advice,
        parents=parents,
        seed=seed,
    )


def _tried(
    known: KnownNetwork,
    groupings: Sequence[Grouping],
    order: Sequence[str],
    capacity: Capacity | None,
    request: TwoLevelRequest,
) -> list[Tried]:
    """Every grouping with every chunk size, predicted; only PLink's chunk where bytes have no time.

    Where an interval takes two more runs of the simulator, only the fastest chunk of each grouping is kept.
    """
    chunk = request.chunk_bytes
    if chunk is None and known.basis == "latency":
        chunk = CHUNK_BYTES
    made = []
    for grouping in groupings:
        groups = with_shares(grouping.name, grouping.groups, order, capacity)
        own = two_level_candidates(
            order, groups, request.size_bytes, chunk_bytes=chunk, channels=request.channels
        )
        if len(own) > 1 and not known.network.certain:
            own = [min(own, key=lambda one: time_of(known, one, request.size_bytes))]
        made += own
    return [Tried(candidate=one, prediction=prediction_of(known, one, request.size_bytes)) for one in made]


def _chosen(known: KnownNetwork, tried: Sequence[Tried], request: TwoLevelRequest) -> tuple[Tried, str]:
    """The fastest, and why; of groupings that cannot be distinguished the first (the map's own)."""

    def time_s(one: Tried) -> float:
        return one.prediction.time_s if one.prediction is not None else float("inf")

    first = _name(tried[0])
    own = min((one for one in tried if _name(one) == first), key=time_s)
    best = min(tried, key=time_s)
    groupings = {_name(one): min(time_s(two) for two in tried if _name(two) == _name(one)) for one in tried}
    if len(groupings) == 1:
        return best, ""
    if not known.decides(request.size_bytes):
        return own, f"which groups are best is not known: {LATENCIES_ALONE}; its own are kept"
    if _name(best) == _name(own):
        return best, _compared(groupings, _name(best))
    size = request.size_bytes
    if not surely_faster(known, _read(known, best, size), _read(known, own, size), size):
        return own, (
            f"{_name(best)} groups may be faster ({seconds_text(time_s(best))} against {seconds_text(time_s(own))}), "
            "but what is known leaves it open: the map's own are kept"
        )
    return best, _compared(groupings, _name(best))


def _read(known: KnownNetwork, one: Tried, size_bytes: int) -> Read:
    found = one.prediction
    assert found is not None  # each candidate was predicted
    least = bound_s(known, one.candidate, size_bytes, latency_of(known, one.candidate, size_bytes))
    interval = interval_of(known, one.candidate, size_bytes, found.time_s, least)
    return Read(candidate=one.candidate, interval=interval, at_least_s=least)


def _name(one: Tried) -> str:
    return one.candidate.groups.name if one.candidate.groups is not None else ""


def _compared(times: dict[str, float], chosen: str) -> str:
    others = [f"{name} {seconds_text(time)}" for name, time in times.items() if name != chosen]
    return f"{chosen} groups are the best of those tried ({', '.join(others)})"


def _advice(known: KnownNetwork, chosen: Tried, why: str, request: TwoLevelRequest) -> str:
    """What it takes, by what; where there is but one level; why these groups."""
    groups, prediction = chosen.candidate.groups, chosen.prediction
    assert groups is not None and prediction is not None  # 2LHA has groups, and each candidate was predicted
    parts = []
    if len(groups.ranks) == 1:
        parts.append(
            f"one group of {count(len(groups.ranks[0]), 'host')}: without a second level 2LHA is flat aggregation"
        )
    elif all(len(ranks) == 1 for ranks in groups.ranks):
        parts.append("every group is one host: 2LHA is flat aggregation")
    if known.decides(request.size_bytes):
        took = f"{seconds_text(prediction.time_s)} by {known.basis}{range_text(prediction)}"
        parts.append(f"{size_text(request.size_bytes)} take {took}")
    else:
        parts.append(f"what {size_text(request.size_bytes)} take is not known: {LATENCIES_ALONE}")
    return "; ".join([*parts, *([why] if why else [])])


def range_text(prediction: Prediction) -> str:
    if prediction.low_s is None:
        return ""
    high = "unknown" if prediction.high_s is None else seconds_text(prediction.high_s)
    return f" ({seconds_text(prediction.low_s)} to {high})"
