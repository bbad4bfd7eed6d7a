"""RTT by ICMP echoes that scapy builds on the hosts, where it travels for this scan; needs CAP_NET_RAW there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netprobe.core.documents.scan import Measurement
from netprobe.probe.agent.icmp.sender import ECHO_BYTES
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.fleet.scapy_archive import prepare_scapy, scapy_version
from netprobe.probe.methods.base import Cost, VisitContext
from netprobe.probe.methods.series import checked_answer, has_samples, rtt_measurement, series_message
from netprobe.probe.records.options import ScanOptions

_PARSE_S = 0.0005
"""For scapy to parse one reply, after the series."""


class Icmp:
    """``probes_per_visit`` echoes a visit, paced by ``interval_s``. Raises PlatformError without scapy here."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._members: Sequence[Member] = ()
        self._version = scapy_version("--latency icmp", instead="--latency stamp")

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
            packets=2 * probes,
            paced=True,
        )

    @property
    def deadline_s(self) -> float:
        """As the options have it, with time to parse on a loaded host."""
        return self._options.visit_deadline_s + 10 * _PARSE_S * self._options.probes_per_visit

    async def prepare(self, members: Sequence[Member]) -> dict[int, str]:
        """Send scapy, and see that each host may open a raw socket."""
        self._members = members
        message = {"type": "icmp_ready", "count": self._options.probes_per_visit}
        return await prepare_scapy(members, message, instead="--latency stamp")

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:  # noqa: ARG002
        """One series of echoes."""
        assert src.connection is not None
        message = series_message(self._options, "icmp_probe", dst) | {"source": src.address}
        answer = await src.connection.request(message, self.deadline_s)
        fields = checked_answer(answer, self._options.probes_per_visit) | {"src_port": None}
        if not has_samples(fields):
            if not fields["received"]:
                said = fields["reason"] or "no answer"
                fields["reason"] = (
                    f"{said} to ICMP echoes from {dst.address}: are they filtered? use --latency stamp"
                )
            elif fields["reason"] is None:
                fields["reason"] = f"all {fields['rejected']} readings were impossible: does a clock step?"
        return [fields]

    async def finish(self, members: Sequence[Member]) -> None:
        """Nothing to do: what was sent ended with the agents."""
