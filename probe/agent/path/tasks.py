"""The way to another host: its hops by time to live, and the largest packet that gets there.

A probe that reaches the end is answered by the other agent with this scan's token, so the last hop is proved
and the size that fits is too. Times are ns of the monotonic clock.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import time

from ..stamp import packet
from .mtu import MtuSearch
from .udp_probes import EXPIRED, REPLY, TOO_BIG, UNREACHABLE, Outcome, PathSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_HOPS = 64
FIRST_TRIES, TRIES, LAST_TRIES = 3, 2, 3
MIN_PATIENCE_NS = 15000000
FULL_TTL = 255


def trace(message: dict[str, Any], resources: dict[str, Any]) -> tuple[dict[str, Any], None]:  # noqa: ARG001
    """Hops, their addresses and the MTU of one link."""
    prober = _prober(message["trace"])(
        message["address"],
        int(message["port"]),
        message["source"],
        bytes.fromhex(message["token"]),
        int(message["ssid"]) & 0xFFFF,
    )
    try:
        walk = Walk(prober, int(message["timeout_ns"]), int(message["limit_ns"]))
        answer = {"type": "path", "hops": 0, "addresses": [], "mtu": 0, "reason": walk.begin()}
        if answer["reason"] is None:
            answer["hops"] = walk.hops()
            answer["addresses"] = walk.addresses
            answer["mtu"] = walk.mtu()
        answer["source_port"] = prober.source_port
        answer["sent"] = walk.sent
        return answer, None
    finally:
        prober.close()


def _prober(way: str) -> type[PathSocket]:
    if way == "scapy":
        from .scapy_probes import ScapyPathSocket

        return ScapyPathSocket
    return PathSocket


class Walk:
    """One link. ``prober`` has ``probe(ttl, size, patience_ns)`` and ``header_bytes``: a test has one of its own."""

    def __init__(self, prober: Any, timeout_ns: int, limit_ns: int) -> None:
        self.prober = prober
        self.timeout_ns = timeout_ns
        self.end = time.monotonic_ns() + limit_ns
        self.patience_ns = timeout_ns
        self.addresses = []  # type: list[str | None]
        self.sent = 0

    def begin(self) -> str | None:
        """See that the other end answers, and how long that takes; the reason when it does not."""
        said = None
        for _ in range(FIRST_TRIES):
            began = time.monotonic_ns()
            outcome = self._probe(FULL_TTL, 0, self.timeout_ns)
            if outcome.kind == REPLY:
                took = time.monotonic_ns() - began
                self.patience_ns = min(self.timeout_ns, max(MIN_PATIENCE_NS, 4 * took))
                return None
            if outcome.kind == UNREACHABLE:
                said = "unreachable, says %s" % (outcome.address or "this host")
        return said or "no answer"

    def hops(self) -> int:
        """How many there are to the other end, whose own answer is the last; 0 when it never answers."""
        for ttl in range(1, MAX_HOPS + 1):
            outcome = self._look(ttl, TRIES, self.patience_ns)
            if outcome.kind == REPLY:
                return self._without_lost_answers(ttl, outcome.address)
            self.addresses.append(outcome.address if outcome.kind == EXPIRED else None)
            if time.monotonic_ns() > self.end:
                break
        return 0

    def _without_lost_answers(self, ttl: int, address: str | None) -> int:
        """Where the hop before said nothing, it may be the other end itself, whose answers were lost."""
        while self.addresses and self.addresses[-1] is None:
            outcome = self._look(ttl - 1, LAST_TRIES, 4 * self.patience_ns)
            if outcome.kind == EXPIRED:
                self.addresses[-1] = outcome.address
            if outcome.kind != REPLY:
                break
            self.addresses.pop()
            ttl -= 1
        self.addresses.append(address)
        return ttl

    def mtu(self) -> int:
        """The size in bytes of the largest IP packet that is answered; 0 where that is unknown."""
        # The smallest size that can be probed; the path takes a little less, because a usual probe passed.
        header = int(self.prober.header_bytes)
        patience = (self.patience_ns, min(self.timeout_ns, 4 * self.patience_ns))
        return MtuSearch(
            lambda size, patience_ns: self._probe(FULL_TTL, size, patience_ns),
            header + packet.LARGE_BYTES,
            header + packet.PACKET_BYTES,
            patience,
            self.end,
        ).run()

    def _look(self, ttl: int, tries: int, patience_ns: int) -> Outcome:
        """The first word about a probe, of ``tries`` of them; a refusal by the host itself does not count."""
        outcome = Outcome("silence")
        for _ in range(tries):
            outcome = self._probe(ttl, 0, patience_ns)
            if outcome.kind in (REPLY, EXPIRED, TOO_BIG):
                break
        return outcome

    def _probe(self, ttl: int, size: int, patience_ns: int) -> Outcome:
        self.sent += 1
        return self.prober.probe(ttl, size, patience_ns)  # type: ignore[no-any-return]
