"""The interpreter: runs a rank's program over connections to its peers, again and again, and takes the time.

One loop over non-blocking sockets. Payload is one block of random bytes, sent over and over and read into a scratch
buffer: what is timed is the network. A message has a header with its program, its chunks and the set of
ranks whose parts they would hold, so that each repetition proves that the collective was done. A peer that says
anything else than what is due ends the run.

Before each repetition all members meet at a barrier (dissemination: ceil(log2 N) rounds), and each takes the time from
there to the end of its last action. No clock is compared with another host's.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import os
import select
import socket
import struct
import time

from ..messages import CONNECTION, PEER, RUN, STOPPED, TIMEOUT
from .links import NOTHING
from .program import DELIVER, FETCH, RECEIVE, Merge, RankProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .links import Link

HEADER = struct.Struct("!BxHIIIIQ")
"""Kind, bytes of the set of ranks, repetition, program, first, last (of a barrier: its round, 0), payload."""
DATA, BARRIER = 1, 2
BLOCK_BYTES = 1 << 18
TURN_BYTES = 1 << 20
"""What one connection moves before the others have their turn."""
_POLL_MS = 250


class CollectiveError(Exception):
    """A run that has to end: a code of ``messages.RUN_CODES`` and the peer it concerns (place among the members)."""

    def __init__(self, code: str, text: str, peer: int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.peer = peer


def barrier_rounds(members: int) -> int:
    """Rounds of a barrier by dissemination."""
    return max(0, members - 1).bit_length()


class Interpreter:
    """Runs programs over ``links``; a failed one is not to be used again."""

    def __init__(self, links: dict[tuple[int, int], Link], place: int, members: int) -> None:
        self.links = links
        self.place = place
        self.members = members
        self.by_descriptor = {link.descriptor: link for link in links.values()}
        self.mask_bytes = (members + 7) // 8
        self.head_bytes = HEADER.size + self.mask_bytes
        self.heads = {link: bytearray(self.head_bytes) for link in links.values()}
        self.block = memoryview(os.urandom(BLOCK_BYTES))  # so that nothing on the path can compress it
        self.scratch = memoryview(bytearray(BLOCK_BYTES))
        self.repetition = 0
        self.met = set()  # type: set[tuple[int, int]]
        self.running = False
        self.program = RankProgram(0, 0, 1, [(1, 0)], [])
        self.merge = Merge(self.program)
        self.waits = []  # type: list[int]
        self.left = 0
        self.parked = {}  # type: dict[int, int]
        self.push = []  # type: list[Link]
        self.sent_bytes = self.received_bytes = 0
        self.stopped = False
        self.wake, self.woken = socket.socketpair()
        self.poll = select.poll()
        self.poll.register(self.woken, select.POLLIN)
        for link in links.values():
            link.sock.setblocking(False)
            link.events = select.POLLIN
            self.poll.register(link.sock, link.events)

    def stop(self) -> None:
        """End the run that another thread is in."""
        self.stopped = True
        try:
            self.wake.send(b"x")
        except OSError:
            pass

    def close(self) -> None:
        """Close every connection."""
        for link in self.links.values():
            link.sock.close()
        self.wake.close()
        self.woken.close()

    def run(self, programs: Sequence[RankProgram], durations: list[int], until: int) -> None:
        """Run the programs in turn; the time of each (ns) is added to ``durations``. Raises CollectiveError.

        ``until`` is the moment (monotonic clock, ns) at which it gives up.
        """
        for program in programs:
            self._barrier(until)
            begin = time.monotonic_ns()
            self._begin(program)
            while self.left:
                self._turn(until)
            durations.append(time.monotonic_ns() - begin)
            self.running = False

    # The barrier.

    def _barrier(self, until: int) -> None:
        self.repetition += 1
        for number in range(barrier_rounds(self.members)):
            link = self.links[(self.place + (1 << number)) % self.members, 0]
            link.control.append(self._header(BARRIER, 0, number, 0, 0, 0))
            self._send(link)
            while (self.repetition, number) not in self.met:
                self._turn(until)
            self.met.discard((self.repetition, number))

    def _reached(self, link: Link, repetition: int, number: int) -> None:
        """A peer has come to a round of the barrier: this repetition's, or already the next one's."""
        source = (self.place - (1 << number)) % self.members if number < 32 else -1
        due = number < barrier_rounds(self.members) and source == link.peer and link.key[1] == 0
        ahead = repetition - self.repetition
        if not due or not 0 <= ahead <= 1 or (repetition, number) in self.met:
            raise CollectiveError(PEER, "it came to a barrier that nobody is at", link.peer)
        self.met.add((repetition, number))

    # A repetition.

    def _begin(self, program: RankProgram) -> None:
        self.running = True
        self.program = program
        self.merge = Merge(program)
        self.waits = list(program.waits)
        self.left = len(self.waits)
        self.parked = {}
        for link in self.links.values():
            link.next_in = link.next_out = 0
        for action, count in enumerate(program.waits):
            if not count:
                self._ready(action)
        for link in self.links.values():
            if link.held:
                link.held = False
                self._watch(link, link.events | select.POLLIN)
                self._accept(link)
        self._push()

    def _ready(self, action: int) -> None:
        """All that an action waits for is done; it is done too, unless it needs the network."""
        todo = [action]
        program, merge = self.program, self.merge
        while todo:
            action = todo.pop()
            kind = program.kind[action]
            try:
                if kind == FETCH:
                    merge.fetch(action)
                elif kind == DELIVER:
                    merge.deliver(action)
                elif kind == RECEIVE:
                    if action not in self.parked:
                        continue
                    merge.receive(action, self.parked.pop(action))
                else:
                    link = self._link(program.key[action])
                    if program.sends[link.key][link.next_out] == action:
                        self.push.append(link)
                    continue
            except ValueError as error:
                raise CollectiveError(RUN, str(error)) from None
            todo += self._end(action)

    def _end(self, action: int) -> list[int]:
        """An action is done: those that may begin now."""
        self.left -= 1
        free = []
        for other in self.program.then[action]:
            self.waits[other] -= 1
            if not self.waits[other]:
                free.append(other)
        return free

    def _link(self, key: tuple[int, int]) -> Link:
        link = self.links.get(key)
        if link is None:
            raise CollectiveError(CONNECTION, "there is no connection of channel %d" % key[1], key[0])
        return link

    # Input and output.

    def _turn(self, until: int) -> None:
        """Wait for the network, and do what can be done."""
        for descriptor, events in self.poll.poll(_POLL_MS):
            link = self.by_descriptor.get(descriptor)
            if link is None:
                continue
            if events & ~select.POLLOUT:
                self._receive(link)
            if events & select.POLLOUT:
                self._send(link)
        self._push()
        if self.stopped:
            raise CollectiveError(STOPPED, "it was stopped")
        if time.monotonic_ns() > until:
            raise CollectiveError(TIMEOUT, "it took too long: %s" % self._missing())

    def _push(self) -> None:
        while self.push:
            self._send(self.push.pop())

    def _missing(self) -> str:
        if not self.running:
            return "not all members came to the barrier"
        return "%d of %d actions are not done" % (self.left, len(self.waits))

    def _watch(self, link: Link, events: int) -> None:
        if events != link.events:
            link.events = events
            self.poll.modify(link.sock, events)

    def _header(self, kind: int, program: int, first: int, last: int, payload: int, parts: int) -> bytes:
        head = HEADER.pack(kind, self.mask_bytes, self.repetition, program, first, last, payload)
        return head + parts.to_bytes(self.mask_bytes, "little")

    def _next_message(self, link: Link) -> bool:
        """Whether there is one to send now; its header and size are in ``link`` then."""
        if link.control:
            link.head, link.out_left, link.sending = link.control.pop(0), 0, NOTHING
            return True
        program = self.program
        places = program.sends.get(link.key, ()) if self.running else ()
        if link.next_out >= len(places) or self.waits[places[link.next_out]]:
            return False
        action = places[link.next_out]
        first, last = program.first[action], program.last[action]
        try:
            parts = self.merge.sent(action)
        except ValueError as error:
            raise CollectiveError(RUN, str(error)) from None
        link.out_left, link.sending = program.size(first, last), action
        link.head = self._header(DATA, program.number, first, last, link.out_left, parts)
        return True

    def _send(self, link: Link) -> None:
        moved = 0
        try:
            while moved < TURN_BYTES:
                if not link.head and not link.out_left and not self._next_message(link):
                    self._watch(link, link.events & ~select.POLLOUT)
                    return
                part = self.block[: min(link.out_left, BLOCK_BYTES)]
                if link.head:
                    sent = link.sock.sendmsg([link.head, part])
                    of_head = min(sent, len(link.head))
                    link.head = link.head[of_head:]
                    sent -= of_head
                else:
                    sent = link.sock.send(part)
                link.out_left -= sent
                self.sent_bytes += sent
                moved += sent
                if not link.head and not link.out_left and link.sending != NOTHING:
                    action, link.sending = link.sending, NOTHING
                    link.next_out += 1
                    for other in self._end(action):
                        self._ready(other)
        except BlockingIOError:
            pass
        except OSError as error:
            raise CollectiveError(
                CONNECTION, "its connection broke: %s" % error.strerror, link.peer
            ) from None
        self._watch(link, link.events | select.POLLOUT)

    def _receive(self, link: Link) -> None:
        moved = 0
        head = self.heads[link]
        try:
            while moved < TURN_BYTES:
                if link.held:
                    got = link.sock.recv(1, socket.MSG_PEEK)  # only an end is news of one that waits
                    if got:
                        return
                    raise CollectiveError(CONNECTION, "its connection ended", link.peer)
                if link.receiving != NOTHING:
                    count = link.sock.recv_into(self.scratch, min(link.in_left, BLOCK_BYTES))
                    link.in_left -= count
                    self.received_bytes += count
                else:
                    count = link.sock.recv_into(memoryview(head)[link.got :])
                    link.got += count
                if not count:
                    raise CollectiveError(CONNECTION, "its connection ended", link.peer)
                moved += count
                if link.receiving != NOTHING:
                    if not link.in_left:
                        self._arrived(link)
                elif link.got == self.head_bytes:
                    self._headed(link)
        except BlockingIOError:
            return
        except OSError as error:
            raise CollectiveError(
                CONNECTION, "its connection broke: %s" % error.strerror, link.peer
            ) from None

    def _headed(self, link: Link) -> None:
        """A whole header is there."""
        kind, mask, repetition, _program, first, _last, payload = HEADER.unpack_from(self.heads[link])
        if mask != self.mask_bytes or kind not in (DATA, BARRIER):
            raise CollectiveError(PEER, "it sent an invalid message", link.peer)
        if kind == BARRIER:
            link.got = 0
            if payload:
                raise CollectiveError(PEER, "it sent an invalid message", link.peer)
            self._reached(link, repetition, first)
        elif repetition != self.repetition:
            raise CollectiveError(PEER, "it sent a message of another repetition", link.peer)
        elif not self.running:  # it has left the barrier that this rank is still at
            link.held = True
            self._watch(link, link.events & ~select.POLLIN)
        else:
            self._accept(link)

    def _accept(self, link: Link) -> None:
        """The message whose header is there has to be the one that is due."""
        program = self.program
        head = self.heads[link]
        _kind, _mask, _repetition, number, first, last, payload = HEADER.unpack_from(head)
        places = program.receives.get(link.key, ())
        if link.next_in >= len(places):
            raise CollectiveError(PEER, "it sent a message that nobody waits for", link.peer)
        action = places[link.next_in]
        due = (program.number, program.first[action], program.last[action])
        if (number, first, last) != due or payload != program.size(first, last):
            raise CollectiveError(PEER, "it sent another message than the one that is due", link.peer)
        link.parts = int.from_bytes(head[HEADER.size :], "little")
        if not 0 < link.parts < 1 << program.ranks:
            raise CollectiveError(PEER, "it sent the parts of ranks that there are not", link.peer)
        link.got = 0
        link.receiving, link.in_left = action, payload
        if not payload:
            self._arrived(link)

    def _arrived(self, link: Link) -> None:
        """A whole message is there; it takes effect when its action may."""
        action = link.receiving
        link.receiving = NOTHING
        link.next_in += 1
        self.parked[action] = link.parts
        if not self.waits[action]:
            self._ready(action)
