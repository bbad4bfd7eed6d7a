"""Contended hosts and uplinks by the times of past averages, and the pattern for them. Numbers in, numbers out.

A group's average is as slow as its slowest host or uplink, and no resource is slower than the fastest group that it was
in. So the cost of a host is the least among its groups, and that of an uplink the least among its groups that span
racks. Where two always meet, neither can be told from the other; then both cost the same, and none is above the rest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.ds_sync.consensus import Groups
from netprobe.plan.ds_sync.patterns import Iteration, make_pattern

CONTENDED_SHARE = 0.7
"""A resource is contended below this share of the median rate of its kind, as in ``netprobe plan ds-sync``."""
RECOVERED_SHARE = 0.8
"""And no longer from this share on, so that a resource between the two does not come and go."""
LEAST_OF_A_KIND = 3


@dataclass(frozen=True)
class Contention:
    """Places of contended racks, and contended hosts."""

    racks: frozenset[int]
    hosts: frozenset[int]


def contention(
    past: Sequence[Groups],
    seconds: FloatMatrix,
    racks: Sequence[Sequence[int]],
    before: Contention,
) -> Contention:
    """What is contended, by ``seconds`` (iterations, hosts) that each host took for the averages of ``past``.

    The last host to arrive at an average has not waited for others: the least of a group's times counts. NaN is a time
    that is not known. Every rank that is given the same numbers gets the same answer.
    """
    rack_of = {host: place for place, rack in enumerate(racks) for host in rack}
    samples: dict[tuple[int, ...], list[float]] = {}
    for groups, row in zip(past, seconds):
        for group in groups.groups:
            times = row[list(group)]
            times = times[np.isfinite(times) & (times > 0)]
            if len(group) > 1 and len(times):
                share = 2 * (len(group) - 1) / len(group)
                samples.setdefault(tuple(group), []).append(float(times.min()) / share)
    host_cost: dict[int, float] = {}
    rack_cost: dict[int, float] = {}
    for group, costs in sorted(samples.items()):
        cost = float(np.median(costs))
        spans = {rack_of[host] for host in group}
        for host in group:
            host_cost[host] = min(cost, host_cost.get(host, math.inf))
        for place in spans if len(spans) > 1 else ():
            rack_cost[place] = min(cost, rack_cost.get(place, math.inf))
    return Contention(_slow(rack_cost, before.racks), _slow(host_cost, before.hosts))


def _slow(costs: dict[int, float], before: Collection[int]) -> frozenset[int]:
    if len(costs) < LEAST_OF_A_KIND:
        return frozenset(before)
    usual = float(np.median(list(costs.values())))
    # What was not seen is as it was.
    unseen = frozenset(before) - costs.keys()
    return unseen | {
        one
        for one, cost in costs.items()
        if usual < (RECOVERED_SHARE if one in before else CONTENDED_SHARE) * cost
    }


def pattern_for(racks: Sequence[Sequence[int]], now: Contention) -> list[Iteration]:
    """The pattern of ``plan/ds_sync`` for what is contended."""
    return make_pattern(racks, sorted(now.racks), sorted(now.hosts))
