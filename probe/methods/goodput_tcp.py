"""Goodput by the agents' own TCP flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netprobe.core.documents.scan import GoodputReading
from netprobe.probe.agent.messages import AGENT_VERSION
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.flows.flows import Flow, close_flows, ramp_of, run_flows
from netprobe.probe.methods.goodput_options import CPU_BOUND, SHORT, longest_s


class TcpTool:
    """One flow a visit: ``seconds`` of it, or ``count`` bytes (0: timed)."""

    name = "tcp"
    set_up_s = 0.03

    def __init__(self, *, seconds: float, count: int, streams: int, ports: tuple[int, int]) -> None:
        self._seconds = longest_s(seconds, count)
        self._count = count
        self._streams = streams
        self._ports = ports

    @property
    def parameters(self) -> dict[str, Any]:
        """For the document: what is left out of a timed test is its slow start."""
        if self._count:
            return {"longest_s": self._seconds, "left_out_s": 0.0}
        return {"seconds": self._seconds, "left_out_s": ramp_of(self._seconds)}

    @property
    def sending_s(self) -> float:
        """How long a timed test sends."""
        return self._seconds

    @property
    def visit_s(self) -> float:
        """How long a timed visit takes."""
        return self._seconds + self.set_up_s

    @property
    def deadline_s(self) -> float:
        """Longer than the requests of a flow may take together, each of which has its own limit."""
        return self._seconds + 30.0

    async def visit(self, src: Member, dst: Member) -> dict[str, Any]:
        """The fields of a VisitResult."""
        flow = Flow(src=src, dst=dst, streams=self._streams)
        (result,) = await run_flows([flow], self._seconds, ports=self._ports, count=self._count)
        if result.reason is not None:
            return {"reason": result.reason}
        if not result.bytes:
            # A lost first flight waits longer than a short test lasts: that is not a rate of the link.
            return {
                "src_port": result.src_port,
                "dst_port": result.dst_port,
                "reason": f"{dst.address} port {result.dst_port} (TCP): all that was sent in the "
                f"{result.duration_s:.2g} s that count was lost or late: give a longer --goodput-seconds",
            }
        return {
            "src_port": result.src_port,
            "dst_port": result.dst_port,
            "goodput": GoodputReading(
                bytes_per_s=result.bytes_per_s,
                bytes=result.bytes,
                duration_s=result.duration_s,
                streams=self._streams,
                retransmits=result.retransmits,
                sender_cpu_ratio=result.sender_cpu_ratio,
                receiver_cpu_ratio=result.receiver_cpu_ratio,
                version=AGENT_VERSION,
                congestion_control=result.congestion_control,
                flags=[CPU_BOUND] * result.cpu_bound + [SHORT] * result.short,
            ),
        }

    async def close(self, members: Sequence[Member]) -> None:
        """Close the ports."""
        await close_flows(members)
