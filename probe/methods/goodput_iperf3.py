"""Goodput by iperf3: a server for each test, a client, and the receiver's figure."""

from __future__ import annotations

import contextlib
from typing import Any

from netprobe.core.documents.scan import GoodputReading
from netprobe.core.text import listed
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError
from netprobe.probe.fleet.fleet import Member, opened_port
from netprobe.probe.methods.goodput_options import BOTH_DIRECTIONS, CPU_BOUND, SHORT, longest_s
from netprobe.probe.methods.iperf3_report import Iperf3Report, RefusedOptionsError, ReportError, parse_report

SERVE_S = 15.0
STOP_S = 5.0
SPARE_S = 5.0
"""What a client may take beyond its test: to start, to connect, to fetch the server's figures."""
ANSWER_S = 5.0
MOST_SAID = 8
"""How many different texts around reports are kept."""
SHORT_S = 0.05
"""Below this its figures are off by 10 % and more: the server stops counting when the client is done."""


class Iperf3Tool:
    """One test a visit: whole ``seconds`` of it, or ``count`` bytes (0: timed)."""

    name = "iperf3"
    set_up_s = 0.2

    def __init__(self, *, seconds: int, count: int, streams: int, ports: tuple[int, int]) -> None:
        self._seconds = seconds
        self._count = count
        self._streams = streams
        self._ports = ports
        self._refused: dict[str, str] = {}
        self._around: dict[str, dict[str, None]] = {}

    @property
    def warnings(self) -> list[str]:
        """What the programs said around their reports, and of options that they do not take: a line each."""
        hosts: dict[str, list[str]] = {}
        for name, reason in self._refused.items():
            hosts.setdefault(reason, []).append(name)
        refused = [
            f"no goodput from {listed(names)}: {reason}: give --goodput tcp, or another iperf3"
            for reason, names in hosts.items()
        ]
        return refused + [
            f"iperf3 on {listed(list(names))} printed more than its report: {text}"
            for text, names in self._around.items()
        ]

    @property
    def parameters(self) -> dict[str, Any]:
        """For the document: iperf3's figure is over the whole time."""
        if self._count:
            return {"longest_s": longest_s(self._seconds, self._count), "left_out_s": 0.0}
        return {"seconds": self._seconds, "left_out_s": 0.0}

    @property
    def sending_s(self) -> float:
        """How long a timed test sends."""
        return float(self._seconds)

    @property
    def visit_s(self) -> float:
        """How long a timed visit takes."""
        return self._seconds + self.set_up_s

    @property
    def _limit_s(self) -> float:
        return longest_s(self._seconds, self._count) + SPARE_S

    @property
    def deadline_s(self) -> float:
        """Longer than the requests of a test may take together, each of which has its own limit."""
        return self._limit_s + ANSWER_S + SERVE_S + STOP_S

    async def visit(self, src: Member, dst: Member) -> dict[str, Any]:
        """The fields of a VisitResult. Raises AgentLostError, ProtocolError and TimeoutError of ``src``."""
        refused = self._refused.get(src.outcome.host.name)
        if refused is not None:  # it would say the same again
            return {"reason": f"{src.outcome.host.name}: {refused}"}
        try:
            port = await self._serve(dst)
        except (AgentLostError, TaskFailedError) as error:
            return {"reason": f"{dst.outcome.host.name}: {error}"}
        except ProtocolError as error:
            return {"reason": f"{dst.outcome.host.name}: its agent sent {error}"}
        except TimeoutError:
            return {"reason": f"{dst.outcome.host.name}: it started no iperf3 within {SERVE_S:.0f} s"}
        try:
            fields = await self._send(src, dst, port)
        except Exception:  # not a cancellation: the agents end then, and their programs with them
            await self._stop(dst, port)
            raise
        await self._stop(dst, port)
        return {"dst_port": port} | fields

    async def _stop(self, dst: Member, port: int) -> None:
        with contextlib.suppress(AgentLostError, TaskFailedError, ProtocolError, TimeoutError):
            if dst.connection is not None:
                await dst.connection.request({"type": "iperf_stop", "port": port}, STOP_S)

    async def _serve(self, dst: Member) -> int:
        if dst.connection is None:
            raise AgentLostError("is not up")
        answer = await dst.connection.request(
            {"type": "iperf_serve", "address": dst.address, "ports": list(self._ports)}, SERVE_S
        )
        return opened_port(answer, self._ports, type_="serving")

    async def _send(self, src: Member, dst: Member, port: int) -> dict[str, Any]:
        if src.connection is None:
            raise AgentLostError("is not up")
        answer = await src.connection.request(
            {
                "type": "iperf_send",
                "address": dst.address,
                "port": port,
                "source": src.address,
                "streams": self._streams,
                "seconds": self._seconds,
                "bytes": self._count,
                "limit_s": self._limit_s,
            },
            self._limit_s + ANSWER_S,
        )
        output = answer.get("output")
        if not isinstance(output, str):
            raise ProtocolError("an answer without iperf3's output")
        code = answer.get("code")
        name = src.outcome.host.name
        try:
            report = parse_report(output)
        except ReportError as error:
            if isinstance(error, RefusedOptionsError):
                self._refused[name] = str(error)
            ended = f" (it ended by signal {-code})" if type(code) is int and code < 0 else ""
            return {"reason": f"{name}: {error}{ended}"}
        if report.around is not None and (report.around in self._around or len(self._around) < MOST_SAID):
            self._around.setdefault(report.around, {})[name] = None
        if report.reverse or report.streams != self._streams:
            return {"reason": f"{name}: iperf3 reports a different test"}
        return {"goodput": _reading(report)}


def _reading(report: Iperf3Report) -> GoodputReading:
    flags = {
        BOTH_DIRECTIONS: report.both_ways,
        CPU_BOUND: report.cpu_bound,
        SHORT: report.duration_s < SHORT_S,
    }
    return GoodputReading(
        bytes_per_s=report.bytes_per_s,
        bytes=report.bytes,
        duration_s=report.duration_s,
        streams=report.streams,
        retransmits=report.retransmits,
        sender_cpu_ratio=report.sender_cpu_ratio,
        receiver_cpu_ratio=report.receiver_cpu_ratio,
        version=report.version,
        congestion_control=report.congestion_control,
        flags=[flag for flag, is_so in flags.items() if is_so],
    )
