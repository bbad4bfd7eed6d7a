"""The network that a map, and a capacity document where there is one, describe, and what they leave unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.schedule_plan import PACKET_BYTES, Basis
from netprobe.core.errors import InputError
from netprobe.plan.order.link_costs import links_of
from netprobe.plan.simulate.network import LEAST_BYTES_PER_S, Network, network_of

_MEASURED = "netprobe scan --measure rtt,goodput; netprobe capacity"
_IMPORTED = "netprobe scan measures them on the hosts; what was imported has latencies alone"
NAMED = 4
"""Resources that are named in one line."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownNetwork:
    """A network to simulate on, what its times rest on, and what it leaves unknown."""

    network: Network
    basis: Basis
    unknown: tuple[str, ...] = ()

    def decides(self, size_bytes: int) -> bool:
        """Whether times of a buffer of so many bytes can be compared at all."""
        return self.basis != "latency" or size_bytes <= PACKET_BYTES


def known_network(map_: Map, hosts: Sequence[str], capacity: Capacity | None = None) -> KnownNetwork:
    """The network among ``hosts`` (names, placed on the map).

    With ``capacity`` transfers share what hosts and uplinks carry, and a connection carries at most 1 / beta where the
    map knows goodput. With goodput alone a host is known to carry what its fastest connection does, at least, and
    uplinks between one connection and any number. What was never seen to carry anything may carry nothing. With
    latencies alone bytes have no time. Raises InputError for hosts that the capacities lack, and for a capacity that
    is missing or 0.
    """
    index = {host.name: i for i, host in enumerate(map_.hosts)}
    where = [index[name] for name in hosts]
    at = np.ix_(where, where)
    alpha, latency = _latencies(map_, at)
    stream = _stream(map_, at)
    if capacity is not None:
        check_rates(capacity, hosts)
        network = network_of(capacity, hosts, alpha_s=alpha, stream=stream)
        return KnownNetwork(network=network, basis="capacity", unknown=(*latency, *_endless(network)))
    group_of = {name: group.id for group in map_.groups for name in group.hosts}
    ids = tuple(group_of.get(name, "") for name in hosts)
    if stream is None:
        return KnownNetwork(
            network=_bare(hosts, alpha, ids),
            basis="latency",
            unknown=(
                f"how long bytes take: a buffer above {PACKET_BYTES} B needs goodput or capacities "
                f"({_MEASURED if map_.by_agents else _IMPORTED})",
            ),
        )
    network = _by_goodput(hosts, alpha, stream, ids)
    uplinks = "what uplinks carry for several connections at once (netprobe capacity)"
    return KnownNetwork(
        network=network, basis="latency and goodput", unknown=(*latency, uplinks, *_endless(network))
    )


def network_by(capacity: Capacity, hosts: Sequence[str], map_: Map | None = None) -> Network:
    """The network of measured capacities among ``hosts`` (names), for every prediction that rests on them.

    With the latencies, and what single connections carry, of ``map_`` where it is given. Raises InputError for hosts
    in no group, and for a capacity that is missing or 0.
    """
    if map_ is not None:
        return known_network(map_, hosts, capacity).network
    check_rates(capacity, hosts)
    return network_of(capacity, hosts)


def check_rates(capacity: Capacity, hosts: Sequence[str]) -> None:
    """Refuse a capacity of 0 of what ``hosts`` pass. Raises InputError that names it."""
    mine = set(hosts)
    behind: Mapping[str, set[str]] = {group.id: set(group.hosts) for group in capacity.groups}
    for one in capacity.resources:
        owner = one.id.partition(":")[2]
        used = owner in mine or bool(behind.get(owner, set(one.shared_by)) & mine)
        if used and one.bytes_per_s is not None and one.bytes_per_s < LEAST_BYTES_PER_S:
            raise InputError(
                f"the capacity of {one.id} is {one.bytes_per_s:g} bytes/s, and nothing can be sent through that: "
                "measure it again (netprobe capacity)"
            )


