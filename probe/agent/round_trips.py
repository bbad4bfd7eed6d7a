"""Round-trip times of probes that only their sender stamps (ICMP echoes, TCP handshakes). No I/O."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SLACK_NS = 20000
"""By so much the kernel's reading may exceed what user space saw: the clocks are read one after the other."""


class _Trip:
    __slots__ = ("arrival", "kernel_ns", "kernel_rx_ns", "sent_at", "user_ns")

    def __init__(self, sent_at: int) -> None:
        self.sent_at = sent_at
        self.arrival = -1
        self.user_ns = self.kernel_ns = self.kernel_rx_ns = 0


class RoundTrips:
    """One series: probe 0 is the warm-up, 1 to ``count`` are counted. Times are ns of the monotonic clock."""

    def __init__(self, count: int, timeout_ns: int) -> None:
        self.count = count
        self.timeout_ns = timeout_ns
        self.trips = {}  # type: dict[int, _Trip]
        self.arrivals = 0
        self.received = 0
        self.duplicates = 0
        self.longest_ns = 0

    @property
    def sent_count(self) -> int:
        """Probes sent, the warm-up left out."""
        return sum(1 for seq in self.trips if 1 <= seq <= self.count)

    def sent(self, seq: int, now: int) -> None:
        """Probe ``seq`` leaves."""
        self.trips[seq] = _Trip(now)

    def withdraw(self, seq: int) -> None:
        """Probe ``seq`` could not be sent after all."""
        self.trips.pop(seq, None)

    def answered(self, seq: int, now: int, took_ns: int = 0) -> bool:
        """Its answer is there, ``took_ns`` after it left where that is known better than by ``now``.

        False for one that is late, a duplicate, or no answer to any probe.
        """
        trip = self.trips.get(seq)
        if trip is None:
            return False
        took = took_ns if 0 < took_ns < now - trip.sent_at else now - trip.sent_at
        if took > self.timeout_ns:
            return False
        if trip.arrival >= 0:
            self.duplicates += 1
            return False
        trip.arrival = self.arrivals
        trip.user_ns = now - trip.sent_at
        self.arrivals += 1
        self.longest_ns = max(self.longest_ns, took)
        if 1 <= seq <= self.count:
            self.received += 1
        return True

    def by_kernel(self, seq: int, rtt_ns: int, level: str = "kernel") -> None:
        """The kernel's own reading of probe ``seq``; may be impossible."""
        trip = self.trips.get(seq)
        if trip is not None:
            setattr(trip, level + "_ns", rtt_ns)

    def is_answered(self, seq: int) -> bool:
        """Whether the answer to probe ``seq`` has come."""
        trip = self.trips.get(seq)
        return trip is not None and trip.arrival >= 0

    def result(self, start: int) -> tuple[str | None, list[tuple[int, int, int]], int]:
        """Level, samples (sequence number, sent at from ``start``, RTT), readings rejected.

        The level is the best one that at least half of the readings have; the others are left out. The first
        reading to arrive pays for address resolution and is dropped. One that cannot be (negative, or longer
        than user space saw) is rejected.
        """
        trips = [
            (seq, trip)
            for seq, trip in sorted(self.trips.items())
            if 1 <= seq <= self.count and trip.arrival > 0
        ]
        if not trips:
            return None, [], 0
        level, usable = "user", trips
        for name in ("kernel", "kernel_rx"):
            having = [(seq, trip) for seq, trip in trips if getattr(trip, name + "_ns")]
            if 2 * len(having) >= len(trips):
                level, usable = name, having
                break
        samples = []
        for seq, trip in usable:
            rtt = getattr(trip, level + "_ns")
            if 0 < rtt <= trip.user_ns + SLACK_NS:
                samples.append((seq, trip.sent_at - start, rtt))
        return level, samples, len(usable) - len(samples)


def series_answer(
    trips: RoundTrips, start: int, now: int, source_port: int, unsent: int, reason: str | None
) -> tuple[dict[str, Any], Any]:
    """The answer of a task that ran a series, and its samples."""
    level, samples, rejected = trips.result(start)
    answer = {
        "type": "done",
        "sent": trips.sent_count,
        "received": trips.received,
        "duplicates": trips.duplicates,
        "rejected": rejected,
        "unsent": unsent,
        "source_port": source_port,
        "stamps": level,
        "duration_ns": now - start,
        "reason": reason,
    }
    return answer, samples
