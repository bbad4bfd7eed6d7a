"""A collective as what each rank does: actions, compiled from any program of rounds of transfers.

The four kinds are those of the dissertation (section 4.2.2). Rounds are gone after compiling: an action waits only
for what its own data need, so a rank that is early goes on, and trees, forests or two-level plans that are no
rounds at all are lists of the same actions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from netprobe.core.errors import InputError
from netprobe.plan.schedule.rounds import Collective, Round
from netprobe.probe.agent.collective.program import (
    DELIVER,
    FETCH,
    MAX_ACTIONS,
    RECEIVE,
    SEND,
)

NOBODY = -1
MAX_CHANNELS = 64
ON_THE_WIRE = {"ring": "chunked-ring"}
"""What is run for a plan of that name. No library sends a whole buffer hop by hop round a ring: NCCL, Gloo and Open
MPI cut it, so that all hops are busy at once."""


class Action(NamedTuple):
    """One thing that one rank does with chunks ``first`` to ``last`` - 1.

    ``after`` are places in the same rank's list, each before its own. ``peer`` is a rank; of FETCH and DELIVER there
    is none. ``reduces`` says of RECEIVE whether it adds or replaces.
    """

    kind: int
    first: int
    last: int
    peer: int = NOBODY
    channel: int = 0
    reduces: bool = False
    after: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CollectiveProgram:
    """Actions of every rank. ``deliveries[rank]`` are the chunks that it must hand out whole."""

    name: str
    collective: Collective
    ranks: int
    chunks: int
    channels: int
    actions: tuple[tuple[Action, ...], ...]

    @property
    def messages(self) -> int:
        """How many messages all ranks send."""
        return sum(action.kind == SEND for own in self.actions for action in own)

    def links(self) -> set[tuple[int, int]]:
        """Pairs (lower rank, higher rank) that exchange messages."""
        return {
            (min(rank, action.peer), max(rank, action.peer))
            for rank, own in enumerate(self.actions)
            for action in own
            if action.kind == SEND
        }

    def sent_bytes(self, size_bytes: int) -> int:
        """Payload of all messages, for a buffer of ``size_bytes`` on each rank."""
        return sum(
            action.last * size_bytes // self.chunks - action.first * size_bytes // self.chunks
            for own in self.actions
            for action in own
            if action.kind == SEND
        )


def compile_rounds(
    name: str, rounds: Iterable[Round], ranks: int, chunks: int, collective: Collective, channels: int = 1
) -> CollectiveProgram:
    """The actions of a program of rounds, which must be right (``check_program``)."""
    compilers = [_Rank(rank, chunks * channels) for rank in range(ranks)]
    holds = [[1 << rank] * chunks for rank in range(ranks)]
    for transfers in rounds:
        sent = [holds[t.src][t.first : t.last] for t in transfers]
        # All of a round's messages leave with what their senders held when it began, so sends stand first.
        runs = [(t, _runs(parts, t.first)) for t, parts in zip(transfers, sent)]
        for channel in range(channels):
            at = channel * chunks
            for t, pieces in runs:
                for first, last in pieces:
                    compilers[t.src].send(at + first, at + last, t.dst, channel)
            for t, pieces in runs:
                for first, last in pieces:
                    compilers[t.dst].receive(at + first, at + last, t.src, channel, t.reduces)
        for t, parts in zip(transfers, sent):
            mine = holds[t.dst]
            for chunk, part in zip(range(t.first, t.last), parts):
                mine[chunk] = mine[chunk] | part if t.reduces else part
    for rank, one in enumerate(compilers):
        for channel in range(channels):
            first, last = (0, chunks) if collective == "all_reduce" else (rank, rank + 1)
            one.deliver(channel * chunks + first, channel * chunks + last)
    if max(len(one.actions) for one in compilers) > MAX_ACTIONS:
        raise InputError(f"{name} among {ranks} ranks: more than {MAX_ACTIONS} actions a rank")
    return CollectiveProgram(
        name=name,
        collective=collective,
        ranks=ranks,
        chunks=chunks * channels,
        channels=channels,
        actions=tuple(tuple(one.actions) for one in compilers),
    )


def _runs(parts: Sequence[int], first: int) -> list[tuple[int, int]]:
    """Neighbouring chunks that hold the same contributions, as (first, last): a message has one set."""
    edges = [0, *(i for i in range(1, len(parts)) if parts[i] != parts[i - 1]), len(parts)]
    return [(first + a, first + b) for a, b in itertools.pairwise(edges)]


class _Rank:
    """The growing list of one rank, and for each chunk who wrote it last and who has read it since."""

    def __init__(self, rank: int, chunks: int) -> None:
        self.rank = rank
        self.actions = [Action(FETCH, 0, chunks)]
        self.writer = [0] * chunks
        self.readers: list[list[int]] = [[] for _ in range(chunks)]

    def send(self, first: int, last: int, peer: int, channel: int) -> None:
        """Waits for those who wrote the chunks."""
        place = len(self.actions)
        after = sorted(set(self.writer[first:last]))
        self.actions.append(Action(SEND, first, last, peer, channel, False, tuple(after)))
        for chunk in range(first, last):
            self.readers[chunk].append(place)

    def receive(self, first: int, last: int, peer: int, channel: int, reduces: bool) -> None:
        """Takes effect after the writer before it, and after the sends of what it will change."""
        place = len(self.actions)
        after = set(self.writer[first:last])
        for chunk in range(first, last):
            after.update(self.readers[chunk])
            self.writer[chunk] = place
            self.readers[chunk] = []
        self.actions.append(Action(RECEIVE, first, last, peer, channel, reduces, self._pruned(after)))

    def deliver(self, first: int, last: int) -> None:
        """Waits for those who wrote the chunks; all that was to be sent has left when the last one ends."""
        after = self._pruned(set(self.writer[first:last]))
        self.actions.append(Action(DELIVER, first, last, after=after))

    def _pruned(self, after: set[int]) -> tuple[int, ...]:
        """Without those that another one waits for itself."""
        known = {before for one in after for before in self.actions[one].after}
        return tuple(sorted(after - known))
