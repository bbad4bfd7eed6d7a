"""Kernel time stamps on UDP sockets: SO_TIMESTAMPING, software stamps only.

Receive stamps come as ancillary data of the packet; transmit stamps come on the socket's error queue, each
with the number of the send it belongs to (OPT_ID) and without the packet (OPT_TSONLY). All are
CLOCK_REALTIME, in ns since the epoch. See Documentation/networking/timestamping.rst of the kernel.
"""

from __future__ import annotations

import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SO_TIMESTAMPING = 37
_TX_SOFTWARE, _RX_SOFTWARE, _SOFTWARE, _OPT_ID, _OPT_TSONLY = 1 << 1, 1 << 3, 1 << 4, 1 << 7, 1 << 11
_FLAGS = {
    "kernel": _TX_SOFTWARE | _RX_SOFTWARE | _SOFTWARE | _OPT_ID | _OPT_TSONLY,
    "kernel_rx": _RX_SOFTWARE | _SOFTWARE,
    "user": 0,
}
IP_PKTINFO, IP_RECVERR, IP_RECVTTL = 8, 11, 12
IPV6_RECVERR, IPV6_RECVPKTINFO, IPV6_PKTINFO, IPV6_RECVHOPLIMIT, IPV6_HOPLIMIT = 25, 49, 50, 51, 52
_ERRQUEUE_NOW = 0x2000 | int(socket.MSG_DONTWAIT)  # MSG_ERRQUEUE
_SOL_SOCKET = int(socket.SOL_SOCKET)
_IPV6, _IP_TTL = int(socket.IPPROTO_IPV6), int(socket.IP_TTL)
_ORIGIN_TIMESTAMPING = 4
_TIMESPEC = struct.Struct("@ll")
_EXTENDED_ERR = struct.Struct("@4xB7xI")
"""Of struct sock_extended_err: the origin, and ee_data, here the number of the send."""
_INT = struct.Struct("@i")


def udp_socket(address: str) -> socket.socket:
    """A UDP socket of the family of ``address`` (a literal)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 255)
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 255)  # RFC 8762 section 4.2: TTL 255
    return sock


def enable(sock: socket.socket, best: str) -> str:
    """Turn on the best stamps not above ``best`` that the kernel grants; returns their level."""
    for level in ("kernel", "kernel_rx"):
        if level == "kernel" and best != "kernel" or best == "user":
            continue
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 0)  # OPT_ID counts from 0 again
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, _FLAGS[level])
            return level
        except OSError:
            continue
    return "user"


def kernel_stamp(ancillary: list[Any]) -> int:
    """The kernel's receive stamp in ns, 0 when the packet has none."""
    return stamp_and_hop_limit(ancillary)[0]


def hop_limit(ancillary: list[Any]) -> int:
    """TTL or hop limit of a received packet, 0 when unknown."""
    return stamp_and_hop_limit(ancillary)[1]


def stamp_and_hop_limit(ancillary: list[Any]) -> tuple[int, int]:
    """``kernel_stamp`` and ``hop_limit`` of one packet."""
    stamp = limit = 0
    for level, kind, data in ancillary:
        if kind == SO_TIMESTAMPING:
            if level == _SOL_SOCKET and len(data) >= _TIMESPEC.size and not stamp:
                seconds, ns = _TIMESPEC.unpack_from(data)
                stamp = seconds * 1000000000 + ns
        elif (level == 0 and kind == _IP_TTL) or (level == _IPV6 and kind == IPV6_HOPLIMIT):
            limit = _INT.unpack_from(data)[0] & 0xFF
    return stamp, limit


def read_transmit_stamp(sock: socket.socket) -> tuple[int, int] | None:
    """One (number of the send, stamp in ns) off the error queue; None when it is empty.

    Anything else on the queue (an ICMP error, say) is skipped.
    """
    for _ in range(64):
        try:
            ancillary = sock.recvmsg(0, 256, _ERRQUEUE_NOW)[1]
        except OSError:
            return None
        stamp, number = 0, -1
        for level, kind, data in ancillary:
            if kind == SO_TIMESTAMPING:
                if level == _SOL_SOCKET and len(data) >= _TIMESPEC.size:
                    seconds, ns = _TIMESPEC.unpack_from(data)
                    stamp = seconds * 1000000000 + ns
            elif (level == 0 and kind == IP_RECVERR) or (level == _IPV6 and kind == IPV6_RECVERR):
                origin, of_send = _EXTENDED_ERR.unpack_from(data)
                if origin == _ORIGIN_TIMESTAMPING:
                    number = of_send
        if stamp and number >= 0:
            return number, stamp
    return None
