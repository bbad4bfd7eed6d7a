"""map [, capacity] -> plan: a DS-Sync pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import check_same_hosts
from netprobe.core.documents.ds_sync_plan import AveragingIteration, DsSyncPlan
from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.core.hosts import plain_host
from netprobe.core.text import listed
from netprobe.core.units import count, seconds_text, size_text
from netprobe.plan.auto.known import known_network
from netprobe.plan.ds_sync.consensus import eigenvalue_of, rho_of, steps_until_close
from netprobe.plan.ds_sync.costs import Rates, all_reduce_time_s, hierarchical_time_s, pattern_time_s
from netprobe.plan.ds_sync.patterns import Iteration, make_pattern
from netprobe.plan.registry import prove_plan
from netprobe.plan.simulate.network import pooled_rates

SIZE_BYTES = 100_000_000
CONTENDED_SHARE = 0.7
LIKE = 1.02
"""Times within this ratio count as equal."""


@dataclass(frozen=True, kw_only=True)
class DsSyncRequest:
    """A pattern for a model of ``size_bytes``; ``contended``: ``group:ID`` and ``host:NAME`` (None: by capacities)."""

    size_bytes: int = SIZE_BYTES
    contended: Sequence[str] | None = None
    seed: int = 0


def plan_ds_sync(map_: Map, request: DsSyncRequest, *, capacity: Capacity | None = None) -> DsSyncPlan:
    """The pattern on the map's groups. Raises InputError for an unknown group or host, or capacities of other hosts."""
    racks = [list(group.hosts) for group in map_.groups]
    names = [name for rack in racks for name in rack]
    if len(names) < 2:
        raise InputError(f"{len(names)} placed hosts: two are needed to average")
    if capacity is not None:
        check_same_hosts(
            [plain_host(host) for host in map_.hosts], [plain_host(host) for host in capacity.hosts],
            what="the map", source="capacity",
        )  # fmt: skip
    groups, hosts = _contended(map_, request, capacity, set(names))
    place = {name: i for i, name in enumerate(names)}
    numbers = [[place[name] for name in rack] for rack in racks]
    ids = [group.id for group in map_.groups]
    pattern = make_pattern(numbers, [ids.index(g) for g in groups], [place[h] for h in hosts])
    rho = rho_of(pattern, len(names))
    rates = _rates(map_, names, numbers, capacity)
    size = request.size_bytes
    times = None if rates is None else (
        pattern_time_s(pattern, rates, size), all_reduce_time_s(len(names), rates, size),
        hierarchical_time_s(numbers, rates, size),
    )  # fmt: skip
    ends = None if rates is None else _ends(pattern, map_, names, numbers, capacity, size)
    plan = DsSyncPlan(
        hosts=[plain_host(host) for host in map_.hosts],
        parents=[map_.parent(), *([] if capacity is None else [capacity.parent()])],
        seed=request.seed,
        racks=racks,
        left_out=list(map_.unplaced),
        contended_groups=groups,
        contended_hosts=hosts,
        contended_share=CONTENDED_SHARE if request.contended is None and capacity is not None else None,
        pattern=[
            AveragingIteration(
                groups=[[names[h] for h in group] for group in one.groups],
                leaders=[names[h] for h in one.leaders],
            )
            for one in pattern
        ],
        pattern_length=len(pattern),
        rho=rho,
        rho_per_iteration=rho ** (1 / len(pattern)),
        eigenvalue=eigenvalue_of(pattern, len(names)),
        iterations_to_a_thousandth=steps_until_close(rho, len(pattern)),
        size_bytes=size,
        predicted_s=None if times is None else times[0],
        predicted_low_s=None if ends is None else ends[0],
        predicted_high_s=None if ends is None else ends[1],
        known_from_below=[] if capacity is None else _from_below(capacity, set(ids), set(names)),
        all_reduce_s=None if times is None else times[1],
        hierarchical_s=None if times is None else times[2],
    )
    plain = make_pattern(numbers, [], []) if rates is not None and (groups or hosts) else pattern
    without = None if rates is None or plain == pattern else _mixing(plain, len(names), rates, size)
    plan = plan.model_copy(update={"advice": _advice(plan, len(racks), without)})
    prove_plan(plan)
    return plan


def _contended(
    map_: Map, request: DsSyncRequest, capacity: Capacity | None, placed: set[str]
) -> tuple[list[str], list[str]]:
    """Ids of groups and names of hosts that are contended."""
    ids = {group.id for group in map_.groups}
    if request.contended is None:
        return ([], []) if capacity is None else _by_capacity(capacity, ids, placed)
    groups, hosts = [], []
    for word in request.contended:
        kind, _, name = word.partition(":")
        if kind == "group" and name in ids:
            groups.append(name)
        elif kind == "host" and name in placed:
            hosts.append(name)
        else:
            known = ", ".join(f"group:{one}" for one in sorted(ids)[:8])
            raise InputError(
                f"contended {word[:60]!r}: group:ID or host:NAME of the map is needed, such as {known}"
            )
    return sorted(set(groups)), sorted(set(hosts))


def _by_capacity(capacity: Capacity, ids: set[str], placed: set[str]) -> tuple[list[str], list[str]]:
    """What carries less than `CONTENDED_SHARE` of its kind's median; a bound from below never counts."""
    low: set[str] = set()
    for kind, own in (("tx", placed), ("rx", placed), ("up", ids), ("down", ids)):
        known = {f"{kind}:{name}" for name in own}
        read = [one for one in capacity.resources if one.id in known and one.bytes_per_s]
        if len(read) < 3:
            continue
        middle = float(np.median([one.bytes_per_s or 0.0 for one in read]))
        low |= {
            one.id.partition(":")[2]
            for one in read
            if one.limited_by in ("itself", "one_of", None)
            and (one.bytes_per_s or 0.0) < CONTENDED_SHARE * middle
        }
    return sorted(low & ids), sorted(low & placed)