def _endless(network: Network) -> tuple[str, ...]:
    """What may carry nothing, as far as is known."""
    names = [network.resources[at] for at in np.flatnonzero(network.endless)]
    if not names:
        return ()
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (
        f"how long what passes {', '.join(names[:NAMED])}{more} takes at most: it may carry nothing, as measured",
    )


def _latencies(map_: Map, at: tuple[np.ndarray, ...]) -> tuple[FloatMatrix, tuple[str, ...]]:
    """(N, N) one-way seconds, and what is not known of them."""
    alpha = np.array(links_of(map_).alpha_s[at])
    if map_.layers.rtt is not None and map_.grouped_by != "rtt":
        alpha = np.array(map_.layers.rtt.hop_s[at])
    np.fill_diagonal(alpha, 0.0)
    if map_.layers.rtt is not None and np.isfinite(alpha).all():
        return alpha, ()
    return np.nan_to_num(alpha, nan=0.0), ("latencies: where the map has none they count as 0",)


def _stream(map_: Map, at: tuple[np.ndarray, ...]) -> FloatMatrix | None:
    """(N, N) bytes a second of one connection; inf where the map does not know; None where it knows of none."""
    if map_.layers.beta is None:
        return None
    beta = np.array(map_.layers.beta.distance[at])
    np.fill_diagonal(beta, np.nan)
    known = np.isfinite(beta) & (beta > 0)
    return np.where(known, 1.0 / np.where(known, beta, 1.0), np.inf) if known.any() else None


def _bare(hosts: Sequence[str], alpha: FloatMatrix, ids: tuple[str, ...]) -> Network:
    """Latencies, and no limit of any rate."""
    size = len(hosts)
    none = np.zeros(0)
    return Network(
        hosts=tuple(hosts), alpha_s=alpha, resources=(), capacity=none, low=none, high=none,
        passed=np.full((size, size, 1), -1, dtype=np.intp), stream=np.full((size, size), np.inf), group_of=ids,
    )  # fmt: skip


def _by_goodput(
    hosts: Sequence[str], alpha: FloatMatrix, stream: FloatMatrix, ids: tuple[str, ...]
) -> Network:
    """Hosts that carry their fastest connection; uplinks of groups without a limit, at least one connection's."""
    size = len(hosts)
    finite = np.where(np.isfinite(stream), stream, 0.0)
    own = [np.where(most > 0, most, np.inf) for most in (finite.max(axis=1), finite.max(axis=0))]
    groups = sorted({g for g in ids if g and 1 < ids.count(g) < size})
    inside = np.array([[i == g for i in ids] for g in groups], dtype=bool).reshape(len(groups), size)
    least = []
    for members in inside:
        up, down = finite[np.ix_(members, ~members)], finite[np.ix_(~members, members)]
        least.append([float(rates.max(initial=0.0)) for rates in (up, down)])
    ends = np.array(least).reshape(len(groups), 2).T.ravel()
    count = len(groups)
    number = np.array([groups.index(g) if g in groups else -1 for g in ids])
    across = number[:, None] != number[None, :]
    up_of = np.where(across & (number >= 0)[:, None], 2 * size + number[:, None], -1)
    down_of = np.where(across & (number >= 0)[None, :], 2 * size + count + number[None, :], -1)
    src = np.repeat(np.arange(size)[:, None], size, axis=1)
    passed = np.stack([src, up_of, down_of, size + src.T], axis=2).astype(np.intp)
    hosts_carry = np.concatenate(own)
    return Network(
        hosts=tuple(hosts), alpha_s=alpha, stream=stream, passed=passed, group_of=ids,
        resources=(
            *(f"{kind}:{name}" for kind in ("tx", "rx") for name in hosts),
            *(f"{kind}:{g}" for kind in ("up", "down") for g in groups),
        ),
        capacity=np.concatenate([hosts_carry, np.full(2 * count, np.inf)]),
        low=np.concatenate([np.where(np.isinf(hosts_carry), 0.0, hosts_carry), ends]),
        high=np.full(2 * (size + count), np.inf),
    )  # fmt: skip
