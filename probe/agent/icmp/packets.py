"""ICMP echoes built and parsed by scapy, which is sent with the agent when ICMP is requested.

The only module that imports scapy. Its own sending, receiving and reading of the clock are not used.
"""

from __future__ import annotations

import os
import sys

_TABLES = ("scapy.libs.manuf", "scapy.libs.bluetoothids")
"""Names of vendors, a megabyte of them: they stay at home."""


def load() -> None:
    """Import scapy. It would make folders for its cache in the user's home: it is given none that can be."""
    if "scapy.layers.inet" in sys.modules:
        return
    import logging
    import types

    logging.getLogger("scapy").setLevel(logging.CRITICAL)  # it warns of interfaces that are not used
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

    With IPv4 the IP header comes before it, with IPv6 it does not.
    """
    try:
        return _parse_echo(data, ipv6)
    except Exception:  # scapy raises many kinds on foreign bytes: they are not a reply to us
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


def build_udp(source: str, address: str, ports: tuple[int, int], ttl: int, ident: int, data: bytes) -> bytes:
    """An IPv4 packet of UDP that must not be cut (DF)."""
    from scapy.layers.inet import IP, UDP
    from scapy.packet import Raw

    ip = IP(src=source, dst=address, ttl=ttl, id=ident, flags="DF")
    return bytes(ip / UDP(sport=ports[0], dport=ports[1]) / Raw(data))


def parse_error(data: bytes) -> tuple[str, int, int, int, int, tuple[int, int]] | None:
    """An ICMP error about a UDP packet, from a raw IPv4 socket; None for anything else.

    (who says so, type, code, MTU of the next link, and of the packet it is about the identification and the ports).
    """
    try:
        return _parse_error(data)
    except Exception:  # as above
        return None


def _parse_error(data: bytes) -> tuple[str, int, int, int, int, tuple[int, int]] | None:
    from scapy.layers.inet import ICMP, IP, IPerror, UDPerror

    packet = IP(data)
    error, about, udp = packet.getlayer(ICMP), packet.getlayer(IPerror), packet.getlayer(UDPerror)
    if error is None or about is None or udp is None or error.type not in (3, 11):
        return None
    mtu = int(error.nexthopmtu) if (error.type, error.code) == (3, 4) else 0
    return (
        str(packet.src),
        int(error.type),
        int(error.code),
        mtu,
        int(about.id),
        (int(udp.sport), int(udp.dport)),
    )
