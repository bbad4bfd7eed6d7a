"""What waits for what in a program, and whether it ends under a model of buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netprobe.plan.schedule.program import APPLY, NO_STEP, CollectiveProgram
from netprobe.plan.schedule.schedule import Ints
from netprobe.probe.agent.collective.program import DELIVER, FETCH, RECEIVE, SEND

LARGEST_WINDOW = 1 << 10
EDGES_AT_ONCE = 1 << 20
Edges = NDArray[np.integer[Any]]
"""(E, 2) actions [later, earlier]: the later one waits for the earlier one."""


class Connections(NamedTuple):
    """Both ends of all messages, sorted by (sender, receiver, channel) and in the order of the lists."""

    send: Ints
    receive: Ints
    connection: Ints
    """(M,) a number for each connection and direction."""


def waits(program: CollectiveProgram) -> Ints:
    """(W, 2) [action, one that it waits for]."""
    later = np.repeat(np.arange(len(program)), np.diff(program.after_bounds))
    return np.stack([later, program.after], axis=1)


def connection_edges(connections: Connections) -> Ints:
    """Of each connection: sends wait for the sends before them, receives for receives."""
    same = connections.connection[1:] == connections.connection[:-1]
    return np.concatenate(
        [np.stack([end[1:][same], end[:-1][same]], axis=1) for end in (connections.send, connections.receive)]
    )


def by_steps(program: CollectiveProgram) -> Ints | None:
    """(A,) numbers in the order of steps, of a step sends first; None where messages have no steps.

    What compiled schedules wait for goes to lower numbers, and chunks of one template have their actions in one order.
    """
    arrives = np.isin(program.kind, (RECEIVE, APPLY))
    moves = arrives | (program.kind == SEND)
    if (program.step[moves] < 0).any():
        return None
    phase = np.where(program.kind == FETCH, -1, 2 * program.step.max(initial=0) + 2)
    phase[moves] = 2 * program.step[moves] + arrives[moves]
    number = np.empty(len(program), np.int64)
    number[np.argsort(phase, kind="stable")] = np.arange(len(program))
    return number


def by_steps_and_chunks(program: CollectiveProgram) -> Ints:
    """(A,) numbers in the order of steps, of a step chunk by chunk, of a chunk sends first, of these as in the lists.

    Where a connection carries one message of a step after the other, the later one goes to a higher number; and where a
    rank adds up what several send it of a chunk in one step, each waits for the one before.
    """
    arrives = np.isin(program.kind, (RECEIVE, APPLY))
    middle = arrives | (program.kind == SEND)
    made = (program.step * program.chunks + program.first) * 2 + arrives
    last = int(made.max(initial=0)) + 1
    key = np.where(middle, made, np.where(program.kind == FETCH, -1, last))
    number = np.empty(len(program), np.int64)
    number[np.argsort(key, kind="stable")] = np.arange(len(program))
    return number


def _falls(number: Ints, edges: Edges) -> bool:
    """Whether each edge goes to a lower number; some edges at a time, for there are millions."""
    parts = (edges[low : low + EDGES_AT_ONCE] for low in range(0, len(edges), EDGES_AT_ONCE))
    return all(bool((number[part[:, 1]] < number[part[:, 0]]).all()) for part in parts)


def topological(edges: Edges, count: int, guess: Ints | None = None) -> Ints | None:
    """(count,) numbers such that each edge [later, earlier] goes to a lower one; None where there is a circle.

    ``guess`` is taken where it is such numbers.
    """
    if guess is not None and _falls(guess, edges):
        return guess
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    graph = csr_matrix((np.ones(len(edges), np.int8), (edges[:, 1], edges[:, 0])), shape=(count, count))
    found, label = connected_components(graph, directed=True, connection="strong")
    if found < count or (edges[:, 0] == edges[:, 1]).any():
        return None
    number: Ints = label.astype(np.int64)
    for candidate in (number, -number):
        if _falls(candidate, edges):
            return candidate
    return _kahn(edges, count)


def _kahn(edges: Edges, count: int) -> Ints:
    """``topological`` of what is known to have no circle, one action after another."""
    order = np.argsort(edges[:, 1], kind="stable")
    later, begins = edges[order, 0].tolist(), np.searchsorted(edges[order, 1], np.arange(count + 1)).tolist()
    waiting = np.bincount(edges[:, 0], minlength=count).tolist()
    ready = [action for action in range(count) if not waiting[action]]
    number = np.zeros(count, np.int64)
    for at, action in enumerate(ready):
        number[action] = at
        for other in later[begins[action] : begins[action + 1]]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return number


def stuck_text(program: CollectiveProgram, edges: Edges) -> str:
    """Which action waits for ever: the first of a circle."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    count = len(program)
    graph = csr_matrix((np.ones(len(edges), np.int8), (edges[:, 1], edges[:, 0])), shape=(count, count))
    _, label = connected_components(graph, directed=True, connection="strong")
    sizes = np.bincount(label)
    cycle = np.flatnonzero(label == int(np.argmax(sizes)))
    return f"{program.text(int(cycle[0]))} waits for ever, in a cycle of {len(cycle)} actions"


