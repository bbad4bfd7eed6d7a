"""Programs on a network, event by event.

A message leaves when all that its send waits for is done and those before it on its connection have left. Bytes flow
at max-min fair rates, which change whenever a flow begins or ends. The last byte arrives a latency after it left, and
takes effect when all that its receive waits for is done. Senders never wait for receivers.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InternalError
from netprobe.plan.schedule.program import CollectiveProgram
from netprobe.plan.simulate.fair import Floats, fair_rates
from netprobe.plan.simulate.network import Network
from netprobe.probe.agent.collective.program import RECEIVE, SEND

NOTHING = -1
_DONE = 1e-9
"""Of its bytes: what is left of a flow that has ended."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """One program to run: ``host[rank]`` a place in the network, chunk boundaries in bytes (chunks + 1,), its start."""

    program: CollectiveProgram
    host: NDArray[np.intp]
    boundaries: NDArray[np.int64]
    release_s: float = 0.0
    lockstep: bool = False
    weight: Floats | None = None
    """Of each action's message where it shares a resource; 1 without."""


@dataclass(kw_only=True, eq=False)
class Trace:
    """What happened: ends of actions and of works in seconds, bytes through each resource, what each action waited for.

    ``cause[a]`` is the action whose end let action a end when it did (the send, for a receive).
    """

    end_s: list[Floats]
    finish_s: list[float]
    carried: Floats
    cause: list[NDArray[np.int64]]
    steps: list[tuple[float, float, Floats]] = field(default_factory=list)
    """(from, to, bytes a second through each resource), where a timeline was asked for."""


class _Connection:
    """A connection: sends in their order, of which the first that is ready may leave."""

    __slots__ = ("busy", "order", "ready")

    def __init__(self) -> None:
        self.order: deque[int] = deque()
        self.ready: set[int] = set()
        self.busy = False


