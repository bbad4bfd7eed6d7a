"""Which host of a plan a rank runs on, by the names and addresses that it reports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from netprobe.core.hosts import Host, is_ip_address


@dataclass(frozen=True, kw_only=True)
class Displaced:
    """A rank that runs elsewhere. ``actual`` is a host of the plan, or what a host that is not in it calls itself."""

    rank: int
    planned: str
    actual: str
    in_plan: bool


@dataclass(frozen=True, kw_only=True)
class Ambiguous:
    """A rank whose names match several hosts of the plan: ``said`` is what it calls its host."""

    rank: int
    planned: str
    said: str
    hosts: tuple[str, ...]


class Place(NamedTuple):
    """A host of the plan and its name; None and what a host calls itself, with the hosts that this may be."""

    at: int | None
    name: str
    candidates: tuple[int, ...] = ()


class HostFinder:
    """Names and addresses of hosts to the hosts.

    A name is looked for among launcher names, then names, then targets, then up to its first dot where that is one
    host's alone; an address among addresses. Case does not matter.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        kinds: list[dict[str, set[int]]] = [{}, {}, {}, {}]
        self._addresses: dict[str, set[int]] = {}
        for at, host in enumerate(hosts):
            names = (host.launcher_name, host.name, target_host(host.target))
            for kind, name in zip(kinds, names):
                kind.setdefault(name.lower(), set()).add(at)
            for name in names:
                if not is_ip_address(name):
                    kinds[3].setdefault(_short(name), set()).add(at)
            for address in (host.address, *names):
                if address is not None and is_ip_address(address):
                    self._addresses.setdefault(_normal(address), set()).add(at)
        self._kinds = kinds

    def find(self, names: Iterable[str], addresses: Iterable[str]) -> tuple[set[int], set[int]]:
        """Hosts that the names, and those that the addresses, match; each is empty, one, or more than one."""
        given = list(names)
        by_address = [address for address in (*addresses, *given) if is_ip_address(address)]
        words = [name.lower() for name in given if not is_ip_address(name)]
        found: set[int] = set()
        for kind in self._kinds[:3]:
            found = found or set().union(*(kind.get(word, set()) for word in words))
        if not found:
            short = [self._kinds[3].get(_short(word), set()) for word in words]
            found = set().union(*(hosts for hosts in short if len(hosts) == 1)) or set().union(*short)
        return found, set().union(*(self._addresses.get(_normal(word), set()) for word in by_address))


def host_of(
    names: Sequence[str],
    addresses: Sequence[str],
    finder: HostFinder,
    hosts: Sequence[Host],
    other_names: dict[str, str],
) -> Place:
    """The host that a rank with these names and addresses runs on.

    An address that is one host's alone goes before names: a cloned machine may still have another's name, and
    the address is what was probed; ``other_names`` then gets what such a host calls itself.
    """
    by_name, by_address = finder.find(names, addresses)
    shown = " or ".join([*names[:3], *addresses[: 0 if names else 3]]) or "a host without a name"
    both = by_name & by_address
    for found in (both, by_address, by_name):
        if len(found) == 1:
            (at,) = found
            if by_name and at not in by_name:
                other_names[hosts[at].name] = shown
            return Place(at, hosts[at].name)
    return Place(None, shown, tuple(sorted(both or by_address or by_name)))


def target_host(target: str) -> str:
    """The host in what a launcher is given: without user, scheme and port."""
    if target.startswith("ssh://"):
        try:
            return urlsplit(target).hostname or target
        except ValueError:
            return target
    return target.rpartition("@")[2]


def _short(name: str) -> str:
    return name.partition(".")[0].lower()


def _normal(address: str) -> str:
    return str(ipaddress.ip_address(address))
