"""The runner on the agents: no answer of an agent breaks it, and impossible times are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.core.hosts import make_host
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.program import compile_schedule
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.records.result import HostOutcome
from netprobe.verify.runner import StoppedRunError
from netprobe.verify.wire import Run, WireRunner
from tests.properties import examples


class FakeConnection:
    """Answers every request with the same message."""

    lost = None

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.given_up: str | None = None

    async def request(self, _message: dict[str, Any], _timeout_s: float) -> dict[str, Any]:
        return dict(self.answer)

    def lose(self, reason: str) -> None:
        self.given_up = reason


RING = Run(build("ring", 3), compile_schedule(build("ring", 3)), (0, 1, 2))


def wired(answer: dict[str, Any]) -> WireRunner:
    members = []
    for i in range(3):
        member = Member(index=i, outcome=HostOutcome(host=make_host(f"h{i}")), address="127.0.0.1", port=9)
        member.connection = FakeConnection(answer)  # type: ignore[assignment]
        members.append(member)
    return WireRunner(members, [RING], size_bytes=10)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@examples(40)
@given(st.dictionaries(
    st.sampled_from(["type", "durations_ns", "sent", "code", "reason", "peer", "port", "actions", "faults"]),
    json_values,
))  # fmt: skip
def test_no_answer_of_an_agent_breaks_the_controller(answer: dict[str, Any]) -> None:
    async def both() -> None:
        runner = wired(answer)
        batch = await runner.repeat([0, 0], 1.0)
        assert batch.reason or (len(batch.seconds) == 2 and min(batch.seconds) > 0)
        with pytest.raises(StoppedRunError):  # it holds another number of actions, if nothing else
            await runner.open()

    asyncio.run(both())


def test_a_time_that_cannot_be_is_not_believed() -> None:
    good = {"durations_ns": [5, 7], "sent": 3, "reason": None, "peer": None}
    batch = asyncio.run(wired(good).repeat([0, 0], 1.0))
    assert batch.seconds == (5e-9, 7e-9) and batch.reason is None
    for change in (
        {"durations_ns": [5, 0]},
        {"durations_ns": [5, 1 << 60]},
        {"durations_ns": [5]},
        {"sent": -1},
        {"reason": "without a code"},
        {"code": "dance", "reason": "of an unknown code"},
    ):
        runner = wired(good | change)
        batch = asyncio.run(runner.repeat([0, 0], 1.0))
        assert (
            batch.seconds == () and batch.reason is not None and batch.reason.startswith("h0: the agent sent")
        )
        connection: Any = runner.members[0].connection
        assert connection.given_up
    named = asyncio.run(
        wired(
            good | {"durations_ns": [5], "code": "connection", "reason": "its connection broke", "peer": 2}
        ).repeat([0, 0], 1)
    )
    assert named.seconds == (5e-9,) and named.reason == "h0 says of h2: its connection broke"


def test_more_orders_than_an_agent_can_hold_are_refused() -> None:
    members = wired({}).members
    with pytest.raises(InputError, match=r"20000 orders or plans of \d+ actions each: .* can be run"):
        WireRunner(members, [RING] * 20000, size_bytes=10)
    assert WireRunner(members, [RING] * 30, size_bytes=10).runs


def test_the_host_that_broke_is_named_before_those_whose_connections_it_broke() -> None:
    """Codes decide: two hosts lose their connections to h1, and h1 says that a peer sent what it must not."""
    good = {"durations_ns": [5], "sent": 3}
    gone = good | {"code": "connection", "reason": "closed", "peer": 1}
    answers = [gone, good | {"code": "peer", "reason": "sent another chunk", "peer": 0}, gone]
    runner = wired(gone)
    for member, answer in zip(runner.members, answers):
        member.connection = FakeConnection(answer)  # type: ignore[assignment]
    assert asyncio.run(runner.repeat([0, 0], 1.0)).reason == "h1 says of h0: sent another chunk"
    runner.members[1].connection = FakeConnection(gone | {"peer": 2})  # type: ignore[assignment]
    assert asyncio.run(runner.repeat([0, 0], 1.0)).reason == "h0 says of h1: closed"
