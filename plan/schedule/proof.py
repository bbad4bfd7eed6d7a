"""The proof of a compiled program: what every rank would do, done on symbols.

Nothing of the rounds that it came from is used, only the actions, so that a program from anywhere can be held
to it: both ends of each pair see the same messages in the same order, nobody waits for ever, no contribution is
added twice, and in the end each rank has delivered what its collective owes it, whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from netprobe.plan.schedule.actions import CollectiveProgram
from netprobe.probe.agent.collective.program import DELIVER, FETCH, RECEIVE, SEND, Merge, RankProgram

Line = tuple[int, int, int]
"""Sender, receiver, channel."""


def check_actions(program: CollectiveProgram) -> None:
    """Raises ValueError with the first thing that does not hold."""
    if len(program.actions) != program.ranks:
        raise ValueError(f"actions of {len(program.actions)} ranks, and there are {program.ranks}")
    check_order(program)
    ranks = [rank_program(program, rank) for rank in range(program.ranks)]
    delivered = run_on_symbols(ranks)
    for rank, chunks in enumerate(delivered):
        for chunk in owed(program, rank):
            if chunk not in chunks:
                raise ValueError(f"rank {rank} never delivers chunk {chunk}")


def owed(program: CollectiveProgram, rank: int) -> set[int]:
    """The chunks that a rank has to deliver."""
    if program.collective == "all_reduce":
        return set(range(program.chunks))
    share = program.chunks // program.channels
    return {channel * share + rank for channel in range(program.channels)}


def check_order(program: CollectiveProgram) -> None:
    """Both ends of every line have the same messages in the same order."""
    sent: dict[Line, list[tuple[int, int]]] = {}
    received: dict[Line, list[tuple[int, int]]] = {}
    for rank, own in enumerate(program.actions):
        for place, action in enumerate(own):
            if action.kind in (SEND, RECEIVE):
                if not 0 <= action.peer < program.ranks or action.peer == rank:
                    raise ValueError(f"rank {rank}, action {place}: a peer {action.peer}")
                if not 0 <= action.channel < program.channels:
                    raise ValueError(f"rank {rank}, action {place}: channel {action.channel}")
            if action.kind == SEND:
                line = (rank, action.peer, action.channel)
                sent.setdefault(line, []).append((action.first, action.last))
            elif action.kind == RECEIVE:
                line = (action.peer, rank, action.channel)
                received.setdefault(line, []).append((action.first, action.last))
    for line in sorted(sent.keys() | received.keys()):
        if sent.get(line) != received.get(line):
            src, dst, channel = line
            raise ValueError(
                f"rank {src} sends rank {dst} other messages over channel {channel} than are received, or "
                "in another order"
            )


def rank_program(program: CollectiveProgram, rank: int) -> RankProgram:
    """One rank's actions as an agent holds them, without bytes. Raises ValueError."""
    made = RankProgram(0, rank, program.ranks, program.chunks, 0)
    made.add([list(action) for action in program.actions[rank]])
    return made


def run_on_symbols(ranks: Sequence[RankProgram]) -> list[set[int]]:
    """Run all ranks, messages taking no time; the chunks that each delivered. Raises ValueError."""
    merges = [Merge(one) for one in ranks]
    waits = [list(one.waits) for one in ranks]
    delivered: list[set[int]] = [set() for _ in ranks]
    lines: dict[Line, deque[int]] = {}
    parked: dict[tuple[int, int], int] = {}
    sends = {(r, *key): deque(places) for r, one in enumerate(ranks) for key, places in one.sends.items()}
    receives = {
        (key[0], r, key[1]): deque(p) for r, one in enumerate(ranks) for key, p in one.receives.items()
    }
    ready_sends: set[tuple[int, int]] = set()
    work = deque((r, a) for r, one in enumerate(ranks) for a, count in enumerate(one.waits) if not count)
    done = 0

    def arrive(line: Line) -> None:
        """The next message of a line, which takes effect when its action may."""
        rank, action = line[1], receives[line].popleft()
        parked[rank, action] = lines[line].popleft()
        if not waits[rank][action]:
            work.append((rank, action))

    while work:
        rank, action = work.popleft()
        one, merge = ranks[rank], merges[rank]
        kind = one.kind[action]
        finished = [action]
        try:
            if kind == FETCH:
                merge.fetch(action)
            elif kind == DELIVER:
                merge.deliver(action)
                delivered[rank].update(range(one.first[action], one.last[action]))
            elif kind == RECEIVE:
                if (rank, action) not in parked:
                    continue  # it comes again with its message
                merge.receive(action, parked.pop((rank, action)))
            else:
                finished = []
                ready_sends.add((rank, action))
                line = (rank, *one.key[action])
                while sends[line] and (rank, sends[line][0]) in ready_sends:
                    head = sends[line].popleft()
                    ready_sends.discard((rank, head))
                    lines.setdefault(line, deque()).append(merge.sent(head))
                    finished.append(head)
                    arrive(line)
        except ValueError as error:
            raise ValueError(f"rank {rank}, action {action}: {error}") from None
        for ended in finished:
            done += 1
            for other in one.then[ended]:
                waits[rank][other] -= 1
                if not waits[rank][other]:
                    work.append((rank, other))
    total = sum(len(one.kind) for one in ranks)
    if done < total:
        rank = next(r for r, one in enumerate(ranks) if any(waits[r]) or _waiting(one, r, parked, sends))
        raise ValueError(f"{total - done} of {total} actions wait for ever, rank {rank}'s among them")
    return delivered


def _waiting(
    one: RankProgram, rank: int, parked: dict[tuple[int, int], int], sends: dict[Line, deque[int]]
) -> bool:
    return any(key[0] == rank for key in parked) or any(sends[(rank, *key)] for key in one.sends)
