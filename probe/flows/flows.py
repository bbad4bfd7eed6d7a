"""TCP flows between hosts, any number at once: started at one moment, counted where they arrive.

``run_flows`` is the primitive under the goodput method and the capacity probe. A host may send and receive
several flows at a time. Flows that run together start at a common moment, for which each agent's monotonic
clock is read first, and are compared over a common window; ``progress.py`` has the arithmetic.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError, text_field, whole_field
from netprobe.probe.fleet.fleet import Member, opened_port
from netprobe.probe.flows.progress import Mark, Progress, is_short, parse_marks, parse_reads, too_few_to_time
from netprobe.probe.records.samples import NS_PER_S

CLOCK_TRIES = 3
CPU_BOUND_RATIO = 0.9
"""A thread that sends or receives and takes this much of a core is what limits its flow."""
CPU_WAIT_RATIO = 0.5
"""One that waits for a processor this much of the time may have left the network idle."""
_TOKEN_BYTES = 16
_DELIVERED_SLICE_S = 0.01
"""Between two looks at what was acknowledged, at least."""
_SETUP_S = 5.0
"""For an answer that needs no more than a round trip."""
_CONNECT_S = 8.0
"""For the connections of a flow, of which each host allows three seconds, and a slow machine."""
_LEAD_S = 0.05
_COLLECT_S = 1.0
_CLOSE_S = 1.0
"""Short: the end after Ctrl-C may wait for it."""
_LIMIT = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Flow:
    """``src`` sends to ``dst`` over this many TCP connections. Both agents are up."""

    src: Member
    dst: Member
    streams: int = 1


@dataclass(frozen=True, kw_only=True)
class FlowResult:
    """What became of a flow. Everything but ``flow`` and ``reason`` is empty when ``reason`` is not None."""

    flow: Flow
    reason: str | None = None
    """Why there is no reading."""
    progress: Progress | None = None
    """Bytes that had arrived, by the receiver's count; in seconds after the common start of the flows."""
    bytes_per_s: float = 0.0
    """Payload that arrived within the window, a second."""
    bytes: int = 0
    """Payload that arrived within the window."""
    duration_s: float = 0.0
    """Of the window."""
    retransmits: int | None = None
    """Segments that the sender's kernel sent again, from the first byte to the last."""
    congestion_control: str | None = None
    sender_cpu_ratio: float = 0.0
    """Processor seconds a second of the threads that send (1 is one core)."""
    receiver_cpu_ratio: float = 0.0
    cpu_bound: bool = False
    """Whether a processor, and not the network, may have set the rate."""
    short: bool = False
    """Whether too little came, or within too short a time, for a figure to trust."""
    src_port: int | None = None
    dst_port: int | None = None


async def run_flows(
    flows: Sequence[Flow],
    seconds: float,
    *,
    ramp_s: float | None = None,
    ports: tuple[int, int] = (0, 0),
    count: int = 0,
) -> list[FlowResult]:
    """Run all flows at once and return a result for each, in their order.

    Timed (``count`` is 0): each sends for ``seconds``, and is judged over the window from ``ramp_s`` (the
    default is ``ramp_of(seconds)``) to the end; what comes before is slow start. With several flows the
    window is the same for all. Sized: each sends ``count`` bytes, ``seconds`` being the longest it may take,
    and is judged over what came after its receiver's clock began, with the first read; where that is too little
    to time, it has no reading. A flow that fails has a reason and costs no other flow.
    The receivers' ports are in ``ports``, and stay open until ``close_flows``.
    """
    ramp_s = ramp_of(seconds) if ramp_s is None else ramp_s
    at_once = [_Running(flow, seconds, count, ports) for flow in flows]
    await asyncio.gather(*(_guarded(one, one.serve) for one in at_once))
    going = [one for one in at_once if one.reason is None]
    start: float | None = None
    if len(going) > 1:
        members = {m.index: m for one in going for m in (one.flow.src, one.flow.dst)}
        clocks = dict(zip(members, await asyncio.gather(*map(_read_clock, members.values())), strict=True))
        for one in going:
            one.clocks = (clocks[one.flow.src.index], clocks[one.flow.dst.index])
        streams = max(sum(o.flow.streams for o in going if o.flow.src is m) for m in members.values())
        start = time.monotonic() + _LEAD_S + 0.002 * (len(going) + streams)
    await asyncio.gather(*(_guarded(one, partial(one.send, start)) for one in going))
    await asyncio.gather(*(_guarded(one, one.collect) for one in at_once if one.port is not None))
    return [one.result(ramp_s, start) for one in at_once]


