"""Goodput of a link: what one TCP test brought, by the receiver's count.

Two methods to measure it: iperf3 as a program of the hosts, and TCP flows of the agents themselves. They read
different things at short times and on busy processors, so a scan has one way for all of its links: iperf3
where every host has it, else the agents' own.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from netprobe.core.documents.scan import GoodputReading, Measurement
from netprobe.core.errors import InputError
from netprobe.core.text import listed
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError, text_field
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.methods.base import Cost, VisitContext
from netprobe.probe.methods.goodput_iperf3 import Iperf3Tool
from netprobe.probe.methods.goodput_options import (
    BOTH_DIRECTIONS,
    CPU_BOUND,
    SHORT,
    GoodputOptions,
    GoodputSize,
    GoodputTool,
    measurement_id,
)
from netprobe.probe.methods.goodput_tcp import TcpTool
from netprobe.probe.methods.iperf3_report import parse_version, version_tuple
from netprobe.probe.methods.narrow import narrow_links
from netprobe.probe.records.matrices import GOODPUT_KEY
from netprobe.probe.records.options import ScanOptions

ASSUMED_BYTES_PER_S = 125e6
"""What a timed test is assumed to send, for what a scan will cost: a gigabit a second."""
VERSION_TIMEOUT_S = 10.0
_REMEDY = "(install it, or give --goodput tcp)"


class ToolChoice:
    """How the goodput of a scan is measured: found out once, for all of its goodput phases."""

    def __init__(self, requested: GoodputTool) -> None:
        self.requested = requested
        self.chosen: GoodputTool | None = None if requested == "auto" else requested
        self.without: dict[int, str] = {}
        """Why a host has no iperf3."""
        self.versions: dict[str, str] = {}
        """Version of iperf3 by name of host."""
        self.warnings: list[str] = []
        self._looked = requested == "tcp"

    async def look(self, members: Sequence[Member]) -> None:
        """Ask the hosts that are up, and choose."""
        if self._looked:
            return
        self._looked = True
        up = [member for member in members if member.up]
        found = await asyncio.gather(*map(_iperf3_version, up))
        for member, (version, reason) in zip(up, found, strict=True):
            if version is None:
                self.without[member.index] = reason
            else:
                self.versions[member.outcome.host.name] = version
        if self.chosen is None:
            self.chosen = "tcp" if self.without else "iperf3"
        if self.requested == "auto" and self.without:
            names = [m.outcome.host.name for m in up if m.index in self.without]
            self.warnings.append(
                f"{listed(names)} {'has' if len(names) == 1 else 'have'} no iperf3: "
                "goodput is measured by the agents' own TCP flows on all hosts"
            )
        if self.chosen == "iperf3":
            self._warn_of_missing(up)
            self._warn_of_mixed_versions()

    def _warn_of_missing(self, up: Sequence[Member]) -> None:
        by_reason: dict[str, list[str]] = {}
        for member in up:
            if member.index in self.without:
                by_reason.setdefault(self.without[member.index], []).append(member.outcome.host.name)
        self.warnings += [
            f"no goodput with {listed(names)}: {reason} {_REMEDY}" for reason, names in by_reason.items()
        ]

    def _warn_of_mixed_versions(self) -> None:
        by_version: dict[str, list[str]] = {}
        for name, version in self.versions.items():
            by_version.setdefault(version, []).append(name)
        if len(by_version) > 1:
            parts = [f"{v} on {listed(by_version[v])}" for v in sorted(by_version, key=version_tuple)]
            self.warnings.append(
                f"versions of iperf3 differ ({'; '.join(parts)}): they measure differently, and a difference "
                "of goodput that runs along them may be theirs"
            )


class Goodput:
    """One test a visit, of one size and number of streams."""

    def __init__(
        self,
        options: ScanOptions,
        goodput: GoodputOptions | None = None,
        *,
        size: GoodputSize | None = None,
        streams: int = 1,
        choice: ToolChoice | None = None,
        first: bool = True,
    ) -> None:
        self._options = options
        self._goodput = goodput or GoodputOptions()
        self._choice = choice or ToolChoice(self._goodput.way)
        self._size = size
        self._streams = streams
        self._first = first
        seconds, ports = self._goodput.seconds, options.port_range
        count = 0 if size is None else size.bytes
        self._tcp = TcpTool(seconds=seconds, count=count, streams=streams, ports=ports)
        self._iperf3 = Iperf3Tool(seconds=math.ceil(seconds), count=count, streams=streams, ports=ports)
        self._cpu_bound: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        self._read = 0

    @property
    def measurement(self) -> Measurement:
        """``goodput`` for the first one, ``goodput:SIZE:STREAMS`` for further ones."""
        return Measurement(
            id=measurement_id(self._size, self._streams, first=self._first),
            key=GOODPUT_KEY,
            method=self._tool.name,
            unit="B/s",
            statistic="median",
            parameters={
                "way": self._choice.requested,
                "streams": self._streams,
                "size_bytes": None if self._size is None else self._size.bytes,
                **self._tool.parameters,
                **({"versions": dict(self._choice.versions)} if self._tool is self._iperf3 else {}),
            },
        )

    def cost(self) -> Cost:
        """Of one visit. A timed one is assumed to run at a gigabit a second."""
        way = self._tool
        if self._size is None:
            return Cost(seconds=way.visit_s, bytes=round(way.sending_s * ASSUMED_BYTES_PER_S))
        return Cost(
            seconds=self._size.bytes / ASSUMED_BYTES_PER_S + way.set_up_s,
            bytes=self._size.bytes,
        )

    @property
    def deadline_s(self) -> float:
        """Of a visit of healthy agents: longer than any of its requests may take."""
        return self._tool.deadline_s

    async def prepare(self, members: Sequence[Member]) -> dict[int, str]:
        """Find out the way. Where iperf3 was requested by name, hosts without it cannot take part."""
        await self._choice.look(members)
        if self._tool is self._iperf3:
            return {index: f"{reason} {_REMEDY}" for index, reason in self._choice.without.items()}
        return {}

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:  # noqa: ARG002
        """One test."""
        fields = await self._tool.visit(src, dst)
        if fields.get("reason") is not None and (narrow := await narrow_links([(src, dst)], self._options)):
            fields["reason"] += f"; {narrow}"
        reading: GoodputReading | None = fields.get("goodput")
        if reading is not None:
            self._read += 1
            self._flags.update(reading.flags)
            if CPU_BOUND in reading.flags:
                self._cpu_bound.update((src.outcome.host.name, dst.outcome.host.name))
        return [fields]

    async def finish(self, members: Sequence[Member]) -> None:
        """Close the ports of the agents' own flows; iperf3's servers ended with their tests."""
        if self._tool is self._tcp:
            await self._tcp.close(members)

    @property
    def warnings(self) -> list[str]:
        """What a reader of its readings should know, once it is finished."""
        warnings = list(self._choice.warnings) if self._first else []
        if self._tool is self._iperf3:
            warnings += self._iperf3.warnings
        if self._flags[BOTH_DIRECTIONS]:
            warnings.append(
                f"{self.measurement.id}: {self._flags[BOTH_DIRECTIONS]} of {self._read} readings were taken while "
                f"the other direction was loaded too (flag {BOTH_DIRECTIONS}): is iperf3 a wrapper that adds --bidir?"
            )
        id_, bound, short = self.measurement.id, self._flags[CPU_BOUND], self._flags[SHORT]
        if bound:
            # Two ends a reading: the hosts that are in most of them are named.
            names = [name for name, _count in self._cpu_bound.most_common()]
            warnings.append(
                f"{id_}: {bound} of {self._read} readings may be the limit of a processor and not of the "
                f"network (flag {CPU_BOUND}; most often with {listed(names)})"
            )
        if short:
            warnings.append(
                f"{id_}: {short} of {self._read} readings{self._of_iperf3} are of tests too short to trust "
                f"(flag {SHORT}): give {self._longer}"
            )
        return warnings

    @property
    def _of_iperf3(self) -> str:
        return " of iperf3" if self._tool is self._iperf3 else ""

    @property
    def _longer(self) -> str:
        if self._tool is self._iperf3:
            return "a larger size, or --goodput tcp"
        return "a longer --goodput-seconds" if self._size is None else "a larger --size"

    @property
    def _tool(self) -> TcpTool | Iperf3Tool:
        return self._tcp if self._choice.chosen == "tcp" else self._iperf3


async def _iperf3_version(member: Member) -> tuple[str | None, str]:
    """A host's version, or None and why."""
    try:
        if member.connection is None:
            raise AgentLostError("is not up")
        answer = await member.connection.request({"type": "iperf_version"}, VERSION_TIMEOUT_S)
        said = text_field(answer, "output") or ""
    except TaskFailedError as error:
        return None, str(error).split(" (ENOENT)")[0]
    except (AgentLostError, ProtocolError) as error:
        return None, f"its iperf3 could not be run: {error}"
    except TimeoutError:
        return None, "its iperf3 did not answer in time"
    version = parse_version(said)
    return version, f"its iperf3 says {said[:60]!r} of itself"


def goodput_methods(
    options: ScanOptions, goodput: GoodputOptions, sizes: Sequence[GoodputSize | None], streams: Sequence[int]
) -> list[Goodput]:
    """A method for each size (None is timed) with each number of streams; all measure in the same way."""
    combinations = [(size, count) for size in sizes for count in streams]
    if not combinations or len(set(combinations)) != len(combinations):
        raise InputError("goodput: sizes and numbers of streams are each to be given once")
    choice = ToolChoice(goodput.way)
    return [
        Goodput(options, goodput, size=size, streams=count, choice=choice, first=place == 0)
        for place, (size, count) in enumerate(combinations)
    ]
