"""What tasks of an agent do at the ends of what they are given: no longer, no more, and the last of what is said."""

from __future__ import annotations

import errno
import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.probe.agent import main, messages, tasks
from netprobe.probe.agent.child import Child
from netprobe.probe.agent.collective import tasks as collective
from netprobe.probe.agent.collective.run import CollectiveError
from netprobe.probe.agent.goodput import flow_sender


def answered(task: Any, monkeypatch: pytest.MonkeyPatch, message: dict[str, Any] | None = None) -> list[Any]:
    """The messages that an agent sends for a task."""
    monkeypatch.setattr(tasks, "find", lambda _type: task)
    source, sink = os.pipe()
    main.Agent(0, sink)._answer(message or {"type": "any", "id": 7})
    os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        frames = list(messages.read_frames(lambda count: pipe.read(count)))
    return [messages.parse_json(body) for kind, body in frames if kind == messages.JSON_FRAME]


def test_the_end_of_a_traceback_is_said_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_message: Any, _resources: Any) -> Any:
        raise RuntimeError("first" + "x" * 3000 + "last")

    (said,) = answered(fails, monkeypatch)
    assert said["id"] == 7 and said["code"] == messages.INTERNAL
    assert len(said["traceback"]) == 2000 and said["traceback"].endswith("xlast\n")

    def little(_message: Any, _resources: Any) -> Any:
        raise ValueError("little")

    (said,) = answered(little, monkeypatch)
    assert said["code"] == messages.BAD_REQUEST and said["reason"] == "ValueError: little"
    assert "ValueError: little" in said["traceback"] and "in little" in said["traceback"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.EPERM, messages.PERMISSION), (errno.EACCES, messages.PERMISSION), (errno.EIO, messages.OS_ERROR)],
)
def test_what_the_system_refuses_is_told_from_what_fails(
    number: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_message: Any, _resources: Any) -> Any:
        raise OSError(number, "as drawn")

    (said,) = answered(refused, monkeypatch, {"type": "any"})
    assert (said["type"], said["id"], said["code"]) == ("failed", 0, code)


@pytest.mark.parametrize("threaded", [True, False])
def test_only_tasks_that_wait_for_others_have_a_thread_which_ends_with_the_agent(
    threaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "is_threaded", lambda _type: threaded)
    seen: list[threading.Thread] = []
    done = threading.Event()

    def answer(_message: Any) -> None:
        seen.append(threading.current_thread())
        done.set()

    agent = main.Agent(0, 1)
    monkeypatch.setattr(agent, "_answer", answer)
    agent._do({"type": "any"})
    assert done.wait(30)
    assert (seen[0] is not threading.main_thread()) == threaded
    assert not threaded or seen[0].daemon


def test_a_program_that_says_nothing_is_killed_when_its_time_is_up() -> None:
    child = Child(["sleep", "120"])
    begun = time.monotonic()
    with pytest.raises(ValueError, match="did not end in time"):
        child.read(100, begun + 0.05)
    assert child.ended and time.monotonic() - begun < 100


def test_a_program_that_says_too_much_is_killed_and_one_that_says_all_that_it_may_is_not() -> None:
    for limit, kept in ((5, True), (4, False)):
        child = Child(["printf", "12345"])
        if kept:
            assert child.read(limit, time.monotonic() + 60) == b"12345"
        else:
            with pytest.raises(ValueError, match="more than 4 bytes"):
                child.read(limit, time.monotonic() + 60)


