"""Round-trip times of TCP handshakes: a port that takes connections and closes them, and a series of connects.

Where the kernel tells (TCP_INFO), a reading is its own round-trip time of SYN and SYN-ACK, which is not
disturbed by when user space is woken; else it is the time that connect took. All connects of a series
come from one source port, so that all take one path. Both ends end them by a reset: nothing stays behind.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import os
import select
import socket
import struct
import threading
import time

from .listening import bind_in_range, bind_source, family_of
from .messages import MAX_PROBES, MIN_INTERVAL_NS
from .pacing import Pacer
from .round_trips import RoundTrips, series_answer
from .stamp.sender import errno_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    Answer = tuple[dict[str, Any], Any]

BACKLOG = 128
MIN_PATIENCE_NS = 50000000
GIVE_UP_AFTER = 2
"""So many connects without an answer from the start, or refused, and the rest is not tried."""
_RESET = struct.pack("@ii", 1, 0)
_INFO_BYTES, _RTT_AT, _RETRANSMITS_AT = 104, 68, 100
_IN_PROGRESS = (errno.EINPROGRESS, errno.EAGAIN)
_RESET_BY_PEER = (errno.ECONNRESET, errno.EPIPE)
_LOCAL = (errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.ENOBUFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Listener:
    """A port that takes connections and resets them; not a byte is read or written."""

    def __init__(self, address: str, ports: tuple[int, int]) -> None:
        self.sock = socket.socket(family_of(address), socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.sock.family == socket.AF_INET6:
                self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self.address = bind_in_range(self.sock, address, ports, "TCP")
            self.port = int(self.sock.getsockname()[1])
            self.sock.listen(BACKLOG)
        except OSError:
            self.sock.close()
            raise
        self.accepted = 0
        self.closed = False
        self.thread = threading.Thread(target=self._serve, name="listener", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Close the port; the thread ends."""
        self.closed = True
        try:
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes the thread
        except OSError:
            pass
        self.thread.join(1.0)
        self.sock.close()

    def _serve(self) -> None:
        while not self.closed:
            try:
                taken, _peer = self.sock.accept()
            except OSError as error:
                if self.closed or error.errno in (errno.EBADF, errno.EINVAL):
                    return
                time.sleep(0.005)  # no descriptor is free; the kernel keeps the connection waiting
                continue
            self.accepted += 1
            try:
                # By a reset: a FIN would leave a state here that swallows the next SYN from the same port.
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            except OSError:
                pass
            taken.close()


def open_port(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """Open the port for this scan; an earlier one is closed."""
    shut_port(message, resources)
    low, high = message["ports"]
    listener = resources["listener"] = Listener(message["address"], (int(low), int(high)))
    return {"type": "opened", "address": listener.address, "port": listener.port}, None


def shut_port(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """Close it, and say how many connections it took."""
    listener = resources.pop("listener", None)
    if listener is not None:
        listener.close()
    return {"type": "shut", "accepted": 0 if listener is None else listener.accepted}, None


def connect(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """Run one series."""
    series = ConnectSeries(
        message["address"],
        int(message["port"]),
        message["source"],
        min(int(message["count"]), MAX_PROBES),
        max(int(message["interval_ns"]), MIN_INTERVAL_NS),
        int(message["timeout_ns"]),
        message["stamps"],
        [int(port) for port in message.get("avoid", ())],
    )
    return series.run()


class ConnectSeries:
    """One series to run; times in ns. ``run`` may be called once."""

    def __init__(
        self,
        address: str,
        port: int,
        source: str,
        count: int,
        interval_ns: int,
        timeout_ns: int,
        best: str,
        avoid: Collection[int] = (),
    ) -> None:
        self.peer = (address, port)
        self.source = source
        self.avoid = avoid
        self.count = count
        self.interval_ns = interval_ns
        self.timeout_ns = timeout_ns
        self.best = best
        self.trips = RoundTrips(count, timeout_ns)
        self.source_port = 0
        self.failures = 0
        self.unsent = 0
        self.reason = None  # type: str | None

    def run(self) -> Answer:
        """Connect; the warm-up first."""
        start = time.monotonic_ns()
        # However many are lost, a visit is not held up for longer than a series of probes would be.
        end = start + 3 * self.interval_ns * (self.count + 4) // 2 + 2 * self.timeout_ns
        self._connect(0)
        pacer = Pacer(self.interval_ns, os.getpid() + self.source_port)
        for seq in range(1, self.count + 1):
            left = pacer.due - time.monotonic_ns()
            if left > 0:
                time.sleep(left / 1e9)
            if self.reason is not None or time.monotonic_ns() > end:
                break
            self._connect(seq)
            pacer.advance()
        return series_answer(
            self.trips, start, time.monotonic_ns(), self.source_port, self.unsent, self.reason
        )

    def _patience_ns(self) -> int:
        """How long a connect is waited for: one that is not there by then is lost."""
        if not self.trips.arrivals:
            return self.timeout_ns
        return min(self.timeout_ns, max(MIN_PATIENCE_NS, 4 * self.trips.longest_ns))

    def _connect(self, seq: int) -> None:
        sock = socket.socket(family_of(self.peer[0]), socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._bind(sock)
            sock.setblocking(False)
            self._shake_hands(sock, seq)
        except OSError as error:
            self.trips.withdraw(seq)
            self._note_error(error)
        finally:
            sock.close()

    def _bind(self, sock: socket.socket) -> None:
        if self.source_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bind_source(sock, self.source, port=self.source_port)
        else:
            bind_source(sock, self.source, self.avoid)
            self.source_port = int(sock.getsockname()[1])

    def _shake_hands(self, sock: socket.socket, seq: int) -> None:
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        sent_at = time.monotonic_ns()
        self.trips.sent(seq, sent_at)
        code = sock.connect_ex(self.peer)
        if code in _IN_PROGRESS:
            deadline = sent_at + self._patience_ns()
            if not poll.poll(max(1.0, (deadline - time.monotonic_ns()) / 1e6)):
                self._note_silence()
                return
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        now = time.monotonic_ns()
        if code in _LOCAL:
            raise OSError(code, os.strerror(code))
        rtt_ns, retransmits = tcp_info(sock)
        # The other end may have reset the connection already, which was made all the same.
        if code and not (code in _RESET_BY_PEER and rtt_ns):
            self._note_error(OSError(code, os.strerror(code)))
            return
        if retransmits:
            return  # the handshake came through at the second try: its probe was lost
        if self.trips.answered(seq, now, rtt_ns) and self.best != "user":
            self.trips.by_kernel(seq, rtt_ns)

    def _note_silence(self) -> None:
        self.failures += 1
        if not self.trips.arrivals and self.failures >= GIVE_UP_AFTER:
            self.reason = "no answer to TCP"

    def _note_error(self, error: OSError) -> None:
        if error.errno in _LOCAL:
            self.unsent += 1
        self.failures += 1
        if not self.trips.arrivals and self.failures >= GIVE_UP_AFTER:
            self.reason = errno_text(error)


def tcp_info(sock: socket.socket) -> tuple[int, int]:
    """The kernel's round-trip time of the handshake in ns, and its retransmissions; zeros where it does not tell.

    struct tcp_info of linux/tcp.h: tcpi_rtt in us, which after one sample is that sample.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:
        return 0, 0
    if len(info) < _INFO_BYTES:
        return 0, 0
    (rtt_us,) = struct.unpack_from("@I", info, _RTT_AT)
    (retransmits,) = struct.unpack_from("@I", info, _RETRANSMITS_AT)
    return int(rtt_us) * 1000, int(retransmits)
