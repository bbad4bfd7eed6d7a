"""A job by the compiled engine: a program as arrays that kernels read, and back to a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InternalError
from netprobe.core.numeric.compiled import numba_is_installed
from netprobe.plan.schedule.program import CollectiveProgram
from netprobe.plan.simulate import engine_kernels
from netprobe.plan.simulate.engine import NOTHING, Trace, Work
from netprobe.plan.simulate.engine_kernels import HEAP, LEFT, Actions, State
from netprobe.plan.simulate.network import Network
from netprobe.probe.agent.collective.program import RECEIVE, SEND

Ints = NDArray[np.int64]
COMPILED_FROM = 50_000
"""Actions, of all runs of a process together. Fewer take a second or two in Python, less than numba takes to be
imported and, the first time, to compile."""
_FOUND: list[Callable[..., Any] | None] = []
_SIMULATED = [0]


def compiled_engine(actions: int) -> Callable[..., Any] | None:
    """The compiled run, once this process has simulated so many actions that it pays; None before, or without numba.

    ``actions`` are those of the run that is to come.
    """
    _SIMULATED[0] += actions
    if not _FOUND:
        if _SIMULATED[0] < COMPILED_FROM or not numba_is_installed():
            return None
        _FOUND.append(engine_kernels.kernels())
    return _FOUND[0]


def run_compiled(kernel: Callable[..., Any], network: Network, work: Work, merge_s: float) -> Trace:
    """One job to its end, as `Engine` does it. Raises InternalError for a program that never ends."""
    program, count = work.program, len(work.program)
    actions = actions_of(program, work.host, len(network.hosts))
    connections, messages = len(actions.send_at) - 1, len(actions.sends)
    state = State(
        waits=np.diff(program.after_bounds).astype(np.int64),
        arrived=np.zeros(count, np.int64),
        ready=np.zeros(count, np.int64),
        cause=np.full(count, NOTHING, np.int64),
        ready_cause=np.full(count, NOTHING, np.int64),
        todo=np.zeros(count + 1, np.int64),
        todo_cause=np.zeros(count + 1, np.int64),
        head=actions.send_at[:-1].copy(),
        busy=np.zeros(connections, np.int64),
        heap=np.full(messages + 1, NOTHING, np.int64),
        starting=np.zeros(connections, np.int64),
        flow=np.zeros(connections, np.int64),
        counts=np.zeros(4, np.int64),
    )
    state.counts[HEAP], state.counts[LEFT] = 1, count
    resources = len(network.resources)
    slots = network.passed.reshape(len(network.hosts) ** 2, -1)
    passed = np.where(slots < 0, resources, slots).astype(np.int64)
    if not passed.shape[1]:
        passed = np.full((len(passed), 1), resources, np.int64)
    ends, carried = np.full(count, np.nan), np.zeros(resources + 1)
    size = (work.boundaries[program.last] - work.boundaries[program.first]).astype(np.float64)
    weight = np.ones(count) if work.weight is None else np.ascontiguousarray(work.weight, dtype=np.float64)
    ended = kernel(
        actions, state, size, weight, ends, carried, _flat(network.alpha_s), _flat(network.stream), passed,
        np.ascontiguousarray(network.capacity, dtype=np.float64), float(merge_s), float(work.release_s),
    )  # fmt: skip
    if not ended:
        raise InternalError(f"{state.counts[LEFT]} actions of a simulated program wait for ever")
    last = max(work.release_s, float(ends.max())) if count else work.release_s
    return Trace(end_s=[ends], finish_s=[last], carried=carried[:-1], cause=[state.cause])


def actions_of(program: CollectiveProgram, host: Ints, hosts: int) -> Actions:
    """A program as kernels read it, ranks on ``host``. Raises InternalError where a message has one end."""
    rank = program.rank_of()
    order = np.argsort(program.after, kind="stable")
    later = np.repeat(np.arange(len(program)), np.diff(program.after_bounds))
    peer = np.maximum(program.peer, 0)
    own = (rank * program.ranks + peer) * program.channels + program.channel
    sends, connections, send_at = _by_connection(own, np.flatnonzero(program.kind == SEND))
    theirs = (peer * program.ranks + rank) * program.channels + program.channel
    receives, expected, _ = _by_connection(theirs, np.flatnonzero(program.kind == RECEIVE))
    if (
        len(sends) != len(receives)
        or (own[sends] != theirs[receives]).any()
        or len(connections) != len(expected)
    ):
        raise InternalError("a simulated program has sends and receives that do not match")
    partner = np.full(len(program), NOTHING, np.int64)
    partner[sends], partner[receives] = receives, sends
    connection = np.full(len(program), NOTHING, np.int64)
    connection[sends] = np.repeat(np.arange(len(connections)), np.diff(send_at))
    at = np.asarray(host, dtype=np.int64)
    return Actions(
        kind=np.ascontiguousarray(program.kind, dtype=np.int64),
        then_at=np.searchsorted(program.after[order], np.arange(len(program) + 1)).astype(np.int64),
        then=later[order].astype(np.int64),
        connection=connection,
        send_at=send_at,
        sends=sends,
        partner=partner,
        pair=at[rank] * hosts + at[peer],
        first=np.flatnonzero(np.diff(program.after_bounds) == 0).astype(np.int64),
    )


def _by_connection(keys: Ints, places: Ints) -> tuple[Ints, Ints, Ints]:
    """``places`` sorted by their keys, in their order where these are equal; the keys, and where each begins."""
    ordered = places[np.argsort(keys[places], kind="stable")].astype(np.int64)
    found, begins = np.unique(keys[ordered], return_index=True)
    return ordered, found, np.append(begins, len(ordered)).astype(np.int64)


def _flat(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ascontiguousarray(matrix, dtype=np.float64).reshape(-1)
