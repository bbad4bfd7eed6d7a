"""RTT by TCP handshakes: works without any privilege, and where only TCP gets through."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from netprobe.core.documents.scan import Measurement
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError, whole_field
from netprobe.probe.fleet.fleet import OPEN_TIMEOUT_S, Member, open_timeout_s, opened_port
from netprobe.probe.methods.base import Cost, VisitContext
from netprobe.probe.methods.series import (
    SourcePorts,
    checked_answer,
    has_samples,
    rtt_measurement,
    series_message,
)
from netprobe.probe.records.options import ScanOptions

_HANDSHAKE_BYTES = 40 + 40 + 32 + 20 + 20  # SYN, SYN-ACK, ACK, and a reset of each end
_HANDSHAKE_PACKETS = 5
_MAX_COUNT = 1 << 40


class TcpConnect:
    """``probes_per_visit`` handshakes a visit with a port that the other agent opens for this phase."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._members: Sequence[Member] = ()
        self._ports: dict[int, int] = {}
        self._source_ports = SourcePorts(options.source_ports)
        self._connected: Counter[int] = Counter()
        self._strangers: list[str] = []

    @property
    def measurement(self) -> Measurement:
        """The primary measurement."""
        return rtt_measurement("tcp-connect", self._options, self._members, stamps=self._options.stamps)

    def cost(self) -> Cost:
        """Of one visit, the warm-up included."""
        probes = (self._options.probes_per_visit + 1) * self._options.source_ports
        return Cost(
            seconds=self._options.interval_s * probes,
            bytes=probes * _HANDSHAKE_BYTES,
            packets=_HANDSHAKE_PACKETS * probes,
            paced=True,
        )

    @property
    def deadline_s(self) -> float:
        """As the options have it, for each source port."""
        return self._options.visit_deadline_s

    async def prepare(self, members: Sequence[Member]) -> dict[int, str]:
        """Open the listening ports."""
        self._members = members
        up = [member for member in members if member.up]
        reasons = await asyncio.gather(*map(self._open, up))
        return {member.index: reason for member, reason in zip(up, reasons, strict=True) if reason}

    async def _open(self, member: Member) -> str | None:
        assert member.connection is not None
        message = {"type": "tcp_open", "address": member.address, "ports": list(self._options.port_range)}
        limit_s = open_timeout_s(len(self._members))
        try:
            answer = await member.connection.request(message, limit_s)
            self._ports[member.index] = opened_port(answer, self._options.port_range)
        except (AgentLostError, TaskFailedError, ProtocolError) as error:
            return f"cannot open a TCP port: {error}"
        except TimeoutError:
            return f"its agent opened no TCP port within {limit_s:.0f} s"
        return None

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:  # noqa: ARG002
        """One series of handshakes from each source port."""

        async def one(avoid: list[int]) -> dict[str, Any]:
            return await self._series(src, dst, avoid)

        return await self._source_ports.visit(src, dst, one)

    async def _series(self, src: Member, dst: Member, avoid: list[int]) -> dict[str, Any]:
        assert src.connection is not None
        port = self._ports[dst.index]
        message = series_message(self._options, "tcp_connect", dst)
        message |= {"source": src.address, "port": port, "avoid": avoid}
        answer = await src.connection.request(message, self.deadline_s)
        fields = checked_answer(answer, self._options.probes_per_visit)
        self._connected[dst.index] += fields["received"]
        if not fields["received"]:
            said = fields["reason"] or "no answer"
            fields["reason"] = f"{said} from {dst.address} port {port} (TCP): a firewall, or no route?"
        elif fields["reason"] is None and not has_samples(fields):
            fields["reason"] = f"no usable reading from {dst.address} port {port} (TCP)"
        return fields | {"dst_port": port}

    async def finish(self, members: Sequence[Member]) -> None:
        """Close the ports, and see that it was the hosts themselves that took the connections."""
        await asyncio.gather(*(self._shut(member) for member in members if member.index in self._ports))

    async def _shut(self, member: Member) -> None:
        if member.connection is None or member.connection.lost is not None:
            return
        try:
            answer = await member.connection.request({"type": "tcp_shut"}, OPEN_TIMEOUT_S)
            accepted = whole_field(answer, "accepted", _MAX_COUNT)
        except (AgentLostError, TaskFailedError, ProtocolError, TimeoutError):
            return
        if accepted < self._connected[member.index] // 2:
            self._strangers.append(
                f"{member.outcome.host.name} took {accepted} of the {self._connected[member.index]} connections made "
                f"to {member.address}: another machine, or a proxy, answers there"
            )

    @property
    def warnings(self) -> list[str]:
        """Of addresses at which something else answers, and of links that read differently from port to port."""
        return [*self._strangers, *self._source_ports.warnings]
