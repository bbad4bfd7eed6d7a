"""What one rank of a proved program does, as a fixed list of operations for one buffer size.

A program's actions move runs of chunks; here each is cut into messages of about one size, so that a message is added
while the next is on its way, and what waits for what is found again for these. The list is the same in every
iteration, and so are the sums: a rank adds what it receives in the order of its list, never in that of arrival.

Why nothing hangs: a rank goes through its receives in the order of steps. It sends as soon as what is sent is complete,
and posts receives early, but it blocks only at a receive of step s, for a message of step s, or for its own sends of
steps up to s to be read. The peer that it waits for then has not reached step s, or is itself before it: whoever
is at the lowest step is not blocked. Where a receive of a step overwrites what is sent in the same step (an exchange
of whole buffers), all receives of that step are posted when it begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from netprobe.plan.schedule.program import CollectiveProgram, needed_waits
from netprobe.plan.schedule.schedule import Ints
from netprobe.probe.agent.collective.program import RECEIVE, SEND

SEND_NOW, POST, TAKE, ADD, PUT, SENT = range(6)
"""Operations: start a send, post a receive, wait for one, add what it brought or put it in place, wait until a send has
been read."""
MAX_CUTS = 64
OVERTAKING_PEERS = 3


class Message(NamedTuple):
    """One message of this rank: elements ``begin`` to ``end`` - 1 of the buffer, from or to ``peer``."""

    kind: int
    peer: int
    channel: int
    tag: int
    begin: int
    end: int
    reduces: bool
    step: int


class Operation(NamedTuple):
    """One operation on message ``message``; ``slot`` is the staging buffer of a receive that is added, -1 without."""

    code: int
    message: int
    slot: int = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Tape:
    """The operations of one rank for one buffer size; ``slots`` staging buffers of ``slot_elements`` are needed."""

    messages: tuple[Message, ...]
    operations: tuple[Operation, ...]
    slots: int
    slot_elements: int
    tags: int
    """No message has a larger tag than this less 1."""
    window: int = 0
    """How many receives are posted at a time where messages overtake (`overtaking`), which have no operations then."""
    after: tuple[tuple[int, ...], ...] = ()
    """Of each message the earlier ones that it waits for, where there are no operations."""


def exchange_steps(program: CollectiveProgram) -> frozenset[int]:
    """The steps in which some rank receives into chunks that it sends in the same step."""
    later = np.repeat(np.arange(len(program)), np.diff(program.after_bounds))
    earlier = program.after
    both = (program.kind[later] == RECEIVE) & (program.kind[earlier] == SEND)
    both &= program.step[later] == program.step[earlier]
    return frozenset(np.unique(program.step[later[both]]).tolist())


def cuts_for(bounds: Ints, itemsize: int, message_bytes: int) -> int:
    """Into how many parts each chunk is cut so that no message of it needs to be larger than ``message_bytes``."""
    largest = int(np.diff(bounds).max(initial=0)) * itemsize
    return max(1, min(MAX_CUTS, -(-largest // message_bytes)))


def fine_bounds(bounds: Ints, cuts: int) -> Ints:
    """(chunks * cuts + 1,) where each part of a chunk begins; parts of a chunk differ by one element at most."""
    sizes = np.diff(bounds)
    parts = np.arange(cuts)
    each = (sizes[:, None] * (parts + 1)) // cuts - (sizes[:, None] * parts) // cuts
    return np.concatenate([[0], np.cumsum(each.reshape(-1))]).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How messages are made: their size, and how many receives a rank posts ahead.

    A message of at most ``copied_bytes`` whose place is still in use is received beside it and copied, so that its
    receive too is posted ahead: its sender then need not wait to be told.
    """

    message_bytes: int = 1 << 21
    window: int = 8
    copied_bytes: int = 1 << 19
    overtaking: int = 12
    """Receives that are posted at a time where messages overtake; 0: none do."""
    native: bool = True
    """Whether messages are moved by the library in C (`netprobe.runtime.native`), where all ranks have it."""


