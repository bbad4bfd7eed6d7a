"""A clock and a socket that stand still unless moved: every stamp is known by its value, on however busy a machine."""

from __future__ import annotations

import heapq
import socket
import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

US = 1000
WALL = 1_700_000_000 * 10**9
"""The wall clock less the monotonic one."""
SENT_LATE, TAKEN_LATE = 5 * US, 30 * US
"""A packet leaves so long after user space says so, and user space takes one so long after it came."""
_ERRQUEUE = 0x2000
_TX_FLAG, _RX_FLAG = 1 << 1, 1 << 3

Far = Callable[[bytes, int], "list[tuple[int, bytes]]"]
"""The far end: of a packet, and when it left by the wall clock, what comes back, and when by the same clock."""


class Wire:
    """Stands for the modules ``time`` and ``select`` and for a socket; ``grants`` is the kernel's best level."""

    def __init__(
        self, far: Far, grants: str = "kernel", *, transmit: bool = True, receipt: bool = True
    ) -> None:
        self.now = 10**12
        self.far = far
        self.grants = grants
        self.transmit, self.receipt = transmit, receipt
        self.flags = 0
        self.sends = 0
        self.left: list[tuple[int, int]] = []
        self.coming: list[tuple[int, int, int, bytes]] = []

    def stand_in(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        """Take the place of the clock (and of select) of ``modules``."""
        for module in modules:
            monkeypatch.setattr(module, "time", self)
            if hasattr(module, "select"):
                monkeypatch.setattr(module, "select", self)

    # the clock
    def monotonic_ns(self) -> int:
        self.now += 100
        return self.now

    def time_ns(self) -> int:
        self.now += 100
        return self.now + WALL

    def sleep(self, seconds: float) -> None:
        self.now += max(0, round(seconds * 1e9))

    def select(self, watched: Any, _w: Any, _x: Any, timeout: float) -> tuple[Any, Any, Any]:
        until = self.now + max(100, round(timeout * 1e9))
        if self.coming and self.coming[0][0] <= until:
            self.now = max(self.now, self.coming[0][0])
            return watched, (), ()
        self.now = until
        return (), (), ()

    # the socket
    def send(self, data: bytes) -> int:
        leaves = self.now + WALL + SENT_LATE
        if self.flags & _TX_FLAG and self.transmit:
            self.left.append((self.sends, leaves))
        self.sends += 1
        for came, answer in self.far(data, leaves):
            heapq.heappush(self.coming, (came - WALL + TAKEN_LATE, len(self.coming), came, answer))
        return len(data)

    def recvmsg(self, _size: int, _ancillary: int, flags: int = 0) -> tuple[bytes, list[Any], int, Any]:
        if flags & _ERRQUEUE:
            if not self.left:
                raise BlockingIOError
            number, stamp = self.left.pop(0)
            error = struct.pack("@IBBBBII", 42, 4, 0, 0, 0, 0, number)
            return b"", [_stamp(stamp), (int(socket.IPPROTO_IP), 11, error)], 0, None
        if not self.coming or self.coming[0][0] > self.now:
            raise BlockingIOError
        _due, _number, came, data = heapq.heappop(self.coming)
        stamped = self.flags & _RX_FLAG and self.receipt
        return data, [_stamp(came)] if stamped else [], 0, ("10.0.0.2", 9)

    def setsockopt(self, _level: int, _option: int, value: Any) -> None:
        if value and not isinstance(value, bytes):
            allowed = {"kernel": _TX_FLAG | _RX_FLAG, "kernel_rx": _RX_FLAG, "user": 0}[self.grants]
            if value & (_TX_FLAG | _RX_FLAG) & ~allowed:
                raise OSError(95, "not supported")
            self.flags = value
        self.sends = 0

    def getsockname(self) -> tuple[str, int]:
        return "10.0.0.1", 4242

    def fileno(self) -> int:
        return 99

    def _nothing(self, *_arguments: Any) -> None:
        """Socket options that change nothing here."""

    bind = connect = setblocking = close = _nothing


def _stamp(ns: int) -> tuple[int, int, bytes]:
    return int(socket.SOL_SOCKET), 37, struct.pack("@ll4x", ns // 10**9, ns % 10**9) + bytes(28)
