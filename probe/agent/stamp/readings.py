"""Round-trip times out of the stamps of a series: which to keep, which to reject. No I/O.

RTT = (T4 - T1) - (T3 - T2): T1 and T4 by the sender's clock, T2 and T3 by the reflector's, so the clocks
need not agree. A step of either clock while a probe is under way makes its reading impossible (negative,
or longer than the sender's monotonic clock allows): such a reading is rejected and counted.

A probe may be answered twice. Its reading is that of the reply to the probe that came to the reflector first, with
that reply's own T2 and T3; where another reply is the first to arrive, the probe has no reading.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

from . import packet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MONOTONIC_SLACK_NS = 20000
"""CLOCK_REALTIME may be slewed against CLOCK_MONOTONIC's reading order by this much, and no more."""
LEAST_READINGS = 25
"""The fewest readings from which the 10th percentile may be called known."""


class _Trip:
    __slots__ = (
        "arrival",
        "is_of_copy",
        "reply",
        "t1",
        "t1_kernel",
        "t1_monotonic",
        "t3_kernel",
        "t4",
        "t4_kernel",
        "t4_monotonic",
    )

    def __init__(self, t1: int, t1_monotonic: int) -> None:
        self.t1 = t1
        self.t1_monotonic = t1_monotonic
        self.t1_kernel = 0
        self.t3_kernel = 0
        self.t4 = 0
        self.t4_kernel = 0
        self.t4_monotonic = 0
        self.arrival = -1
        self.is_of_copy = False
        self.reply = None  # type: packet.Reply | None


class SeriesReadings:
    """Collects the stamps of one series; sequence number 0 is the warm-up, ``count`` + 1 on are flushes."""

    def __init__(self, count: int, timeout_ns: int) -> None:
        self.count = count
        self.timeout_ns = timeout_ns
        self.trips = {}  # type: dict[int, _Trip]
        self.arrivals = 0
        self.received = 0
        self.duplicates = 0
        self.longest_ns = 0
        self.look_at = LEAST_READINGS

    def sent(self, seq: int, now: int, monotonic: int) -> None:
        """Probe ``seq`` has left; user-space time of day and monotonic clock, in ns."""
        self.trips[seq] = _Trip(now, monotonic)

    def left(self, seq: int, stamp: int) -> None:
        """The kernel says when probe ``seq`` left. A stamp from before is another packet's, numbered alike."""
        trip = self.trips.get(seq)
        if trip is not None and stamp >= trip.t1:
            trip.t1_kernel = stamp

    def answered(self, reply: packet.Reply, kernel: int, now: int, monotonic: int) -> None:
        """A reply came in; ``kernel`` is its receive stamp, 0 when there is none. A late one is lost."""
        trip = self.trips.get(reply.seq)
        if trip is None:
            return
        took = monotonic - trip.t1_monotonic
        if kernel and 0 < kernel - trip.t1 < took:
            took = kernel - trip.t1  # it may have waited in the queue since
        if took > self.timeout_ns:
            return
        previous = self.trips.get(reply.previous_seq)
        if reply.previous_kernel and previous is not None and not previous.t3_kernel:
            previous.t3_kernel = reply.previous_t3
        if trip.reply is not None:
            self.duplicates += 1
            return
        trip.reply, trip.t4, trip.t4_kernel, trip.t4_monotonic = reply, now, kernel, monotonic
        trip.is_of_copy = reply.is_of_copy
        trip.arrival = self.arrivals
        self.arrivals += 1
        self.longest_ns = max(self.longest_ns, took)
        if 1 <= reply.seq <= self.count:
            self.received += 1

    def is_answered(self, seq: int) -> bool:
        """Whether a reply to probe ``seq`` has come."""
        trip = self.trips.get(seq)
        return trip is not None and trip.reply is not None

    def is_p10_known(self, within_ns: int) -> bool:
        """Whether the readings with all stamps of the kernel tell the 10th percentile to ``within_ns``.

        That is the length of its interval of 95 % (``p10_ranks``). Never while an answer is missing: losses are
        worth all probes. To look often would find a lucky moment: after one look the next is at a quarter more.
        """
        if self.received < self.look_at:
            return False
        self.look_at = self.received * 5 // 4 + 1
        answered = [(seq, trip) for seq, trip in self.trips.items() if seq >= 1 and trip.arrival >= 0]
        if max(seq for seq, _trip in answered) > len(answered):
            return False
        readings = [
            _rtt(trip, "kernel")
            for _seq, trip in answered
            if trip.arrival > 0 and not trip.is_of_copy and _has_kernel(trip)
        ]
        known = sorted(rtt for rtt in readings if rtt is not None)
        count = len(known)
        if count < LEAST_READINGS:
            self.look_at = self.received + 1
            return False
        low, high = p10_ranks(count)
        return known[high - 1] - known[low - 1] <= within_ns

    def end_at(self, count: int) -> None:
        """The series ends after ``count`` probes; those that follow are flushes."""
        self.count = count

    def result(self, start_monotonic: int) -> tuple[str | None, list[tuple[int, int, int]], int]:
        """Level, samples (sequence number, sent at, RTT; ns) in order of sending, readings rejected.

        All samples of a series have the same level: the best one that at least half of its readings
        have. The first reading to arrive pays for address resolution and cold caches and is dropped.
        """
        trips = [
            (seq, trip)
            for seq, trip in sorted(self.trips.items())
            if 1 <= seq <= self.count and trip.arrival > 0 and not trip.is_of_copy
        ]
        if not trips:
            return None, [], 0
        level, usable = "user", trips
        for name, has in (("kernel", _has_kernel), ("kernel_rx", _has_kernel_rx)):
            with_stamps = [(seq, trip) for seq, trip in trips if has(trip)]
            if 2 * len(with_stamps) >= len(trips):
                level, usable = name, with_stamps
                break
        samples = []
        rejected = 0
        for seq, trip in usable:
            rtt = _rtt(trip, level)
            if rtt is None:
                rejected += 1
            else:
                samples.append((seq, trip.t1_monotonic - start_monotonic, rtt))
        return level, samples, rejected


