"""RTT by STAMP (RFC 8762, RFC 8972), with kernel stamps where the hosts give them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netprobe.core.documents.scan import Measurement
from netprobe.probe.agent.messages import SAMPLE_BYTES, ProtocolError
from netprobe.probe.agent.stamp.packet import PACKET_BYTES
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.methods.base import Cost, VisitContext
from netprobe.probe.methods.series import (
    SourcePorts,
    checked_answer,
    checked_answers,
    has_samples,
    rtt_measurement,
    series_message,
)
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.samples import NS_PER_S, SampleColumns

_encode = json.JSONEncoder(separators=(",", ":")).encode
_UDP_BYTES = 8
_EXTRA_PROBES = 2  # the warm-up and the flush
LEAST_PATIENCE_NS, PATIENCE_RATIO = 150_000_000, 4
"""A visit that can be made again gives up when nothing came for so long, and for so many times the longest link's
round trip, so that a host that never answers does not hold up the round."""


class Stamp:
    """At most ``probes_per_visit`` probes per visit, paced by ``interval_s``; it ends once p10 is known."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._members: Sequence[Member] = ()
        self._ports = SourcePorts(options.source_ports)
        self._within_ns = round(self.deadline_s * NS_PER_S)
        self._longest_ns = 0
        self._targets: dict[int, str] = {}
        self._sources: dict[int, str] = {}

    @property
    def measurement(self) -> Measurement:
        """The primary measurement."""
        return rtt_measurement(
            "stamp",
            self._options,
            self._members,
            packet_bytes=PACKET_BYTES,
            stamps=self._options.stamps,
            precision_s=self._options.precision_s,
        )

    def cost(self) -> Cost:
        """Of one visit that has all its probes: every probe has a reply of the same size."""
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
        patience = {"patience_ns": self._patience_ns(context)}
        message = self._task(dst) | {"source": src.address, "ssid": _ssid(src, context), "avoid": avoid}
        answer = await src.connection.request(message | patience, self.deadline_s)
        fields = checked_answer(answer, self._options.probes_per_visit)
        self._note_longest([fields])
        return self._fields(fields, dst)

    @property
    def at_once(self) -> bool:
        """From one source port a visit is one series."""
        return self._options.source_ports == 1

    def submit(self, src: Member, dst: Member, context: VisitContext, take: Callable[[Any], None]) -> int:
        """One series of probes; the common part of many visits' messages is formatted once."""
        assert src.connection is not None
        target = self._targets.get(dst.index)
        if target is None:
            self._targets[dst.index] = target = _encode(self._task(dst) | {"avoid": []})[:-1]
        source = self._sources.get(src.index)
        if source is None:
            self._sources[src.index] = source = _encode(src.address)
        return src.connection.submit(
            f'{target},"source":{source},"ssid":{_ssid(src, context)},"patience_ns":{self._patience_ns(context)}',
            take,
            samples=self._options.probes_per_visit,
            within_ns=self._within_ns,
        )

    def read(
        self, answers: Sequence[tuple[Member, dict[str, Any]]]
    ) -> Sequence[dict[str, Any] | ProtocolError]:
        """All of them in one go."""
        said = [answer for _dst, answer in answers]
        records = [answer["samples"] for answer in said]
        found = checked_answers(
            said,
            [len(part) // SAMPLE_BYTES for part in records],
            SampleColumns.of_bytes(b"".join(records)),
            self._options.probes_per_visit,
            within_ns=self._within_ns,
        )
        self._note_longest([fields for fields in found if not isinstance(fields, ProtocolError)])
        for (dst, _answer), fields in zip(answers, found, strict=True):
            if not isinstance(fields, ProtocolError):
                self._fields(fields, dst)
        return found

    def _note_longest(self, fields: Sequence[dict[str, Any]]) -> None:
        """How long the shortest round trip of a link was, at most."""
        read = [one for one in fields if has_samples(one)]
        if read:
            starts = np.array([one["start"] for one in read])
            shortest = np.minimum.reduceat(read[0]["samples"].rtt, starts)
            self._longest_ns = max(self._longest_ns, int(shortest.max()))

    def _patience_ns(self, context: VisitContext) -> int:
        """How long a first answer is waited for after the last probe."""
        timeout_ns = round(self._options.timeout_s * NS_PER_S)
        if context.patient or not self._longest_ns:
            return timeout_ns
        return min(timeout_ns, max(LEAST_PATIENCE_NS, PATIENCE_RATIO * self._longest_ns))

    def _task(self, dst: Member) -> dict[str, Any]:
        """What every host that probes ``dst`` is sent."""
        message = series_message(self._options, "probe", dst)
        message["precision_ns"] = round(self._options.precision_s * NS_PER_S)
        return message | {"port": dst.port, "token": dst.token.hex()}

    def _fields(self, fields: dict[str, Any], dst: Member) -> dict[str, Any]:
        if fields["reason"] is None:
            fields["reason"] = _why_nothing(fields, dst)
        fields["dst_port"] = dst.port
        return fields

    async def finish(self, members: Sequence[Member]) -> None:
        """Nothing to do: the ports are closed with the agents."""

    @property
    def warnings(self) -> list[str]:
        """Of links that read differently from port to port."""
        return self._ports.warnings


def _ssid(src: Member, context: VisitContext) -> int:
    return (context.round * context.hosts + src.index) & 0xFFFF


def _why_nothing(fields: dict[str, Any], dst: Member) -> str | None:
    if has_samples(fields):
        return None
    where = f"{dst.address} port {dst.port} (UDP)"
    if fields["received"] == 0:
        return f"no answer from {where}: a firewall, or no route?"
    if fields["rejected"]:
        return f"all {fields['rejected']} readings from {where} were impossible: does a clock step?"
    return f"the answers from {where} carried no usable stamps"
