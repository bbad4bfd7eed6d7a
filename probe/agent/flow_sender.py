"""The sending end of built-in TCP flows: streams that send for a time, or a number of bytes."""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time

from .listening import family_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONNECT_S = 3.0
SETTLE_NS = 10000000
"""Between the last connection and the first byte: the receiver is to be reading by then."""
_BLOCK_BYTES = 1 << 17
_POLL_MS = 20
_TOTAL_RETRANS = 100  # offset of tcpi_total_retrans in struct tcp_info, the same since Linux 2.6


class FlowSender:
    """One flow. ``run`` may be called once; it sends, and closes the streams."""

    def __init__(self, address: str, port: int, source: str, token: bytes, streams: int) -> None:
        self.socks = []  # type: list[socket.socket]
        try:
            for _ in range(streams):
                sock = socket.socket(family_of(address), socket.SOCK_STREAM)
                self.socks.append(sock)
                _connect(sock, address, port, source)
                sock.sendall(token)
                sock.setblocking(False)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close what is open."""
        for sock in self.socks:
            sock.close()

    def run(self, at_ns: int, duration_ns: int, count: int) -> dict[str, Any]:
        """Send from ``at_ns`` (monotonic clock; as soon as possible when that has passed) on.

        For ``duration_ns`` when ``count`` is 0: then the streams are reset, so that nothing that still waits
        in a buffer delays the next test. Else ``count`` bytes in all, for ``duration_ns`` at the most.
        """
        first = self.socks[0]
        answer = {
            "type": "sent",
            "source_port": int(first.getsockname()[1]),
            "congestion": _congestion(first),
        }  # type: dict[str, Any]
        begin = max(at_ns, time.monotonic_ns() + SETTLE_NS)
        while time.monotonic_ns() < begin:
            time.sleep((begin - time.monotonic_ns()) / 1e9 if begin > time.monotonic_ns() else 0)
        cpu = time.thread_time_ns()
        begin = time.monotonic_ns()
        try:
            sent = self._send(begin + duration_ns, count)
            spent = time.thread_time_ns() - cpu
            if count:
                self._finish(begin + duration_ns)
            took = time.monotonic_ns() - begin
            answer["retransmits"] = _retransmits(self.socks)
            if not count:
                for sock in self.socks:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        finally:
            self.close()
        return dict(answer, begin_ns=begin, bytes=sent, cpu_ns=spent, duration_ns=took)

    def _send(self, until: int, count: int) -> int:
        block = memoryview(os.urandom(_BLOCK_BYTES))
        poll = select.poll()
        share = [count // len(self.socks) + (i < count % len(self.socks)) for i in range(len(self.socks))]
        left = {}
        for sock, bytes_ in zip(self.socks, share):
            if bytes_ or not count:
                left[sock.fileno()] = [sock, bytes_]
                poll.register(sock, select.POLLOUT)
        total = 0
        while left and time.monotonic_ns() < until:
            for descriptor, _events in poll.poll(_POLL_MS):
                stream = left[descriptor]
                part = block if not count or stream[1] >= _BLOCK_BYTES else block[: stream[1]]
                try:
                    sent = stream[0].send(part)
                except BlockingIOError:
                    continue
                total += sent
                if count:
                    stream[1] -= sent
                    if not stream[1]:
                        poll.unregister(descriptor)
                        del left[descriptor]
        return total

    def _finish(self, until: int) -> None:
        """End the streams and wait until the receiver has closed them: all has arrived then."""
        for sock in self.socks:
            sock.shutdown(socket.SHUT_WR)
        for sock in self.socks:
            sock.settimeout(max(0.001, (until - time.monotonic_ns()) / 1e9))
            try:
                sock.recv(1)
            except OSError:
                pass


def _connect(sock: socket.socket, address: str, port: int, source: str) -> None:
    try:
        sock.bind((source, 0))
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:  # behind NAT, say: the kernel chooses then
            raise
    sock.settimeout(CONNECT_S)
    try:
        sock.connect((address, port))
    except socket.timeout:
        text = "%s port %d (TCP): no answer within %d s: a firewall, or no route?" % (address, port, CONNECT_S)
        raise OSError(errno.ETIMEDOUT, text) from None
    except OSError as error:
        raise OSError(error.errno, "%s port %d (TCP): %s" % (address, port, error.strerror)) from None


def _congestion(sock: socket.socket) -> str | None:
    try:
        name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    except (OSError, AttributeError):
        return None
    return name.split(b"\0")[0].decode("ascii", "replace")


def _retransmits(socks: list[socket.socket]) -> int | None:
    """Segments sent again, over all streams; None where the kernel does not tell."""
    total = 0
    for sock in socks:
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOTAL_RETRANS + 4)
            total += struct.unpack_from("=I", info, _TOTAL_RETRANS)[0]
        except (OSError, AttributeError, struct.error):
            return None
    return total
