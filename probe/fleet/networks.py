"""Which network the hosts share, where a host has addresses in several and nothing says which is to be probed. No I/O.

A VPN or a container's bridge that has taken a host's default route would otherwise make that host unreachable to the
others or, where all hosts have it, be what is measured.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netprobe.core.text import listed
from netprobe.probe.fleet.connection import AddressEntry

_OVERLAY = re.compile(
    r"(docker|br-|virbr|lxcbr|lxdbr|podman|cni|flannel|cali|weave|cilium|kube-|veth|vmnet|vboxnet|"
    r"tun|tap|utun|wg|tailscale|zt|nebula|ppp|ipsec|gre|vxlan|geneve|nordlynx|proton)"
)
"""How Docker, Podman, libvirt, LXC, VMware, VirtualBox, the usual pod networks and VPNs name their interfaces."""
_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network that hosts have addresses in: its CIDR, or an interface's name where each has a network of its own."""

    name: str
    version: int


def is_overlay(interface: str) -> bool:
    """Whether an interface is a bridge or a tunnel by its name: what it leads to is not the machines' own network."""
    return _OVERLAY.match(interface) is not None


def network_of(entry: AddressEntry) -> Network:
    """The network of an address; where that is the address alone (/32, as in some clouds and VPNs), its interface."""
    address = ipaddress.ip_address(entry.address)
    if entry.prefix is not None and entry.prefix < address.max_prefixlen - 1:
        network = ipaddress.ip_network(f"{address}/{entry.prefix}", strict=False)
        return Network(name=str(network), version=address.version)
    return Network(name=entry.interface or entry.address, version=address.version)


def by_shared_network(
    usable: Mapping[str, Sequence[AddressEntry]], given: Sequence[str] = ()
) -> dict[str, list[AddressEntry]]:
    """Each host's addresses that may be probed, best first.

    First those of no bridge or tunnel; of these, the network that all hosts have, the one with most default routes
    where there are several; then those in a network with any other host; then the default route's. ``given`` are
    addresses of hosts whose address was given: they are in networks too.
    """
    having: Counter[Network] = Counter()
    routes: Counter[Network] = Counter()
    for entries in usable.values():
        having.update({network_of(entry) for entry in entries})
        routes.update({network_of(entry) for entry in entries if entry.preferred})
    for text in given:
        having.update([network for network in having if _holds(network, text)])
    everybody = sum(map(bool, usable.values())) + len(given)
    overlay = {network_of(e) for entries in usable.values() for e in entries if is_overlay(e.interface)}
    of_all = [network for network, count in having.items() if count == everybody and everybody > 1]
    common: dict[int, Network] = {}
    for network in sorted(of_all, key=lambda n: (n in overlay, -routes[n])):
        common.setdefault(network.version, network)

    def worse(entry: AddressEntry) -> tuple[bool, bool, bool, bool]:
        network = network_of(entry)
        return (
            is_overlay(entry.interface),
            common.get(network.version) not in (None, network),
            having[network] < 2,
            not entry.preferred,
        )

    return {name: sorted(entries, key=worse) for name, entries in usable.items()}


def network_notes(usable: Mapping[str, Sequence[AddressEntry]], addresses: Mapping[str, str]) -> list[str]:
    """What a user should know of the networks that were chosen: bridges and tunnels, and hosts whose default route
    leads elsewhere; each with what else there is."""
    tunnels: dict[tuple[str, str], list[str]] = {}
    others: dict[tuple[str, str, str], list[str]] = {}
    spared: dict[tuple[str, str], list[str]] = {}
    for name, entries in usable.items():
        chosen = next((entry for entry in entries if entry.address == addresses.get(name)), None)
        if chosen is None:
            continue
        network = network_of(chosen).name
        if is_overlay(chosen.interface):
            tunnels.setdefault((chosen.interface, network), []).append(name)
            for entry in entries:
                if not is_overlay(entry.interface):
                    spared.setdefault((entry.interface, network_of(entry).name), []).append(name)
        elif not chosen.preferred:
            routed = [
                e for e in entries if e.preferred and network_of(e).version == network_of(chosen).version
            ]
            if routed:
                key = (network, routed[0].interface, network_of(routed[0]).name)
                others.setdefault(key, []).append(name)
    notes = []
    for (interface, network), names in tunnels.items():
        notes.append(
            f"{listed(names, _NAMED)}: probed through {_on(interface, network)}, by its name a bridge or a tunnel: "
            "what is measured is that, and not the machines' own network; --interface or --subnet chooses another one"
            + _there_are(spared)
        )
    for (network, interface, left), names in others.items():
        kind = ", by its name a bridge or a tunnel" if is_overlay(interface) else ""
        notes.append(
            f"{listed(names, _NAMED)}: probed in {network}, which other hosts have too, and not through "
            f"{_on(interface, left)}{kind}, where the default route leads; --interface or --subnet chooses another one"
        )
    return notes


def _on(interface: str, network: str) -> str:
    return interface if interface in ("", network) else f"{interface} ({network})"


def _there_are(networks: Mapping[tuple[str, str], Sequence[str]]) -> str:
    if not networks:
        return " (there is no other network)"
    return (
        " (there are " + listed([f"{_on(*n)} on {len(h)} hosts" for n, h in networks.items()], _NAMED) + ")"
    )


def _holds(network: Network, text: str) -> bool:
    try:
        return ipaddress.ip_address(text) in ipaddress.ip_network(network.name)
    except ValueError:
        return False
