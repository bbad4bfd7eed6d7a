"""Moments at which probes leave: spaced uniformly in 0.5..1.5 intervals (RFC 2330 section 11.1)."""

from __future__ import annotations

import time

_MASK = (1 << 64) - 1


class Pacer:
    """Due times of the probes of one series, ns of the monotonic clock."""

    def __init__(self, interval_ns: int, seed: int = 0) -> None:
        self.interval_ns = interval_ns
        self.due = time.monotonic_ns()
        self.random = (seed * 0x9E3779B97F4A7C15 + self.due & _MASK) or 1

    def advance(self) -> None:
        """A probe has left: when the next one is due. After a stall there is no burst to catch up."""
        late = time.monotonic_ns() - self.interval_ns
        self.due = max(self.due, late) + self._spacing()

    def spacings(self, count: int) -> list[int]:
        """The times, ns, between the next ``count`` probes and what follows each; ``due`` stays as it is."""
        return [self._spacing() for _ in range(count)]

    def _spacing(self) -> int:
        """By a small generator (xorshift64*): the module ``random`` is large."""
        x = self.random
        x ^= x >> 12
        x = (x ^ x << 25) & _MASK
        x ^= x >> 27
        self.random = x
        return self.interval_ns // 2 + (x * 0x2545F4914F6CDD1D & _MASK) % max(1, self.interval_ns)
