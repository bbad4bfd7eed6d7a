"""The proof that a program does what its contract says, for every timing.

It uses the actions only, nothing of the schedule or the algorithm that they came from, so that a program from
anywhere can be checked:

1. Both ends of every connection list the same messages in the same order.
2. It ends: no actions wait for each other in a cycle. This is the model ``eager``, in which a send never waits for its
   receiver.
3. No race: of two actions of a rank that use the same chunk, one of them changing it, the later one waits for the
   earlier one, directly or through others (also on other ranks). So all timings give the same result, and one
   run shows it.
4. That run, on sets of contributions in place of numbers: nothing is added twice, and each rank delivers what the
   contract owes it, whole, once, and nothing else.

Then it is found under which stricter models the program ends too: a ``window`` of w messages per connection that the
receiver has not taken yet, and ``issue order`` (NCCL, MPI without buffers), in which each rank issues its actions
step by step in the order of its list and a step ends when both ends of all its messages have met.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.plan.schedule.contract import Contract
from netprobe.plan.schedule.program import APPLY, NOBODY, CollectiveProgram, waits_by_part
from netprobe.plan.schedule.schedule import Ints
from netprobe.plan.schedule.sets import check_contract
from netprobe.plan.schedule.waiting import (
    Connections,
    Edges,
    by_steps,
    connection_edges,
    issue_order,
    least_window,
    stuck_text,
    topological,
    waits,
)
from netprobe.probe.agent.collective.program import FETCH, RECEIVE, SEND

MOST_ACTIONS = 1 << 24
MOST_ACCESSES = 1 << 26
"""Chunks of all actions together."""
MOST_SEARCHED = 1 << 22
"""Actions looked at to find an order of two that do not wait for each other directly."""
_STRIDE = 1 << 31


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What holds of a program besides its contract."""

    window: int | None
    """The least number of unread messages a connection with which it still ends; None: more than LARGEST_WINDOW."""
    issue_order: bool
    uniform_messages: bool
    """Whether all chunks of each message hold the same contributions, as the agents' messages must."""

    @property
    def safe_under(self) -> tuple[str, ...]:
        """The models under which it ends, by name."""
        window = () if self.window is None else (f"window {self.window}",)
        return ("eager", *window, *(("issue order",) if self.issue_order else ()))


def prove(program: CollectiveProgram, contract: Contract) -> Proof:
    """Prove that ``program`` does ``contract``. Raises ValueError with the first thing that does not hold."""
    _check_fields(program, contract)
    rank = program.rank_of()
    connections = _match(program, rank)
    edges, number = _ordered(program, connections)
    _check_races(program, rank, edges, number)
    uniform = check_contract(program, rank, contract, connections, number)
    return Proof(
        window=least_window(program, edges, connections, number),
        issue_order=issue_order(program, rank, connections, waits(program)),
        uniform_messages=uniform,
    )


def prove_order(program: CollectiveProgram, contract: Contract) -> tuple[int | None, bool]:
    """The part of `prove` that concerns all chunks together: (window, issue order) of `Proof`.

    Both ends of every connection list the same messages, and nothing waits in a circle. Raises ValueError.
    """
    _check_fields(program, contract)
    connections = _match(program, program.rank_of())
    edges, number = _ordered(program, connections)
    window = least_window(program, edges, connections, number)
    return window, issue_order(program, program.rank_of(), connections, waits(program))


def _ordered(program: CollectiveProgram, connections: Connections) -> tuple[Edges, Ints]:
    """What waits for what, and numbers in that order. Raises ValueError where there is a circle."""
    # What is large and cheap to make again is not kept: the peak decides how large a plan can be proved.
    messages = np.stack([connections.receive, connections.send], axis=1)
    edges = np.concatenate([waits(program), connection_edges(connections), messages], dtype=np.int32)
    del messages
    number = topological(edges, len(program), by_steps(program))
    if number is None:
        raise ValueError(stuck_text(program, edges))
    return edges, number


# 1. Fields and both ends.


