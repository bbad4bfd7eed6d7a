"""Which address of a host its peers probe. No I/O but one look-up of names that the user gave."""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from netprobe.core.hosts import Host
from netprobe.probe.connection import AddressEntry
from netprobe.probe.options import ScanOptions

Resolve = Callable[[str], list[str]]
LOOPBACK = int(ipaddress.IPv4Address("127.0.0.1"))
MAX_LOOPBACK = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The addresses chosen, by host name, and why a host has none."""

    addresses: dict[str, str]
    failures: dict[str, str]


def choose_addresses(
    hosts: Sequence[Host],
    reports: Mapping[str, Sequence[AddressEntry]],
    options: ScanOptions,
    *,
    local: bool = False,
    resolve: Resolve | None = None,
) -> Chosen:
    """One address for each host that has a report.

    A given address wins. Else it is taken from what the agent reports: the addresses of ``subnet`` and
    ``interface`` where asked, in one family for all hosts, never loopback or link-local, and never one that
    two hosts report (docker0 has the same on every machine). The source address of the default route comes
    first. ``local`` gives each host a loopback address of its own.
    """
    addresses: dict[str, str] = {}
    failures: dict[str, str] = {}
    usable: dict[str, list[str]] = {}
    seen = Counter(
        a for entries in reports.values() for a in {e.address for e in entries} if _plain(a) is not None
    )
    for index, host in enumerate(hosts):
        if host.name not in reports:
            continue
        if host.address is not None:
            found = _given(host.address, options, resolve or resolve_name)
            if found is None:
                failures[host.name] = f"its address {host.address!r} cannot be resolved on the controller"
            elif not local and _plain(host.address) is None and ipaddress.ip_address(found).is_loopback:
                failures[host.name] = (
                    f"its address {host.address!r} is {found} on the controller, which every host has for itself: "
                    "write its own address into the hosts file, or mend /etc/hosts"
                )
            elif ipaddress.ip_address(found).is_unspecified or ipaddress.ip_address(found).is_multicast:
                failures[host.name] = f"its address {found} is no address of one host"
            elif ipaddress.ip_address(found).is_link_local:
                failures[host.name] = f"its address {found} is link-local: give one that needs no interface"
            else:
                addresses[host.name] = found
        elif local:
            addresses[host.name] = str(ipaddress.IPv4Address(LOOPBACK + index % (MAX_LOOPBACK - 2)))
        else:
            usable[host.name] = _candidates(reports[host.name], seen, options)
    family = _family(usable, options)
    for name, candidates in usable.items():
        of_family = [a for a in candidates if ipaddress.ip_address(a).version == family]
        if of_family:
            addresses[name] = of_family[0]
        else:
            failures[name] = _why_none(reports[name], seen, options, family)
    for address, names in _shared(addresses).items():
        for name in names:
            del addresses[name]
            others = ", ".join(n for n in names if n != name)
            failures[name] = f"its address {address} is that of {others} too"
    return Chosen(addresses=addresses, failures=failures)


def resolve_name(name: str) -> list[str]:
    """Addresses of a name, as the controller resolves it; empty when it cannot."""
    try:
        return [str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)]
    except OSError:
        return []


def _given(address: str, options: ScanOptions, resolve: Resolve) -> str | None:
    if _plain(address) is not None:
        return str(ipaddress.ip_address(address))
    found = [a for a in resolve(address) if _plain(a) is not None]
    found.sort(key=lambda a: ipaddress.ip_address(a).is_loopback)  # only where there is nothing else
    wanted = {"ipv4": (4,), "ipv6": (6,), None: (4, 6)}[options.family]
    for version in wanted:
        for candidate in found:
            if ipaddress.ip_address(candidate).version == version:
                return candidate
    return None


def _plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return None if getattr(parsed, "scope_id", None) else parsed


def _candidates(entries: Sequence[AddressEntry], seen: Counter[str], options: ScanOptions) -> list[str]:
    """Addresses that may be probed, best first."""
    network = None if options.subnet is None else ipaddress.ip_network(options.subnet, strict=False)
    found = []
    for entry in sorted(entries, key=lambda e: not e.preferred):
        parsed = _plain(entry.address)
        if parsed is None or parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified:
            continue
        if parsed.is_multicast or seen[entry.address] > 1:
            continue
        if network is not None and (parsed.version != network.version or parsed not in network):
            continue
        if options.interface is not None and entry.interface != options.interface:
            continue
        found.append(str(parsed))
    return found


def _family(usable: Mapping[str, Sequence[str]], options: ScanOptions) -> int:
    """One family for all: as asked, or IPv4 unless only IPv6 is there for every host."""
    if options.family is not None:
        return 4 if options.family == "ipv4" else 6
    having = {v: sum(any(_version(a) == v for a in c) for c in usable.values()) for v in (4, 6)}
    return 6 if having[6] > having[4] else 4


def _version(address: str) -> int:
    return ipaddress.ip_address(address).version


def _why_none(entries: Sequence[AddressEntry], seen: Counter[str], options: ScanOptions, family: int) -> str:
    listed = ", ".join(e.address for e in entries[:4]) or "none"
    shared = [e.address for e in entries if seen[e.address] > 1]
    asked = [f"in {options.subnet}"] if options.subnet else []
    asked += [f"on interface {options.interface}"] if options.interface else []
    text = f"no IPv{family} address to probe {' '.join(asked)}".rstrip() + f": it has {listed}"
    if shared:
        text += f" ({', '.join(shared[:3])} stands on more than one host)"
    return text + "; give it an address in the hosts file"


def _shared(addresses: Mapping[str, str]) -> dict[str, list[str]]:
    by_address: dict[str, list[str]] = {}
    for name, address in addresses.items():
        by_address.setdefault(address, []).append(name)
    return {address: names for address, names in by_address.items() if len(names) > 1}
