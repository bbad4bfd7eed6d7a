"""Whatever a host's agent answers to a task, it is a reading that can be, a reason, or a fault of the protocol."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.visits import GoodputReading
from netprobe.core.hosts import make_host
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError
from netprobe.probe.fleet.fleet import Member, opened_port
from netprobe.probe.methods.base import Method, VisitContext
from netprobe.probe.methods.fping import Fping
from netprobe.probe.methods.goodput import Goodput
from netprobe.probe.methods.goodput_options import GoodputOptions
from netprobe.probe.methods.path import Path
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.methods.tcp_connect import TcpConnect
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import HostOutcome
from netprobe.probe.records.visits import VisitResult
from tests.probe.methods.test_iperf3_report import REPORT

PORTS = (9000, 9010)
MS = 1_000_000
OPTIONS = ScanOptions(probes_per_visit=3, port_range=PORTS)
DONE = {
    "type": "done", "sent": 3, "received": 3, "duplicates": 0, "rejected": 0, "unsent": 0, "source_port": 4000,
    "stamps": "kernel", "duration_ns": 9, "reason": None,
    "samples": [(1, 0, MS), (2, MS, MS), (3, 2 * MS, MS)],
}  # fmt: skip
ECHOES = "".join(
    f"[17000000{i:02}.5] 10.0.0.2 : [{i}], 64 bytes, 0.{i + 1}00 ms (0.1 avg, 0% loss)\n" for i in range(4)
)
VALID: dict[str, dict[str, Any]] = {
    "probe": DONE,
    "tcp_connect": DONE,
    "tcp_open": {"type": "opened", "address": "10.0.0.2", "port": 9001},
    "tcp_shut": {"type": "shut", "accepted": 3},
    "path": {"type": "path", "hops": 2, "addresses": ["10.0.0.9", None], "mtu": 1500, "source_port": 4000,
             "sent": 9, "reason": None},
    "tcp_serve": {"type": "serving", "port": 9002},
    "tcp_send": {"type": "sent", "source_port": 4000, "congestion": "cubic", "retransmits": 1, "cpu_ns": 5 * MS,
                 "busiest_ns": 5 * MS, "wait_ns": 0, "duration_ns": 400 * MS},
    "tcp_collect": {"type": "collected", "streams": 1, "ended": 1, "cpu_ns": MS, "wait_ns": 0,
                    "ended_ns": 500 * MS, "reads": [40],
                    "marks": [[10 * MS * i, 5000 * i] for i in range(1, 45)]},
    "iperf_version": {"type": "version", "output": "iperf 3.12 (cJSON 1.7.15)\n"},
    "iperf_serve": {"type": "serving", "port": 9003},
    "iperf_send": {"type": "report", "code": 0, "output": json.dumps(REPORT)},
    "fping_version": {"type": "version", "output": "fping: Version 5.1", "code": 0, "tried": "", "tried_code": 0},
    "fping": {"type": "report", "code": 0, "output": ECHOES + "\n10.0.0.2 : 0.100 0.200 0.300 0.400\n"},
}  # fmt: skip
METHODS: dict[str, Any] = {
    "stamp": lambda: Stamp(OPTIONS),
    "tcp": lambda: TcpConnect(OPTIONS),
    "fping": lambda: Fping(OPTIONS),
    "path": lambda: Path(OPTIONS, "udp"),
    "goodput tcp": lambda: Goodput(OPTIONS, GoodputOptions(way="tcp")),
    "goodput iperf3": lambda: Goodput(OPTIONS, GoodputOptions(way="iperf3")),
}


class Answers:
    """Stands for a connection: gives what is valid, changed for one type of request."""

    lost = None

    def __init__(self, changes: Mapping[str, Any], of: str = "") -> None:
        self._changes, self._of = changes, of

    async def request(self, message: dict[str, Any], _timeout_s: float) -> dict[str, Any]:
        kind = message["type"]
        valid = VALID.get(kind, {"type": "any"})
        return {**valid, **(self._changes if kind == self._of else {})}


async def measured(method: Method, src: Answers, dst: Answers) -> list[dict[str, Any]]:
    members = [
        Member(
            index=i, outcome=HostOutcome(host=make_host(name)), connection=answers,  # type: ignore[arg-type]
            address=f"10.0.0.{i + 1}", port=9000,
        )
        for i, (name, answers) in enumerate((("a", src), ("b", dst)))
    ]  # fmt: skip
    try:
        if await method.prepare(members):
            return []
        return await method.visit(members[0], members[1], VisitContext(round=0, hosts=2, beside=0))
    finally:
        await method.finish(members)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_valid_is_a_reading(name: str) -> None:
    (fields,) = asyncio.run(measured(METHODS[name](), Answers({}), Answers({})))
    assert fields.get("reason") is None, fields
    assert VisitResult(src=0, dst=1, round=0, started_s=0.0, duration_s=0.1, **fields).has_reading


def test_behind_a_lost_segment_bytes_count_when_they_arrived() -> None:
    """The link brought 5 kB each 10 ms; the receiver's process saw a third of the time, and then all at once."""
    steady = [[10 * MS * i, 5000 * i] for i in range(1, 45)]
    seen = [*steady[:15], *([10 * MS * i, 75_000 + i] for i in range(16, 41)), *steady[40:]]
    late = [*steady[:15], [430 * MS, 75_001]]

    def rate(marks: list[list[int]], **sent: Any) -> float:
        src, dst = Answers(sent, "tcp_send"), Answers({"marks": marks}, "tcp_collect")
        (fields,) = asyncio.run(measured(METHODS["goodput tcp"](), src, dst))
        return float(fields["goodput"].bytes_per_s)

    for marks in (seen, late):
        assert rate(marks, retransmits=40, delivered=steady) == pytest.approx(500_000, rel=1e-6)
    # Without a loss, or on a kernel that does not tell, the receiver's count it is.
    assert rate(late, retransmits=0, delivered=steady) == rate(late, retransmits=40) < 300_000


