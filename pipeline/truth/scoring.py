"""A map against the ground truth of a lab."""

from __future__ import annotations

from dataclasses import dataclass

from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.errors import DocumentError
from netprobe.lab.truth import Truth
from netprobe.plan import crossings


@dataclass(frozen=True, kw_only=True)
class Score:
    """How near the found groups and the order are to the truth."""

    ari: float
    """Adjusted Rand index of groups against racks: 1 when they are the same partition."""
    racks: int
    crossings: int | None
    """Ring hops between racks; a ring through r > 1 racks needs at least r."""


def score_map(map_: Map, truth: Truth, plan: OrderPlan | None = None) -> Score:
    """Score groups (unplaced hosts count as groups of one) and order against the racks."""
    rack_of = {host.name: host.rack for host in truth.hosts}
    found = {name: group.id for group in map_.groups for name in group.hosts}
    found |= {name: f"unplaced {name}" for name in map_.unplaced}
    if set(rack_of) != set(found):
        raise DocumentError("the truth is of other hosts than the map")
    names = sorted(found)
    ari = adjusted_rand_index([rack_of[n] for n in names], [found[n] for n in names])
    hops = crossings(plan.order, rack_of) if plan else None
    return Score(ari=ari, racks=len(set(rack_of.values())), crossings=hops)
