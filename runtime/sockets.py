"""What the kernel knows of this process's own TCP connections: bytes, busy time and round trips (Linux).

A library that moves the data (Gloo) hands out no sockets; they are found among the process's descriptors.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_DESCRIPTORS = "/proc/self/fd"
_INFO_BYTES = 176
_RTT_US, _RETRANSMITS, _ACKED_BYTES, _BUSY_US = 68, 100, 120, 168
"""Where struct tcp_info (linux/tcp.h) has them; busy time since Linux 4.10."""
Floats = NDArray[np.float64]
Ends = tuple[str, str]
"""Of a connection: its own end and the other, as text."""


@dataclass(frozen=True)
class Counters:
    """Of one connection since it was made: bytes the peer has got, seconds in which data were under way, round trip."""

    acked_bytes: int
    busy_s: float
    rtt_s: float
    retransmits: int


def counters_of(info: bytes) -> Counters | None:
    """What a struct tcp_info says; None where the kernel's is too short."""
    if len(info) < _INFO_BYTES:
        return None
    (rtt_us,) = struct.unpack_from("=I", info, _RTT_US)
    (retransmits,) = struct.unpack_from("=I", info, _RETRANSMITS)
    (acked,) = struct.unpack_from("=Q", info, _ACKED_BYTES)
    (busy_us,) = struct.unpack_from("=Q", info, _BUSY_US)
    return Counters(acked, busy_us / 1e6, rtt_us / 1e6, retransmits)


def own_connections() -> dict[int, Ends]:
    """The ends of every TCP connection of this process, by descriptor; empty where the system does not tell."""
    found: dict[int, Ends] = {}
    try:
        descriptors = [int(path.name) for path in Path(_DESCRIPTORS).iterdir()]
    except OSError:
        return found
    for descriptor in sorted(descriptors):
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            sock = socket.socket(fileno=descriptor)
            try:
                if sock.type == socket.SOCK_STREAM and sock.family in (socket.AF_INET, socket.AF_INET6):
                    found[descriptor] = (_text(sock.getsockname()), _text(sock.getpeername()))
            finally:
                sock.detach()
    return found


def usual_address(connections: Iterable[Ends]) -> str:
    """The address that most of them have at their own end; empty without any. Other threads may have opened some."""
    counted = Counter(own.split()[0] for own, _ in connections)
    return counted.most_common(1)[0][0] if counted else ""


def listens(port: int) -> bool:
    """Whether this process takes TCP connections at ``port``."""
    try:
        descriptors = [int(path.name) for path in Path(_DESCRIPTORS).iterdir()]
    except OSError:
        return False
    for descriptor in descriptors:
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            sock = socket.socket(fileno=descriptor)
            try:
                if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and sock.getsockname()[1] == port:
                    return True
            finally:
                sock.detach()
    return False


def close_connections(ends: Mapping[int, Ends]) -> bool:
    """End connections of this process, whoever holds them: those with these ends, by descriptor.

    Returns whether any was open.
    """
    now, found = own_connections(), False
    for descriptor, own in ends.items():
        if now.get(descriptor) != own:
            continue
        found = True
        with suppress(OSError):
            sock = socket.socket(fileno=descriptor)
            try:
                sock.shutdown(socket.SHUT_RDWR)
            finally:
                sock.detach()
    return found


def read_counters(descriptors: Iterable[int]) -> dict[int, Counters]:
    """Counters of those descriptors that are still TCP connections."""
    found = {}
    for descriptor in descriptors:
        with suppress(OSError):
            sock = socket.socket(fileno=descriptor)
            try:
                one = counters_of(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES))
            finally:
                sock.detach()
            if one is not None:
                found[descriptor] = one
    return found


def peers_of(ends: Iterable[Mapping[int, Ends]]) -> list[dict[int, int]]:
    """Of each rank its descriptors and the rank at their other end, from what each rank says of its connections.

    Both ends of a connection are matched with each other, so that ranks may share an address.
    """
    every = list(ends)
    owner = {tuple(pair): rank for rank, own in enumerate(every) for pair in own.values()}
    return [
        {
            descriptor: owner[other, own]
            for descriptor, (own, other) in mine.items()
            if owner.get((other, own), rank) != rank
        }
        for rank, mine in enumerate(every)
    ]


class LinkRates:
    """How fast this rank's links are while they are in use, from one call of `take` to the next.

    ``peers``: the rank at the other end of each descriptor. The kernel counts busy time in ticks (1 to 10 ms): right on
    the average over many messages.
    """

    def __init__(
        self,
        peers: Mapping[int, int],
        ranks: int,
        read: Callable[[Iterable[int]], dict[int, Counters]] = read_counters,
    ) -> None:
        self._peers, self._ranks, self._read = dict(peers), ranks, read
        self._last = read(self._peers)

    def take(self) -> tuple[Floats, float]:
        """((N,) bytes a second to each rank while data were under way, the largest round trip in seconds).

        NaN for a rank that nothing was sent to.
        """
        now = self._read(self._peers)
        acked, busy = np.zeros(self._ranks), np.zeros(self._ranks)
        rtt_s = float("nan")
        for descriptor, one in now.items():
            before = self._last.get(descriptor)
            if before is None or one.acked_bytes <= before.acked_bytes:
                continue
            acked[self._peers[descriptor]] += one.acked_bytes - before.acked_bytes
            busy[self._peers[descriptor]] += one.busy_s - before.busy_s
            rtt_s = float(np.fmax(rtt_s, one.rtt_s))
        self._last = now
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(busy > 0, acked / busy, np.nan), rtt_s


def _text(address: object) -> str:
    """An address with its port; IPv4 in IPv6 as IPv4."""
    assert isinstance(address, tuple)
    return f"{str(address[0]).removeprefix('::ffff:')} {address[1]}"