anything = (
    st.none() | st.booleans() | st.integers(-(1 << 65), 1 << 65) | st.floats() | st.text(max_size=60)
    | st.lists(st.integers(-1, 1 << 40) | st.none() | st.text(max_size=3), max_size=4)
    | st.dictionaries(st.text(max_size=5), st.integers(), max_size=3)
    | st.lists(st.lists(st.integers(-1, 1 << 40), max_size=3), max_size=4)
)  # fmt: skip


@given(st.data())
def test_whatever_an_agent_answers_is_a_reading_that_can_be_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(METHODS)))
    kind = data.draw(st.sampled_from(sorted(VALID)))
    # Samples come in a frame of their own, which is checked where it is read (test_messages).
    keys = sorted(VALID[kind].keys() - {"samples"})
    changes = data.draw(st.dictionaries(st.sampled_from(keys), anything, min_size=1, max_size=3))
    at_source = data.draw(st.booleans())
    answers = Answers(changes, kind), Answers({})
    method: Method = METHODS[name]()
    try:
        found = asyncio.run(measured(method, *(answers if at_source else answers[::-1])))
    except (ProtocolError, AgentLostError, TaskFailedError, TimeoutError) as error:
        assert "\n" not in str(error)
        return
    for fields in found:
        visit = VisitResult(src=0, dst=1, round=0, started_s=0.0, duration_s=0.1, **fields)
        assert visit.has_reading or visit.reason
        assert np.isfinite(visit.rtt_s).all() and (visit.rtt_s > 0).all()
        assert visit.received <= visit.sent <= 3 and 0 <= visit.rejected <= visit.received
        assert all(port is None or 0 <= port <= 65535 for port in (visit.src_port, visit.dst_port))
        assert visit.reason is None or len(visit.reason) < 2000
        if isinstance(visit.goodput, GoodputReading):
            assert math.isfinite(visit.goodput.bytes_per_s)
    assert all("\x1b" not in json.dumps(method.measurement.parameters) for _ in found)


@given(
    st.integers(-5, 70_000) | anything,
    st.sampled_from([PORTS, (0, 0)]),
    st.sampled_from(["opened", "serving", None]),
)
def test_a_port_is_one_that_was_asked_for(port: object, ports: tuple[int, int], type_: str | None) -> None:
    low, high = ports if ports != (0, 0) else (1, 65535)
    try:
        assert low <= opened_port({"type": type_, "port": port}, ports) <= high and type_ == "opened"
    except ProtocolError:
        assert type_ != "opened" or type(port) is not int or not low <= port <= high
