"""The same probes of a path by raw sockets and scapy: for kernels and sandboxes whose error queue says nothing.

Each probe has an identification of its own, which routers quote, so a late answer is distinguished from a new one. IPv4
only; needs CAP_NET_RAW. Replies of the other agent come to the UDP socket whose port the probes carry.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import os
import select
import socket
import time

from .. import kernel_stamps
from ..icmp import packets as icmp_packets
from .udp_probes import EXPIRED, TOO_BIG, UNREACHABLE, Outcome, PathSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TIME_EXCEEDED, _UNREACHABLE, _NEEDS_CUTTING = 11, 3, 4


def ready(message: dict[str, Any], resources: dict[str, Any]) -> tuple[dict[str, Any], None]:  # noqa: ARG001
    """Import scapy, and see that raw sockets can be had."""
    if ":" in message["address"]:
        raise OSError(errno.EAFNOSUPPORT, "--trace scapy is for IPv4")
    for protocol in (socket.IPPROTO_RAW, socket.IPPROTO_ICMP):
        socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol).close()
    icmp_packets.load()
    return {"type": "ready"}, None


class ScapyPathSocket(PathSocket):
    """A PathSocket that sends and hears by raw sockets."""

    def __init__(self, address: str, port: int, source: str, token: bytes, ssid: int) -> None:
        icmp_packets.load()
        super().__init__(address, port, source, token, ssid)
        self.ports = (self.source_port, port)
        self.source = str(self.sock.getsockname()[0])
        self.first_ident = int.from_bytes(os.urandom(2), "big")
        raw, icmp = socket.IPPROTO_RAW, socket.IPPROTO_ICMP
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, raw)
        try:
            self.sender.setsockopt(socket.IPPROTO_IP, kernel_stamps.IP_RECVERR, 1)
            self.icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, icmp)
        except OSError:
            self.close()
            raise
        self.icmp.setblocking(False)

    def close(self) -> None:
        """Close all three."""
        super().close()
        self.sender.close()
        if hasattr(self, "icmp"):
            self.icmp.close()

    @property
    def ident(self) -> int:
        """Identification of the probe that is under way; never 0, which the kernel would replace."""
        return (self.first_ident + self.seq) % 0xFFFF + 1

    def _send(self, data: bytes) -> int:
        built = icmp_packets.build_udp(self.source, self.peer, self.ports, self.ttl, self.ident, data)
        try:
            self.sender.sendto(built, (self.peer, 0))
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def _wait(self, deadline: int) -> Outcome:
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        poll.register(self.icmp, select.POLLIN)
        while True:
            left = deadline - time.monotonic_ns()
            if left <= 0 or not poll.poll(max(1.0, left / 1e6)):
                return Outcome("silence")
            # The error queue is emptied and not believed: it reports everything twice.
            super()._take_error()
            outcome = self._take_reply() or self._take_icmp()
            if outcome is not None:
                return outcome

    def _take_icmp(self) -> Outcome | None:
        try:
            data = self.icmp.recv(2048)
        except OSError:
            return None
        error = icmp_packets.parse_error(data)
        if error is None or (error[4], error[5]) != (self.ident, self.ports):
            return None
        address, type_, code, mtu = error[:4]
        if type_ == _TIME_EXCEEDED:
            return Outcome(EXPIRED, address)
        return Outcome(TOO_BIG, address, mtu) if code == _NEEDS_CUTTING else Outcome(UNREACHABLE, address)

    def _refusing_socket(self) -> socket.socket:
        return self.sender
