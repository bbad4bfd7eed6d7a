"""One job on a network, event by event, as loops over arrays, for numba to compile; engine.py has the same in Python.

Both take the same events in the same sequence and add the same numbers in the same sequence, so that they end with
the same times, to the last bit. numba (the extra ``fast``) makes it some thirty times as fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.compiled import compiled_kernels

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NOTHING = -1
SENDS, RECEIVES = 2, 1
"""Kinds of actions, as agents number them."""
DONE, NEAR = 1e-9, 1 + 1e-12
HEAP, STARTING, FLOWS, LEFT = 0, 1, 2, 3
"""Places in ``counts``."""


class Actions(NamedTuple):
    """What does not change during a run, of A actions, C connections and M messages.

    ``then[then_at[a] : then_at[a + 1]]`` wait for action a. Of connection c ``sends[send_at[c] : send_at[c + 1]]`` are
    the sends in their order. ``partner`` is the other end of a message, ``pair`` the place of its (source,
    destination) in a matrix of hosts.
    """

    kind: Ints
    then_at: Ints
    then: Ints
    connection: Ints
    send_at: Ints
    sends: Ints
    partner: Ints
    pair: Ints
    first: Ints


class State(NamedTuple):
    """What changes: per action, per connection, and lists whose lengths stand in ``counts``."""

    waits: Ints
    arrived: Ints
    ready: Ints
    cause: Ints
    ready_cause: Ints
    todo: Ints
    todo_cause: Ints
    head: Ints
    busy: Ints
    heap: Ints
    starting: Ints
    flow: Ints
    counts: Ints


def kernels() -> Callable[..., Any] | None:
    """The run, compiled at its first call; None where numba is not usable."""
    found = compiled_kernels(sys.modules[__name__])
    return None if found is None else found["run_events"]


def heap_push(state: State, heap_when: Floats, when: float, action: int) -> None:
    """Add an arrival; the earliest is at 0, of those at one time that with the lowest number."""
    heap, at = state.heap, state.counts[HEAP]
    state.counts[HEAP] += 1
    while at > 0:
        above = (at - 1) // 2
        if heap_when[above] < when or (heap_when[above] == when and heap[above] < action):
            break
        heap_when[at], heap[at] = heap_when[above], heap[above]
        at = above
    heap_when[at], heap[at] = when, action


def heap_drop(state: State, heap_when: Floats) -> None:
    """Take the earliest away."""
    heap = state.heap
    state.counts[HEAP] -= 1
    size = state.counts[HEAP]
    when, action = heap_when[size], heap[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        other = below + 1
        if other < size and (
            heap_when[other] < heap_when[below]
            or (heap_when[other] == heap_when[below] and heap[other] < heap[below])
        ):
            below = other
        if heap_when[below] > when or (heap_when[below] == when and heap[below] > action):
            break
        heap_when[at], heap[at] = heap_when[below], heap[below]
        at = below
    heap_when[at], heap[at] = when, action


def start_next(actions: Actions, state: State, start_when: Floats, connection: int, when: float) -> None:
    """Let the first send of an idle connection leave, if it is ready."""
    at = state.head[connection]
    if state.busy[connection] or at >= actions.send_at[connection + 1]:
        return
    action = actions.sends[at]
    if state.ready[action]:
        state.busy[connection] = 1
        number = state.counts[STARTING]
        state.starting[number], start_when[number] = action, when
        state.counts[STARTING] = number + 1


def end_action(
    actions: Actions, state: State, end_s: Floats, start_when: Floats, action: int, when: float, cause: int
) -> None:
    """An action is done, and all that follows from it at once."""
    todo, causes, depth = state.todo, state.todo_cause, 1
    todo[0], causes[0] = action, cause
    while depth:
        depth -= 1
        one = todo[depth]
        end_s[one], state.cause[one] = when, causes[depth]
        state.counts[LEFT] -= 1
        for place in range(actions.then_at[one], actions.then_at[one + 1]):
            other = actions.then[place]
            state.waits[other] -= 1
            if state.waits[other]:
                continue
            if actions.kind[other] == SENDS:
                state.ready_cause[other], state.ready[other] = one, 1
                start_next(actions, state, start_when, actions.connection[other], when)
            elif actions.kind[other] != RECEIVES or state.arrived[other]:
                todo[depth], causes[depth] = other, one
                depth += 1


def release(actions: Actions, state: State, end_s: Floats, start_when: Floats, when: float) -> None:
    """All that waits for nothing."""
    for place in range(len(actions.first)):
        action = actions.first[place]
        if actions.kind[action] == SENDS:
            state.ready_cause[action], state.ready[action] = NOTHING, 1
            start_next(actions, state, start_when, actions.connection[action], when)
        elif actions.kind[action] != RECEIVES or state.arrived[action]:
            # A constant would have another type, and all be compiled twice.
            end_action(actions, state, end_s, start_when, action, when, state.cause[action])


def take_arrivals(
    actions: Actions, state: State, end_s: Floats, start_when: Floats, heap_when: Floats, until: float
) -> None:
    """All arrivals, and the release, up to ``until``."""
    while state.counts[HEAP] and heap_when[0] <= until:
        when, action = heap_when[0], state.heap[0]
        heap_drop(state, heap_when)
        if action == NOTHING:
            release(actions, state, end_s, start_when, when)
            continue
        state.arrived[action] = 1
        if not state.waits[action]:
            end_action(actions, state, end_s, start_when, action, when, actions.partner[action])


def message_left(
    actions: Actions,
    state: State,
    end_s: Floats,
    start_when: Floats,
    heap_when: Floats,
    alpha: Floats,
    action: int,
    when: float,
) -> None:
    """The last byte of a message has left its sender."""
    connection = actions.connection[action]
    state.head[connection] += 1
    state.ready[action] = 0
    state.busy[connection] = 0
    end_action(actions, state, end_s, start_when, action, when, state.ready_cause[action])
    heap_push(state, heap_when, when + alpha[actions.pair[action]], actions.partner[action])
    start_next(actions, state, start_when, connection, when)


def share_out(
    flows: int,
    passed: Ints,
    capacity: Floats,
    most: Floats,
    rates: Floats,
    left: Floats,
    share: Floats,
    lowest: Floats,
    taken: Floats,
    least: Floats,
    count: Floats,
    weight: Floats,
    gone: Floats,
    open_: Ints,
) -> None:
    """Max-min fair ``rates`` of the first ``flows`` rows of ``passed`` (F, K), as `fair_rates` has them."""
    slots, none = passed.shape[1], len(capacity)
    left[:none] = capacity
    left[none] = np.inf
    count[:] = 0
    for flow in range(flows):
        open_[flow] = flow
        for slot in range(slots):
            count[passed[flow, slot]] += weight[flow]
    size = flows
    while size:
        for one in range(none):
            share[one] = max(left[one], 0.0) / count[one] if count[one] > 0 else np.inf
            lowest[one], taken[one], gone[one] = np.inf, 0.0, 0.0
        share[none], lowest[none], taken[none], gone[none] = np.inf, np.inf, 0.0, 0.0
        for at in range(size):
            flow = open_[at]
            low = share[passed[flow, 0]]
            for slot in range(1, slots):
                low = min(low, share[passed[flow, slot]])
            low = min(low, most[flow] / weight[flow])
            least[flow] = low
            for slot in range(slots):
                one = passed[flow, slot]
                lowest[one] = min(lowest[one], low)
        kept = 0
        for at in range(size):
            flow = open_[at]
            ends = least[flow] >= most[flow] / weight[flow]
            for slot in range(slots):
                one = passed[flow, slot]
                if share[one] < np.inf and lowest[one] * NEAR >= share[one]:
                    ends = True
            if not ends:
                open_[kept] = flow
                kept += 1
                continue
            rates[flow] = least[flow] * weight[flow]
            for slot in range(slots):
                one = passed[flow, slot]
                gone[one] += weight[flow]
                taken[one] += 0.0 if rates[flow] == np.inf else rates[flow]
        if kept == size:
            # Nothing fills: the rest is limited by nothing.
            for at in range(size):
                rates[open_[at]] = least[open_[at]] * weight[open_[at]]
            return
        for one in range(none + 1):
            count[one] -= gone[one]
            left[one] -= taken[one]
        size = kept


def run_events(
    actions: Actions,
    state: State,
    size: Floats,
    weight: Floats,
    end_s: Floats,
    carried: Floats,
    alpha: Floats,
    stream: Floats,
    passed: Ints,
    capacity: Floats,
    merge_s: float,
    release_s: float,
) -> bool:
    """All actions to their ends; False where some wait for ever. The heap holds the release.

    ``size`` (A,) are bytes of sends, ``weight`` (A,) what each counts where flows share; ``alpha`` and ``stream``
    (N * N,) and ``passed`` (N * N, K), with R where there are fewer than K, are of pairs of hosts; ``capacity`` is
    (R,), and ``carried`` (R + 1,) is filled.
    """
    most_flows, slots, none = len(state.busy), passed.shape[1], len(capacity)
    counts = state.counts
    heap_when, start_when = np.zeros(len(state.heap)), np.zeros(len(state.starting))
    heap_when[0] = release_s
    own = np.zeros((most_flows, slots), np.int64)
    most, remaining, lag = np.zeros(most_flows), np.zeros(most_flows), np.zeros(most_flows)
    rates, least, open_ = np.zeros(most_flows), np.zeros(most_flows), np.zeros(most_flows, np.int64)
    takes, ended = np.zeros(most_flows), np.zeros(most_flows, np.int64)
    left, share, lowest = np.zeros(none + 1), np.zeros(none + 1), np.zeros(none + 1)
    taken, through, count = np.zeros(none + 1), np.zeros(none + 1), np.zeros(none + 1)
    part, gone_parts = np.zeros(most_flows), np.zeros(none + 1)
    leaving, leaving_when = np.zeros(most_flows, np.int64), np.zeros(most_flows)
    batch, batch_when = np.zeros(len(state.starting), np.int64), np.zeros(len(state.starting))
    now = 0.0
    while True:
        take_arrivals(actions, state, end_s, start_when, heap_when, now + merge_s)
        while counts[STARTING]:
            number = counts[STARTING]
            for at in range(number):
                batch[at], batch_when[at] = state.starting[at], start_when[at]
            counts[STARTING] = 0
            for at in range(number):
                action, when = batch[at], batch_when[at]
                if size[action] <= 0:
                    message_left(actions, state, end_s, start_when, heap_when, alpha, action, when)
                    continue
                flow, pair = counts[FLOWS], actions.pair[action]
                for slot in range(slots):
                    own[flow, slot] = passed[pair, slot]
                most[flow], remaining[flow], lag[flow] = stream[pair], size[action], now - when
                part[flow] = weight[action]
                state.flow[flow] = action
                counts[FLOWS] = flow + 1
            take_arrivals(actions, state, end_s, start_when, heap_when, now + merge_s)
        if not counts[LEFT]:
            return True
        flows = counts[FLOWS]
        if not flows and not counts[HEAP]:
            return False
        share_out(
            flows,
            own,
            capacity,
            most,
            rates,
            left,
            share,
            lowest,
            taken,
            least,
            count,
            part,
            gone_parts,
            open_,
        )
        late = False
        for flow in range(flows):
            late = late or lag[flow] != 0
        first = np.inf
        for flow in range(flows):
            used = 0.0 if rates[flow] == np.inf else rates[flow]
            if late:
                remaining[flow] = max(remaining[flow] - used * lag[flow], 0.0)
                lag[flow] = 0.0
            takes[flow] = 0.0 if rates[flow] == np.inf else remaining[flow] / rates[flow]
            first = min(first, takes[flow])
        until = min(first, heap_when[0] - now if counts[HEAP] else np.inf)
        limit, over = until * (1 + DONE) + merge_s, 0
        latest = until
        for flow in range(flows):
            ended[flow] = takes[flow] <= limit
            if ended[flow]:
                over += 1
                latest = max(latest, takes[flow])
        if merge_s and over:
            until = latest
        through[:] = 0.0
        for flow in range(flows):
            used = 0.0 if rates[flow] == np.inf else rates[flow]
            for slot in range(slots):
                through[own[flow, slot]] += used
            remaining[flow] = remaining[flow] - used * until
        for one in range(none):
            carried[one] += through[one] * until
        begun = now
        now += until
        if not over:
            continue
        kept, gone = 0, 0
        for flow in range(flows):
            if ended[flow]:
                leaving[gone], leaving_when[gone] = state.flow[flow], begun + takes[flow]
                gone += 1
                continue
            for slot in range(slots):
                own[kept, slot] = own[flow, slot]
            most[kept], remaining[kept], lag[kept] = most[flow], remaining[flow], lag[flow]
            part[kept] = part[flow]
            state.flow[kept] = state.flow[flow]
            kept += 1
        counts[FLOWS] = kept
        for at in range(gone):
            message_left(actions, state, end_s, start_when, heap_when, alpha, leaving[at], leaving_when[at])


KERNELS = (
    "heap_push", "heap_drop", "start_next", "end_action", "release", "take_arrivals", "message_left", "share_out",
    "run_events",
)  # fmt: skip
ENTRIES = ("run_events",)
COMPILED: dict[str, Callable[..., object]] = {}
PARTS: tuple[ModuleType, ...] = ()
