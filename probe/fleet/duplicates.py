"""Hosts that are one machine under two names: measured, they would look like the nearest pair of the fleet."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from netprobe.core.hosts import Host
from netprobe.probe.fleet.connection import Hello


def find_duplicates(hosts: Sequence[Host], hellos: Sequence[Hello | None]) -> dict[int, int]:
    """Index of each host that is an earlier one again -> index of that one.

    One machine is: the same boot, the same network namespace, and an address in common. A host whose address
    was given as a loopback one is left alone: who writes that wants several agents on one machine.
    """
    firsts: dict[tuple[str, str], list[int]] = {}
    found: dict[int, int] = {}
    for index, (host, hello) in enumerate(zip(hosts, hellos, strict=True)):
        if hello is None or not hello.boot_id or not hello.netns or _is_loopback(host.address):
            continue
        earlier = firsts.setdefault((hello.boot_id, hello.netns), [])
        own = {entry.address for entry in hello.addresses}
        for first in earlier:
            other = hellos[first]
            if other is not None and own & {entry.address for entry in other.addresses}:
                found[index] = first
                break
        else:
            earlier.append(index)
    return found


def _is_loopback(address: str | None) -> bool:
    try:
        return address is not None and ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
