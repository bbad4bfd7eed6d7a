"""Round-trip times of ICMP echoes over a raw socket, with the kernel's stamps of leaving and of coming back.

scapy builds the packets before the first series and parses the replies after each: between a probe and its
reply nothing runs that takes time. What the other host's kernel needs to answer is part of a reading.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import os
import select
import socket
import struct
import time

from .. import kernel_stamps
from ..listening import family_of
from ..messages import MIN_INTERVAL_NS
from ..pacing import Pacer
from ..round_trips import RoundTrips, series_answer
from ..stamp.sender import errno_text
from . import packets as icmp_packets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = tuple[dict[str, Any], Any]

MAX_ECHOES = 10000
ECHO_BYTES = 64
TOKEN_BYTES = 16
WARM_UP_WAIT_NS = 250000000
MIN_GRACE_NS = 20000000
REFUSALS = 3
_FILTER_V4 = (255, 1, struct.pack("@I", 0xFFFFFFFF ^ 1))  # SOL_RAW, ICMP_FILTER: echo replies only
_FILTER_V6 = (58, 1, struct.pack("@8I", *(0xFFFFFFFF ^ (2 if i == 4 else 0) for i in range(8))))


def ready(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """Import scapy, see that a raw socket can be had, and build the packets of every series."""
    ipv6 = ":" in message["address"]
    _raw_socket(ipv6).close()
    icmp_packets.load()
    echoes(resources, ipv6, int(message["count"]))
    return {"type": "ready"}, None


def probe(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """Run one series."""
    icmp_packets.load()
    count = int(message["count"])
    series = EchoSeries(
        message["address"],
        message["source"],
        echoes(resources, ":" in message["address"], count),
        max(int(message["interval_ns"]), MIN_INTERVAL_NS),
        int(message["timeout_ns"]),
        message["stamps"],
    )
    return series.run()


class Echoes:
    """The packets of a series: number 0 the warm-up, 1 to ``count`` the probes."""

    def __init__(self, ipv6: bool, count: int) -> None:
        self.ipv6 = ipv6
        self.count = count
        self.ident = int.from_bytes(os.urandom(2), "big")
        self.token = os.urandom(TOKEN_BYTES)
        payload = self.token + bytes(ECHO_BYTES - 8 - TOKEN_BYTES)
        self.packets = [icmp_packets.build_echo(self.ident, seq, payload, ipv6) for seq in range(count + 1)]


def echoes(resources: dict[str, Any], ipv6: bool, count: int) -> Echoes:
    """Those that are kept for this agent's series, built where there are none."""
    kept = resources.get("echoes")
    if kept is None or (kept.ipv6, kept.count) != (ipv6, count):
        if not 1 <= count <= MAX_ECHOES:
            raise ValueError("%d echoes: 1 to %d are allowed" % (count, MAX_ECHOES))
        kept = resources["echoes"] = Echoes(ipv6, count)
    return kept


