"""The largest packet that gets to the other end, found so that loss alone is never taken for a limit.

A size that was answered fits. A size is refused when an ICMP error or the kernel says so with its MTU; silence
and a word without one only direct the search. Before the search settles, the size just above the answer is
asked again and again, each time between two probes of a size that is known to fit: only if those are answered
and it never is, it is refused. What cannot be proved is unknown, which is better than a byte less than the truth.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import time

from .udp_probes import REPLY, TOO_BIG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .udp_probes import Outcome

MAX_SIZE = 65535
LEAST_MTU = 68
COMMON = (1500, 9000, 1492, 1400, 1450, 1460, 1480, 1420, 1280, 8950, 8896, 9001, 8500, 3900, 1376, 576)
"""MTUs of Ethernet, jumbo frames, PPPoE, tunnels and clouds, in the order in which they are tried."""
TRIES = 2
"""Of a size, before the search turns to a smaller one."""
PROOFS = 5
"""Losses of a size between answers of a smaller one that prove it refused, on a path without loss."""
MAX_PROOFS = 24
"""Tries that a proof may take; each lost probe of the smaller size asks for two losses more."""


class MtuSearch:
    """``probe(size, patience_ns)`` sends one probe of an IP packet of so many bytes (0: the usual, small one).

    ``least`` is the smallest size that can be probed, ``fits`` one that is known to fit, that of the usual probe.
    """

    def __init__(
        self,
        probe: Callable[[int, int], Outcome],
        least: int,
        fits: int,
        patience_ns: tuple[int, int],
        end_ns: int,
    ) -> None:
        self.probe = probe
        self.least = least
        self.low = fits
        self.bound = MAX_SIZE
        """What nobody has said to be too big."""
        self.patience_ns, self.long_patience_ns = patience_ns
        self.end_ns = end_ns

    def run(self) -> int:
        """The size in bytes; 0 when it is unknown."""
        high, guess = self.bound, self.bound
        while time.monotonic_ns() <= self.end_ns:
            high = min(high, self.bound)
            if self.low >= high:
                if self.low >= self.bound or self.low + 1 < self.least:
                    return self.low
                refused = self._is_refused(self.low + 1)
                if refused is None:
                    return 0
                if refused:
                    return self.low
                high = self.bound  # it fits, or a limit was reported: silence of larger ones may be loss too
                continue
            size = guess if self.low < guess <= high else self._next(high)
            size = min(max(size, self.least), high) if high >= self.least else high
            if size < self.least:  # no size is left to probe
                high = self.low
                continue
            before = self.bound
            if not self._fits(size):
                high = size - 1
            guess = self.bound if self.bound < before else 0
        return 0

    def _next(self, high: int) -> int:
        """The size to ask for, of those above ``low`` and up to ``high``."""
        for size in COMMON:
            if self.low < size <= high:
                return size
        if self.low in COMMON:
            return self.low + 1  # most likely nothing more
        return (self.low + high + 1) // 2

    def _fits(self, size: int) -> bool:
        """Whether one of a few probes is answered."""
        for _ in range(TRIES):
            outcome = self.probe(size, self.patience_ns)
            if self._heard(size, outcome):
                return True
            if outcome.kind == TOO_BIG:
                return False
        return False

    def _heard(self, size: int, outcome: Outcome) -> bool:
        """Learn from a probe's outcome; True when it was answered.

        A word with an MTU of the probe's size or more is about another probe, or nonsense.
        """
        if outcome.kind == REPLY:
            self.low = max(self.low, size)
            return True
        if outcome.kind == TOO_BIG and max(LEAST_MTU, self.low) <= outcome.mtu < size:
            self.bound = min(self.bound, outcome.mtu)
        return False

    def _is_refused(self, size: int) -> bool | None:
        """Whether ``size`` is; False also when a limit is reported instead. None when it is unknown."""
        known = self.low if self.low >= self.least else 0
        losses, needed = 0, PROOFS
        control = self._control(known)
        for _ in range(MAX_PROOFS):
            if time.monotonic_ns() > self.end_ns:
                return None
            before = control
            outcome = self.probe(size, self.long_patience_ns)
            if self._heard(size, outcome):
                return False
            if self.bound < size:
                return True
            control = self._control(known)
            if before and control:
                losses += 1
            else:
                needed += 1  # twice for a lost probe: it counts before a try and after one
            if losses >= needed:
                return True
        return None

    def _control(self, known: int) -> bool:
        return self.probe(known, self.long_patience_ns).kind == REPLY
