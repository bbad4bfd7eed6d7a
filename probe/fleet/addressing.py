"""Which address of a host its peers probe. No I/O but one look-up of names that the user gave."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.system.name_lookup import resolve_name
from netprobe.core.text import listed
from netprobe.probe.fleet.connection import AddressEntry
from netprobe.probe.fleet.networks import by_shared_network, network_notes
from netprobe.probe.records.options import ScanOptions

Resolve = Callable[[str], list[str]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
FAULTS_SHOWN = 4
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_VERSIONS = {"ipv4": 4, "ipv6": 6}
LOOPBACK = int(ipaddress.IPv4Address("127.0.0.1"))
MAX_LOOPBACK = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The addresses chosen, by host name, why a host has none, and what to know of their networks."""

    addresses: dict[str, str]
    failures: dict[str, str]
    notes: list[str] = field(default_factory=list)


def check_given(hosts: Sequence[Host], options: ScanOptions) -> None:
    """Refuse, before anything starts, addresses of the hosts file that cannot be probed as requested.

    Names are resolved later, and cost their hosts only. Raises InputError that lists every fault.
    """
    faults = []
    by_family: dict[int, str] = {}
    for host in hosts:
        parsed = None if host.address is None else _plain(host.address)
        if parsed is None:
            continue
        fault = _no_host(parsed) or _not_requested(parsed, options)
        if fault is not None:
            faults.append(f"{host.name}: {fault}")
        by_family.setdefault(parsed.version, f"{host.name} has {parsed}")
    if len(by_family) > 1 and options.family is None:
        faults.append(f"one family is probed on all hosts, and {by_family[4]}, {by_family[6]}")
    if faults:
        more = f"; and {len(faults) - FAULTS_SHOWN} more" if len(faults) > FAULTS_SHOWN else ""
        raise InputError("addresses of the hosts: " + "; ".join(faults[:FAULTS_SHOWN]) + more)


def choose_addresses(
    hosts: Sequence[Host],
    reports: Mapping[str, Sequence[AddressEntry]],
    options: ScanOptions,
    *,
    local: bool = False,
    resolve: Resolve | None = None,
) -> Chosen:
    """One address for each host that has a report.

    A given address wins, if it is one that ``family``, ``subnet`` and ``interface`` allow. Else it is taken from
    what the agent reports: those that they allow, never loopback or link-local, and never one that two hosts
    report (docker0 has the same on every machine); a network that the hosts share comes first (``networks``), then the
    source address of the default route. All hosts are probed in one family. ``local`` gives each host a loopback
    address of its own.
    """
    addresses: dict[str, str] = {}
    failures: dict[str, str] = {}
    usable: dict[str, list[str]] = {}
    reported: dict[str, list[AddressEntry]] = {}
    given: set[str] = set()
    seen = Counter(
        a for entries in reports.values() for a in {e.address for e in entries} if _plain(a) is not None
    )
    for index, host in enumerate(hosts):
        if host.name not in reports:
            continue
        if host.address is None and not local:
            reported[host.name] = _candidates(reports[host.name], seen, options)
            continue
        text = host.address or str(ipaddress.IPv4Address(LOOPBACK + index % (MAX_LOOPBACK - 2)))
        found, why_not = _given(text, reports[host.name], options, resolve or resolve_name, local=local)
        given.add(host.name)
        if found:
            usable[host.name] = found
        else:
            failures[host.name] = why_not
    if options.subnet is None and options.interface is None:
        reported = by_shared_network(reported, [found[0] for found in usable.values()])
    usable |= {name: [entry.address for entry in entries] for name, entries in reported.items()}
    family = _family(usable, options)
    for name, candidates in usable.items():
        of_family = [a for a in candidates if _version(a) == family]
        if of_family:
            addresses[name] = of_family[0]
        elif name in given:
            failures[name] = (
                f"its address {candidates[0]} is not an IPv{family} address, and IPv{family} is probed on all hosts"
            )
        else:
            failures[name] = _why_none(reports[name], seen, options, family)
    for address, names in _shared(addresses).items():
        for name in names:
            del addresses[name]
            others = listed([n for n in names if n != name])
            failures[name] = f"its address {address} is that of {others} too"
    requested = options.subnet is not None or options.interface is not None
    return Chosen(
        addresses=addresses, failures=failures, notes=[] if requested else network_notes(reported, addresses)
    )


