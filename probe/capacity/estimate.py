"""Capacities of resources from the flows that were seen to share them. No I/O.

A flow that ran at a rate shows that everything on its way can carry at least that. A resource's own capacity
shows where its flows got less than the hosts at their ends, and the uplinks inside an outer group, have shown to be
able to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.capacity import LimitedBy
from netprobe.probe.capacity.experiments import Experiment

SATURATED_RATIO = 0.9
"""An uplink whose flows get less than this share of what their hosts can do is what limits them."""
LEAST_ALIKE = 3
"""Uplinks of as many hosts that must have a reading before one of them is called slower."""
SAME_RATIO = 0.93
"""Two readings this near are the same limit."""
_T_975 = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """One experiment as it went: for each flow its rate in slices of the window; None for one that failed."""

    experiment: Experiment
    rates: tuple[NDArray[np.float64] | None, ...]
    cpu_bound: tuple[bool, ...]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Bytes a second with an interval of 95 %; ``high`` is None for what is only a least."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    limited_by: LimitedBy | None = None
    one_of: tuple[str, ...] = ()
    """``KIND:INDEX`` of others that may be the limit just as well."""
    tests: tuple[int, ...] = ()
    reason: str | None = None
    below_others: float | None = None
    """What the uplinks of as many hosts carry, where this one carries clearly less."""


@dataclass(kw_only=True)
class Estimates:
    """By index of host (``tx``, ``rx``) and number of uplink (``up``, ``down``): groups, then outer groups."""

    tx: dict[int, Estimate] = field(default_factory=dict)
    rx: dict[int, Estimate] = field(default_factory=dict)
    up: dict[int, Estimate] = field(default_factory=dict)
    down: dict[int, Estimate] = field(default_factory=dict)


def estimate(
    groups: Sequence[Sequence[int]], readings: Sequence[Reading], outer: Sequence[Sequence[int]] = ()
) -> Estimates:
    """Estimates for every host in a group, for every group, and for every outer group (indices of groups)."""
    found = Estimates()
    for members in groups:
        for host in members:
            found.tx[host] = _host(readings, host, end=0)
            found.rx[host] = _host(readings, host, end=1)
    if len(groups) > 1:
        of = {host: group for group, members in enumerate(groups) for host in members}
        uplinks = [{group} for group in range(len(groups))] + [set(members) for members in outer]
        # What an outer group's flows could have been is known from the groups in it.
        for number in sorted(range(len(uplinks)), key=lambda n: len(uplinks[n])):
            for kind, into in (("up", found.up), ("down", found.down)):
                into[number] = _uplink(readings, number, kind, found, of)
        _tell_apart(uplinks, readings, found, of)
        _doubt_slower_ones(groups, uplinks, found)
    return found


def _host(readings: Sequence[Reading], host: int, *, end: int) -> Estimate:
    """A host's best flow. With two peers that gave about the same it is the host's own limit.

    Tests inside its group come first; a host alone in its group is known from those between groups.
    """
    seen: list[tuple[float, NDArray[np.float64], int, int, bool]] = []
    for kinds in (("hosts",), ("up", "down")):
        for number, reading in enumerate(readings):
            if reading.experiment.kind not in kinds:
                continue
            mine = [i for i, ends in enumerate(reading.experiment.flows) if ends[end] == host]
            rates = [rate for i in mine if (rate := reading.rates[i]) is not None]
            if rates:
                total = np.sum(rates, axis=0)
                peer = reading.experiment.flows[mine[0]][1 - end]
                bound = any(reading.cpu_bound[i] for i in mine)
                seen.append((float(total.mean()), total, number, peer, bound))
        if seen:
            break
    if not seen:
        return Estimate(reason="no flow of it gave a reading")
    seen.sort(key=lambda one: -one[0])
    best = seen[0][0]
    same = [one for one in seen if one[0] >= SAME_RATIO * best]
    value, low, high = _interval([one[1] for one in same])
    tests = tuple(sorted(one[2] for one in same))
    if any(one[4] for one in same):
        return Estimate(value=value, low=low, limited_by="cpu", tests=tests)
    if len({one[3] for one in same}) > 1:
        return Estimate(value=value, low=low, high=high, limited_by="itself", tests=tests)
    there = "tx" if end else "rx"
    return Estimate(
        value=value, low=low, high=high, limited_by="one_of", one_of=(f"{there}:{same[0][3]}",), tests=tests
    )


def _uplink(
    readings: Sequence[Reading], uplink: int, kind: str, known: Estimates, of: dict[int, int]
) -> Estimate:
    """What the flows of an uplink's tests got together, and whether they could have done more.

    ``of`` is each host's group: where a test is of an outer group, those of its inner ones are ``known``.
    """
    totals, tests, limits = [], [], []
    cpu_bound = False
    for number, reading in enumerate(readings):
        if (reading.experiment.kind, reading.experiment.group) != (kind, uplink):
            continue
        rates = {i: rate for i, rate in enumerate(reading.rates) if rate is not None}
        going = list(rates)
        if not going:
            continue
        totals.append(np.sum(list(rates.values()), axis=0))
        tests.append(number)
        cpu_bound |= any(reading.cpu_bound[i] for i in going)
        ends = [reading.experiment.flows[i] for i in going]
        sending = _sum(known.tx, known.up, {src for src, _ in ends}, of, but=uplink)
        receiving = _sum(known.rx, known.down, {dst for _, dst in ends}, of, but=uplink)
        limits.append(min(sending, receiving))
    if not totals:
        return Estimate(reason="no flow of it gave a reading")
    means = [float(total.mean()) for total in totals]
    full = [mean < SATURATED_RATIO * limit for mean, limit in zip(means, limits, strict=True)]
    if not any(full):
        best = int(np.argmax(means))
        value, low, _ = _interval([totals[best]])
        return Estimate(value=value, low=low, limited_by="hosts", tests=(tests[best],))
    kept = [i for i, is_full in enumerate(full) if is_full]
    value, low, high = _interval([totals[i] for i in kept])
    chosen = tuple(tests[i] for i in kept)
    if cpu_bound:
        return Estimate(value=value, low=low, limited_by="cpu", tests=chosen)
    return Estimate(value=value, low=low, high=high, limited_by="itself", tests=chosen)


def _tell_apart(
    uplinks: Sequence[set[int]], readings: Sequence[Reading], found: Estimates, of: dict[int, int]
) -> None:
    """Where another uplink is loaded as much as this one, either may be the limit: the way into other groups, and
    the uplinks inside an outer group and around a group."""
    up, down = dict(found.up), dict(found.down)
    for into, mine in ((found.up, "up"), (found.down, "down")):
        for number, one in list(into.items()):
            if one.limited_by != "itself":
                continue
            suspects = set()
            for test in one.tests:
                load: dict[tuple[str, int], float] = {}
                for (src, dst), rate in zip(
                    readings[test].experiment.flows, readings[test].rates, strict=True
                ):
                    if rate is None:
                        continue
                    for other, groups in enumerate(uplinks):
                        leaves, enters = of[src] in groups, of[dst] in groups
                        if leaves != enters:
                            way = ("up" if leaves else "down", other)
                            load[way] = load.get(way, 0.0) + float(rate.mean())
                for (kind, other), carried in load.items():
                    capacity = (up if kind == "up" else down)[other].value
                    full = capacity is not None and carried >= SATURATED_RATIO * capacity
                    if full and (kind, other) != (mine, number):
                        suspects.add(f"{kind}:{other}")
            if suspects:
                into[number] = replace(one, limited_by="one_of", one_of=tuple(sorted(suspects)))


def _doubt_slower_ones(
    groups: Sequence[Sequence[int]], uplinks: Sequence[set[int]], found: Estimates
) -> None:
    """An uplink that carries less than those of as many hosts may be a slower one, or carry something else as well:
    its interval reaches up to theirs."""
    for into in (found.up, found.down):
        similar: dict[tuple[int, int], list[int]] = {}
        for number, one in into.items():
            if one.value is not None and one.limited_by in ("itself", "one_of"):
                hosts = sum(len(groups[group]) for group in uplinks[number])
                similar.setdefault((len(uplinks[number]), hosts), []).append(number)
        for numbers in similar.values():
            usual = float(np.median([into[number].value or 0.0 for number in numbers]))
            for number in numbers if len(numbers) >= LEAST_ALIKE else ():
                one = into[number]
                if (one.value or 0.0) < SATURATED_RATIO * usual:
                    into[number] = replace(one, high=max(one.high or 0.0, usual), below_others=usual)


def _sum(
    hosts: dict[int, Estimate],
    uplinks: dict[int, Estimate],
    ends: set[int],
    of: dict[int, int],
    *,
    but: int,
) -> float:
    """What hosts can do together, where the uplinks of their groups, all but one, let that through."""
    by_group: dict[int, float] = {}
    for host in ends:
        by_group[of[host]] = by_group.get(of[host], 0.0) + (
            hosts[host].value or 0.0 if host in hosts else 0.0
        )
    total = 0.0
    for group, together in by_group.items():
        uplink = uplinks.get(group) if group != but else None
        certain = uplink is not None and uplink.limited_by in ("itself", "one_of")
        total += min(together, uplink.value or together) if uplink is not None and certain else together
    return total


def _interval(series: Sequence[NDArray[np.float64]]) -> tuple[float, float, float]:
    """Mean and 95 % interval over the slices of one test, or over the means of several and their slices."""
    slices = np.concatenate(series)
    mean = float(np.mean([one.mean() for one in series]))
    within = _half_width(slices)
    between = max((abs(float(one.mean()) - mean) for one in series), default=0.0)
    half = max(within, between)
    return mean, max(0.0, mean - half), mean + half


def _half_width(values: NDArray[np.float64]) -> float:
    if len(values) < 2:
        return float(values.mean())
    t = _T_975[len(values) - 1] if len(values) <= len(_T_975) else 1.96 + 2.5 / len(values)
    return float(t * values.std(ddof=1) / math.sqrt(len(values)))
