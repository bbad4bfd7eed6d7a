"""A schedule as what each rank does: lists of actions, compiled from it and in the form in which ranks run them.

The kinds are those of the dissertation (section 4.2.2): FETCH puts the rank's own contribution into chunks, SEND and
RECEIVE are the two ends of a transfer, DELIVER hands chunks out; APPLY is an optimiser's step on a server. An action
waits for those of its own rank that its data need (``after``), so a rank that is early goes on.

A program is arrays, one row per action, the ranks one after another. Sends of a rank to a peer over one channel leave
in the order of the list, and are received in that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from netprobe.plan.schedule.contract import Contract
from netprobe.plan.schedule.schedule import APPLY as OP_APPLY
from netprobe.plan.schedule.schedule import REDUCE, Ints, Schedule
from netprobe.probe.agent.collective.program import DELIVER, FETCH, RECEIVE, SEND

NOBODY = -1
NO_STEP = -1
MAX_CHANNELS = 64
APPLY = DELIVER + 1
"""No agent runs it: plans with it are simulated and executed by a training job."""
KIND_NAMES = ("fetch", "receive", "send", "deliver", "apply")
_STRIDE = 1 << 31
ACCESSES_AT_ONCE = 1 << 19
_T = TypeVar("_T", bound=np.generic)


class Action(NamedTuple):
    """One thing that one rank does with chunks ``first`` to ``last`` - 1.

    ``after`` are places in the same rank's list, each before its own. ``peer`` is a rank, and set only for SEND and
    RECEIVE. ``reduces`` says of RECEIVE whether it adds or replaces. ``step`` is that of the transfer, -1 without.
    """

    kind: int
    first: int
    last: int
    peer: int = NOBODY
    channel: int = 0
    reduces: bool = False
    after: tuple[int, ...] = ()
    step: int = NO_STEP


@dataclass(frozen=True, kw_only=True, eq=False)
class CollectiveProgram:
    """Actions (A,) of all ranks; those of rank r are ``bounds[r]`` to ``bounds[r + 1]`` - 1.

    ``after[after_bounds[a] : after_bounds[a + 1]]`` are the actions (numbered over all ranks) that action a waits for.
    """

    name: str
    ranks: int
    chunks: int
    channels: int
    bounds: Ints
    kind: Ints
    first: Ints
    last: Ints
    peer: Ints
    channel: Ints
    reduces: NDArray[np.bool_]
    step: Ints
    after_bounds: Ints
    after: Ints

    def __len__(self) -> int:
        """How many actions, of all ranks."""
        return len(self.kind)

    @property
    def messages(self) -> int:
        """How many messages all ranks send."""
        return int((self.kind == SEND).sum())

    @property
    def longest(self) -> int:
        """Actions of the rank that has most."""
        return int(np.diff(self.bounds).max())

    def rank_of(self) -> Ints:
        """(A,) whose action each is."""
        return np.repeat(np.arange(self.ranks), np.diff(self.bounds))

    def count(self, rank: int) -> int:
        """How many actions ``rank`` has."""
        return int(self.bounds[rank + 1] - self.bounds[rank])

    def actions(self, rank: int) -> Iterator[Action]:
        """The list of one rank."""
        begin, end = int(self.bounds[rank]), int(self.bounds[rank + 1])
        waits = self.after_bounds.tolist()[begin : end + 1]
        after = (self.after[waits[0] : waits[-1]] - begin).tolist()
        columns = (self.kind, self.first, self.last, self.peer, self.channel, self.reduces, self.step)
        rows = zip(*(column[begin:end].tolist() for column in columns))
        for (kind, first, last, peer, channel, reduces, step), low, high in zip(rows, waits, waits[1:]):
            own = tuple(after[low - waits[0] : high - waits[0]])
            yield Action(kind, first, last, peer, channel, reduces, own, step)

    def links(self) -> set[tuple[int, int]]:
        """Pairs (lower rank, higher rank) that exchange messages."""
        sends = self.kind == SEND
        src, dst = self.rank_of()[sends], self.peer[sends]
        pairs = np.unique(np.stack([np.minimum(src, dst), np.maximum(src, dst)], axis=1), axis=0)
        return {(int(low), int(high)) for low, high in pairs}

    def text(self, action: int) -> str:
        """An action in words, with its rank and its place in that rank's list."""
        rank = int(np.searchsorted(self.bounds, action, side="right")) - 1
        first, last = int(self.first[action]), int(self.last[action])
        chunks = f"chunk {first}" if last - first == 1 else f"chunks {first} to {last - 1}"
        kind = int(self.kind[action])
        name = KIND_NAMES[kind] if 0 <= kind < len(KIND_NAMES) else f"kind {kind}"
        peer = (
            ""
            if self.peer[action] == NOBODY
            else f", peer {self.peer[action]}, channel {self.channel[action]}"
        )
        return f"rank {rank}, action {action - int(self.bounds[rank])} ({name} {chunks}{peer})"