class Engine:
    """One run. ``merge_s``: ends of flows so near each other are one event."""

    def __init__(
        self,
        network: Network,
        works: Sequence[Work],
        background: Sequence[tuple[int, int, float]] = (),
        *,
        merge_s: float = 0.0,
        timeline: bool = False,
    ) -> None:
        self.network, self.works, self.merge_s, self.timeline = network, works, merge_s, timeline
        self.now = 0.0
        self.heap: list[tuple[float, int, int, int]] = []
        """(when, 0 release or 1 arrival, work, action)."""
        self.connections: dict[tuple[int, int, int, int], _Connection] = {}
        self.trace = Trace(
            end_s=[np.full(len(w.program), np.nan) for w in works],
            finish_s=[w.release_s for w in works],
            carried=np.zeros(len(network.resources)),
            cause=[np.full(len(w.program), NOTHING, np.int64) for w in works],
        )
        self.state = [_State(work) for work in works]
        # Flows that run now; those of the background come first and never end.
        self.flow_work: list[int] = []
        self.flow_action: list[int] = []
        self.passed = np.array([network.passed[s, d] for s, d, _ in background], dtype=np.intp).reshape(
            len(background), network.passed.shape[2]
        )
        self.most = np.array([min(rate, network.stream[s, d]) for s, d, rate in background], dtype=np.float64)
        self.remaining = np.full(len(background), np.inf)
        self.weight = np.ones(len(background))
        self.background = len(background)
        self.starting: list[tuple[int, int, float]] = []
        self.lag = np.zeros(len(background))
        """By how much each flow began before now (after, below 0), where ends are merged: paid with its first step."""
        self.left = sum(len(w.program) for w in works)

    def run(self) -> Trace:
        """All works to their ends. Raises InternalError for a program that never ends."""
        for number, work in enumerate(self.works):
            heapq.heappush(self.heap, (work.release_s, 0, number, NOTHING))
        while True:
            self._events()
            self._start_flows()
            # Without bytes and latencies messages leave and arrive in one instant, the last of them too.
            if not self.left:
                return self.trace
            if len(self.remaining) == self.background and not self.heap:
                raise InternalError(f"{self.left} actions of a simulated program wait for ever")
            self._advance()

    def _events(self) -> None:
        """All arrivals and releases up to now."""
        while self.heap and self.heap[0][0] <= self.now + self.merge_s:
            when, kind, number, action = heapq.heappop(self.heap)
            if kind == 0:
                for first in self.state[number].begin():
                    self._ready(number, first, when, NOTHING)
            else:
                state = self.state[number]
                state.arrived[action] = True
                if not state.waits[action]:
                    self._end(number, action, when, state.sender[action])

    def _ready(self, number: int, action: int, when: float, cause: int) -> None:
        """All that an action waits for is done."""
        state = self.state[number]
        kind = state.kind[action]
        if kind == SEND:
            state.ready_cause[action] = cause
            if state.held(action):
                return
            self._offer(number, action, when)
        elif kind != RECEIVE or state.arrived[action]:
            self._end(number, action, when, cause)

    def _offer(self, number: int, action: int, when: float) -> None:
        state = self.state[number]
        key = (number, *state.connection[action])
        connection = self.connections.get(key)
        if connection is None:
            connection = self.connections[key] = _Connection()
            connection.order.extend(state.sends[state.connection[action]])
        connection.ready.add(action)
        self._next(number, connection, when)

    def _next(self, number: int, connection: _Connection, when: float) -> None:
        if not connection.busy and connection.order and connection.order[0] in connection.ready:
            connection.busy = True
            self.starting.append((number, connection.order[0], when))

    def _end(self, number: int, action: int, when: float, cause: int) -> None:
        """An action is done, and all that follows from it at once."""
        state, trace = self.state[number], self.trace
        todo = [(action, cause)]
        while todo:
            action, cause = todo.pop()
            trace.end_s[number][action] = when
            trace.cause[number][action] = cause
            trace.finish_s[number] = max(trace.finish_s[number], when)
            self.left -= 1
            for other in state.then[action]:
                state.waits[other] -= 1
                if state.waits[other]:
                    continue
                kind = state.kind[other]
                if kind == SEND or (kind == RECEIVE and not state.arrived[other]):
                    self._ready(number, other, when, action)
                else:
                    todo.append((other, action))
            for freed in state.step_done(action):
                self._offer(number, freed, when)

    def _start_flows(self) -> None:
        """The messages that leave now become flows; those without bytes have left at once."""
        while self.starting:
            starting, self.starting = self.starting, []
            rows, most, remaining, lag, weight = [], [], [], [], []
            for number, action, when in starting:
                state = self.state[number]
                size = state.size[action]
                if size <= 0:
                    self._left(number, action, when)
                    continue
                src, dst = state.ends[action]
                rows.append(self.network.passed[src, dst])
                most.append(self.network.stream[src, dst])
                remaining.append(float(size))
                lag.append(self.now - when)
                weight.append(state.weight[action])
                self.flow_work.append(number)
                self.flow_action.append(action)
            if rows:
                self.passed = np.concatenate([self.passed, np.array(rows)])
                self.most = np.concatenate([self.most, most])
                self.remaining = np.concatenate([self.remaining, remaining])
                self.lag = np.concatenate([self.lag, lag])
                self.weight = np.concatenate([self.weight, weight])
            self._events()

    def _left(self, number: int, action: int, when: float) -> None:
        """The last byte of a message has left its sender."""
        state = self.state[number]
        connection = self.connections[(number, *state.connection[action])]
        connection.order.popleft()
        connection.ready.discard(action)
        connection.busy = False
        self._end(number, action, when, state.ready_cause[action])
        src, dst = state.ends[action]
        heapq.heappush(
            self.heap, (when + float(self.network.alpha_s[src, dst]), 1, number, state.receiver[action])
        )
        self._next(number, connection, when)

    def _advance(self) -> None:
        """To the next event: the first end of a flow, or the first arrival."""
        rates = fair_rates(self.passed, self.network.capacity, self.most, self.weight)
        used = np.where(np.isinf(rates), 0.0, rates)
        if self.lag.any():
            self.remaining = np.maximum(self.remaining - used * self.lag, 0.0)
            self.lag[:] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            takes = np.where(np.isinf(rates), 0.0, self.remaining / rates)
        takes[: self.background] = np.inf
        first = float(takes.min()) if len(takes) else np.inf
        until = min(first, self.heap[0][0] - self.now if self.heap else np.inf)
        ended = takes <= until * (1 + _DONE) + self.merge_s
        if self.merge_s and ended.any():
            until = max(until, float(takes[ended].max()))
        through = np.bincount(
            np.where(self.passed < 0, len(self.trace.carried), self.passed).ravel(),
            np.repeat(used, self.passed.shape[1]),
            minlength=len(self.trace.carried) + 1,
        )[:-1].astype(np.float64)
        self.trace.carried += through * until
        if self.timeline and until > 0:
            self.trace.steps.append((self.now, self.now + until, through))
        begun = self.now
        self.now += until
        self.remaining = self.remaining - used * until
        if not ended.any():
            return
        places = np.flatnonzero(ended)
        done = [
            (
                begun + float(takes[p]),
                self.flow_work[p - self.background],
                self.flow_action[p - self.background],
            )
            for p in places
        ]
        kept = np.flatnonzero(~ended[self.background :])
        self.flow_work = [self.flow_work[p] for p in kept]
        self.flow_action = [self.flow_action[p] for p in kept]
        self.passed, self.most = self.passed[~ended], self.most[~ended]
        self.remaining, self.lag = self.remaining[~ended], self.lag[~ended]
        self.weight = self.weight[~ended]
        for when, number, action in done:
            self._left(number, action, when)


