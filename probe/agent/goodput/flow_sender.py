"""The sending end of built-in TCP flows: streams that send for a time, or a number of bytes."""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import time

from ..listening import family_of
from .thread_use import thread_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONNECT_S = 3.0
SETTLE_NS = 10000000
"""Between the last connection and the first byte: the receiver is to be reading by then."""
END_NS = 1000000000
"""For the threads to see that their streams have ended."""
MAX_MARKS = 5000
_BLOCK_BYTES = 1 << 17
# Offsets in struct tcp_info, which only grows: the first is the same since Linux 2.6, the last came with 4.19.
_TOTAL_RETRANS, _SEGMENTS_OUT, _DELIVERED, _BYTES_SENT = 100, 156, 192, 200


class FlowSender:
    """One flow. ``run`` may be called once; it sends, and closes the streams.

    A thread a stream, each in a blocking send: the kernel then keeps the stream's buffer full by itself,
    where a poll loop would leave the link idle for as long as its process is not scheduled.
    """

    def __init__(self, address: str, port: int, source: str, token: bytes, streams: int) -> None:
        self.streams = []  # type: list[Stream]
        try:
            for _ in range(streams):
                sock = socket.socket(family_of(address), socket.SOCK_STREAM)
                self.streams.append(Stream(sock))
                _connect(sock, address, port, source)
                sock.sendall(token)
                sock.setblocking(True)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close what is open."""
        for stream in self.streams:
            stream.sock.close()

    def run(self, at_ns: int, duration_ns: int, count: int, slice_ns: int = 0) -> dict[str, Any]:
        """Send from ``at_ns`` (monotonic clock; as soon as possible when that has passed) on.

        For ``duration_ns`` when ``count`` is 0: then the streams are reset, so that nothing that still waits
        in a buffer delays the next test. Else ``count`` bytes in all, for ``duration_ns`` at the most.

        Of a timed flow ``delivered`` says, every ``slice_ns`` (0: not at all), what its receiver has acknowledged, in
        its place or out of it: behind a lost segment bytes arrive that no process there can count.
        """
        socks = [stream.sock for stream in self.streams]
        source_port, congestion = int(socks[0].getsockname()[1]), _congestion(socks[0])
        block = memoryview(os.urandom(_BLOCK_BYTES))  # so that nothing on the path can compress it
        begin = max(at_ns, time.monotonic_ns() + SETTLE_NS)
        time.sleep(max(0, begin - time.monotonic_ns()) / 1e9)
        begin = time.monotonic_ns()
        until = begin + duration_ns
        for number, stream in enumerate(self.streams):
            share = count // len(socks) + (number < count % len(socks)) if count else None
            stream.start(block, share)
        delivered = []  # type: list[tuple[int, int]]
        try:
            if slice_ns and not count:
                delivered = _delivered(socks, until, slice_ns)
            for stream in self.streams:
                stream.wait(until)
            # Before the ends are told, which ends what is still sent too.
            late = any(stream.going for stream in self.streams)
            if count and not late:
                _await_ends(socks, until)
            took = time.monotonic_ns() - begin
            retransmits = _retransmits(socks)
            for sock in socks:
                _end(sock, reset=not count or late)
            for stream in self.streams:
                stream.wait(until + END_NS)
        finally:
            self.close()
        cpu = [stream.cpu_ns for stream in self.streams]
        return {
            "type": "sent",
            "source_port": source_port,
            "congestion": congestion,
            "retransmits": retransmits,
            "delivered": delivered,
            "cpu_ns": sum(cpu),
            "busiest_ns": max(cpu),
            "wait_ns": max(stream.wait_ns for stream in self.streams),
            "duration_ns": took,
        }


class Stream:
    """A connection and the thread that fills it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.cpu_ns = self.wait_ns = 0
        self.done = threading.Event()

    @property
    def going(self) -> bool:
        """Whether it still sends."""
        return not self.done.is_set()

    def start(self, block: memoryview, count: int | None) -> None:
        """Send ``count`` bytes, or until the socket is shut down."""
        threading.Thread(target=self._push, args=(block, count), name="sender", daemon=True).start()

    def wait(self, until: int) -> None:
        """Until it is done, or that moment of the monotonic clock."""
        self.done.wait(max(0, until - time.monotonic_ns()) / 1e9)

    def _push(self, block: memoryview, count: int | None) -> None:
        cpu, waited = thread_use()
        try:
            while count is None or count > 0:
                sent = self.sock.send(block if count is None else block[:count])
                count = None if count is None else count - sent
        except OSError:
            pass  # how a timed stream ends; of any other end the receiver's count tells
        finally:
            now = thread_use()
            self.cpu_ns, self.wait_ns = now[0] - cpu, now[1] - waited
            self.done.set()


def _await_ends(socks: list[socket.socket], until: int) -> None:
    """End the streams and wait until the receiver has closed them: all has arrived then."""
    for step in (_half_close, _read_end):
        for sock in socks:
            try:
                step(sock, until)
            except OSError:
                pass


def _half_close(sock: socket.socket, until: int) -> None:  # noqa: ARG001
    sock.shutdown(socket.SHUT_WR)


def _read_end(sock: socket.socket, until: int) -> None:
    sock.settimeout(max(0.001, (until - time.monotonic_ns()) / 1e9))
    sock.recv(1)


def _end(sock: socket.socket, reset: bool) -> None:
    """Wake a thread that is sending; a reset drops what is still buffered."""
    try:
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RDWR)
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
        text = "%s port %d (TCP): no answer within %d s: a firewall, or no route?" % (
            address,
            port,
            CONNECT_S,
        )
        raise OSError(errno.ETIMEDOUT, text) from None
    except OSError as error:
        raise OSError(error.errno, "%s port %d (TCP): %s" % (address, port, error.strerror)) from None


def _congestion(sock: socket.socket) -> str | None:
    try:
        name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    except (OSError, AttributeError):
        return None
    return name.split(b"\0")[0].decode("ascii", "replace")


def _delivered(socks: list[socket.socket], until: int, slice_ns: int) -> list[tuple[int, int]]:
    """Moments until ``until``, and bytes acknowledged by then; nothing where the kernel does not tell.

    The kernel counts segments: they become bytes by what was sent in each of a stream's, on average.
    """
    rows = []  # type: list[tuple[int, list[tuple[int, int, int] | None]]]
    while time.monotonic_ns() < until and len(rows) < MAX_MARKS:
        rows.append((time.monotonic_ns(), [_segments(sock) for sock in socks]))
        if any(one is None for one in rows[-1][1]):
            return []
        time.sleep(max(0, min(slice_ns, until - time.monotonic_ns())) / 1e9)
    marks = []  # type: list[tuple[int, int]]
    each = [one[1] / one[2] if one and one[2] else 0.0 for one in (rows[-1][1] if rows else [])]
    for at, row in rows:
        total = int(sum(one[0] * size for one, size in zip(row, each) if one))
        if total > (marks[-1][1] if marks else 0):
            marks.append((at, total))
    return marks


def _segments(sock: socket.socket) -> tuple[int, int, int] | None:
    """Segments delivered, bytes sent and the segments that they were in, both with those sent again; None: not told."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_SENT + 8)
        delivered, sent = (struct.unpack_from("=I", info, at)[0] for at in (_DELIVERED, _SEGMENTS_OUT))
        return delivered, struct.unpack_from("=Q", info, _BYTES_SENT)[0], sent
    except (OSError, AttributeError, struct.error):
        return None


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
