"""The audit of a fleet: what each host says of itself at the start and the end, and what makes a reading doubtful.

Nothing here stops a scan: a host that says nothing has no audit, and a doubtful reading is kept with a warning.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netprobe.core.documents.scan import AuditReading, HostAudit
from netprobe.core.text import listed
from netprobe.probe.agent import audit as agent_audit
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError, text_field, whole_field
from netprobe.probe.fleet.fleet import Fleet, Member
from netprobe.probe.methods.narrow import narrow_text
from netprobe.probe.records.visits import RTT, VisitResult

AUDIT_TIMEOUT_S = 5.0
NS_PER_S = 1e9
SILENT_S = 1.0
BUSY_LOAD_PER_CORE = 2.0
STEAL_RATIO = 0.05
LATE_S = 0.005
MANY_COPIES = 0.02
"""Share of a host's probes that are answered twice, from which on it is reported."""
"""A median sleep that ends this much late: paced probes leave in bursts, user-space stamps are useless."""
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"})
_MOST = 1 << 62


class ScanAudit:
    """The audit of one scan: ``start`` and ``end`` around it, then the members hold theirs.

    With ``programs``, where a method runs one on the hosts, the versions of those too: asking costs each host
    two processes.
    """

    def __init__(self, fleet: Fleet, *, programs: bool = False) -> None:
        self.controller: HostAudit | None = None
        self._fleet = fleet
        self._programs = programs
        self._memory: dict[str, Any] = {}

    async def start(self) -> None:
        """Examine all hosts, and this machine."""
        self.controller = await asyncio.to_thread(self._own)
        self._keep(await audit_fleet(self._fleet.members, programs=self._programs))

    async def end(self) -> None:
        """Examine those that are left."""
        own = await asyncio.to_thread(self._own)
        if own is not None and self.controller is not None:
            self.controller = joined(self.controller, own)
        found = await audit_fleet(self._fleet.members)
        for index, audit in found.items():
            start = self._fleet.members[index].outcome.audit
            found[index] = audit if start is None else joined(start, audit)
        self._keep(found)

    def warnings(self, visits: Sequence[VisitResult]) -> list[str]:
        """See ``audit_warnings``."""
        outcomes = [member.outcome for member in self._fleet.members]
        audits = {i: outcome.audit for i, outcome in enumerate(outcomes) if outcome.audit is not None}
        return audit_warnings([o.host.name for o in outcomes], audits, self.controller, visits)

    def _own(self) -> HostAudit | None:
        try:
            return parse_audit(agent_audit.audit({}, self._memory)[0])
        except (OSError, ValueError, ProtocolError):
            return None

    def _keep(self, found: Mapping[int, HostAudit]) -> None:
        for index, audit in found.items():
            member = self._fleet.members[index]
            member.outcome = member.outcome.changed(audit=audit)


async def audit_fleet(members: Sequence[Member], *, programs: bool = False) -> dict[int, HostAudit]:
    """The audit of each host that is up, by index; hosts that do not answer in time are left out."""

    async def one(member: Member) -> HostAudit | None:
        if member.connection is None or not member.up or member.connection.unanswered_s > SILENT_S:
            return None
        message = {"type": "audit", "address": member.address, "programs": programs}
        try:
            return parse_audit(await member.connection.request(message, AUDIT_TIMEOUT_S))
        except (AgentLostError, TaskFailedError, ProtocolError, TimeoutError):
            return None

    found = await asyncio.gather(*(one(member) for member in members))
    return {member.index: audit for member, audit in zip(members, found, strict=True) if audit is not None}


def parse_audit(answer: Mapping[str, Any]) -> HostAudit:
    """Check a host's answer. Raises ProtocolError for what is not a valid answer."""
    message = dict(answer)
    if message.get("type") != "audited":
        raise ProtocolError("an answer that is not an audit")
    programs = message.get("programs") or {}
    if not isinstance(programs, dict) or len(programs) > 16:
        raise ProtocolError("an audit whose programs are not valid")
    speed = _optional(message, "speed", 1 << 32)
    return HostAudit(
        start=AuditReading(
            load=_number(message, "load", 1e6),
            delay_p50_s=whole_field(message, "delay_p50_ns", _MOST) / NS_PER_S,
            delay_p99_s=whole_field(message, "delay_p99_ns", _MOST) / NS_PER_S,
        ),
        steal_ratio=_number(message, "steal_ratio", 1.0),
        busy_ratio=_number(message, "busy_ratio", 1.0),
        cores=whole_field(message, "cores", 1 << 20),
        clock_source=text_field(message, "clock_source"),
        congestion_control=text_field(message, "congestion_control"),
        raw_icmp=message.get("raw_icmp") is True,
        interface=text_field(message, "interface"),
        mtu_bytes=_optional(message, "mtu", 1 << 31),
        driver=text_field(message, "driver"),
        nic_bytes_per_s=None if speed is None else speed * 125_000,
        programs={
            str(text_field({"name": name}, "name")): text_field(programs, name)
            for name in programs
            if isinstance(name, str)
        },
    )


def joined(start: HostAudit, end: HostAudit) -> HostAudit:
    """The audit of a whole scan out of those of its two ends."""
    return start.model_copy(
        update={"end": end.start, "steal_ratio": end.steal_ratio, "busy_ratio": end.busy_ratio}
    )


