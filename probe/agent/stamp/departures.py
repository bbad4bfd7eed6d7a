"""When a reflector's last reply to each sender left, and which probes it has answered before. No I/O.

A network may deliver a probe twice. Both copies are answered, as a stateless reflector would, but the departure
that a later reply reports is that of the reply to the first copy: the time between the receipt of one copy and
the reply to the other is not the time that the reflector held a probe.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

from . import packet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Departure = tuple[int, int, int]

MAX_SENDERS = 4096
WINDOW = 256
"""A probe so far behind its sender's latest one is taken for a copy: it is not known any more whether it is."""
_SEEN = (1 << WINDOW) - 1
_NONE = (0, 0, 0)


class Session:
    """One series of a sender as its reflector sees it."""

    __slots__ = ("highest", "last", "seen", "warm_up")

    def __init__(self) -> None:
        self.highest = -1
        self.seen = 0
        """Bit b: the probe of ``highest`` - b has come."""
        self.last = _NONE  # type: Departure
        self.warm_up = None  # type: bytes | None

    def has_seen(self, seq: int) -> bool:
        """Whether probe ``seq`` has come before; from now on it has."""
        behind = self.highest - seq
        if behind < 0:
            self.seen = (self.seen << -behind | 1) & _SEEN if -behind < WINDOW else 1
            self.highest = seq
            return False
        if behind >= WINDOW or self.seen >> behind & 1:
            return True
        self.seen |= 1 << behind
        return False


class Departures:
    """The sessions of all senders; a sender is an address, a port and a session number."""

    def __init__(self) -> None:
        self.sessions = {}  # type: dict[Any, Session]

    def arrived(self, sender: Any, seq: int, stamp: bytes) -> tuple[Departure, Session | None]:
        """Probe ``seq``, which carries its sender's ``stamp``, has come.

        What its reply reports: (sequence number, T3 in ns, method) of the reply that left before, zeros when
        there was none. And the session that the reply belongs to; None for a copy of a probe that was answered
        before, whose reply is recognised by its reporting its own number.
        """
        session = self.sessions.get(sender)
        if session is None or (seq == 0 and session.warm_up not in (None, stamp)):
            # A new series, of a new sender or from a port and with a number that one before it had.
            session = self._open(sender)
        if session.has_seen(seq):
            return session.last if session.last[0] == seq else (seq, 0, 0), None
        if seq == 0:
            session.warm_up = stamp
        return session.last, session

    def _open(self, sender: Any) -> Session:
        if len(self.sessions) >= MAX_SENDERS and sender not in self.sessions:
            for oldest in list(self.sessions)[: MAX_SENDERS // 2]:
                del self.sessions[oldest]
        self.sessions.pop(sender, None)  # the new one is the youngest
        session = self.sessions[sender] = Session()
        return session


def leaves(session: Session, seq: int, sent_ns: int) -> None:
    """The reply to ``seq`` is about to leave; T3 as user space knows it."""
    session.last = (seq, sent_ns, packet.METHOD_USER)


def left(session: Session, seq: int, stamp: int) -> None:
    """The kernel says when it left."""
    if session.last[0] == seq:
        session.last = (seq, stamp, packet.METHOD_SOFTWARE)