def least_window(
    program: CollectiveProgram, edges: Edges, connections: Connections, guess: Ints | None
) -> int | None:
    """Send k of a connection waits until receive k - w has taken effect."""
    finer = by_steps_and_chunks(program)
    stepwise = _falls(finer, edges)

    def ends(window: int) -> bool:
        same = connections.connection[window:] == connections.connection[:-window]
        held = np.stack(
            [connections.send[window:][same], connections.receive[:-window][same]],
            axis=1,
            dtype=edges.dtype,
            casting="unsafe",
        )
        if guess is not None and _falls(guess, held):
            return True  # and the other edges go to lower numbers too
        if stepwise and _falls(finer, held):
            return True
        return topological(np.concatenate([edges, held]), len(program)) is not None

    window = 1
    while not ends(window):
        window *= 2
        if window > LARGEST_WINDOW:
            return None
    low = window // 2
    while window - low > 1:
        middle = (low + window) // 2
        low, window = (low, middle) if ends(middle) else (middle, window)
    return window


def issue_order(program: CollectiveProgram, rank: Ints, connections: Connections, waits: Ints) -> bool:
    """Whether ranks that issue step by step, in the order of their lists, always meet.

    Neighbours in a list with the same step are issued together; an action without a step is issued alone.
    """
    joins = (rank[1:] == rank[:-1]) & (program.step[1:] == program.step[:-1]) & (program.step[1:] >= 0)
    batch = np.concatenate([[0], np.cumsum(~joins)]) if len(rank) else np.zeros(0, np.int64)
    # A message must not carry what arrives in its own batch.
    together = batch[waits[:, 0]] == batch[waits[:, 1]]
    arrives = np.isin(program.kind, (RECEIVE, APPLY))
    if (together & (program.kind[waits[:, 0]] == SEND) & arrives[waits[:, 1]]).any():
        return False
    count = int(batch[-1]) + 1 if len(batch) else 0
    owner = np.zeros(count, np.int64)
    owner[batch] = rank
    begin, end = 2 * np.arange(count), 2 * np.arange(count) + 1
    follows = owner[1:] == owner[:-1]
    sends, receives = batch[connections.send], batch[connections.receive]
    edges = np.concatenate([
        np.stack([end, begin], axis=1), np.stack([begin[1:][follows], end[:-1][follows]], axis=1),
        np.stack([end[sends], begin[receives]], axis=1), np.stack([end[receives], begin[sends]], axis=1),
    ])  # fmt: skip
    # Both ends of a message mostly have one step, and a rank's steps ascend.
    step = np.full(count, NO_STEP, np.int64)
    step[batch] = np.where(program.kind == FETCH, NO_STEP, program.step)
    alone = np.isin(program.kind, (FETCH, DELIVER))
    step[batch[alone]] = np.where(program.kind[alone] == FETCH, NO_STEP, int(step.max(initial=0)) + 1)
    guess = np.empty(2 * count, np.int64)
    guess[begin], guess[end] = 2 * step, 2 * step + 1
    return topological(edges, 2 * count, guess) is not None
