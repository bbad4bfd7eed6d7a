"""Tapes whose messages overtake, over connections of a test's own that deliver in any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.schedule.schedule import Schedule
from netprobe.probe.agent.collective.program import RECEIVE
from netprobe.runtime.overtaking import MessageFailed, Overtaking, Staging
from netprobe.runtime.tape import Settings, Tape, tape_of
from netprobe.runtime.waiters import Awaited
from tests.properties import examples

NO_TIME = timedelta(seconds=0)


class Buffer(np.ndarray):
    """An array with the methods of a tensor that an executor calls."""

    def add_(self, other: Any) -> None:
        """In place."""
        np.add(self, other, out=self)

    def new_empty(self, elements: int) -> Buffer:
        """Full of what no sum may hold."""
        return np.full(elements, np.nan, np.float32).view(Buffer)


class Network:
    """All ranks in one thread: a message moves when both its ends are there, in an order that is drawn."""

    def __init__(self, tapes: Sequence[Tape], data: Sequence[Any], rng: random.Random) -> None:
        self.rng, self.tapes = rng, tapes
        self.sends: dict[Any, tuple[Any, Work]] = {}
        self.posted: dict[Any, tuple[int, Any, Work]] = {}
        self.waiting: list[tuple[int, Awaited]] = []
        self.most = [0] * len(tapes)
        self.runs = [
            Overtaking(
                tape, flat, start=(self.sender(rank), self.receiver(rank)), waiters=cast(Any, Waiting(self, rank)),
                staging=Staging(tape.slot_elements, 2 * tape.window), timeout=NO_TIME, adds=True,
            )
            for rank, (tape, flat) in enumerate(zip(tapes, data))
        ]  # fmt: skip

    def sender(self, rank: int) -> Any:
        def send(message: Any, view: Any) -> Work:
            work = Work()
            self.sends[rank, message.peer, message.channel, message.tag] = (view, work)
            return work

        return send

    def receiver(self, rank: int) -> Any:
        def receive(message: Any, into: Any) -> Work:
            work = Work()
            self.posted[message.peer, rank, message.channel, message.tag] = (rank, into, work)
            return work

        return receive


class Work:
    """Ends when its message has moved."""

    def __init__(self) -> None:
        self.ended = False

    def wait(self, _: Any) -> None:
        """Only what has ended may be waited for by the one thread."""
        assert self.ended


class Waiting:
    """What `Overtaking` takes for its threads."""

    def __init__(self, network: Network, rank: int) -> None:
        self.network, self.rank = network, rank

    def put(self, job: Awaited) -> None:
        """Remember it."""
        self.network.waiting.append((self.rank, job))


def deliver(network: Network) -> None:
    """Run all ranks to their end, one step of one message at a time. Fails where nothing can move."""
    for run in network.runs:
        run._post()
        for i, message in enumerate(run._messages):
            if message.kind != RECEIVE and not run._missing[i]:
                run._send(i)
        run._post()
    started: list[tuple[int, Awaited, Any]] = []
    while network.waiting or started:
        before = len(started)
        for rank, job in list(network.waiting):
            if all(work.ended for _, work in job.before):
                network.waiting.remove((rank, job))
                started.append((rank, job, job.start()))
        ready = [key for key in network.posted if key in network.sends]
        if ready:
            key = network.rng.choice(sorted(ready))
            view, sent = network.sends.pop(key)
            _, into, work = network.posted.pop(key)
            into[:] = view
            sent.ended = work.ended = True
        done = [one for one in started if one[2].ended]
        assert ready or done or len(started) > before, "every rank waits"
        for one in done:
            started.remove(one)
            rank, job, _ = one
            run = network.runs[rank]
            network.most[rank] = max(network.most[rank], run._open)
            run.came(job.message)


def reduced(schedule: Schedule, settings: Settings, seed: int) -> tuple[list[Any], Network]:
    """The results of all ranks."""
    program, elements = compile_schedule(schedule), 97
    bounds = schedule.boundaries(elements)
    tapes = [tape_of(program, rank, bounds, 4, settings) for rank in range(schedule.ranks)]
    values = np.random.default_rng(5)
    data = [values.normal(size=elements).astype(np.float32).view(Buffer) for _ in range(schedule.ranks)]
    for rank, tape in enumerate(tapes):
        if not tape.window:
            added = [m.end - m.begin for m in tape.messages]
            tapes[rank] = forced(program, rank, bounds, max(added, default=0))
    network = Network(tapes, data, random.Random(seed))
    deliver(network)
    return data, network


def forced(program: Any, rank: int, bounds: Any, elements: int) -> Tape:
    """The tape of a rank that would take its messages in their order, overtaking."""
    from netprobe.runtime import tape

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tape, "overtakes", lambda *_: True)
        made = tape_of(program, rank, bounds, 4, Settings(overtaking=1))
    assert made.slot_elements <= elements
    return made


SCHEDULES = {
    "2lha": lambda: two_level([[0, 1, 2], [3, 4], [5, 6, 7]], 12),
    "flat": lambda: build("flat", 5),
    "double-binary-tree": lambda: build("double-binary-tree", 7),
}


@examples(40)
@given(name=st.sampled_from(sorted(SCHEDULES)), window=st.integers(1, 12), seed=st.integers(0, 1 << 30))
def test_no_timing_hangs_or_changes_a_bit(name: str, window: int, seed: int) -> None:
    """Any order in which messages come, any window: the same bits on all ranks, and no more posted than the window."""
    found, network = reduced(SCHEDULES[name](), Settings(overtaking=window), seed)
    usual, _ = reduced(SCHEDULES[name](), Settings(overtaking=8), 1)
    assert all(one.tobytes() == usual[0].tobytes() for one in found)
    assert not np.isnan(found[0]).any()
    assert all(most <= max(1, tape.window) for most, tape in zip(network.most, network.tapes))


def test_only_tapes_of_several_peers_overtake() -> None:
    def windows(schedule: Schedule, settings: Settings) -> set[int]:
        bounds, program = schedule.boundaries(1000), compile_schedule(schedule)
        return {tape_of(program, rank, bounds, 4, settings).window for rank in range(schedule.ranks)}

    assert windows(SCHEDULES["2lha"](), Settings()) == {Settings().overtaking}
    assert windows(SCHEDULES["2lha"](), Settings(overtaking=0)) == {0}
    assert windows(build("chunked-ring", 6), Settings()) == {0}


def test_a_send_that_fails_is_named() -> None:
    schedule = SCHEDULES["2lha"]()
    program = compile_schedule(schedule)
    tape = tape_of(program, 0, schedule.boundaries(97), 4, Settings())

    def refuse(*_: Any) -> Any:
        raise RuntimeError("closed")

    run = Overtaking(
        tape, np.zeros(97, np.float32).view(Buffer), start=(refuse, refuse), waiters=None,  # type: ignore[arg-type]
        staging=Staging(tape.slot_elements, 8), timeout=NO_TIME, adds=True,
    )  # fmt: skip
    with pytest.raises(MessageFailed) as raised:
        run.run([0.0] * schedule.ranks)
    assert raised.value.message == run.first_missing()
