"""RTT by STAMP (RFC 8762, RFC 8972), with kernel stamps where the hosts give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from netprobe.core.scan import Measurement, Stamps
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.agent.packet import PACKET_BYTES
from netprobe.probe.connection import text_field, whole_field
from netprobe.probe.fleet import Member
from netprobe.probe.methods.base import Cost, VisitContext
from netprobe.probe.options import ScanOptions
from netprobe.probe.visits import NS_PER_S, RTT, sample_arrays

_MAX_COUNT = 1 << 40
_UDP_BYTES = 8
_EXTRA_PROBES = 2  # the warm-up and the flush


class Stamp:
    """``probes_per_visit`` probes a visit, paced by ``interval_s``."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options

    @property
    def measurement(self) -> Measurement:
        """The primary measurement."""
        options = self._options
        return Measurement(
            id=RTT,
            key="rtt_s",
            method="stamp",
            unit="s",
            statistic="p10",
            parameters={
                "probes_per_visit": options.probes_per_visit,
                "interval_s": options.interval_s,
                "timeout_s": options.timeout_s,
                "packet_bytes": PACKET_BYTES,
                "stamps": options.stamps,
                "interpolation": "linear",
            },
        )

    def cost(self) -> Cost:
        """Of one visit: every probe has a reply of the same size."""
        probes = self._options.probes_per_visit + _EXTRA_PROBES
        return Cost(
            seconds=self._options.interval_s * probes,
            bytes=2 * probes * (PACKET_BYTES + _UDP_BYTES),
            packets=2 * probes,
            paced=True,
        )

    @property
    def deadline_s(self) -> float:
        """As the options have it."""
        return self._options.visit_deadline_s

    async def prepare(self, members: Sequence[Member]) -> dict[int, str]:  # noqa: ARG002
        """Nothing to do: the probe ports are opened with the agents."""
        return {}

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:
        """One series of probes."""
        options = self._options
        assert src.connection is not None
        answer = await src.connection.request(
            {
                "type": "probe",
                "address": dst.address,
                "port": dst.port,
                "token": dst.token.hex(),
                "source": src.address,
                "ssid": (context.round * context.hosts + src.index) & 0xFFFF,
                "count": options.probes_per_visit,
                "interval_ns": round(options.interval_s * NS_PER_S),
                "timeout_ns": round(options.timeout_s * NS_PER_S),
                "stamps": options.stamps,
            },
            self.deadline_s,
        )
        fields = checked_answer(answer, options.probes_per_visit)
        if fields["reason"] is None:
            fields["reason"] = _why_nothing(fields, dst)
        return [fields | {"dst_port": dst.port}]

    async def finish(self, members: Sequence[Member]) -> None:
        """Nothing to do: the ports are closed with the agents."""


def checked_answer(answer: dict[str, Any], count: int) -> dict[str, Any]:
    """The counts and samples of an agent's answer to a probe task. Raises ProtocolError."""
    if answer.get("type") != "done":
        raise ProtocolError("an answer that is no result")
    sent = whole_field(answer, "sent", count)
    received = whole_field(answer, "received", sent)
    samples = answer["samples"]
    stamps = text_field(answer, "stamps")
    if len(samples) > received or (samples and stamps not in get_args(Stamps)):
        raise ProtocolError("a result that does not fit its samples")
    unsent = whole_field(answer, "unsent", count + 16)
    reason = text_field(answer, "reason")
    if unsent and reason is None:
        reason = f"{unsent} probes could not be sent: the host's queue was full (ENOBUFS)"
    last = 0
    for seq, _sent_at, rtt in samples:
        if not last < seq <= count or rtt <= 0:
            raise ProtocolError("a sample that cannot be")
        last = seq
    return {
        "sent": sent,
        "received": received,
        "duplicates": whole_field(answer, "duplicates", _MAX_COUNT),
        "rejected": whole_field(answer, "rejected", received),
        "src_port": whole_field(answer, "source_port", 65535),
        "stamps": stamps if samples else None,
        "reason": reason,
        **sample_arrays(samples),
    }


def _why_nothing(fields: dict[str, Any], dst: Member) -> str | None:
    if fields["rtt_s"].size:
        return None
    where = f"{dst.address} port {dst.port} (UDP)"
    if fields["received"] == 0:
        return f"no answer from {where}: a firewall, or no route?"
    if fields["rejected"]:
        return f"all {fields['rejected']} readings from {where} were impossible: does a clock step?"
    return f"the answers from {where} carried no usable stamps"