def _given(
    text: str, entries: Sequence[AddressEntry], options: ScanOptions, resolve: Resolve, *, local: bool
) -> tuple[list[str], str]:
    """The usable addresses of an address or a name, IPv4 first; without any, the reason."""
    literal = _plain(text)
    found = [literal] if literal is not None else [a for a in map(_plain, resolve(text)) if a is not None]
    usable: list[str] = []
    faults: list[str] = []
    for parsed in sorted(found, key=lambda a: a.version):
        fault = _no_host(parsed) or _not_requested(parsed, options) or _not_on(parsed, entries, options)
        if fault is None and parsed.is_loopback and literal is None and not local:
            fault = (
                f"its address {text!r} is {parsed} on the controller, which every host has for itself: "
                "write its own address into the hosts file, or fix /etc/hosts"
            )
        if fault is None:
            usable.append(str(parsed))
        else:
            faults.append(fault)
    return usable, faults[0] if faults else f"its address {text!r} cannot be resolved on the controller"


def _no_host(parsed: Address) -> str | None:
    """Why packets to an address reach no one host; None where they may."""
    if parsed.is_unspecified or parsed.is_multicast or parsed == _BROADCAST:
        return f"its address {parsed} is not the address of one host"
    if parsed.is_link_local:
        return f"its address {parsed} is link-local: give one that needs no interface"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return f"its address {parsed} is an IPv4 address: write it as {parsed.ipv4_mapped}"
    return None


def _not_requested(parsed: Address, options: ScanOptions) -> str | None:
    """Which option forbids an address; None where none does."""
    if options.family is not None and parsed.version != _VERSIONS[options.family]:
        version = _VERSIONS[options.family]
        return f"its address {parsed} is not an IPv{version} address, which --{options.family} asks for"
    if options.subnet is not None:
        network = ipaddress.ip_network(options.subnet, strict=False)
        if parsed.version != network.version or parsed not in network:
            return f"its address {parsed} is not in {options.subnet}, which --subnet asks for"
    return None


def _not_on(parsed: Address, entries: Sequence[AddressEntry], options: ScanOptions) -> str | None:
    """Whether an address is known not to be on the requested interface."""
    if options.interface is None:
        return None
    there = [entry.address for entry in entries if entry.interface == options.interface]
    if str(parsed) in there:
        return None
    has = ", ".join(there[:4]) or "no address"
    return f"its address {parsed} is not on interface {options.interface}, which has {has}"


def _plain(address: str) -> Address | None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return None if getattr(parsed, "scope_id", None) else parsed


def _candidates(
    entries: Sequence[AddressEntry], seen: Counter[str], options: ScanOptions
) -> list[AddressEntry]:
    """Addresses that may be probed, best first."""
    network = None if options.subnet is None else ipaddress.ip_network(options.subnet, strict=False)
    found = []
    for entry in sorted(entries, key=lambda e: not e.preferred):
        parsed = _plain(entry.address)
        if parsed is None or parsed.is_loopback or _no_host(parsed) is not None or seen[entry.address] > 1:
            continue
        if network is not None and (parsed.version != network.version or parsed not in network):
            continue
        if options.interface is not None and entry.interface != options.interface:
            continue
        found.append(replace(entry, address=str(parsed)))
    return found


def _family(usable: Mapping[str, Sequence[str]], options: ScanOptions) -> int:
    """One family for all: as requested, or IPv4 unless only IPv6 is there for every host."""
    if options.family is not None:
        return _VERSIONS[options.family]
    having = {v: sum(any(_version(a) == v for a in c) for c in usable.values()) for v in (4, 6)}
    return 6 if having[6] > having[4] else 4


def _version(address: str) -> int:
    return ipaddress.ip_address(address).version


def _why_none(entries: Sequence[AddressEntry], seen: Counter[str], options: ScanOptions, family: int) -> str:
    listed = ", ".join(e.address for e in entries[:4]) or "none"
    shared = [e.address for e in entries if seen[e.address] > 1]
    requested = [f"in {options.subnet}"] if options.subnet else []
    requested += [f"on interface {options.interface}"] if options.interface else []
    text = f"no IPv{family} address to probe {' '.join(requested)}".rstrip() + f": it has {listed}"
    if shared:
        text += f" ({', '.join(shared[:3])} is on more than one host)"
    return text + "; give it an address in the hosts file"


def _shared(addresses: Mapping[str, str]) -> dict[str, list[str]]:
    by_address: dict[str, list[str]] = {}
    for name, address in addresses.items():
        by_address.setdefault(address, []).append(name)
    return {address: names for address, names in by_address.items() if len(names) > 1}