async def close_flows(members: Sequence[Member]) -> None:
    """Close the receivers' ports of these hosts. A lost host has none."""

    async def close(member: Member) -> None:
        if member.connection is not None and member.connection.lost is None:
            await member.connection.request({"type": "tcp_close"}, _CLOSE_S)

    await asyncio.gather(*map(close, members), return_exceptions=True)


def ramp_of(seconds: float) -> float:
    """How much of a timed flow's beginning is left out: a fifth, and from 50 ms to 2 s of it."""
    return min(max(0.2 * seconds, 0.05), 2.0, seconds / 2)


def _slice_s(seconds: float) -> float:
    """Between two marks: two hundred of them, no finer than 2 ms, no coarser than 50 ms unless it lasts."""
    return max(min(seconds / 200, 0.05), 0.002, seconds / 4000)


@dataclass(frozen=True, kw_only=True)
class _Clock:
    """A host's monotonic clock less this one's, in ns, and half of the round trip it was read in."""

    offset_ns: int
    error_ns: int


async def _read_clock(member: Member) -> _Clock | None:
    """The best of some tries; None when the agent does not answer."""
    best: _Clock | None = None
    for _ in range(CLOCK_TRIES):
        try:
            assert member.connection is not None
            before = time.monotonic_ns()
            answer = await member.connection.request({"type": "tcp_clock"}, _SETUP_S)
            after = time.monotonic_ns()
            now = whole_field(answer, "now_ns", _LIMIT)
        except (AgentLostError, TaskFailedError, ProtocolError, TimeoutError):
            return best
        clock = _Clock(offset_ns=now - (before + after) // 2, error_ns=(after - before) // 2)
        if best is None or clock.error_ns < best.error_ns:
            best = clock
    return best


async def _guarded(one: _Running, step: Callable[[], Awaitable[None]]) -> None:
    """Run a step of a flow; what goes wrong becomes its reason, and the first reason stays.

    The step is called in here: one that was made before and is then ended in the same moment would be a
    coroutine that was never awaited, of which Python warns on the terminal.
    """
    try:
        await step()
    except TaskFailedError as error:
        one.fail(f"{one.at.outcome.host.name}: {error}")
    except AgentLostError as error:
        one.fail(f"{one.at.outcome.host.name}: {error}")
    except ProtocolError as error:
        one.fail(f"{one.at.outcome.host.name}: its agent sent {error}")
    except TimeoutError:
        one.fail(f"{one.at.outcome.host.name}: the agent gave no result of a flow in time")


class _Running:
    """A flow on its way through the agents' tasks."""

    def __init__(self, flow: Flow, seconds: float, count: int, ports: tuple[int, int]) -> None:
        self.flow = flow
        self.at = flow.dst
        self.reason: str | None = None
        self.port: int | None = None
        self.clocks: tuple[_Clock | None, _Clock | None] = (None, None)
        self._seconds = seconds
        self._count = count
        self._ports = ports
        self._token = secrets.token_hex(_TOKEN_BYTES)
        self._sent: FlowResult | None = None
        self._progress: Progress | None = None
        self._first_ns = 0
        self._reads: list[int] = []
        self._delivered: list[Mark] = []
        self._receiver_cpu_ratio = 0.0
        self._receiver_bound = False

    def fail(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason

    async def serve(self) -> None:
        answer = await self._request(
            self.flow.dst,
            {
                "type": "tcp_serve",
                "address": self.flow.dst.address,
                "ports": list(self._ports),
                "streams": self.flow.streams,
                "slice_ns": round(_slice_s(self._seconds) * NS_PER_S),
                "limit_ns": round((self._seconds + 1) * NS_PER_S),
            },
            _SETUP_S,
        )
        self.port = opened_port(answer, self._ports, type_="serving")

    async def send(self, start: float | None) -> None:
        """Run the sender from ``start`` on (this process's clock; None is at once)."""
        clock = self.clocks[0]
        if start is not None and (clock is None or self.clocks[1] is None):
            self.fail("the clock of one of its hosts could not be read")
            return
        at_ns = 0 if start is None or clock is None else round(start * NS_PER_S) + clock.offset_ns
        answer = await self._request(
            self.flow.src,
            {
                "type": "tcp_send",
                "address": self.flow.dst.address,
                "port": self.port,
                "source": self.flow.src.address,
                "streams": self.flow.streams,
                "at_ns": at_ns,
                "duration_ns": round(self._seconds * NS_PER_S),
                "bytes": self._count,
                "slice_ns": round(max(_slice_s(self._seconds), _DELIVERED_SLICE_S) * NS_PER_S),
            },
            self._seconds + _CONNECT_S,
        )
        took_ns = max(1, whole_field(answer, "duration_ns", _LIMIT))
        retransmits = answer.get("retransmits")
        self._delivered = parse_marks(answer.get("delivered", []), slack_s=self._seconds + _CONNECT_S)
        self._sent = FlowResult(
            flow=self.flow,
            retransmits=None if retransmits is None else whole_field(answer, "retransmits", _LIMIT),
            congestion_control=text_field(answer, "congestion"),
            sender_cpu_ratio=whole_field(answer, "cpu_ns", _LIMIT) / took_ns,
            cpu_bound=_is_bound(answer, "busiest_ns", took_ns),
            src_port=whole_field(answer, "source_port", 65535),
            dst_port=self.port,
        )

    async def collect(self) -> None:
        wait_s = 0.0 if self.reason is not None else _COLLECT_S
        failed = self.reason is not None
        answer = await self._request(
            self.flow.dst,
            {"type": "tcp_collect", "wait_ns": round(wait_s * NS_PER_S)},
            wait_s + _SETUP_S,
        )
        if failed:
            return
        marks = parse_marks(answer.get("marks"), slack_s=self._seconds + _CONNECT_S)
        if not marks:
            peer = f"{self.flow.dst.address} port {self.port} (TCP)"
            self.fail(f"{peer} took the connection and no data came: are large packets dropped (MTU)?")
            return
        self._reads = parse_reads(answer.get("reads"), self.flow.streams)
        ended_ns = whole_field(answer, "ended_ns", _LIMIT)
        took_ns = max(1, ended_ns - marks[0][0])
        self._receiver_cpu_ratio = whole_field(answer, "cpu_ns", _LIMIT) / took_ns
        self._receiver_bound = _is_bound(answer, "cpu_ns", took_ns)
        clock = self.clocks[1]
        self._first_ns = marks[0][0] - (clock.offset_ns if clock is not None else 0)
        self._progress = Progress.of(marks)

    async def _request(self, member: Member, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        self.at = member
        if member.connection is None:
            raise AgentLostError(member.outcome.reason or "is not up")
        return await member.connection.request(message | {"token": self._token}, timeout_s)

    def result(self, ramp_s: float, start: float | None) -> FlowResult:
        """The reading over the window, or the reason why there is none."""
        if self.reason is not None or self._progress is None or self._sent is None:
            return FlowResult(flow=self.flow, reason=self.reason or "not measured")
        progress, first_ns = self._progress, self._first_ns
        if self._sent.retransmits and len(self._delivered) > 1 and not self._count:
            # Behind a lost segment nothing can be read until it has come again: the receiver's count stands still
            # and leaps. What the sender knows to have arrived does not.
            progress, clock = Progress.of(self._delivered), self.clocks[0]
            first_ns = self._delivered[0][0] - (clock.offset_ns if clock is not None else 0)
        if start is not None:
            progress = progress.shifted(first_ns / NS_PER_S - start)
        begin, end = ramp_s, self._seconds
        if self._count:
            begin, end = progress.first_s, progress.last_s
            if progress.total != self._count:
                return FlowResult(
                    flow=self.flow,
                    reason=f"{progress.total} of {self._count} bytes arrived in {self._seconds:g} s",
                )
            # What waited when the clock began came over a time that nobody saw: it counts neither way.
            arrived = progress.total - float(progress.arrived[0])
            too_few = too_few_to_time(arrived, end - begin, self._reads)
            if too_few is not None:
                return FlowResult(flow=self.flow, reason=too_few)
            moments = sum(self._reads)
        else:
            arrived = progress.between(begin, end)
            moments = progress.moments(begin, end)
        return replace(
            self._sent,
            progress=progress,
            bytes_per_s=arrived / (end - begin),
            bytes=round(arrived),
            duration_s=end - begin,
            receiver_cpu_ratio=self._receiver_cpu_ratio,
            cpu_bound=self._sent.cpu_bound or self._receiver_bound,
            short=is_short(arrived, end - begin, moments, self._reads),
        )


def _is_bound(answer: dict[str, Any], key: str, took_ns: int) -> bool:
    """Whether the busiest thread of an end was at the limit of its processor, or did not get one."""
    busy, waiting = whole_field(answer, key, _LIMIT), whole_field(answer, "wait_ns", _LIMIT)
    return busy >= CPU_BOUND_RATIO * took_ns or waiting >= CPU_WAIT_RATIO * took_ns
