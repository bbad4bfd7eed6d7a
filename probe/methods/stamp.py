"""RTT by STAMP (RFC 8762, RFC 8972), with kernel stamps where the hosts give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netprobe.core.scan import Measurement
from netprobe.probe.agent.packet import PACKET_BYTES
from netprobe.probe.fleet import Member
from netprobe.probe.methods.base import Cost, VisitContext
from netprobe.probe.methods.series import (
    SourcePorts,
    checked_answer,
    rtt_measurement,
    series_message,
)
from netprobe.probe.options import ScanOptions

_UDP_BYTES = 8
_EXTRA_PROBES = 2  # the warm-up and the flush


class Stamp:
    """``probes_per_visit`` probes a visit, paced by ``interval_s``."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._members: Sequence[Member] = ()
        self._ports = SourcePorts(options.source_ports)

    @property
    def measurement(self) -> Measurement:
        """The primary measurement."""
        return rtt_measurement(
            "stamp", self._options, self._members, packet_bytes=PACKET_BYTES, stamps=self._options.stamps
        )

    def cost(self) -> Cost:
        """Of one visit: every probe has a reply of the same size."""
        probes = (self._options.probes_per_visit + _EXTRA_PROBES) * self._options.source_ports
        return Cost(
            seconds=self._options.interval_s * probes,
            bytes=2 * probes * (PACKET_BYTES + _UDP_BYTES),
            packets=2 * probes,
            paced=True,
        )

    @property
    def deadline_s(self) -> float:
        """As the options have it, for each source port."""
        return self._options.visit_deadline_s

    async def prepare(self, members: Sequence[Member]) -> dict[int, str]:
        """The probe ports are opened with the agents."""
        self._members = members
        return {}

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:
        """One series of probes from each source port."""

        async def one(avoid: list[int]) -> dict[str, Any]:
            return await self._series(src, dst, context, avoid)

        return await self._ports.visit(src, dst, one)

    async def _series(
        self, src: Member, dst: Member, context: VisitContext, avoid: list[int]
    ) -> dict[str, Any]:
        assert src.connection is not None
        answer = await src.connection.request(
            {
                **series_message(self._options, "probe", src, dst),
                "port": dst.port,
                "token": dst.token.hex(),
                "ssid": (context.round * context.hosts + src.index) & 0xFFFF,
                "avoid": avoid,
            },
            self.deadline_s,
        )
        fields = checked_answer(answer, self._options.probes_per_visit)
        if fields["reason"] is None:
            fields["reason"] = _why_nothing(fields, dst)
        return fields | {"dst_port": dst.port}

    async def finish(self, members: Sequence[Member]) -> None:
        """Nothing to do: the ports are closed with the agents."""

    @property
    def warnings(self) -> list[str]:
        """Of links that read differently from port to port."""
        return self._ports.warnings


def _why_nothing(fields: dict[str, Any], dst: Member) -> str | None:
    if fields["rtt_s"].size:
        return None
    where = f"{dst.address} port {dst.port} (UDP)"
    if fields["received"] == 0:
        return f"no answer from {where}: a firewall, or no route?"
    if fields["rejected"]:
        return f"all {fields['rejected']} readings from {where} were impossible: does a clock step?"
    return f"the answers from {where} carried no usable stamps"
