"""How many replies a reflector gives: a token bucket for each sender, and one for all of them.

A bucket is one number, the time at which it will be full again (the virtual scheduling of GCRA, ITU-T I.371).
The rates are above what a scan asks for: its fastest series sends 20,000 probes a second to a host.
"""

from __future__ import annotations

SENDER_PER_S = 25000
SENDER_BURST = 2500
ALL_PER_S = 50000
ALL_BURST = 5000
MAX_SENDERS = 4096

_SENDER_NS, _SENDER_FULL_NS = 1000000000 // SENDER_PER_S, SENDER_BURST * 1000000000 // SENDER_PER_S
_ALL_NS, _ALL_FULL_NS = 1000000000 // ALL_PER_S, ALL_BURST * 1000000000 // ALL_PER_S


class ReplyRate:
    """The buckets. A sender is an address with any port, for it chooses its ports."""

    def __init__(self) -> None:
        self.all = 0
        self.refused = 0
        self.of = {}  # type: dict[str, int]

    def allows(self, sender: str, now: int) -> bool:
        """Whether a reply may go there at ``now`` (ns of a monotonic clock); one that may is counted."""
        everyone, own = self.all, self.of.get(sender, 0)
        if everyone < now:
            everyone = now
        if own < now:
            own = now
        if own - now > _SENDER_FULL_NS - _SENDER_NS or everyone - now > _ALL_FULL_NS - _ALL_NS:
            self.refused += 1
            return False
        if len(self.of) >= MAX_SENDERS and sender not in self.of:
            self.of = {address: full for address, full in self.of.items() if full > now}
            if len(self.of) >= MAX_SENDERS:
                self.refused += 1
                return False
        self.of[sender] = own + _SENDER_NS
        self.all = everyone + _ALL_NS
        return True
