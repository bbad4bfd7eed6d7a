"""RTT by ICMP echoes that scapy builds on the hosts, where it travels for this scan; needs CAP_NET_RAW there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from netprobe.core.scan import Measurement
from netprobe.probe.agent.icmp import ECHO_BYTES
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.connection import AgentLostError, TaskFailedError
from netprobe.probe.fleet import Member
from netprobe.probe.methods.base import Cost, VisitContext
from netprobe.probe.methods.series import checked_answer, rtt_measurement, series_message
from netprobe.probe.options import ScanOptions
from netprobe.probe.scapy_archive import AT_ONCE, scapy_version, send_archive

READY_TIMEOUT_S = 120.0
_PARSE_S = 0.0005
"""For scapy to parse one reply, after the series."""


class Icmp:
    """``probes_per_visit`` echoes a visit, paced by ``interval_s``. Raises PlatformError without scapy here."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._members: Sequence[Member] = ()
        self._version = scapy_version()

    @property
    def measurement(self) -> Measurement:
        """The primary measurement."""
        return rtt_measurement(
            "icmp",
            self._options,
            self._members,
            packet_bytes=ECHO_BYTES,
            stamps=self._options.stamps,
            scapy=self._version,
        )

    def cost(self) -> Cost:
        """Of one visit, the warm-up included."""
        probes = self._options.probes_per_visit + 1
        return Cost(
            seconds=probes * (self._options.interval_s + _PARSE_S),
            bytes=2 * probes * ECHO_BYTES,
        )

    @property
    def deadline_s(self) -> float:
        """As the options have it, with time to parse on a loaded host."""
        return self._options.visit_deadline_s + 10 * _PARSE_S * self._options.probes_per_visit

    async def prepare(self, members: Sequence[Member]) -> dict[int, str]:
        """Send scapy, and see that each host may open a raw socket."""
        self._members = members
        up = [member for member in members if member.up]
        limit = asyncio.Semaphore(AT_ONCE)
        reasons = await asyncio.gather(*(self._ready(member, limit) for member in up))
        return {member.index: reason for member, reason in zip(up, reasons, strict=True) if reason}

    async def _ready(self, member: Member, limit: asyncio.Semaphore) -> str | None:
        assert member.connection is not None
        message = {
            "type": "icmp_ready",
            "address": member.address,
            "count": self._options.probes_per_visit,
        }
        try:
            await send_archive(member, limit)
            await member.connection.request(message, READY_TIMEOUT_S)
        except TaskFailedError as error:
            if "(EPERM)" in str(error) or "(EACCES)" in str(error):
                return (
                    "it may not open a raw socket (EPERM): give its agent CAP_NET_RAW (root has it), "
                    "or use --latency stamp"
                )
            return f"it cannot probe by ICMP: {error}"
        except (AgentLostError, ProtocolError) as error:
            return f"it cannot probe by ICMP: {error}"
        except TimeoutError:
            return f"its agent was not ready for ICMP within {READY_TIMEOUT_S:.0f} s"
        return None

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:  # noqa: ARG002
        """One series of echoes."""
        assert src.connection is not None
        message = series_message(self._options, "icmp_probe", src, dst)
        answer = await src.connection.request(message, self.deadline_s)
        fields = checked_answer(answer, self._options.probes_per_visit) | {"src_port": None}
        if not fields["rtt_s"].size:
            if not fields["received"]:
                said = fields["reason"] or "no answer"
                fields["reason"] = (
                    f"{said} to ICMP echoes from {dst.address}: are they filtered? use --latency stamp"
                )
            elif fields["reason"] is None:
                fields["reason"] = f"all {fields['rejected']} readings were impossible: does a clock step?"
        return [fields]

    async def finish(self, members: Sequence[Member]) -> None:
        """Nothing to do: what travelled is gone with the agents."""