def audit_warnings(
    names: Sequence[str],
    audits: Mapping[int, HostAudit],
    controller: HostAudit | None,
    visits: Sequence[VisitResult],
) -> list[str]:
    """What a reader should know of the readings, a line each; hosts with the same trouble share one."""

    def those(trouble: Callable[[HostAudit], bool]) -> list[str]:
        return [names[i] for i, audit in sorted(audits.items()) if trouble(audit)]

    found = []
    if controller is not None and is_busy(controller):
        load = controller.start.load
        found.append(
            f"the controller was busy before the scan began (load {load:.1f} on {controller.cores} cores): "
            "launches and rounds may have been late"
        )
    if busy := those(is_busy):
        found.append(f"busy before the scan began (load over {BUSY_LOAD_PER_CORE:g} a core): {listed(busy)}")
    if stolen := those(lambda audit: (audit.steal_ratio or 0) > STEAL_RATIO):
        most = max(audit.steal_ratio or 0 for audit in audits.values())
        found.append(
            f"the hypervisor took CPU time away (up to {100 * most:.0f} %) from {listed(stolen)}: "
            "some of their readings are late"
        )
    if late := those(_is_late):
        found.append(
            f"sleeps ended more than {1e3 * LATE_S:g} ms late (median): {listed(late)}; probes left in bursts there"
        )
    if slow := those(lambda audit: audit.clock_source in SLOW_CLOCKS):
        found.append(f"a slow clock ({audits[names.index(slow[0])].clock_source}): {listed(slow)}")
    found += _mtu_warning(names, audits) + _path_mtu_warning(names, audits, visits)
    found += _visit_warnings(names, visits)
    return found


def is_busy(audit: HostAudit) -> bool:
    """Whether a machine had more to do than it could, before the scan added its own load."""
    return audit.start.load is not None and audit.start.load > BUSY_LOAD_PER_CORE * max(1, audit.cores)


def _is_late(audit: HostAudit) -> bool:
    ends = [audit.start] + ([] if audit.end is None else [audit.end])
    return all(reading.delay_p50_s > LATE_S for reading in ends)


def _mtu_warning(names: Sequence[str], audits: Mapping[int, HostAudit]) -> list[str]:
    counts = Counter(audit.mtu_bytes for audit in audits.values() if audit.mtu_bytes is not None)
    if len(counts) < 2:
        return []
    usual = max(counts, key=lambda mtu: (counts[mtu], mtu))
    parts = []
    for mtu in sorted(set(counts) - {usual}):
        parts.append(
            f"{mtu} on {listed([names[i] for i, a in sorted(audits.items()) if a.mtu_bytes == mtu])}"
        )
    return [
        f"the MTU differs: {usual} on most hosts, {', '.join(parts)}: goodput and large messages may suffer"
    ]


def _path_mtu_warning(
    names: Sequence[str], audits: Mapping[int, HostAudit], visits: Sequence[VisitResult]
) -> list[str]:
    """Of paths that were traced, those that take less than the interfaces at both ends."""
    narrow = []
    for visit in visits:
        mtu = None if visit.path is None else visit.path.mtu_bytes
        ends = [audits[end].mtu_bytes for end in (visit.src, visit.dst) if end in audits]
        limit = min((one for one in ends if one), default=None)
        if mtu is not None and limit is not None and mtu < limit:
            narrow.append((names[visit.src], names[visit.dst], mtu, limit))
    text = narrow_text(narrow)
    return [] if text is None else [text]


def _visit_warnings(names: Sequence[str], visits: Sequence[VisitResult]) -> list[str]:
    """Of the stamps that the readings have, and of readings that could not be."""
    found = []
    levels: dict[str, set[int]] = {}
    stepped: Counter[int] = Counter()
    twice: Counter[int] = Counter()
    answered: Counter[int] = Counter()
    for visit in visits:
        if visit.measurement != RTT:
            continue
        for end in (visit.src, visit.dst) if visit.received else ():
            twice[end] += visit.duplicates
            answered[end] += visit.received
        if visit.stamps not in (None, "kernel"):
            levels.setdefault(str(visit.stamps), set()).add(visit.src)
        if visit.rejected:
            stepped.update((visit.src, visit.dst))
    for level, what in (("kernel_rx", "stamps on receipt only"), ("user", "user-space stamps")):
        if level in levels:
            who = listed([names[i] for i in sorted(levels[level])])
            found.append(
                f"{what} in what {who} measured: these readings hold the time their processes waited"
            )
    if stepped:
        # Both ends of a visit are suspects; a host whose clock steps is in the most of them.
        ((suspect, _count),) = stepped.most_common(1)
        found.append(
            f"readings that cannot be were left out, most of them with {names[suspect]}: does its clock step?"
        )
    return found + _copies_warning(names, twice, answered)


def _copies_warning(names: Sequence[str], twice: Counter[int], answered: Counter[int]) -> list[str]:
    """A warning about packets that arrive twice, naming the host that has the largest share of them; counts by host."""
    share, host = max(((twice[host] / answered[host], -host) for host in answered), default=(0.0, 0))
    if share < MANY_COPIES:
        return []
    return [
        f"{100 * share:.0f} % of the probes to and from {names[-host]} were answered twice: packets are doubled on "
        f"their way (bonded links, a mirror port?); readings are those of the first answers"
    ]


def _number(message: Mapping[str, Any], key: str, limit: float) -> float | None:
    value = message.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ProtocolError(f"an audit whose {key} is not a number")
    if not 0 <= value <= limit:
        raise ProtocolError(f"an audit whose {key} cannot be")
    return float(value)


def _optional(message: dict[str, Any], key: str, limit: int) -> int | None:
    return None if message.get(key) is None else whole_field(message, key, limit)