def tape_of(
    program: CollectiveProgram,
    rank: int,
    bounds: Ints,
    itemsize: int,
    settings: Settings,
    *,
    native: bool = False,
) -> Tape:
    """The tape of ``rank`` for a buffer whose chunks begin at ``bounds`` (chunks + 1,), in elements of ``itemsize``.

    ``native``: for the library in C, which needs no operations.
    """
    cuts = cuts_for(bounds, itemsize, settings.message_bytes)
    fine = fine_bounds(bounds, cuts)
    rows = _pieces(program, rank, fine, cuts, max(1, settings.message_bytes // itemsize))
    messages = _tagged(rows, fine)
    after = _after(rows, len(fine) - 1)
    tags = max((m.tag for m in messages), default=-1) + 1
    if native:
        return Tape(
            messages=messages,
            operations=(),
            slots=0,
            slot_elements=0,
            tags=tags,
            after=tuple(map(tuple, after)),
        )
    if settings.overtaking and overtakes(program, messages):
        added = [m.end - m.begin for m in messages if m.reduces]
        return Tape(
            messages=messages, operations=(), slots=0, slot_elements=max(added, default=0), tags=tags,
            window=settings.overtaking, after=tuple(map(tuple, after)),
        )  # fmt: skip
    copied = settings.copied_bytes // itemsize
    operations, slots = _operations(messages, after, exchange_steps(program), settings.window, copied)
    staged = [messages[o.message].end - messages[o.message].begin for o in operations if o.slot >= 0]
    return Tape(
        messages=messages,
        operations=tuple(operations),
        slots=slots,
        slot_elements=max(staged, default=0),
        tags=tags,
    )


def overtakes(program: CollectiveProgram, messages: Sequence[Message]) -> bool:
    """Whether a rank takes its messages as they come: of three peers or more, and several of one.

    From one or two peers they come in their order mostly, and one thread is quicker. Not where a place is received into
    in the step in which it is sent from: there the receives of a step must all be posted when it begins. Ranks
    may differ in it.
    """
    peers = [m.peer for m in messages if m.kind == RECEIVE]
    return (
        len(set(peers)) >= OVERTAKING_PEERS and len(peers) > len(set(peers)) and not exchange_steps(program)
    )


class _Piece(NamedTuple):
    step: int
    receives: bool
    part: int
    action: int
    kind: int
    peer: int
    channel: int
    first: int
    last: int
    reduces: bool


def _pieces(program: CollectiveProgram, rank: int, fine: Ints, cuts: int, elements: int) -> list[_Piece]:
    """The messages of a rank's actions, empty ones left out; of a step those of all peers take turns."""
    at = fine.tolist()
    made: list[_Piece] = []
    for number, action in enumerate(program.actions(rank)):
        if action.kind not in (SEND, RECEIVE):
            continue
        begin, end, part = action.first * cuts, action.last * cuts, 0
        while begin < end:
            until = begin + 1
            while until < end and at[until + 1] - at[begin] <= elements:
                until += 1
            if at[until] > at[begin]:
                made.append(
                    _Piece(
                        action.step, action.kind == RECEIVE, part, number,
                        action.kind, action.peer, action.channel, begin, until, action.reduces,
                    )
                )  # fmt: skip
                part += 1
            begin = until
    fixed = _steps_in_order(made)
    return sorted(
        made, key=lambda p: (p.step, p.receives, 0 if p.step in fixed else p.part, p.action, p.part)
    )


def _steps_in_order(pieces: Sequence[_Piece]) -> set[int]:
    """Steps whose receives may not change places: a copy and another receive of the same elements."""
    runs: dict[int, list[tuple[int, int, bool]]] = {}
    for piece in pieces:
        if piece.receives:
            runs.setdefault(piece.step, []).append((piece.first, piece.last, piece.reduces))
    found = set()
    for step, own in runs.items():
        if all(reduces for _, _, reduces in own):
            continue
        own.sort()
        reached, copied = -1, False
        for first, last, reduces in own:
            if first < reached and (copied or not reduces):
                found.add(step)
                break
            copied = (copied and first < reached) or not reduces
            reached = max(reached, last)
    return found


def _tagged(pieces: Sequence[_Piece], fine: Ints) -> tuple[Message, ...]:
    """Messages with tags: of a connection, in the order of its actions, the same at both ends."""
    count: Counter[tuple[int, int, int]] = Counter()
    tags: dict[tuple[int, int], int] = {}
    for piece in sorted(pieces, key=lambda p: (p.action, p.part)):
        line = (piece.kind, piece.peer, piece.channel)
        tags[piece.action, piece.part] = count[line]
        count[line] += 1
    at = fine.tolist()
    return tuple(
        Message(p.kind, p.peer, p.channel, tags[p.action, p.part], at[p.first], at[p.last], p.reduces, p.step)
        for p in pieces
    )


def _after(pieces: Sequence[_Piece], chunks: int) -> list[list[int]]:
    """Of each message the earlier ones of this rank that it waits for."""
    found: list[list[int]] = [[] for _ in pieces]
    if pieces:
        kind, rank, first, last = np.array([(p.kind, 0, p.first, p.last) for p in pieces], dtype=np.int64).T
        for later, earlier in needed_waits(kind, rank, first, last, chunks).tolist():
            found[later].append(earlier)
    return found


def _operations(
    messages: Sequence[Message],
    after: Sequence[Sequence[int]],
    exchanges: frozenset[int],
    window: int,
    copied: int,
) -> tuple[list[Operation], int]:
    """The operations in order, and how many staging buffers they use."""
    receives = [i for i, m in enumerate(messages) if m.kind == RECEIVE]
    waiting, readers = _dependents(messages, after)
    state = _State(messages, after, copied)
    # Receives first: a message whose receive is posted leaves at once.
    for i in receives[:window]:
        state.post(i, -1, must=False, room=window, waits=False)
    for i, message in enumerate(messages):
        if message.kind == SEND and not waiting[i]:
            state.send(i)
    for place, now in enumerate(receives):
        step = messages[now].step
        whole = step in exchanges
        near: list[tuple[int, bool]] = []
        for i in receives[place:]:
            same = whole and messages[i].step == step
            if len(near) >= window and not same:
                break
            near.append((i, same or i == now))
        for i, must in near:
            state.post(i, now, must=must, room=window, waits=must)
        state.take(now)
        for send in readers.get(now, ()):
            waiting[send] -= 1
            if not waiting[send]:
                state.send(send)
        # Only now, so that nothing above waited for a peer to read what was sent.
        for i, _ in near[1:]:
            state.post(i, now, must=False, room=window, waits=True)
    state.finish()
    return state.operations, state.slots


def _dependents(
    messages: Sequence[Message], after: Sequence[Sequence[int]]
) -> tuple[list[int], dict[int, list[int]]]:
    """How many receives each send waits for, and the sends that wait for each receive."""
    waiting = [0] * len(messages)
    readers: dict[int, list[int]] = {}
    for i, message in enumerate(messages):
        if message.kind == SEND:
            waiting[i] = len(after[i])
            for earlier in after[i]:
                readers.setdefault(earlier, []).append(i)
    return waiting, readers


class _State:
    """What of a rank's messages has been issued, posted, taken and read at one place of its tape."""

    def __init__(self, messages: Sequence[Message], after: Sequence[Sequence[int]], copied: int) -> None:
        self._messages, self._after, self._copied = messages, after, copied
        self._unread: dict[int, None] = {}
        self._read: set[int] = set()
        self._taken: set[int] = set()
        self._slot: dict[int, int] = {}
        self._free: list[int] = []
        self.operations: list[Operation] = []
        self.slots = 0

    def send(self, i: int) -> None:
        """Start a send."""
        self._unread[i] = None
        self.operations.append(Operation(SEND_NOW, i))

    def post(self, i: int, now: int, *, must: bool, room: int, waits: bool) -> None:
        """Post receive ``i`` while the rank is at ``now``, where that is possible already.

        ``waits``: also where it must first wait until what was sent from there has been read.
        """
        if i in self._slot:
            return
        slot = -1
        if self._staged(i) or (not waits and self._is_copied(i)):
            if not self._free and (must or self.slots < room):
                self._free.append(self.slots)
                self.slots += 1
            if not self._free:
                return
            slot = self._free.pop()
        else:
            # In place: nothing may still use what is there.
            for earlier in self._after[i]:
                if earlier not in self._taken and (self._messages[earlier].kind == RECEIVE or earlier > now):
                    return
            if not waits and any(earlier in self._unread for earlier in self._after[i]):
                return
            self._wait_read(i)
        self._slot[i] = slot
        self.operations.append(Operation(POST, i, slot))

    def take(self, i: int) -> None:
        """Wait for receive ``i`` and put what it brought where it belongs."""
        slot = self._slot[i]
        self.operations.append(Operation(TAKE, i, slot))
        if slot >= 0:
            self._wait_read(i)
            self.operations.append(Operation(ADD if self._messages[i].reduces else PUT, i, slot))
            self._free.append(slot)
        self._taken.add(i)

    def finish(self) -> None:
        """Wait for the sends that nothing has waited for."""
        self.operations += [Operation(SENT, i) for i in self._unread]
        self._unread.clear()

    def _staged(self, i: int) -> bool:
        """Whether a receive needs a buffer of its own: it is added, or its rank sends what it replaces in its step."""
        own = self._messages[i]
        return own.reduces or any(
            self._messages[j].kind == SEND and self._messages[j].step == own.step for j in self._after[i]
        )

    def _is_copied(self, i: int) -> bool:
        """Whether a message is small, and its place is still used by what comes before it."""
        own = self._messages[i]
        if own.end - own.begin > self._copied:
            return False
        return any(earlier not in self._taken and earlier not in self._read for earlier in self._after[i])

    def _wait_read(self, i: int) -> None:
        """Wait for the sends of what receive ``i`` changes."""
        for earlier in self._after[i]:
            if earlier in self._unread:
                del self._unread[earlier]
                self._read.add(earlier)
                self.operations.append(Operation(SENT, earlier))
