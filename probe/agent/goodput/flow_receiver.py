"""The receiving end of built-in TCP flows: a port that takes expected streams only, and counts what they bring.

Every flow has a token of its own, drawn by the controller and used once; a stream begins with its 16 bytes.
A connection that does not is closed. Nothing is ever sent back but what TCP itself sends.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import fcntl
import select
import socket
import struct
import termios
import threading
import time

from ..greetings import Greetings, listen
from ..stamp import packet
from .thread_use import thread_use

TOKEN_BYTES = 16
MAX_FLOWS = 1024
MAX_MARKS = 5000
_BUFFER_BYTES = 1 << 18
_BACKLOG = 128
_POLL_MS = 250


class Receiver:
    """One flow: its streams, and marks of how much had arrived when. Times are ns of the monotonic clock."""

    def __init__(self, token: bytes, streams: int, slice_ns: int, limit_ns: int) -> None:
        self.token = token
        self.streams = streams
        self.slice_ns = slice_ns
        self.limit_ns = limit_ns
        self.socks = []  # type: list[socket.socket]
        self.marks = []  # type: list[tuple[int, int]]
        self.reads = [0] * streams
        """Of each stream: reads of bytes that were not yet there when the counting began."""
        self.cpu_ns = self.wait_ns = 0
        self.ended_ns = 0
        self.closed = False
        self.done = threading.Event()

    def take(self, sock: socket.socket) -> None:
        """A stream of this flow; the last one starts the counting."""
        self.socks.append(sock)
        if len(self.socks) == self.streams:
            threading.Thread(target=self._run, name="receiver", daemon=True).start()

    def close(self) -> None:
        """Stop counting, whatever is still to come."""
        self.closed = True
        if len(self.socks) < self.streams:
            for sock in self.socks:
                sock.close()

    def _run(self) -> None:
        cpu, waited = thread_use()
        try:
            self._count()
        finally:
            now = thread_use()
            self.cpu_ns, self.wait_ns = now[0] - cpu, now[1] - waited
            self.ended_ns = time.monotonic_ns()
            for sock in self.socks:
                sock.close()
            self.done.set()

    def _count(self) -> None:
        """Count until every stream has ended, or for ``limit_ns``.

        A mark is a moment, and all bytes that had arrived by then: those that were read and those that wait in
        the kernel. So what came while this thread had no processor counts for the time before a mark, and the
        bytes between two marks over the time are right, wherever the reads fell.
        """
        buffer = bytearray(_BUFFER_BYTES)
        poll = select.poll()
        open_ = {}
        number, waiting = {}, [0] * self.streams
        for place, sock in enumerate(self.socks):
            sock.setblocking(False)
            open_[sock.fileno()] = sock
            number[sock.fileno()] = place
            poll.register(sock, select.POLLIN)
        total, last, edge = 0, 0, 0
        limit = time.monotonic_ns() + self.limit_ns
        while open_ and not self.closed:
            for descriptor, _events in poll.poll(_POLL_MS):
                try:
                    got = open_[descriptor].recv_into(buffer)
                except BlockingIOError:
                    continue
                except OSError:
                    got = 0  # a reset is how a timed flow ends
                now = time.monotonic_ns()
                if not got:
                    poll.unregister(descriptor)
                    del open_[descriptor]
                    continue
                total, last = total + got, now
                place = number[descriptor]
                if not self.marks:
                    waiting = [_waiting(sock) for sock in self.socks]
                    queued = sum(waiting)
                elif waiting[place] > 0:
                    waiting[place] -= got
                    self.reads[place] += waiting[place] < 0
                else:
                    self.reads[place] += 1
                if now >= edge:
                    edge = now + self.slice_ns
                    if self.marks:
                        queued = sum(map(_waiting, open_.values()))
                    if len(self.marks) < MAX_MARKS and (not self.marks or self.marks[-1][1] < total + queued):
                        self.marks.append((now, total + queued))
            if time.monotonic_ns() > limit:
                break
        if self.marks and self.marks[-1][1] < total:
            self.marks.append((last, total))


def _waiting(sock: socket.socket) -> int:
    """Bytes that a stream has in the kernel, to be read."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.FIONREAD, b"\0\0\0\0"))[0])
    except (OSError, ValueError):  # it is closed, or the kernel has no such call
        return 0


class FlowServer:
    """A listening port and the thread that sorts out who comes."""

    def __init__(self, address: str, ports: tuple[int, int]) -> None:
        self.sock = listen(address, ports, _BACKLOG)
        self.port = int(self.sock.getsockname()[1])
        self.closed = False
        self.expected = {}  # type: dict[bytes, Receiver]
        self.wake, self.woken = socket.socketpair()
        self.thread = threading.Thread(target=self._serve, name="flows", daemon=True)
        self.thread.start()

    def expect(self, receiver: Receiver) -> None:
        """Take the streams of this flow from now on."""
        if len(self.expected) >= MAX_FLOWS:
            raise ValueError("more than %d flows at once" % MAX_FLOWS)
        self.expected[receiver.token] = receiver

    def forget(self, token: bytes) -> Receiver | None:
        """Take no more of its streams; the flow, if it was expected."""
        return self.expected.pop(token, None)

    def close(self) -> None:
        """Close the port and every flow; the thread ends."""
        self.closed = True
        self.wake.close()
        self.thread.join(1.0)
        for receiver in list(self.expected.values()):
            receiver.close()
        self.expected.clear()

    def _serve(self) -> None:
        poll = select.poll()
        greetings = Greetings(self.sock, TOKEN_BYTES, poll)
        poll.register(self.woken, select.POLLIN)
        while not self.closed:
            for descriptor, _events in poll.poll(_POLL_MS if greetings.pending else None):
                caller = greetings.ready(descriptor)
                if caller is not None:
                    self._greeted(*caller)
            greetings.close_late()
        greetings.close()
        self.woken.close()

    def _greeted(self, sock: socket.socket, token: bytes) -> None:
        receiver = self._expecting(token)
        if receiver is None or len(receiver.socks) >= receiver.streams:
            sock.close()
        else:
            receiver.take(sock)

    def _expecting(self, token: bytes) -> Receiver | None:
        found = None
        for receiver in list(self.expected.values()):
            if packet.same_token(receiver.token, token):
                found = receiver
        return found
