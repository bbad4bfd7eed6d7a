"""Whether UDP, which the default latency method uses, is dropped between hosts where TCP is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from netprobe.core.text import listed
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.methods.base import Method, VisitContext
from netprobe.probe.methods.path import Path
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.methods.tcp_connect import TcpConnect
from netprobe.probe.records.options import ScanOptions

PROBES, TIMEOUT_S = 3, 0.25
MOST_LINKS = 64
_NAMED = 4


async def tcp_answers(links: Sequence[tuple[Member, Member]], options: ScanOptions) -> list[bool]:
    """Whether a TCP connection is answered on each link; no host is ``dst`` of two."""
    return list(await asyncio.gather(*(_answers(TcpConnect, *link, options) for link in links)))


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """What arrives at a host from a neighbour of it in the list."""

    src: str
    udp: bool
    """Whether a small UDP probe was answered."""
    tcp: bool
    mtu_bytes: int | None = None
    """The largest packet that gets through; None where that could not be found out."""


async def ring_arrivals(members: Sequence[Member], options: ScanOptions) -> dict[int, list[Arrival]]:
    """What arrives at each host from the one before it in the list and from the one after it, by its index: small
    probes by UDP, TCP connections, and large packets."""
    up = [member for member in members if member.up][:MOST_LINKS]
    found: dict[int, list[Arrival]] = {member.index: [] for member in up}
    ways = [_ring(up)] if len(up) < 3 else [_ring(up), _ring(up[::-1])]
    for links in ways:
        by_udp = await asyncio.gather(*(_answers(Stamp, *link, options) for link in links))
        by_tcp = await tcp_answers(links, options)
        largest = await asyncio.gather(
            *(
                _largest(*link, options) if udp else _nothing()
                for link, udp in zip(links, by_udp, strict=True)
            )
        )
        for (src, dst), udp, tcp, mtu in zip(links, by_udp, by_tcp, largest, strict=True):
            name = src.outcome.host.name
            found[dst.index].append(Arrival(src=name, udp=udp, tcp=tcp, mtu_bytes=mtu))
    return found


def _ring(up: Sequence[Member]) -> list[tuple[Member, Member]]:
    return list(zip(up, [*up[1:], *up[:1]], strict=True)) if len(up) > 1 else []


async def _nothing() -> None:
    return None


async def _largest(src: Member, dst: Member, options: ScanOptions) -> int | None:
    """The path MTU of a link; None where it could not be found out."""
    brief = replace(options, timeout_s=min(options.timeout_s, TIMEOUT_S))
    try:
        (fields,) = await Path(brief).visit(src, dst, VisitContext(round=0, hosts=0, beside=0))
    except (AgentLostError, TaskFailedError, ProtocolError, TimeoutError):
        return None
    return None if fields["path"] is None else fields["path"].mtu_bytes


async def only_tcp_passes(members: Iterable[Member], options: ScanOptions) -> bool:
    """Whether TCP connections are answered between the hosts, and no UDP probe on any link of a ring of them.

    One answer is enough for UDP, and silence is asked a second time, with the scan's own patience: hosts may be busy.
    """
    links = _ring([member for member in members if member.up][:MOST_LINKS])
    for timeout_s in (TIMEOUT_S, options.timeout_s):
        if any(await asyncio.gather(*(_answers(Stamp, *link, options, timeout_s) for link in links))):
            return False
    return any(await tcp_answers(links, options))


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


BY_TCP = (
    "no UDP probe between the hosts is answered and TCP connections are, so something drops UDP: round-trip times are "
    "those of TCP handshakes, as with --latency tcp, which are coarser by some microseconds"
)
"""What a scan says that goes on with TCP."""


async def _answers(
    kind: type[Stamp] | type[TcpConnect],
    src: Member,
    dst: Member,
    options: ScanOptions,
    timeout_s: float = TIMEOUT_S,
) -> bool:
    """Whether any of a few probes is answered."""
    brief = replace(
        options, probes_per_visit=PROBES, source_ports=1, latency="stamp",
        interval_s=min(options.interval_s, 0.01), timeout_s=min(options.timeout_s, timeout_s),
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
