"""The paths of packets: hops and their addresses by time to live, and path MTU.

By an ordinary UDP socket and its error queue, or (IPv4, CAP_NET_RAW) by raw sockets and scapy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, Literal

from netprobe.core.documents.scan import Measurement, PathReading
from netprobe.core.errors import InputError
from netprobe.core.text import meant
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.agent.path.mtu import LEAST_MTU, MAX_SIZE
from netprobe.probe.agent.path.tasks import MAX_HOPS, TRIES
from netprobe.probe.agent.stamp.packet import PACKET_BYTES
from netprobe.probe.fleet.connection import text_field, whole_field
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.fleet.scapy_archive import prepare_scapy, scapy_version
from netprobe.probe.methods.base import Cost, VisitContext
from netprobe.probe.methods.series import network_parameters
from netprobe.probe.records.matrices import PATH
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.samples import NS_PER_S

LIMIT_S = 10.0
"""For one link: a path whose routers are all silent takes time."""
_USUAL_PROBES, _USUAL_S = 8, 0.02
_MAX_SENT = 1 << 16


Trace = Literal["udp", "scapy"]
TRACES: tuple[Trace, ...] = ("udp", "scapy")


class Path:
    """One walk a visit, toward the reflector's port of the other agent. Raises InputError, and PlatformError
    without the scapy that was requested."""

    def __init__(self, options: ScanOptions, trace: Trace = "udp") -> None:
        if trace not in TRACES:
            raise InputError(f"--trace {trace!r} is not one of {', '.join(TRACES)}{meant(trace, TRACES)}")
        self._options = options
        self._trace = trace
        self._scapy = scapy_version("--trace scapy", instead="--trace udp") if trace == "scapy" else None
        self._members: Sequence[Member] = ()

    @property
    def measurement(self) -> Measurement:
        """``path``: its matrices are ``hops`` and ``path_mtu_bytes``."""
        return Measurement(
            id=PATH,
            key="hops",
            method=f"{self._trace}-ttl",
            unit="hops",
            statistic="the last walk's",
            parameters={
                "max_hops": MAX_HOPS,
                "tries": TRIES,
                "timeout_s": self._options.timeout_s,
                **({} if self._scapy is None else {"scapy": self._scapy}),
                **network_parameters(self._options, self._members),
            },
        )

    def cost(self) -> Cost:
        """Of one visit to a neighbour; each silent router adds time."""
        return Cost(
            seconds=_USUAL_S,
            bytes=2 * _USUAL_PROBES * (PACKET_BYTES + 8) + 2 * 1500,
            packets=2 * _USUAL_PROBES + 2,
        )

    @property
    def deadline_s(self) -> float:
        """The limit of a walk, its last step, and room for a loaded machine."""
        return LIMIT_S + 12 * self._options.timeout_s + self._options.silence_s

    async def prepare(self, members: Sequence[Member]) -> dict[int, str]:
        """An ordinary socket needs nothing; for scapy it is sent, and raw sockets are tried."""
        self._members = members
        if self._trace == "scapy":
            return await prepare_scapy(members, {"type": "path_ready"}, instead="--trace udp")
        return {}

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:
        """One walk."""
        assert src.connection is not None
        answer = await src.connection.request(
            {
                "type": "path",
                "trace": self._trace,
                "address": dst.address,
                "port": dst.port,
                "source": src.address,
                "token": dst.token.hex(),
                "ssid": (context.round * context.hosts + src.index) & 0xFFFF,
                "timeout_ns": round(self._options.timeout_s * NS_PER_S),
                "limit_ns": round(LIMIT_S * NS_PER_S),
            },
            self.deadline_s,
        )
        fields = checked_path(answer)
        if fields["path"] is None:
            fields["reason"] = (
                f"{fields['reason'] or 'no answer'}: {dst.address} port {dst.port} (UDP): a firewall, or no route?"
            )
        return [fields | {"dst_port": dst.port}]

    async def finish(self, members: Sequence[Member]) -> None:
        """Nothing to do."""


def checked_path(answer: dict[str, Any]) -> dict[str, Any]:
    """The fields of an agent's answer to a path task. Raises ProtocolError."""
    if answer.get("type") != "path":
        raise ProtocolError("an answer that is not a path")
    hops, mtu = whole_field(answer, "hops", MAX_HOPS), whole_field(answer, "mtu", MAX_SIZE)
    addresses = answer.get("addresses")
    if not isinstance(addresses, list) or len(addresses) > MAX_HOPS or (hops and len(addresses) != hops):
        raise ProtocolError("a path whose addresses are not those of its hops")
    if 0 < mtu < LEAST_MTU:
        raise ProtocolError("a path with an impossible MTU")
    fields: dict[str, Any] = {
        "src_port": whole_field(answer, "source_port", 65535),
        "reason": text_field(answer, "reason"),
        "path": None,
    }
    whole_field(answer, "sent", _MAX_SENT)
    if fields["reason"] is None:
        fields["path"] = PathReading(
            hops=hops or None, addresses=[_address(one) for one in addresses], mtu_bytes=mtu or None
        )
        if not hops:
            fields["reason"] = f"the other end answers, but to no time to live up to {len(addresses)}"
    return fields


def _address(value: object) -> str | None:
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise ValueError
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ProtocolError("a path with an address that is not valid") from None
