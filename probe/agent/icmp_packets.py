"""ICMP echoes built and parsed by scapy, which travels with the agent when ICMP is asked for.

The only module that imports scapy. Its own sending, receiving and reading of the clock are not used.
"""

from __future__ import annotations

import os
import sys

_TABLES = ("scapy.libs.manuf", "scapy.libs.bluetoothids")
"""Names of vendors, a megabyte of them: they stay at home."""


def load() -> None:
    """Import scapy. It would make folders for its cache in the user's home: it is told of none that can be."""
    if "scapy.layers.inet" in sys.modules:
        return
    import logging
    import types

    logging.getLogger("scapy").setLevel(logging.CRITICAL)  # it warns of interfaces that nobody asked for
    for name in _TABLES:
        table = types.ModuleType(name)
        table.DATA = ""  # type: ignore[attr-defined]
        sys.modules.setdefault(name, table)
    folders = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    before = {name: os.environ.get(name) for name in folders}
    try:
        for name in folders:
            os.environ[name] = "/dev/null/none"
        import scapy.layers.inet6  # noqa: F401 (and with it scapy.layers.inet)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def build_echo(ident: int, seq: int, payload: bytes, ipv6: bool) -> bytes:
    """An echo request. The checksum of ICMPv6 is left to the kernel, which knows the addresses."""
    if ipv6:
        from scapy.layers.inet6 import ICMPv6EchoRequest

        return bytes(ICMPv6EchoRequest(id=ident, seq=seq, data=payload, cksum=0))
    from scapy.layers.inet import ICMP
    from scapy.packet import Raw

    return bytes(ICMP(type=8, code=0, id=ident, seq=seq) / Raw(payload))


def parse_echo(data: bytes, ipv6: bool) -> tuple[int, int, bytes] | None:
    """(identifier, sequence number, payload) of an echo reply as a raw socket has it; None for anything else.

    With IPv4 the IP header stands before it, with IPv6 it does not.
    """
    try:
        return _parse_echo(data, ipv6)
    except Exception:  # whatever scapy makes of somebody's bytes, it is no reply of ours
        return None


def _parse_echo(data: bytes, ipv6: bool) -> tuple[int, int, bytes] | None:
    if ipv6:
        from scapy.layers.inet6 import ICMPv6EchoReply

        echo = ICMPv6EchoReply(data)
        if echo.type != 129 or echo.code != 0:
            return None
        return int(echo.id), int(echo.seq), bytes(echo.data)
    from scapy.layers.inet import ICMP, IP

    reply = IP(data).getlayer(ICMP)
    if reply is None or reply.type != 0 or reply.code != 0:
        return None
    return int(reply.id), int(reply.seq), bytes(reply.payload)