def test_what_was_delivered_is_looked_at_once_a_slice_and_not_after_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look takes 10 ns of the clock, and there is one more before it sleeps: until 95, by slices of 30."""
    now, slept = [0], list[float]()

    def clock() -> int:
        now[0] += 10
        return now[0]

    def sleep(seconds: float) -> None:
        slept.append(round(seconds * 1e9))
        now[0] += round(seconds * 1e9)

    monkeypatch.setattr(flow_sender, "_segments", lambda _sock: (1, 1000, 1))
    monkeypatch.setattr(flow_sender, "time", SimpleNamespace(monotonic_ns=clock, sleep=sleep))
    assert [total for _, total in flow_sender._delivered([None], 95, 30)] == [1000]  # type: ignore[list-item]
    # At 30 to 60; at 90 only 5 are left; and at 100 it is over.
    assert slept == [30, 5]
    monkeypatch.setattr(flow_sender, "MAX_MARKS", 3)
    now[0], looks = 0, list[int]()

    def look(_sock: Any) -> tuple[int, int, int]:
        looks.append(1)
        return len(looks), 0, 0

    monkeypatch.setattr(flow_sender, "_segments", look)
    flow_sender._delivered([None], 10**9, 1)  # type: ignore[list-item]
    assert len(looks) == 3


class Programs:
    """Stands for the interpreter: keeps what it is to run, and ends as told."""

    members = 2

    def __init__(self, error: CollectiveError | None = None) -> None:
        self.ran: list[int] = []
        self.error = error
        self.sent_bytes, self.received_bytes = 100, 200
        self.until = 0
        self.ended = False

    def run(self, programs: Any, durations: list[int], until: int) -> None:
        self.until = until
        self.sent_bytes += 7
        self.received_bytes += 9
        for program in programs:
            self.ran.append(program.name)
            durations.append(5)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.ended = True


def here(stands: Programs, **other: int) -> dict[str, Any]:
    made: Any = collective.Collective(SimpleNamespace(close=lambda: None), b"")  # type: ignore[arg-type]
    made.interpreter = stands
    made.programs = {
        0: SimpleNamespace(name=0, ranks=2),
        1: SimpleNamespace(name=1, ranks=other.get("ranks", 2)),
    }
    return {"collective": made}


@pytest.mark.parametrize("count", [1, collective.MAX_SEQUENCE])
def test_a_run_is_of_one_program_at_least_and_of_so_many_at_most(count: int) -> None:
    stands = Programs()
    resources = here(stands)
    before = time.monotonic_ns()
    answer, samples = collective.run({"sequence": [1] * count, "limit_ns": 10**12}, resources)
    assert stands.ran == [1] * count and samples is None
    assert answer["durations_ns"] == [5] * count and (answer["sent"], answer["received"]) == (7, 9)
    assert (answer["code"], answer["reason"], answer["peer"]) == (None, None, None)
    assert before + 10**12 <= stands.until <= time.monotonic_ns() + 10**12
    assert resources["collective"].idle.is_set() and not stands.ended
    for wrong in ([], [0] * (collective.MAX_SEQUENCE + 1)):
        with pytest.raises(ValueError, match="sequence"):
            collective.run({"sequence": wrong, "limit_ns": 1}, resources)
    collective.run({"sequence": [0], "limit_ns": 10**30}, resources)
    assert stands.until <= time.monotonic_ns() + collective.MAX_LIMIT_NS


def test_a_run_that_fails_says_why_and_leaves_no_connections() -> None:
    stands = Programs(CollectiveError(messages.PEER, "as drawn", 1))
    resources = here(stands)
    answer, _ = collective.run({"sequence": [0, 1], "limit_ns": 1}, resources)
    assert (answer["code"], answer["reason"], answer["peer"]) == (messages.PEER, "as drawn", 1)
    assert answer["durations_ns"] == [5, 5] and stands.ended and resources["collective"].interpreter is None
    assert resources["collective"].idle.is_set()
    with pytest.raises(ValueError, match="no connections"):
        collective.run({"sequence": [0], "limit_ns": 1}, resources)


def test_a_run_waits_for_no_other_and_takes_programs_of_its_members_alone() -> None:
    resources = here(Programs(), ranks=3)
    with pytest.raises(ValueError, match="members"):
        collective.run({"sequence": [0, 1], "limit_ns": 1}, resources)
    assert collective.run({"sequence": [0], "limit_ns": 1}, resources)[0]["code"] is None
    resources["collective"].idle.clear()
    with pytest.raises(ValueError, match="unfinished"):
        collective.run({"sequence": [0], "limit_ns": 1}, resources)
