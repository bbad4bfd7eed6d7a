"""From a spec and a seed to named, addressed hosts: pure, and the same every time.

Neither a host's name, nor its address, nor its place in the list says anything about its rack: names and
addresses are random, and the list is shuffled before they are.
"""

from __future__ import annotations

import ipaddress
import random
from dataclasses import dataclass

from netprobe.lab.spec.spec import LabSpec

# One private range (RFC 1918), used only inside the lab's own namespaces, so labs cannot collide.
NETWORK = ipaddress.ip_network("10.77.0.0/16")
CONTROLLER_ADDRESS = "10.77.0.1"
CONTROLLER_NAME = "controller"
# Where every host sends everything: the switch. No host answers to it.
ROUTER_ADDRESS = "10.77.0.254"
FABRIC_NAME = "fabric"

# No 0/o, 1/l/i, and no vowels: ids that can be read aloud and spell nothing.
_LETTERS = "bcdfghjkmnpqrstvwxz"
_CHARACTERS = _LETTERS + "23456789"


def hardware_address(address: str) -> str:
    """The MAC address that goes with an IPv4 address of a lab: locally administered. the switch knows it too."""
    return "02:4e:" + ":".join(f"{int(part):02x}" for part in address.split("."))


ROUTER_HARDWARE_ADDRESS = hardware_address(ROUTER_ADDRESS)


@dataclass(frozen=True, kw_only=True)
class LabHost:
    """One host of a lab.

    ``name`` is its own host name (shown, and printed by mpirun); ``target`` the name of its namespace and
    its ssh alias; ``address`` its IPv4 address; ``rack`` the number of its rack, from 0, which is ground
    truth. The controller has rack None and no slots.
    """

    name: str
    target: str
    address: str
    rack: int | None
    slots: int

    @property
    def hardware_address(self) -> str:
        """Its MAC address, made from the IPv4 address."""
        return hardware_address(self.address)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The hosts of a lab in the order of its hosts file, and its controller, which has no rank."""

    hosts: tuple[LabHost, ...]
    controller: LabHost
    fabric_target: str

    @property
    def everyone(self) -> tuple[LabHost, ...]:
        """All hosts and, last, the controller: the ports of the switch in order."""
        return (*self.hosts, self.controller)

    def at(self, rack: int, place: int) -> LabHost:
        """The host at a place in a rack, both from 0; ValueError when there is none."""
        within = [host for host in self.hosts if host.rack == rack]
        if place >= len(within):
            raise ValueError(f"there is no host {place} in rack{rack}")
        return within[place]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The names of all network namespaces of the lab."""
        return (self.fabric_target, *(host.target for host in self.everyone))


def lay_out(spec: LabSpec, *, seed: int = 0, name: str | None = None) -> Layout:
    """Expand a spec. The same spec and seed give the same names, addresses and order.

    ``name`` (default: the spec's) goes into targets only. With ``shuffle: false`` hosts are called
    r0h0, r0h1, ... in rack order with rising addresses.
    """
    lab = name or spec.name
    # Seeded with text: seeding with a number would tie this sequence to others of the same seed.
    rng = random.Random(f"netprobe lab {seed}")
    racks = [rack for rack, rack_spec in enumerate(spec.racks) for _ in range(rack_spec.hosts)]
    hosts = []
    if spec.shuffle:
        rng.shuffle(racks)
        names = _random_names(rng, len(racks))
        # Never x.x.0.y, where the controller is, and never a .0 or .255 that looks like no host.
        numbers = rng.sample(range(254 * 254), len(racks))
        addresses = [f"10.77.{1 + number // 254}.{1 + number % 254}" for number in numbers]
    else:
        within = [racks[:index].count(rack) for index, rack in enumerate(racks)]
        names = [f"r{rack}h{index}" for rack, index in zip(racks, within, strict=True)]
        addresses = [f"10.77.{1 + rack}.{1 + index}" for rack, index in zip(racks, within, strict=True)]
    for rack, host_name, address in zip(racks, names, addresses, strict=True):
        target = f"{lab}.{host_name}"
        hosts.append(LabHost(name=host_name, target=target, address=address, rack=rack, slots=spec.slots))
    controller = LabHost(
        name=f"{lab}-{CONTROLLER_NAME}",
        target=f"{lab}.{CONTROLLER_NAME}",
        address=CONTROLLER_ADDRESS,
        rack=None,
        slots=0,
    )
    return Layout(hosts=tuple(hosts), controller=controller, fabric_target=f"{lab}.{FABRIC_NAME}")


def _random_names(rng: random.Random, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        # A letter first: "h-2345" is fine as a host name, but not something that reads as a number.
        names[f"h-{rng.choice(_LETTERS)}" + "".join(rng.choices(_CHARACTERS, k=3))] = None
    return list(names)