def _check_fields(program: CollectiveProgram, contract: Contract) -> None:
    """Everything is in range; what waits, waits for earlier actions of its rank."""
    count = len(program.kind)
    if program.ranks != contract.ranks or program.chunks != contract.chunks:
        raise ValueError(
            f"a program of {program.ranks} ranks and {program.chunks} chunks for a contract of "
            f"{contract.ranks} and {contract.chunks}"
        )
    bounds = program.bounds
    if (
        len(bounds) != program.ranks + 1
        or bounds[0] != 0
        or bounds[-1] != count
        or (np.diff(bounds) < 0).any()
    ):
        raise ValueError(f"the lists of {len(bounds) - 1} ranks do not add up to {count} actions")
    if count > MOST_ACTIONS or int((program.last - program.first).clip(0).sum()) > MOST_ACCESSES:
        raise ValueError(f"more than {MOST_ACTIONS} actions, or more than {MOST_ACCESSES} chunks in them")
    rank = program.rank_of()
    _refuse(program, (program.kind < FETCH) | (program.kind > APPLY), "is of no known kind")
    chunks = (program.first < 0) | (program.first >= program.last) | (program.last > program.chunks)
    _refuse(program, chunks, f"names chunks outside the {program.chunks} there are")
    wire = (program.kind == SEND) | (program.kind == RECEIVE)
    peers = (program.peer < 0) | (program.peer >= program.ranks) | (program.peer == rank)
    _refuse(program, wire & peers, f"names a peer that is not one of the other {program.ranks - 1} ranks")
    _refuse(program, ~wire & (program.peer != NOBODY), "names a peer and exchanges no message")
    channel = (program.channel < 0) | (program.channel >= program.channels)
    _refuse(program, wire & channel, f"names a channel that is not one of the {program.channels}")
    begins = program.after_bounds
    if (
        len(begins) != count + 1
        or begins[0] != 0
        or begins[-1] != len(program.after)
        or (np.diff(begins) < 0).any()
    ):
        raise ValueError("the actions that others wait for do not add up")
    later = np.repeat(np.arange(count), np.diff(begins))
    bad = (program.after < program.bounds[rank[later]]) | (program.after >= later)
    if bad.any():
        at = int(np.argmax(bad))
        own = int(program.after[at] - program.bounds[rank[later[at]]])
        raise ValueError(
            f"{program.text(int(later[at]))} waits for action {own}, which is not before it in its list"
        )


def _refuse(program: CollectiveProgram, bad: NDArray[np.bool_], text: str) -> None:
    if bad.any():
        raise ValueError(f"{program.text(int(np.argmax(bad)))} {text}")


def _match(program: CollectiveProgram, rank: Ints) -> Connections:
    """Both ends of each message. Raises ValueError where they differ."""
    sends, receives = np.flatnonzero(program.kind == SEND), np.flatnonzero(program.kind == RECEIVE)
    stride, channels = program.ranks, program.channels
    sent = (rank[sends] * stride + program.peer[sends]) * channels + program.channel[sends]
    got = (program.peer[receives] * stride + rank[receives]) * channels + program.channel[receives]
    by_line = np.argsort(sent, kind="stable")
    sends, sent = sends[by_line], sent[by_line]
    by_line = np.argsort(got, kind="stable")
    receives, got = receives[by_line], got[by_line]
    shorter = min(len(sent), len(got))
    differ = sent[:shorter] != got[:shorter]
    if differ.any() or len(sent) != len(got):
        at = int(np.argmax(differ)) if differ.any() else shorter
        lost = at < len(sent) and (at >= len(got) or sent[at] < got[at])
        action, missing = (sends[at], "no receive") if lost else (receives[at], "no send")
        raise ValueError(f"{program.text(int(action))} has {missing} at the other end")
    wrong = (program.first[sends] != program.first[receives]) | (
        program.last[sends] != program.last[receives]
    )
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"{program.text(int(sends[at]))} arrives at {program.text(int(receives[at]))}: other chunks, or "
            "another order"
        )
    return Connections(sends, receives, sent)


# 3. Races.


def _check_races(program: CollectiveProgram, rank: Ints, edges: Edges, number: Ints) -> None:
    """Of two actions of a rank on a chunk, one of them writing, the later one waits for the earlier one."""
    parts = []
    for low, needed in waits_by_part(program.kind, rank, program.first, program.last, program.chunks):
        high = low + int(needed[:, 0].max(initial=-1)) + 1
        own = slice(int(program.after_bounds[low]), int(program.after_bounds[high]))
        later = np.repeat(np.arange(low, high), np.diff(program.after_bounds[low : high + 1]))
        parts.append(low + needed[~_among(needed + low, later, program.after[own])])
    missing = np.concatenate(parts) if parts else np.zeros((0, 2), np.int64)
    if len(missing):
        missing = missing[~_among(missing, edges[:, 0].astype(np.int64), edges[:, 1].astype(np.int64))]
    if not len(missing):
        return
    order = np.argsort(edges[:, 0], kind="stable")
    earlier = edges[order, 1]
    begins = np.searchsorted(edges[order, 0], np.arange(len(program) + 1))
    budget = MOST_SEARCHED
    for later, goal in missing.tolist():
        seen, todo = {later}, [later]
        while todo and goal not in seen:
            action = todo.pop()
            for other in earlier[begins[action] : begins[action + 1]].tolist():
                if other not in seen and number[other] >= number[goal]:
                    seen.add(other)
                    todo.append(other)
        budget -= len(seen)
        if goal not in seen or budget < 0:
            first = max(program.first[later], program.first[goal])
            raise ValueError(
                f"{program.text(later)} does not wait for {program.text(goal)}, and both use chunk {first}: "
                "the result depends on the timing"
            )


def _among(pairs: Ints, later: Ints, earlier: Ints) -> NDArray[np.bool_]:
    """Which of ``pairs`` (P, 2) are (later, earlier) of one place."""
    have = np.sort(later * _STRIDE + earlier)
    keys = pairs[:, 0] * _STRIDE + pairs[:, 1]
    at = np.searchsorted(have, keys)
    found = at < len(have)
    found[found] = have[at[found]] == keys[found]
    return np.asarray(found)