def program_of(
    name: str, lists: Sequence[Sequence[Action]], chunks: int, channels: int = 1
) -> CollectiveProgram:
    """A program of one list per rank, from anywhere; nothing is checked here (``prove``)."""
    sizes = [len(own) for own in lists]
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = [action for own in lists for action in own]
    after = [int(bounds[rank]) + place for rank, own in enumerate(lists) for a in own for place in a.after]

    def column(of: str) -> Ints:
        return np.array([getattr(action, of) for action in rows], dtype=np.int64)

    return CollectiveProgram(
        name=name, ranks=len(lists), chunks=chunks, channels=channels, bounds=bounds,
        kind=column("kind"), first=column("first"), last=column("last"), peer=column("peer"),
        channel=column("channel"), step=column("step"), reduces=column("reduces").astype(np.bool_),
        after_bounds=np.concatenate([[0], np.cumsum([len(a.after) for a in rows])]).astype(np.int64),
        after=np.array(after, dtype=np.int64),
    )  # fmt: skip


def compile_schedule(schedule: Schedule) -> CollectiveProgram:
    """What each rank does in ``schedule``.

    Of a step all messages leave before any takes effect. An action waits for the last that wrote its chunks, and one
    that changes them also for those that have read them since.
    """
    every = schedule.expanded()
    wire = every.op != OP_APPLY
    fetched, delivered = _runs(schedule.contract, owed=False), _runs(schedule.contract, owed=True)
    sends, count = np.flatnonzero(wire), len(every)
    kind = np.concatenate([
        np.full(len(fetched), FETCH), np.full(len(sends), SEND), np.where(wire, RECEIVE, APPLY),
        np.full(len(delivered), DELIVER),
    ])  # fmt: skip
    moves = np.concatenate([sends, np.arange(count)])
    rank = np.concatenate([fetched[:, 0], every.src[sends], every.dst, delivered[:, 0]])
    peer = _framed(
        np.concatenate([every.dst[sends], np.where(wire, every.src, NOBODY)]), fetched, delivered, NOBODY
    )
    first = np.concatenate([fetched[:, 1], every.first[moves], delivered[:, 1]])
    last = np.concatenate([fetched[:, 2], every.last[moves], delivered[:, 2]])
    step = _framed(every.step[moves], fetched, delivered, NO_STEP)
    # The list of a rank: fetch, then step by step what it sends and after that what it receives, then deliver.
    phase = np.concatenate([
        np.full(len(fetched), -1), 2 * every.step[sends], 2 * every.step + 1,
        np.full(len(delivered), 2 * schedule.steps + 2),
    ])  # fmt: skip
    order = np.lexsort((np.arange(len(kind)), phase, rank))
    channel = _framed(every.channel[moves], fetched, delivered, 0)
    reduces = np.concatenate([np.zeros(len(sends), bool), every.op == REDUCE])
    reduces = _framed(reduces, fetched, delivered, False)
    kind, first, last, rank = kind[order], first[order], last[order], rank[order]
    del phase, moves, sends  # of millions of actions each is some ten megabytes
    pairs = needed_waits(kind, rank, first, last, schedule.chunks)
    return CollectiveProgram(
        name=schedule.name, ranks=schedule.ranks, chunks=schedule.chunks, channels=schedule.channels,
        bounds=np.searchsorted(rank, np.arange(schedule.ranks + 1)).astype(np.int64),
        kind=kind, first=first, last=last, peer=peer[order], channel=channel[order],
        reduces=reduces[order], step=step[order],
        after_bounds=np.searchsorted(pairs[:, 0], np.arange(len(kind) + 1)).astype(np.int64),
        after=np.ascontiguousarray(pairs[:, 1]),
    )  # fmt: skip