class EchoSeries:
    """One series to run; times in ns. ``run`` may be called once."""

    def __init__(
        self, address: str, source: str, packets: Echoes, interval_ns: int, timeout_ns: int, best: str
    ) -> None:
        self.echoes = packets
        self.interval_ns = interval_ns
        self.timeout_ns = timeout_ns
        self.trips = RoundTrips(packets.count, timeout_ns)
        self.sent_at = {}  # type: dict[int, int]
        self.left_at = {}  # type: dict[int, int]
        self.pending = {}  # type: dict[int, int]
        self.came = []  # type: list[tuple[bytes, int, int]]
        self.sends = 0
        self.numbers = set()  # type: set[int]
        self.unsent = 0
        self.refused = 0
        self.reason = None  # type: str | None
        self.sock = _raw_socket(packets.ipv6)
        try:
            try:
                self.sock.bind((source, 0))
            except OSError:
                pass  # none of this host's, as behind NAT: the kernel chooses
            self.sock.connect((address, 0))
            self.sock.setblocking(False)
            self.level = kernel_stamps.enable(self.sock, best)
        except OSError:
            self.sock.close()
            raise

    def run(self) -> Answer:
        """Probe; the warm-up first."""
        start = time.monotonic_ns()
        try:
            self._probe()
        finally:
            self.sock.close()
        return series_answer(self.trips, start, time.monotonic_ns(), 0, self.unsent, self.reason)

    def _probe(self) -> None:
        self._send(0)
        self._receive_until(time.monotonic_ns() + min(WARM_UP_WAIT_NS, self.timeout_ns), 1)
        pacer = Pacer(self.interval_ns, self.echoes.ident)
        for seq in range(1, self.echoes.count + 1):
            self._receive_until(pacer.due)
            if self.reason is not None:
                break
            self._send(seq)
            pacer.advance()
        give_up = time.monotonic_ns() + self.timeout_ns
        wanted = len(self.sent_at)
        grace = MIN_GRACE_NS if self.numbers else self.timeout_ns
        self._receive_until(min(give_up, time.monotonic_ns() + grace), wanted)
        self._take_up()
        if 0 < len(self.numbers) < wanted:
            self._receive_until(min(give_up, time.monotonic_ns() + 4 * self.trips.longest_ns), wanted)
            self._take_up()

    def _send(self, seq: int) -> None:
        monotonic = time.monotonic_ns()
        now = time.time_ns()
        self.trips.sent(seq, monotonic)
        self.sent_at[seq] = now
        try:
            self.sock.send(self.echoes.packets[seq])
        except OSError as error:
            self.trips.withdraw(seq)
            del self.sent_at[seq]
            self.unsent += 1
            self._note_error(error)
            self.pending.clear()
            self.sends = 0
            self.level = kernel_stamps.enable(
                self.sock, self.level
            )  # whether it was numbered differs by kernel
            return
        if self.level == "kernel":
            self.pending[self.sends] = seq
        self.sends += 1

    def _receive_until(self, deadline: int, wanted: int = 0) -> None:
        """Take what comes until ``deadline``, or until ``wanted`` probes are answered."""
        descriptor = self.sock.fileno()
        while self.reason is None and not (wanted and len(self.numbers) >= wanted):
            left = deadline - time.monotonic_ns()
            if left <= 0:
                return
            if select.select((descriptor,), (), (), left / 1e9)[0]:
                self._receive()

    def _receive(self) -> None:
        while self.pending:
            found = kernel_stamps.read_transmit_stamp(self.sock)
            if found is None:
                break
            seq = self.pending.pop(found[0], None)
            if seq is not None:
                self.left_at[seq] = found[1]
        try:
            data, ancillary, _flags, _peer = self.sock.recvmsg(2048, 256)
        except BlockingIOError:
            if not self.pending:
                kernel_stamps.read_transmit_stamp(self.sock)  # a stray entry would keep select busy
            return
        except OSError as error:
            self._note_error(error)
            return
        seq = reply_number(data, self.echoes.ident, self.echoes.ipv6)
        if seq not in self.sent_at or self.echoes.token not in data:
            return
        if seq in self.numbers:
            self.trips.duplicates += 1
            return
        self.numbers.add(seq)
        self.came.append((data, kernel_stamps.kernel_stamp(ancillary), time.monotonic_ns()))

    def _take_up(self) -> None:
        """Parse what came."""
        for data, stamp, monotonic in self.came:
            reply = icmp_packets.parse_echo(data, self.echoes.ipv6)
            if reply is None or reply[0] != self.echoes.ident or reply[2][:TOKEN_BYTES] != self.echoes.token:
                continue
            seq = reply[1]
            sent, left = self.sent_at.get(seq, 0), self.left_at.get(seq, 0)
            took = stamp - (left or sent) if stamp else 0
            if self.trips.answered(seq, monotonic, took) and stamp:
                self.trips.by_kernel(seq, stamp - sent, "kernel_rx")
                if left:
                    self.trips.by_kernel(seq, took, "kernel")
        self.came = []

    def _note_error(self, error: OSError) -> None:
        self.refused += 1
        if not self.numbers and self.refused >= REFUSALS:
            self.reason = errno_text(error)


def reply_number(data: bytes, ident: int, ipv6: bool) -> int:
    """The sequence number of an echo reply to ``ident`` as a raw socket has it, -1 for anything else.

    Enough to know how many probes are answered; scapy looks at the whole reply when there is time.
    """
    at = 0 if ipv6 or not data else (data[0] & 15) * 4
    if len(data) < at + 8 or data[at : at + 2] != (b"\x81\0" if ipv6 else b"\0\0"):
        return -1
    got, seq = struct.unpack_from("!HH", data, at + 4)
    return int(seq) if got == ident else -1


def _raw_socket(ipv6: bool) -> socket.socket:
    """A socket of echo replies only. Raises PermissionError without CAP_NET_RAW."""
    protocol = 58 if ipv6 else int(socket.IPPROTO_ICMP)
    sock = socket.socket(family_of(":" if ipv6 else ""), socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    try:
        sock.setsockopt(*(_FILTER_V6 if ipv6 else _FILTER_V4))
    except OSError:
        sock.close()
        raise
    return sock
