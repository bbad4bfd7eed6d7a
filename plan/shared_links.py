"""How long a collective's bytes take where hosts share uplinks: the least time of each round, added up.

The cost models price each transfer by itself. On an oversubscribed network what decides is how many transfers of
a round leave a rack together. Here a round takes as long as its fullest resource: bytes through it over what it
carries. Latency is left out, so this is for large messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from netprobe.core.capacity import Capacity, Resource
from netprobe.core.errors import InputError
from netprobe.plan.costs.model import CostModel

ALIKE = 0.05
"""Resources of a kind within so much of their median count as equal: no test of a second tells them apart."""


def shared_time_s(model: CostModel, order: Sequence[str], capacity: Capacity, size_bytes: int) -> float:
    """Seconds of ``size_bytes`` by ``model`` in ``order`` (host names), on the measured capacities.

    Raises InputError for a host that stands in no group of ``capacity``, or a resource without a reading.
    """
    ids = {name: group.id for group in capacity.groups for name in group.hosts}
    unknown = [name for name in order if name not in ids]
    if unknown:
        raise InputError(f"host {unknown[0]!r} stands in no group of the capacity document")
    rates = pooled_rates(capacity.resources)
    total_s = 0.0
    for transfers in model.rounds(len(order)):
        load: Counter[str] = Counter()
        for sender, receiver, share in transfers:
            for resource in path(order[sender], order[receiver], ids):
                load[resource] += share * size_bytes  # type: ignore[assignment]
        missing = sorted(load.keys() - rates.keys())
        if missing:
            raise InputError(
                f"the capacity of {missing[0]} was not measured: measure it again (netprobe capacity)"
            )
        total_s += max((sent / rates[resource] for resource, sent in load.items()), default=0.0)
    return total_s


def path(src: str, dst: str, group_of: dict[str, str]) -> list[str]:
    """Ids of the resources that a transfer passes."""
    ends = [f"tx:{src}", f"rx:{dst}"]
    if group_of[src] == group_of[dst]:
        return ends
    return [*ends, f"up:{group_of[src]}", f"down:{group_of[dst]}"]


def pooled_rates(resources: Iterable[Resource]) -> dict[str, float]:
    """Bytes a second of each resource; those of a kind that are alike get the median of their kind."""
    by_kind: dict[str, dict[str, float]] = {}
    for one in resources:
        if one.bytes_per_s:
            by_kind.setdefault(one.kind, {})[one.id] = one.bytes_per_s
    rates: dict[str, float] = {}
    for read in by_kind.values():
        middle = float(np.median(list(read.values())))
        rates |= {name: middle if abs(rate / middle - 1) <= ALIKE else rate for name, rate in read.items()}
    return rates


def worst_uplink_crossings(order: Sequence[str], groups: Sequence[Sequence[str]]) -> int:
    """Most hops of the ring that leave one group: as often each byte passes that group's uplink."""
    of = {name: g for g, names in enumerate(groups) for name in names}
    left: Counter[int] = Counter(
        of[a] for a, b in zip(order, [*order[1:], *order[:1]], strict=True) if of[a] != of[b]
    )
    return max(left.values(), default=0)