def needed_waits(kind: Ints, rank: Ints, first: Ints, last: Ints, chunks: int) -> Ints:
    """(W, 2) actions [later, earlier] of a rank that use a chunk one after the other, one of them writing it.

    Actions are in the order of their ranks' lists. Sorted, each pair once; only the pairs from which all other such
    pairs follow: a reader and the writer before it, a writer and the readers before it (or the writer, without any).
    """
    found = [low + pairs for low, pairs in waits_by_part(kind, rank, first, last, chunks)]
    return np.concatenate([np.zeros((0, 2), np.int64), *found])


def waits_by_part(kind: Ints, rank: Ints, first: Ints, last: Ints, chunks: int) -> Iterator[tuple[int, Ints]]:
    """`needed_waits` of a few ranks at a time, less the number of their first action, which comes with them.

    What is kept for each chunk of an action is much more than what comes of it.
    """
    reached = np.concatenate([[0], np.cumsum(last - first)])
    starts = (
        np.flatnonzero(np.concatenate([[True], rank[1:] != rank[:-1]])) if len(rank) else np.zeros(0, int)
    )
    low = 0
    for number in range(1, len(starts) + 1):
        high = int(starts[number]) if number < len(starts) else len(rank)
        if number == len(starts) or reached[high] - reached[low] >= ACCESSES_AT_ONCE:
            part = slice(low, high)
            yield low, _needed_waits(kind[part], rank[part], first[part], last[part], chunks)
            low = high


def _needed_waits(kind: Ints, rank: Ints, first: Ints, last: Ints, chunks: int) -> Ints:
    """`needed_waits` of some ranks at once."""
    sizes = last - first
    access = np.repeat(np.arange(len(kind)), sizes)
    within = np.arange(len(access)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    where = rank[access] * chunks + np.repeat(first, sizes) + within
    order = np.argsort(where, kind="stable")
    access, where = access[order], where[order]
    if not len(access):
        return np.zeros((0, 2), np.int64)
    writes = np.isin(kind, (FETCH, RECEIVE, APPLY))[access]
    begins = np.concatenate([[True], where[1:] != where[:-1]])
    place = np.arange(len(access))
    group = np.maximum.accumulate(np.where(begins, place, 0))
    # The last write before each access (or none), and the next after it.
    before = np.concatenate([[-1], np.maximum.accumulate(np.where(writes, place, -1))[:-1]])
    before = np.where(before >= group, before, -1)
    after_writer = (before >= 0) & (~writes | (place - 1 == before))
    later, earlier = [access[after_writer]], [access[before[after_writer]]]
    following = np.concatenate([np.where(writes, place, len(access))[1:], [len(access)]])
    following = np.minimum.accumulate(following[::-1])[::-1]
    readers = np.flatnonzero(~writes & (following < len(access)))
    readers = readers[where[readers] == where[following[readers]]]
    later.append(access[following[readers]])
    earlier.append(access[readers])
    keys = distinct(np.concatenate(later) * _STRIDE + np.concatenate(earlier))
    return np.stack([keys // _STRIDE, keys % _STRIDE], axis=1)


def distinct(keys: Ints) -> Ints:
    """``keys`` sorted, each once: numpy's own hashes them, which takes longer for millions."""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


def _runs(contract: Contract, *, owed: bool) -> Ints:
    """(R, 3) rank, first, last of what ranks contribute, or are ``owed``: neighbouring runs as one."""
    given = contract.owed() if owed else contract.contributed()
    rows = sorted((row[0], row[1], row[2]) for row in given)
    joined: list[list[int]] = []
    for rank, first, last in rows:
        if joined and joined[-1][0] == rank and joined[-1][2] == first:
            joined[-1][2] = last
        else:
            joined.append([rank, first, last])
    return np.array(joined, dtype=np.int64).reshape(-1, 3)


def _framed(middle: NDArray[_T], before: Ints, after: Ints, fill: int) -> NDArray[_T]:
    """``middle`` with a ``fill`` for each row of ``before`` and ``after``."""
    ends = [np.full(len(rows), fill, middle.dtype) for rows in (before, after)]
    return np.concatenate([ends[0], middle, ends[1]])
