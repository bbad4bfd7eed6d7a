"""Which address of this machine agents dial back to."""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.system.name_lookup import resolve_name
from netprobe.probe.agent.addresses import list_addresses

SAMPLED_HOSTS = 8
DISCARD_PORT = 9


@dataclass(frozen=True)
class ListenAt:
    """An address and a port to bind to; port 0 is any."""

    address: str
    port: int = 0


def parse_listen(text: str) -> ListenAt:
    """``ADDR`` or ``ADDR:PORT``, an IPv6 address with a port in brackets. Raises InputError."""
    address, port = text, "0"
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            address = ""
        port = rest[1:] if rest else "0"
    elif text.count(":") == 1:
        address, _, port = text.partition(":")
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise InputError(
            f"--listen {text!r} is not an IP address of this machine, such as 10.0.0.5, 10.0.0.5:7000 or "
            "[fd00::5]:7000"
        ) from None
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise InputError(f"--listen {text!r}: the port is not a number from 0 to 65535")
    return ListenAt(str(parsed), int(port))


def routed_address(
    hosts: Sequence[Host],
    *,
    resolve: Callable[[str], list[str]] = resolve_name,
    source_towards: Callable[[str], str | None] | None = None,
    own: Callable[[], list[str]] | None = None,
) -> str:
    """The address of this machine from which most of the first hosts are reached. Raises InputError.

    A host with neither address nor a name that resolves says nothing, and neither does this machine itself;
    where no host says anything it is the source of the default route, or the only address there is.
    """
    towards = source_towards or _source_towards
    votes: Counter[str] = Counter()
    for host in hosts[:SAMPLED_HOSTS]:
        found = (
            [host.address] if host.address and _is_ip(host.address) else resolve(host.address or host.name)
        )
        source = next((s for s in map(towards, found) if s is not None), None)
        if source is not None and not ipaddress.ip_address(source).is_loopback:
            votes[source] += 1
    if votes:
        return votes.most_common(1)[0][0]
    for address in (own or _own_addresses)():
        return address
    raise InputError(
        "which address of this machine do the hosts reach? None of their names resolves here, and there is "
        "no default route: give --listen ADDRESS"
    )


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _source_towards(address: str) -> str | None:
    """The source address for packets to ``address``; connecting a UDP socket sends none."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((address, DISCARD_PORT))
            return str(sock.getsockname()[0])
    except OSError:
        return None


def _own_addresses() -> list[str]:
    """This machine's own, the default route's source first; several without a default route are a riddle."""
    entries = list_addresses()
    preferred = [str(entry["address"]) for entry in entries if entry["preferred"]]
    found = [str(entry["address"]) for entry in entries]
    return preferred or (found if len(found) == 1 else [])
