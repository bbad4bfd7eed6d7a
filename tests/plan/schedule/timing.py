"""Runs of a program on numbers, in random timings: what the proof says must hold of them."""

from __future__ import annotations

import random
from collections import deque

from netprobe.plan.schedule.contract import Contract
from netprobe.plan.schedule.program import Action, CollectiveProgram
from netprobe.probe.agent.collective.program import DELIVER, FETCH, RECEIVE, SEND

Delivered = list[dict[int, list[int]]]
"""Of each rank: what it delivered of each chunk, in the order in which it did."""


def contributions(contract: Contract, seed: int) -> list[list[int]]:
    """A random number for each rank and chunk."""
    rng = random.Random(seed)
    return [[rng.getrandbits(40) for _ in range(contract.chunks)] for _ in range(contract.ranks)]


def expected(contract: Contract, own: list[list[int]]) -> Delivered:
    """What each rank must deliver."""
    due: Delivered = [{} for _ in range(contract.ranks)]
    for rank, first, last, whole in contract.owed():
        for chunk in range(first, last):
            parts = [own[r][chunk] for r in range(contract.ranks) if whole >> r & 1]
            due[rank][chunk] = [sum(parts)]
    return due


class StuckError(Exception):
    """Nothing may run, and not all is done."""


class Machine:
    """All ranks; ``run`` does one of ``able`` at a time. A send never waits for its receiver."""

    def __init__(self, program: CollectiveProgram, own: list[list[int]]) -> None:
        self.lists: list[list[Action]] = [list(program.actions(rank)) for rank in range(program.ranks)]
        self.own = own
        self.buffers = [[0] * program.chunks for _ in range(program.ranks)]
        self.delivered: Delivered = [{} for _ in range(program.ranks)]
        self.connections: dict[tuple[int, int, int], deque[list[int]]] = {}
        self.waits = [[len(action.after) for action in actions] for actions in self.lists]
        self.then: list[list[list[int]]] = [[[] for _ in actions] for actions in self.lists]
        self.ends: dict[tuple[int, int, int, int], deque[int]] = {}
        for rank, actions in enumerate(self.lists):
            for place, action in enumerate(actions):
                for other in action.after:
                    self.then[rank][other].append(place)
                if action.kind in (SEND, RECEIVE):
                    self.ends.setdefault((rank, action.kind, action.peer, action.channel), deque()).append(
                        place
                    )
        self.left = sum(map(len, self.lists))
        self.undone = [set(range(len(actions))) for actions in self.lists]
        self.able = {
            (rank, place)
            for rank, actions in enumerate(self.lists)
            for place in range(len(actions))
            if self.may_run(rank, place)
        }

    def may_run(self, rank: int, place: int) -> bool:
        """Whether nothing that it waits for is left."""
        action = self.lists[rank][place]
        if self.waits[rank][place]:
            return False
        if action.kind not in (SEND, RECEIVE):
            return True
        if self.ends[rank, action.kind, action.peer, action.channel][0] != place:
            return False
        return action.kind == SEND or bool(self.connections.get((action.peer, rank, action.channel)))

    def run(self, rank: int, place: int) -> None:
        """Do an able action."""
        action = self.lists[rank][place]
        self.able.discard((rank, place))
        self.left -= 1
        self.undone[rank].discard(place)
        chunks = range(action.first, action.last)
        buffer = self.buffers[rank]
        touched = list(self.then[rank][place])
        for other in touched:
            self.waits[rank][other] -= 1
        near = [(rank, other) for other in touched]
        if action.kind == FETCH:
            for chunk in chunks:
                buffer[chunk] = self.own[rank][chunk]
        elif action.kind == SEND:
            connection = (rank, action.peer, action.channel)
            self.connections.setdefault(connection, deque()).append([buffer[chunk] for chunk in chunks])
            there = self.ends.get((action.peer, RECEIVE, rank, action.channel))
            near += [(action.peer, there[0])] if there else []
        elif action.kind == RECEIVE:
            for chunk, value in zip(
                chunks, self.connections[action.peer, rank, action.channel].popleft(), strict=True
            ):
                buffer[chunk] = value + (buffer[chunk] if action.reduces else 0)
        elif action.kind == DELIVER:
            for chunk in chunks:
                self.delivered[rank].setdefault(chunk, []).append(buffer[chunk])
        if action.kind in (SEND, RECEIVE):
            here = self.ends[rank, action.kind, action.peer, action.channel]
            here.popleft()
            near += [(rank, here[0])] if here else []
        self.able |= {one for one in near if self.may_run(*one)}


def add_up(program: CollectiveProgram, own: list[list[int]], seed: int) -> Delivered:
    """One random timing. Raises StuckError."""
    rng = random.Random(seed)
    machine = Machine(program, own)
    while machine.left:
        if not machine.able:
            raise StuckError
        machine.run(*rng.choice(sorted(machine.able)))
    return machine.delivered
