"""Probes with a chosen time to live and size, and what comes of each: over an ordinary UDP socket, no privilege.

Routers answer a probe that ends with them by ICMP, which the kernel hands to the socket through its error
queue (IP_RECVERR, see ip(7)). All probes have the same addresses and ports, so they take one of several
equal ways, the one of a flow. IP_PMTUDISC_PROBE sets DF and leaves the kernel's own idea of the path's MTU
out of it.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import select
import socket
import struct
import time

from .. import kernel_stamps
from ..listening import bind_source
from ..stamp import packet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REPLY, EXPIRED, TOO_BIG, UNREACHABLE, SILENCE = "reply", "expired", "too big", "unreachable", "silence"
_ERRQUEUE_NOW = 0x2000 | int(socket.MSG_DONTWAIT)  # MSG_ERRQUEUE
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE, _IPV6_DONTFRAG = 10, 23, 3, 62
_EXTENDED_ERR = struct.Struct("@IBBBBII")
_LOCAL, _ICMP, _ICMP6 = 1, 2, 3
_EXPIRED = ((_ICMP, 11), (_ICMP6, 3))
_UNREACHABLE = ((_ICMP, 3), (_ICMP6, 1))
_SENDS = 4


class Outcome:
    """What became of a probe: ``kind``, who said so, and the MTU of the next link where it was too big for it."""

    __slots__ = ("address", "kind", "mtu")

    def __init__(self, kind: str, address: str | None = None, mtu: int = 0) -> None:
        self.kind = kind
        self.address = address
        self.mtu = mtu


class PathSocket:
    """Probes of one link, one at a time."""

    def __init__(self, address: str, port: int, source: str, token: bytes, ssid: int) -> None:
        self.peer = address
        self.token = token
        self.ssid = ssid
        self.seq = 0
        self.ttl = 0
        self.ipv6 = ":" in address
        self.header_bytes = 48 if self.ipv6 else 28
        self.sock = kernel_stamps.udp_socket(address)
        try:
            bind_source(self.sock, source)
            if self.ipv6:
                level = int(socket.IPPROTO_IPV6)
                self.sock.setsockopt(level, kernel_stamps.IPV6_RECVERR, 1)
                self.sock.setsockopt(level, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
                self.sock.setsockopt(level, _IPV6_DONTFRAG, 1)
            else:
                self.sock.setsockopt(socket.IPPROTO_IP, kernel_stamps.IP_RECVERR, 1)
                self.sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
            self.sock.connect((address, port))
            self.source_port = int(self.sock.getsockname()[1])
            self.sock.setblocking(False)
        except OSError:
            self.sock.close()
            raise

    def close(self) -> None:
        """Close it."""
        self.sock.close()

    def probe(self, ttl: int, size: int, patience_ns: int) -> Outcome:
        """Send a probe of ``size`` bytes with its IP header (0: the usual one), and wait for what comes of it."""
        if self.ipv6:
            self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, ttl)
        else:
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        self.seq += 1
        self.ttl = ttl
        if size:
            length = size - self.header_bytes
            data = packet.build_large_probe(self.seq, self.ssid, time.time_ns(), self.token, length)
        else:
            data = packet.build_probe(self.seq, self.ssid, time.time_ns(), self.token)
        code = self._send(data)
        if code == errno.EMSGSIZE:
            return self._too_big_here()
        if code:
            return Outcome(SILENCE)
        return self._wait(time.monotonic_ns() + patience_ns)

    def _send(self, data: bytes) -> int:
        """Send; the error number, 0 when it went. The error of an earlier probe comes first, and is not a failure."""
        code = 0
        for _ in range(_SENDS):
            try:
                self.sock.send(data)
                return 0
            except OSError as error:
                code = error.errno or errno.EIO
                if code in (errno.EMSGSIZE, errno.ENOBUFS, errno.EAGAIN):
                    return code
        return code

    def _wait(self, deadline: int) -> Outcome:
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)  # and POLLERR, which needs no asking
        while True:
            left = deadline - time.monotonic_ns()
            if left <= 0 or not poll.poll(max(1.0, left / 1e6)):
                return Outcome(SILENCE)
            outcome = self._take_error() or self._take_reply()
            if outcome is not None:
                return outcome

    def _take_reply(self) -> Outcome | None:
        try:
            data = self.sock.recv(2048)
        except OSError:
            return None  # nothing there, or the error whose story the error queue has
        reply = packet.parse_reply(data, self.ssid, self.token)
        return Outcome(REPLY, self.peer) if reply is not None and reply.seq == self.seq else None

    def _take_error(self) -> Outcome | None:
        try:
            data, ancillary, _flags, _peer = self.sock.recvmsg(2048, 512, _ERRQUEUE_NOW)
        except OSError:
            return None
        # Routers quote eight bytes of UDP at least; those that quote more tell which probe it was.
        if len(data) >= 4 and int.from_bytes(data[:4], "big") != self.seq:
            return None
        return read_error(ancillary)

    def _too_big_here(self) -> Outcome:
        """The kernel's own refusal; its error queue has the MTU of the interface."""
        for _ in range(16):
            try:
                _data, ancillary, _flags, _peer = self._refusing_socket().recvmsg(0, 512, _ERRQUEUE_NOW)
            except OSError:
                break
            outcome = read_error(ancillary)
            if outcome is not None and outcome.kind == TOO_BIG:
                return outcome
        return Outcome(TOO_BIG)

    def _refusing_socket(self) -> socket.socket:
        return self.sock


def read_error(ancillary: list[Any]) -> Outcome | None:
    """An entry of the error queue: struct sock_extended_err of linux/errqueue.h, and the address of who sent it."""
    for level, kind, data in ancillary:
        if (level, kind) not in (
            (int(socket.IPPROTO_IP), kernel_stamps.IP_RECVERR),
            (int(socket.IPPROTO_IPV6), kernel_stamps.IPV6_RECVERR),
        ):
            continue
        if len(data) < _EXTENDED_ERR.size:
            return None
        code, origin, type_, _code, _pad, info, _data = _EXTENDED_ERR.unpack_from(data)
        address = _offender(data[_EXTENDED_ERR.size :])
        if code == errno.EMSGSIZE and origin in (_LOCAL, _ICMP, _ICMP6):
            return Outcome(TOO_BIG, address, int(info))
        if (origin, type_) in _EXPIRED:
            return Outcome(EXPIRED, address)
        if (origin, type_) in _UNREACHABLE:
            return Outcome(UNREACHABLE, address)
    return None


def _offender(data: bytes) -> str | None:
    """The address in a struct sockaddr; None where there is none."""
    if len(data) < 16:
        return None
    (family,) = struct.unpack_from("@H", data)
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, data[4:8])
    if family == socket.AF_INET6 and len(data) >= 28:
        return socket.inet_ntop(socket.AF_INET6, data[8:24])
    return None
