"""The STAMP session-reflector (RFC 8762 section 4.3): a thread that answers probes of this scan.

It answers only packets that carry the scan's token, each with a packet that is not longer, from the address
that was probed, and not more of them than reply_rate.py allows. T2, when a probe was received, is stamped here, and
T3, when its reply was sent; T1 and T4 are the sender's. It is stateless but for that and one thing:
the kernel's stamp of the last reply to each sender, which the next reply to that sender reports (Follow-Up
Telemetry, RFC 8972 section 4.7; departures.py).
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import socket
import struct
import threading
import time

from .. import kernel_stamps
from . import departures, packet
from .reply_rate import ReplyRate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RECEIVE_BYTES = 2048


class Reflector:
    """A bound socket and the thread that serves it. ``level`` is the stamps it can give."""

    def __init__(self, address: str, ports: tuple[int, int], token: bytes, best: str) -> None:
        self.token = token
        self.sock = kernel_stamps.udp_socket(address)
        self.wildcard = False
        try:
            self.address, self.port = self._bind(address, ports)
            self.level = kernel_stamps.enable(self.sock, best)
            if self.sock.family == socket.AF_INET6:
                self.sock.setsockopt(socket.IPPROTO_IPV6, kernel_stamps.IPV6_RECVHOPLIMIT, 1)
            else:
                self.sock.setsockopt(socket.IPPROTO_IP, kernel_stamps.IP_RECVTTL, 1)
        except OSError:
            self.sock.close()
            raise
        self.departures = departures.Departures()
        self.pending = {}  # type: dict[int, tuple[departures.Session, int]]
        self.sends = 0
        self.rate = ReplyRate()
        self.closed = False
        self.thread = threading.Thread(target=self._serve, name="reflector", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Close the port; the thread ends."""
        self.closed = True
        try:
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes the thread even though nothing is connected
        except OSError:
            pass
        self.thread.join(1.0)
        self.sock.close()

    def _bind(self, address: str, ports: tuple[int, int]) -> tuple[str, int]:
        """Bind to the first free port of the range, on the address, or on all where it is not ours."""
        low, high = ports
        for host in (address, "::" if ":" in address else "0.0.0.0"):
            for port in range(low, high + 1):
                try:
                    self.sock.bind((host, port))
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        continue
                    if error.errno == errno.EADDRNOTAVAIL and host == address:
                        break  # behind NAT, say: the address peers probe is not one of ours
                    raise
                if host != address:
                    self._answer_from_probed_address()
                return host, int(self.sock.getsockname()[1])
            else:
                raise OSError(errno.EADDRINUSE, "no free UDP port in %d-%d" % (low, high))
        raise OSError(errno.EADDRNOTAVAIL, "cannot bind to %s" % address)

    def _answer_from_probed_address(self) -> None:
        self.wildcard = True
        if self.sock.family == socket.AF_INET6:
            self.sock.setsockopt(socket.IPPROTO_IPV6, kernel_stamps.IPV6_RECVPKTINFO, 1)
        else:
            self.sock.setsockopt(socket.IPPROTO_IP, kernel_stamps.IP_PKTINFO, 1)

    def _serve(self) -> None:
        while not self.closed:
            try:
                data, ancillary, _flags, peer = self.sock.recvmsg(_RECEIVE_BYTES, 512)
                self._answer(data, ancillary, peer)
            except OSError as error:
                if self.closed or error.errno == errno.EBADF:
                    return
                time.sleep(0.001)  # ENOBUFS, a route that went away: the probe is lost, no more

    def _answer(self, data: bytes, ancillary: list[Any], peer: Any) -> None:
        now = time.time_ns()
        probe = packet.parse_probe(data, self.token)
        if probe is None or not self.rate.allows(peer[0], time.monotonic_ns()):
            return
        if self.pending:
            self._collect_stamps()
        received, hops = kernel_stamps.stamp_and_hop_limit(ancillary)
        previous, session = self.departures.arrived((peer[0], peer[1], probe.ssid), probe.seq, probe.stamp)
        # T2 is the kernel's stamp, where it made one.
        method = packet.METHOD_SOFTWARE if received else packet.METHOD_USER
        sent = time.time_ns()
        reply = packet.build_reply(
            probe, received or now, method, sent, packet.METHOD_USER, hops, previous
        )  # fmt: skip
        if len(data) > packet.PACKET_BYTES:
            # As it came: both directions weigh the same, unless asked otherwise.
            reply += packet.padding_to_return(data)
        if session is not None:
            departures.leaves(session, probe.seq, sent)
        try:
            if self.wildcard:
                self.sock.sendmsg([reply], _source(ancillary), 0, peer)
            else:
                self.sock.sendto(reply, peer)
        except OSError:
            self.pending.clear()
            self.sends = 0
            kernel_stamps.enable(
                self.sock, self.level
            )  # whether a failed send was numbered differs by kernel
            raise
        if self.level == "kernel":
            if session is not None:
                self.pending[self.sends] = (session, probe.seq)
            self.sends = (self.sends + 1) & 0xFFFFFFFF

    def _collect_stamps(self) -> None:
        """Take the stamps of earlier replies; one whose stamp never comes is forgotten."""
        while self.pending:
            found = kernel_stamps.read_transmit_stamp(self.sock)
            if found is None:
                if len(self.pending) > 256:
                    self.pending.clear()
                return
            session, seq = self.pending.pop(found[0], (None, 0))
            if session is not None:
                departures.left(session, seq, found[1])


def _source(ancillary: list[Any]) -> list[Any]:
    """Control data that makes the reply leave from the address the probe went to."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.IPPROTO_IP, kernel_stamps.IP_PKTINFO):
            return [(level, kind, struct.pack("@i4s4s", 0, data[8:12], b"\0" * 4))]
        if (level, kind) == (socket.IPPROTO_IPV6, kernel_stamps.IPV6_PKTINFO):
            return [(level, kind, data[:16] + struct.pack("@i", 0))]
    return []
