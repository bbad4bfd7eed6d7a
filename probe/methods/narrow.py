"""Paths that large packets do not get through: traced where a transfer failed, and reported by link."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from netprobe.core.text import listed
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError, whole_field
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.methods.base import VisitContext
from netprobe.probe.methods.path import Path
from netprobe.probe.records.options import ScanOptions

ASK_S = 5.0
MOST_LINKS = 64
"""So many links are looked at; a fleet of which all are narrow need not be named in full."""
_NAMED = 4


async def path_mtu_bytes(src: Member, dst: Member, options: ScanOptions) -> int | None:
    """The largest IP packet that gets from ``src`` to ``dst``; None where it is unknown."""
    if src.connection is None or not dst.port:
        return None
    try:
        (fields,) = await Path(options).visit(src, dst, VisitContext(round=0, hosts=0, beside=0))
    except (AgentLostError, TaskFailedError, ProtocolError, TimeoutError):
        return None
    return None if fields["path"] is None else fields["path"].mtu_bytes


async def interface_mtu_bytes(member: Member) -> int | None:
    """What the interface of a host's address takes; asked for where the scan's audit has not said it."""
    audit = member.outcome.audit
    if audit is not None and audit.mtu_bytes:
        return audit.mtu_bytes
    if member.connection is None:
        return None
    message = {"type": "audit", "address": member.address, "programs": False}
    try:
        answer = await member.connection.request(message, ASK_S)
        return whole_field(answer, "mtu", 1 << 31) or None
    except (AgentLostError, TaskFailedError, ProtocolError, TimeoutError):
        return None


async def narrow_links(links: Sequence[tuple[Member, Member]], options: ScanOptions) -> str | None:
    """In words, which links do not carry packets that the interfaces at both ends take; None where none is known.

    Each agent measures its own ones one after the other.
    """
    members = {member.index: member for link in links for member in link}
    requested = list(dict.fromkeys((src.index, dst.index) for src, dst in links))[:MOST_LINKS]
    ends = dict.fromkeys(end for link in requested for end in link)
    limits = dict(
        zip(ends, await asyncio.gather(*(interface_mtu_bytes(members[end]) for end in ends)), strict=True)
    )
    found = await asyncio.gather(
        *(path_mtu_bytes(members[src], members[dst], options) for src, dst in requested)
    )
    narrow = []
    for (src, dst), mtu in zip(requested, found, strict=True):
        known = [limit for limit in (limits[src], limits[dst]) if limit is not None]
        if mtu is not None and len(known) == 2 and mtu < min(known):
            names = [members[end].outcome.host.name for end in (src, dst)]
            narrow.append((names[0], names[1], mtu, min(known)))
    return narrow_text(narrow)


def narrow_text(links: Sequence[tuple[str, str, int, int]]) -> str | None:
    """A line for links (source, destination, path MTU, what the interfaces take); None without any."""
    if not links:
        return None
    by_size: dict[tuple[int, int], list[str]] = {}
    for src, dst, mtu, limit in links:
        by_size.setdefault((mtu, limit), []).append(f"{src} to {dst}")
    parts = [f"{listed(named, _NAMED)}: {mtu} of {limit} bytes" for (mtu, limit), named in by_size.items()]
    return (
        f"the path MTU is below that of the interfaces ({listed(parts, _NAMED)}): larger packets may "
        "vanish there; lower the interfaces' MTU, or let ICMP 'fragmentation needed' through"
    )
