"""What a simulated network is: latencies between hosts, and resources with capacities that transfers pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.capacity import Capacity, Resource
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError

Floats = NDArray[np.float64]
EQUAL = 0.05
"""Resources of a kind within so much of their median count as equal: no test of a second distinguishes them."""
LEAST_BYTES_PER_S = 1.0
"""What carries less is taken to carry nothing that was measured."""
MOST_UNEVEN = 1.0
"""A larger reading is a fault of single flows and no sharing."""
CERTAIN = frozenset({"itself", "one_of"})
"""Limits that make a reading a capacity; with others it is the least that the resource carries."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """``hosts`` (N names), one-way latencies, and resources (R) with ``capacity`` in bytes a second.

    ``passed`` (N, N, K) are the resources from host to host, -1 for none, directed. ``stream`` (N, N) is what one
    connection carries at most, inf where nothing is known. ``high`` (R,) are capacities at the upper end of what
    was measured, ``low`` at the lower one: inf and 0 never mean known values. Through what has a lower end of 0,
    bytes may take any time. Raises InputError for shapes that do not fit, and for latencies or capacities that cannot
    be.
    """

    hosts: tuple[str, ...]
    alpha_s: FloatMatrix
    resources: tuple[str, ...]
    capacity: Floats
    passed: NDArray[np.intp]
    stream: FloatMatrix
    low: Floats
    high: Floats
    group_of: tuple[str, ...] = ()
    """Id of each host's group, where groups are known."""
    unevenness: float = 0.0
    """How unevenly connections share what they pass: the standard deviation of the logarithm of what each gets."""
    _index: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises InputError."""
        size, count = len(self.hosts), len(self.resources)
        shapes = (self.alpha_s.shape, self.stream.shape, self.passed.shape[:2])
        if any(shape != (size, size) for shape in shapes) or not all(
            len(a) == count for a in (self.capacity, self.low, self.high)
        ):
            raise InputError(f"a network of {size} hosts and {count} resources with arrays of other shapes")
        off = ~np.eye(size, dtype=bool)
        if not (np.isfinite(self.alpha_s[off]).all() and (self.alpha_s[off] >= 0).all()):
            raise InputError("a latency is missing, infinite or below 0")
        if not ((self.capacity > 0).all() and (self.stream[off] > 0).all() and (self.low >= 0).all()):
            raise InputError("a capacity is missing or not above 0")
        object.__setattr__(self, "_index", {name: i for i, name in enumerate(self.hosts)})

    def index(self, host: str) -> int:
        """Place of a host. Raises InputError for one that is not in the network."""
        if host not in self._index:
            raise InputError(f"host {host!r} is not one of the {len(self.hosts)} hosts of the network")
        return self._index[host]

    def with_capacity(self, capacity: Floats) -> Network:
        """The same with other capacities."""
        return Network(
            hosts=self.hosts, alpha_s=self.alpha_s, resources=self.resources, capacity=capacity,
            passed=self.passed, stream=self.stream, low=self.low, high=self.high, group_of=self.group_of,
            unevenness=self.unevenness,
        )  # fmt: skip

    @property
    def endless(self) -> NDArray[np.bool_]:
        """(R,) which resources have no lower end, so that nothing bounds the time of what passes them."""
        return self.low <= 0

    def slowest(self) -> Network:
        """The same at the lower ends; what has none carries what was read."""
        return self.with_capacity(np.where(self.endless, self.capacity, self.low))

    @property
    def certain(self) -> bool:
        """Whether low and high ends of every resource agree."""
        return bool(np.array_equal(self.low, self.high))


def network_of(
    capacity: Capacity,
    hosts: Sequence[str],
    *,
    alpha_s: FloatMatrix | None = None,
    stream: FloatMatrix | None = None,
) -> Network:
    """The network that a capacity document measured, among ``hosts`` (names).

    A transfer passes its sender's tx, the group_up of every group that it leaves, the group_down of every group that
    it enters, and the receiver's rx; groups of an outer tier are resources like any other. ``alpha_s`` (N, N) are
    one-way latencies in seconds, 0 unless given; ``stream`` (N, N) bytes a second of one connection. Raises InputError
    for a host in no group, and for a resource of theirs without a reading.
    """
    ids = {name: group.id for group in capacity.groups for name in group.hosts}
    unknown = [name for name in hosts if name not in ids]
    if unknown:
        raise InputError(f"host {unknown[0]!r} is in no group of the capacity document")
    read = {resource.id: resource for resource in capacity.resources}
    rates = pooled_rates(capacity.resources)
    between = _between(capacity, hosts, ids, read)
    names = [*(f"{kind}:{name}" for kind in ("tx", "rx") for name in hosts), *between]
    missing = [name for name in names if name not in rates]
    if missing:
        raise InputError(
            f"the capacity of {missing[0]} was not measured: measure it again (netprobe capacity)"
        )
    values = np.array([rates[name] for name in names])
    size = len(hosts)
    return Network(
        hosts=tuple(hosts),
        alpha_s=np.zeros((size, size)) if alpha_s is None else alpha_s,
        resources=tuple(names),
        capacity=values,
        passed=_passed(hosts, names, between),
        stream=np.full((size, size), np.inf) if stream is None else stream,
        low=_ends(names, values, read, low=True),
        high=_ends(names, values, read, low=False),
        group_of=tuple(ids[name] for name in hosts),
        unevenness=unevenness_of(capacity),
    )


def unevenness_of(capacity: Capacity) -> float:
    """How unevenly flows shared the uplinks that limited them: standard deviation of ln(goodput), of one connection.

    From the tests of uplinks whose limit they were, 0 where there is none. TCP shares evenly in the long run at best:
    what a test of a second sees, messages of a second will.
    """
    squares, degrees = 0.0, 0
    for one in capacity.resources:
        if one.kind not in ("group_up", "group_down") or one.limited_by not in CERTAIN:
            continue
        for number in one.tests:
            flows = [flow for flow in capacity.tests[number].flows if flow.bytes_per_s]
            if len(flows) > 1:
                logs = np.log([flow.bytes_per_s or 1.0 for flow in flows])
                squares += float(
                    np.mean([flow.streams for flow in flows]) * ((logs - logs.mean()) ** 2).sum()
                )
                degrees += len(flows) - 1
    return min(MOST_UNEVEN, float(np.sqrt(squares / degrees))) if degrees else 0.0


def _between(
    capacity: Capacity, hosts: Sequence[str], ids: Mapping[str, str], read: Mapping[str, Resource]
) -> dict[str, set[int]]:
    """The uplinks that transfers among ``hosts`` pass, by id, each with the places of the hosts behind it.

    What leaves a group of one host has passed that host's own resources already, and the uplink of a group that
    holds all of ``hosts`` is passed by nothing.
    """
    finest = sorted({ids[name] for name in hosts})
    members = {group.id: set(group.hosts) for group in capacity.groups}
    found: dict[str, set[str]] = {}
    for group in finest:
        if len(members[group]) > 1:
            found |= {f"{kind}:{group}": members[group] for kind in ("up", "down")}
    found |= {
        one.id: set(one.shared_by)
        for one in read.values()
        if one.kind in ("group_up", "group_down") and len(one.shared_by) > 1 and one.bytes_per_s is not None
    }
    behind = {id_: {i for i, name in enumerate(hosts) if name in shared} for id_, shared in found.items()}
    return {id_: places for id_, places in behind.items() if 0 < len(places) < len(hosts)}


def _passed(hosts: Sequence[str], names: Sequence[str], between: Mapping[str, set[int]]) -> NDArray[np.intp]:
    """(N, N, K) resources from host to host, in the order tx, up, down, rx."""
    size = len(hosts)
    layers = [np.repeat(np.arange(size)[:, None], size, axis=1)]
    for id_, places in between.items():
        inside = np.zeros(size, dtype=bool)
        inside[list(places)] = True
        leaves, enters = inside[:, None] & ~inside[None, :], ~inside[:, None] & inside[None, :]
        layers.append(np.where(leaves if id_.startswith("up:") else enters, names.index(id_), -1))
    layers.append(np.repeat(size + np.arange(size)[None, :], size, axis=0))
    stacked = np.stack(layers, axis=2)
    # Each pair passes few of many uplinks: move what it passes to the front.
    order = np.argsort(stacked < 0, axis=2, kind="stable")
    packed = np.take_along_axis(stacked, order, axis=2)
    return packed[:, :, : max(2, int((packed >= 0).sum(axis=2).max()))].astype(np.intp)


def _ends(names: Sequence[str], values: Floats, read: Mapping[str, Resource], *, low: bool) -> Floats:
    """Ends of the intervals; of a resource that only carries at least so much the upper end is inf.

    A lower end below LEAST_BYTES_PER_S is 0: it says nothing of how long bytes take at most.
    """
    ends = values.copy()
    for i, name in enumerate(names):
        one = read.get(name)
        if one is None:
            continue
        end = one.low_bytes_per_s if low else one.high_bytes_per_s
        if not low and one.limited_by not in CERTAIN:
            ends[i] = np.inf
        elif end is not None and low and end < LEAST_BYTES_PER_S:
            ends[i] = 0.0
        elif end is not None:
            ends[i] = min(end, values[i]) if low else max(end, values[i])
    return ends


def pooled_rates(resources: Iterable[Resource]) -> dict[str, float]:
    """Bytes a second of each resource; those of a kind that are near their kind's median get that."""
    by_kind: dict[str, dict[str, float]] = {}
    for one in resources:
        if one.bytes_per_s is not None and one.bytes_per_s >= LEAST_BYTES_PER_S:
            by_kind.setdefault(one.kind, {})[one.id] = one.bytes_per_s
    rates: dict[str, float] = {}
    for read in by_kind.values():
        middle = float(np.median(list(read.values())))
        rates |= {name: middle if abs(rate / middle - 1) <= EQUAL else rate for name, rate in read.items()}
    return rates
