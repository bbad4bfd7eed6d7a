"""What each host offers a scan, found out by starting an agent there, asking it, and ending it again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from netprobe.core.documents.scan import Agent, HostAudit, HostStatus
from netprobe.core.hosts import Host
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.audit.audit import AUDIT_TIMEOUT_S, parse_audit
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError, text_field, whole_field
from netprobe.probe.fleet.fleet import Fleet, Member
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.methods.blocked import Arrival, ring_arrivals
from netprobe.probe.records.events import OnEvent, Teller, ignore
from netprobe.probe.records.options import ScanOptions

NS_PER_S = 1e9
RESOLVE_TIMEOUT_S = 8.0
_MOST_ADDRESSES = 16


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Of one host. ``status`` is ok when an agent ran there and opened a probe port; ``reason`` says why not."""

    host: Host
    status: HostStatus
    reason: str | None
    agent: Agent | None = None
    port: int | None = None
    stamps: str | None = None
    """The best level that the probe port's socket was granted."""
    audit: HostAudit | None = None
    own_addresses: tuple[str, ...] | None = None
    """What the host's own name resolves to there; None when that took too long."""
    clock_offset_s: float | None = None
    """Its wall clock less the controller's; the round trip of the question is its uncertainty."""
    arrivals: tuple[Arrival, ...] = ()
    """What arrives there from its neighbours in the list."""


async def examine(
    hosts: Sequence[Host], launcher: Launcher, options: ScanOptions, *, on_event: OnEvent = ignore
) -> list[Findings]:
    """Start agents on all hosts, ask each, and end them. A few probes go round a ring of them, both ways, to see
    whether UDP, TCP and large packets get through. Raises InputError."""
    fleet = Fleet(hosts, launcher, options, Teller(on_event), time.monotonic)
    try:
        await fleet.start()
        found = await asyncio.gather(*map(_ask, fleet.members))
        arrivals = await ring_arrivals(fleet.members, options)
        return [replace(one, arrivals=tuple(arrivals.get(index, ()))) for index, one in enumerate(found)]
    finally:
        try:
            await fleet.end()
        finally:
            fleet.kill()


def run_examine(hosts: Sequence[Host], launcher: Launcher, options: ScanOptions) -> list[Findings]:
    """``examine`` for callers without an event loop."""
    return asyncio.run(examine(hosts, launcher, options))


async def _ask(member: Member) -> Findings:
    audit, offset, own = None, None, None
    if member.up and member.connection is not None:
        try:
            before = time.time()
            answer = await member.connection.request(
                {"type": "audit", "address": member.address, "programs": True}, AUDIT_TIMEOUT_S
            )
            audit = parse_audit(answer)
            # The agent reads its clock last but for naps and programs: the middle of the question is near it.
            offset = whole_field(answer, "wall_ns", 1 << 63) / NS_PER_S - (before + time.time()) / 2
            answer = await member.connection.request({"type": "resolve"}, RESOLVE_TIMEOUT_S)
            found = answer.get("addresses")
            if isinstance(found, list):
                own = tuple(str(text_field({"a": a}, "a")) for a in found[:_MOST_ADDRESSES])
        except (AgentLostError, TaskFailedError, ProtocolError, TimeoutError):
            pass
    outcome = member.outcome
    return Findings(
        host=outcome.host,
        status=outcome.status,
        reason=outcome.reason,
        agent=outcome.agent,
        port=member.port or None,
        stamps=member.stamps,
        audit=audit,
        own_addresses=own,
        clock_offset_s=offset,
    )
