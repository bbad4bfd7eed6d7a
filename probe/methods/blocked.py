"""Whether UDP, which the default latency method uses, is dropped between hosts where TCP is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from netprobe.core.text import listed
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.methods.base import Method, VisitContext
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.methods.tcp_connect import TcpConnect
from netprobe.probe.records.options import ScanOptions

PROBES, TIMEOUT_S = 3, 0.25
MOST_LINKS = 64
_NAMED = 4


async def tcp_answers(links: Sequence[tuple[Member, Member]], options: ScanOptions) -> list[bool]:
    """Whether a TCP connection is answered on each link; no host is ``dst`` of two."""
    return list(await asyncio.gather(*(_answers(TcpConnect, *link, options) for link in links)))


async def blocked_links(members: Iterable[Member], options: ScanOptions) -> list[tuple[Member, Member]]:
    """Of the links from each host to the next one, those on which no UDP probe is answered and a TCP connection is."""
    up = [member for member in members if member.up][:MOST_LINKS]
    links = list(zip(up, [*up[1:], *up[:1]], strict=True)) if len(up) > 1 else []
    by_udp = await asyncio.gather(*(_answers(Stamp, *link, options) for link in links))
    silent = [link for link, answered in zip(links, by_udp, strict=True) if not answered]
    by_tcp = await tcp_answers(silent, options)
    return [link for link, answered in zip(silent, by_tcp, strict=True) if answered]


async def blocked_hosts(members: Sequence[Member], unheard: Sequence[int], options: ScanOptions) -> list[str]:
    """Names of those of the hosts ``unheard``, which answered no UDP probe, that take a TCP connection."""
    up = [member for member in members if member.up]
    requested = [members[index] for index in unheard if members[index].up][:MOST_LINKS]
    others = [member for member in up if member.index not in unheard] or up
    links = []
    for place, dst in enumerate(requested):
        src = next((m for m in others[place % len(others) :] + others if m is not dst), None)
        if src is not None:
            links.append((src, dst))
    answered = await tcp_answers(links, options)
    return [dst.outcome.host.name for (_src, dst), one in zip(links, answered, strict=True) if one]


def blocked_text(names: Sequence[str]) -> str:
    """What to do about it."""
    return (
        f"{listed(names, _NAMED)}: no UDP probe is answered and TCP connections are, so something drops UDP: let it in "
        "(--port-range says to which ports), or give --latency tcp"
    )


async def _answers(
    kind: type[Stamp] | type[TcpConnect], src: Member, dst: Member, options: ScanOptions
) -> bool:
    """Whether any of a few probes is answered."""
    brief = replace(
        options, probes_per_visit=PROBES, source_ports=1, latency="stamp",
        interval_s=min(options.interval_s, 0.01), timeout_s=min(options.timeout_s, TIMEOUT_S),
    )  # fmt: skip
    method: Method = kind(brief)
    try:
        if dst.index in await method.prepare([dst]):
            return False
        try:
            fields = await method.visit(src, dst, VisitContext(round=0, hosts=0, beside=0))
        finally:
            await method.finish([dst])
    except (AgentLostError, TaskFailedError, ProtocolError, TimeoutError):
        return False
    return any(one.get("received") for one in fields)