def _from_below(capacity: Capacity, ids: set[str], placed: set[str]) -> list[str]:
    """Resources of the plan that carry at least what was measured, in the order of the document."""
    known = {
        f"{kind}:{name}"
        for kind, own in (("tx", placed), ("rx", placed), ("up", ids), ("down", ids))
        for name in own
    }
    return [
        one.id
        for one in capacity.resources
        if one.id in known and one.bytes_per_s and one.limited_by not in ("itself", "one_of", None)
    ]


def _rates(
    map_: Map, names: Sequence[str], racks: Sequence[Sequence[int]], capacity: Capacity | None
) -> Rates | None:
    """None without capacities: bytes then have no time."""
    if capacity is None:
        return None
    known = known_network(map_, names, capacity)
    return _rates_of(pooled_rates(capacity.resources), known.network.alpha_s, map_, names, racks)


def _rates_of(
    read: Mapping[str, float],
    alpha_s: FloatMatrix,
    map_: Map,
    names: Sequence[str],
    racks: Sequence[Sequence[int]],
) -> Rates:
    """Of bytes a second by resource; an uplink that has none is no limit, and what carries nothing takes for ever."""
    with np.errstate(divide="ignore"):
        host = 1.0 / np.array([min(read[f"tx:{name}"], read[f"rx:{name}"]) for name in names])
        uplink = 1.0 / np.array(
            [min(read.get(f"{kind}:{group.id}", np.inf) for kind in ("up", "down")) for group in map_.groups]
        )
    rack = np.concatenate([np.full(len(rack), number) for number, rack in enumerate(racks)])
    return Rates(alpha_s=alpha_s, host=host, uplink=uplink, rack=rack.astype(np.intp))


def _ends(
    pattern: Sequence[Iteration],
    map_: Map,
    names: Sequence[str],
    racks: Sequence[Sequence[int]],
    capacity: Capacity | None,
    size_bytes: int,
) -> tuple[float, float | None] | None:
    """Seconds of an iteration at best and at worst, by both ends of every capacity; None where there are no two."""
    if capacity is None:
        return None
    net = known_network(map_, names, capacity).network
    if net.certain:
        return None
    times = []
    for values in (net.high, net.low):
        read = dict(zip(net.resources, values.tolist()))
        times.append(pattern_time_s(pattern, _rates_of(read, net.alpha_s, map_, names, racks), size_bytes))
    return times[0], times[1] if np.isfinite(times[1]) else None


def _mixing(pattern: Sequence[Iteration], hosts: int, rates: Rates, size_bytes: int) -> tuple[int, float]:
    """Iterations until differences are a thousandth, and the seconds of one, of a pattern."""
    rho = rho_of(pattern, hosts)
    return steps_until_close(rho, len(pattern)), pattern_time_s(pattern, rates, size_bytes)


def _advice(plan: DsSyncPlan, racks: int, without: tuple[int, float] | None) -> str:
    """``without``: iterations to a thousandth and seconds of one, were nothing contended; None: not another pattern."""
    steps = plan.iterations_to_a_thousandth
    said = [
        f"differences between hosts shrink to a thousandth in {count(steps, 'iteration')} "
        f"(rho {plan.rho:.3f} per period of {plan.pattern_length})"
    ]
    if plan.predicted_s:
        said[0] += f", {seconds_text(steps * plan.predicted_s)} of exchanges"
    if without is not None and plan.predicted_s:
        ratio = steps * plan.predicted_s / max(without[0] * without[1], 1e-12)
        worse = f": this one mixes {ratio:.2f}x slower" if ratio > LIKE else ""
        said.append(
            f"the pattern without contention takes {count(without[0], 'iteration')} of {seconds_text(without[1])}, "
            f"{seconds_text(without[0] * without[1])}{worse}"
        )
    if racks == 1:
        said.append(
            "the map has one group, so every iteration averages all hosts: DS-Sync gains nothing here"
        )
    if plan.predicted_s and plan.all_reduce_s and plan.hierarchical_s and plan.size_bytes:
        said.append(
            f"averages of {size_text(plan.size_bytes)} take {seconds_text(plan.predicted_s)}{_range(plan)} per "
            "iteration, "
            "a ring all-reduce group by group "
            f"{seconds_text(plan.all_reduce_s)} ({plan.all_reduce_s / plan.predicted_s:.2f}x), "
            f"a hierarchical one {seconds_text(plan.hierarchical_s)} ({plan.hierarchical_s / plan.predicted_s:.2f}x)"
        )
    else:
        said.append(
            "how long they take cannot be told without capacities (netprobe capacity, then --capacity)"
        )
    uplinks = [one for one in plan.known_from_below if one.startswith(("up:", "down:"))]
    if uplinks:
        said.append(
            f"carry at least what was measured, so whether they are contended is not known: {listed(uplinks)}"
        )
    if racks > 1 and len(plan.contended_groups) == racks:
        said.append("every group is contended: planned as if none were")
    if plan.left_out:
        said.append(f"left out, since they are not placed on the map: {listed(plan.left_out)}")
    return "; ".join(said)


def _range(plan: DsSyncPlan) -> str:
    if plan.predicted_low_s is None:
        return ""
    high = "unknown" if plan.predicted_high_s is None else seconds_text(plan.predicted_high_s)
    return f" ({seconds_text(plan.predicted_low_s)} to {high})"
