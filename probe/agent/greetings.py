"""A port whose callers must show so many bytes first, and what is read of them: those bytes and no more.

Who has not shown them within two seconds is closed; nothing is ever written to a caller here.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import select
import socket
import time

from .listening import bind_in_range, family_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_PENDING = 64
HELLO_NS = 2000000000


def listen(address: str, ports: tuple[int, int], backlog: int) -> socket.socket:
    """A listening socket in the range, which does not block. Raises OSError."""
    sock = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bind_in_range(sock, address, ports, "TCP")
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


class Greetings:
    """Those who have called ``listener``, until they have shown ``size`` bytes; all are watched by ``poll``."""

    def __init__(self, listener: socket.socket, size: int, poll: Any) -> None:
        self.listener = listener
        self.size = size
        self.poll = poll
        self.pending = {}  # type: dict[int, tuple[socket.socket, bytearray, int]]
        poll.register(listener, select.POLLIN)

    def ready(self, descriptor: int) -> tuple[socket.socket, bytes] | None:
        """What poll named, be it the listener's or a caller's: the caller that it completes, and its first bytes."""
        if descriptor == self.listener.fileno():
            self._accept()
            return None
        if descriptor not in self.pending:
            return None
        sock, got, _until = self.pending[descriptor]
        try:
            part = sock.recv(self.size - len(got))
        except BlockingIOError:
            return None
        except OSError:
            part = b""
        got += part
        if part and len(got) < self.size:
            return None
        self._forget(descriptor)
        if not part:
            sock.close()
            return None
        return sock, bytes(got)

    def close_late(self) -> None:
        """Close those whose time is up."""
        now = time.monotonic_ns()
        for descriptor, (sock, _got, until) in list(self.pending.items()):
            if now > until:
                self._forget(descriptor)
                sock.close()

    def close(self) -> None:
        """Close the port, and all who have not shown their bytes."""
        self.listener.close()
        for sock, _got, _until in self.pending.values():
            sock.close()

    def _accept(self) -> None:
        try:
            sock, _peer = self.listener.accept()
        except OSError:
            time.sleep(0.001)  # it went again, or there are no descriptors left
            return
        if len(self.pending) >= MAX_PENDING:
            sock.close()
            return
        sock.setblocking(False)
        self.pending[sock.fileno()] = (sock, bytearray(), time.monotonic_ns() + HELLO_NS)
        self.poll.register(sock, select.POLLIN)

    def _forget(self, descriptor: int) -> None:
        self.poll.unregister(descriptor)
        del self.pending[descriptor]