class _State:
    """A work while it runs: plain lists, which single look-ups are faster in than arrays."""

    def __init__(self, work: Work) -> None:
        program = work.program
        rank = program.rank_of()
        self.kind = program.kind.tolist()
        self.waits = np.diff(program.after_bounds).tolist()
        self.then: list[list[int]] = [[] for _ in self.kind]
        later = np.repeat(np.arange(len(program)), np.diff(program.after_bounds))
        for other, action in zip(later.tolist(), program.after.tolist()):
            self.then[action].append(other)
        self.size = (work.boundaries[program.last] - work.boundaries[program.first]).tolist()
        self.weight = [1.0] * len(program) if work.weight is None else work.weight.tolist()
        self.arrived = [False] * len(program)
        self.ready_cause = [NOTHING] * len(program)
        peer = np.maximum(program.peer, 0)
        own, theirs = work.host[rank].tolist(), work.host[peer].tolist()
        self.ends = list(zip(own, theirs))
        self.connection = list(zip(rank.tolist(), program.peer.tolist(), program.channel.tolist()))
        self.sends: dict[tuple[int, int, int], list[int]] = {}
        receives: dict[tuple[int, int, int], list[int]] = {}
        for action in np.flatnonzero(program.kind == SEND).tolist():
            self.sends.setdefault(self.connection[action], []).append(action)
        for action in np.flatnonzero(program.kind == RECEIVE).tolist():
            to, src, channel = self.connection[action]
            receives.setdefault((src, to, channel), []).append(action)
        self.receiver = [NOTHING] * len(program)
        self.sender = [NOTHING] * len(program)
        for key, sends in self.sends.items():
            for send, receive in zip(sends, receives[key]):
                self.receiver[send], self.sender[receive] = receive, send
        self.step = program.step.tolist() if work.lockstep else None
        self.current = -1
        self.open_: dict[int, int] = {}
        self.waiting: dict[int, list[int]] = {}
        if self.step is not None:
            for action in np.flatnonzero(program.kind == RECEIVE).tolist():
                self.open_[self.step[action]] = self.open_.get(self.step[action], 0) + 1
            self.current = min(self.open_, default=-1)

    def begin(self) -> list[int]:
        """What waits for nothing."""
        return [action for action, count in enumerate(self.waits) if not count]

    def held(self, action: int) -> bool:
        """Whether a send of a later step has to wait for the steps before it (lockstep)."""
        if self.step is None or self.step[action] <= self.current:
            return False
        self.waiting.setdefault(self.step[action], []).append(action)
        return True

    def step_done(self, action: int) -> list[int]:
        """After an action: sends that may leave because its step was the last to be waited for (lockstep)."""
        if self.step is None or self.kind[action] != RECEIVE:
            return []
        step = self.step[action]
        self.open_[step] -= 1
        freed: list[int] = []
        while self.open_ and not self.open_[self.current]:
            del self.open_[self.current]
            if not self.open_:
                break
            self.current = min(self.open_)
            freed += self.waiting.pop(self.current, [])
        return freed