def p10_ranks(count: int) -> tuple[int, int]:
    """The ranks, from 1, of the two of ``count`` sorted readings between which the 10th percentile is with 95 %.

    Whatever their distribution (David and Nagaraja, Order Statistics, section 7.1), by the normal approximation
    of the binomial, rounded outwards. Below 36 readings the least one is all that bounds it from below, and is above it
    with 2 (36) to 7 % (25): nothing is faster than an idle path, so little lies below it.
    """
    middle, aside = 0.1 * count, 1.96 * (0.09 * count) ** 0.5
    return max(1, int(middle - aside)), int(middle + aside) + 2


def _has_kernel(trip: Any) -> bool:
    return bool(trip.t1_kernel and trip.t4_kernel and trip.t3_kernel and trip.reply.t2_kernel)


def _has_kernel_rx(trip: Any) -> bool:
    return bool(trip.t4_kernel and trip.reply.t2_kernel)


def _rtt(trip: Any, level: str) -> int | None:
    """The RTT in ns at this level, None when it cannot be."""
    monotonic = trip.t4_monotonic - trip.t1_monotonic
    if level == "user":
        outer = monotonic
        inner = trip.reply.t3 - trip.reply.t2
    else:
        outer = trip.t4_kernel - (trip.t1_kernel if level == "kernel" else trip.t1)
        inner = (trip.t3_kernel if level == "kernel" else trip.reply.t3) - trip.reply.t2
    rtt = outer - inner
    if inner < 0 or rtt <= 0 or outer > monotonic + MONOTONIC_SLACK_NS:
        return None
    return int(rtt)
