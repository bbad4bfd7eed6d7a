"""A round of visits against agents of the test: what ends together, what breaks the protocol, what never ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from netprobe.core.hosts import make_host
from netprobe.probe.agent import messages
from netprobe.probe.fleet.connection import Connection
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.methods.base import VisitContext
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import HostOutcome
from netprobe.probe.records.visits import VisitResult
from netprobe.probe.scan.visiting import Round
from tests.probe.fleet.test_connection import HELLO, FakeChannel

OPTIONS = ScanOptions(probes_per_visit=3)
GOOD = [(1, 0, 1000), (2, 10, 2000), (3, 20, 1500)]
Lots = list[list[VisitResult]]


def in_a_round(body: Callable[[Round, list[FakeChannel], Lots], Awaitable[None]], hosts: int = 6) -> Lots:
    """Run ``body`` when visits of 0 -> 1, 2 -> 3, .. have begun; what was delivered, turn by turn."""
    lots: Lots = []

    async def main() -> None:
        channels = [FakeChannel() for _ in range(hosts)]
        members = []
        for index, channel in enumerate(channels):
            connection = Connection(channel, lease_s=10, silence_s=5)
            channel.reader.feed_data(messages.json_frame(HELLO))
            await connection.start(5, lambda _reason: None)
            channel.written = b""
            members.append(
                Member(
                    index=index, outcome=HostOutcome(host=make_host(f"h{index}")), connection=connection,
                    address=f'10.0.0.{index}"', port=9000 + index,
                )
            )  # fmt: skip
        method = Stamp(OPTIONS)
        round_ = Round(
            method,
            method.measurement,
            VisitContext(round=7, hosts=hosts, beside=hosts // 2 - 1),
            clock=asyncio.get_running_loop().time,
            zero_s=0.0,
            deliver=lambda visits: lots.append(list(visits)),
        )
        try:
            round_.begin([(members[i], members[i + 1], None) for i in range(0, hosts, 2)])
            await body(round_, channels, lots)
        finally:
            await round_.cancel()
            for member in members:
                assert member.connection is not None
                await member.connection.stop()

    asyncio.run(main())
    return lots


def say(channel: FakeChannel, samples: list[tuple[int, int, int]], **fields: Any) -> None:
    """Answer the one probe task of an agent."""
    counts = {"sent": 3, "received": 3, "duplicates": 0, "rejected": 0, "unsent": 0, "source_port": 4000}
    done = {"type": "done", "id": 1, "stamps": "kernel", **counts, **fields}
    channel.reader.feed_data(messages.samples_frame(1, samples) + messages.json_frame(done))


def test_what_is_asked_in_a_loop_is_what_one_visit_asks() -> None:
    async def body(round_: Round, channels: list[FakeChannel], lots: Lots) -> None:
        (frame,) = messages.FrameBuffer().feed(channels[2].written)
        asked = messages.parse_json(frame[1])
        assert (asked["address"], asked["source"], asked["port"]) == ('10.0.0.3"', '10.0.0.2"', 9003)
        pairs = [pair.src for pair in round_.pending if pair.src.index == 2]
        dst = next(visit.dst for visit in round_.pending if visit.src.index == 2)
        one = asyncio.create_task(
            Stamp(OPTIONS).visit(pairs[0], dst, VisitContext(round=7, hosts=6, beside=2))
        )
        channels[2].written = b""
        await asyncio.sleep(0)
        (frame,) = messages.FrameBuffer().feed(channels[2].written)
        one.cancel()
        assert {**json.loads(frame[1]), "id": 1} == asked

    in_a_round(body)


def test_visits_that_end_in_one_turn_are_delivered_together_each_with_its_own_samples() -> None:
    async def body(round_: Round, channels: list[FakeChannel], lots: Lots) -> None:
        say(channels[0], GOOD)
        say(channels[2], [], received=0)
        await asyncio.wait({round_.over}, timeout=0.05)
        assert not round_.over.done()
        say(channels[4], GOOD[1:], received=2)
        await asyncio.wait_for(asyncio.shield(round_.over), 60)

    first, second = in_a_round(body)
    assert [(v.src, v.seq.tolist(), v.rtt_s.tolist()) for v in (*first, *second)] == [
        (0, [1, 2, 3], [1e-6, 2e-6, 1.5e-6]),
        (2, [], []),
        (4, [2, 3], [2e-6, 1.5e-6]),
    ]
    assert first[1].reason is not None and "no answer from" in first[1].reason and first[0].reason is None
    assert all((v.round, v.beside, v.started_s > 0, v.duration_s >= 0) == (7, 2, True, True) for v in first)


@pytest.mark.parametrize(
    ("samples", "fields"),
    [
        ([(1, 0, -5)], {}),
        ([(1, -1, 5)], {}),
        ([(1, 0, 1 << 40)], {}),  # longer than the request itself
        ([(2, 0, 5), (1, 0, 5)], {}),
        ([(4, 0, 5)], {}),
        (GOOD, {"received": 2}),
        (GOOD, {"stamps": "hardware"}),
        (GOOD, {"type": "opened"}),
    ],
)
def test_an_answer_that_cannot_be_ends_its_agent_and_costs_no_other_link(
    samples: list[tuple[int, int, int]], fields: dict[str, Any]
) -> None:
    async def body(round_: Round, channels: list[FakeChannel], lots: Lots) -> None:
        say(channels[0], GOOD)
        say(channels[2], samples, **fields)
        say(channels[4], GOOD)
        await asyncio.wait_for(asyncio.shield(round_.over), 60)
        assert [channel.killed for channel in channels] == [False, False, True, False, False, False]

    visits = [visit for lot in in_a_round(body) for visit in lot]
    assert [visit.src for visit in visits] == [0, 2, 4]
    assert [visit.rtt_s.tolist() for visit in visits] == [[1e-6, 2e-6, 1.5e-6], [], [1e-6, 2e-6, 1.5e-6]]
    assert visits[1].reason is not None and visits[1].reason.startswith("h2: the agent sent ")


def test_an_agent_that_goes_and_one_that_never_answers_have_their_reasons() -> None:
    async def body(round_: Round, channels: list[FakeChannel], lots: Lots) -> None:
        channels[0].close()
        say(channels[2], GOOD)
        await asyncio.wait({round_.over}, timeout=0.2)
        round_._expire()  # as its timer does
        await asyncio.wait_for(asyncio.shield(round_.over), 60)

    visits = {visit.src: visit for lot in in_a_round(body) for visit in lot}
    assert visits[0].reason == "h0: the agent ended (its last words)" and visits[2].reason is None
    assert visits[4].reason is not None and "the agent gave no result within" in visits[4].reason


def test_what_has_ended_is_kept_when_the_round_is_given_up() -> None:
    async def body(round_: Round, channels: list[FakeChannel], lots: Lots) -> None:
        say(channels[0], GOOD)
        while not round_._ended:
            await asyncio.sleep(0)
        await round_.cancel()

    (lot,) = in_a_round(body)
    assert [visit.src for visit in lot] == [0]


class Odd:
    """A method whose visits end as configured, by the index of their source."""

    deadline_s = 5.0

    def __init__(self, ends: dict[int, BaseException]) -> None:
        self._ends = ends
        self.measurement = Stamp(OPTIONS).measurement

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        if src.index in self._ends:
            raise self._ends[src.index]
        return [{"reason": f"{src.index} was read"}]


@pytest.mark.parametrize(("end", "fault"), [(KeyError("bug"), True), (asyncio.CancelledError(), False)])
def test_a_visit_that_ends_as_none_should_costs_no_other_its_reading(end: BaseException, fault: bool) -> None:
    """Neither what the others read that ended with it, nor the end of the round."""
    delivered: list[VisitResult] = []

    async def main() -> None:
        method: Any = Odd({2: end})
        members = [Member(index=i, outcome=HostOutcome(host=make_host(f"h{i}"))) for i in range(8)]
        round_ = Round(
            method,
            method.measurement,
            VisitContext(round=0, hosts=8, beside=3),
            clock=asyncio.get_running_loop().time,
            zero_s=0.0,
            deliver=delivered.extend,
        )
        round_.begin([(members[i], members[i + 1], None) for i in range(0, 8, 2)])
        if fault:
            with pytest.raises(KeyError, match="bug"):
                await asyncio.wait_for(round_.over, 30)
        else:
            await asyncio.wait_for(round_.over, 30)

    asyncio.run(main())
    reasons = {visit.src: visit.reason for visit in delivered}
    assert {src: reasons[src] for src in (0, 4, 6)} == {src: f"{src} was read" for src in (0, 4, 6)}
    assert reasons.get(2) == (None if fault else "h2: it was given up")
