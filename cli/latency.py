"""Options of ``netprobe scan`` for how round-trip times are measured, and on which addresses."""

from __future__ import annotations

from typing import Annotated, Any

import typer

LatencyOption = Annotated[
    str,
    typer.Option(
        "--latency",
        metavar="METHOD",
        help="stamp (UDP, stamped by both kernels), tcp (handshakes), icmp (by scapy; needs CAP_NET_RAW) or fping.",
    ),
]
SourcePortsOption = Annotated[
    int,
    typer.Option(
        "--source-ports", metavar="N", help="Probe each link from N ports: several equal ways are seen."
    ),
]
TraceOption = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="WAY",
        help="For --measure rtt,path: udp (no privilege), or scapy (IPv4, CAP_NET_RAW).",
    ),
]
Ipv4Option = Annotated[bool, typer.Option("--ipv4", help="Probe IPv4 addresses.")]
Ipv6Option = Annotated[bool, typer.Option("--ipv6", help="Probe IPv6 addresses.")]


def latency_fields(
    *, latency: str, source_ports: int, ipv4: bool, ipv6: bool, port_range: str | None
) -> dict[str, Any]:
    """Fields of ScanOptions. Raises InputError for what contradicts itself."""
    from netprobe.core.errors import InputError

    if ipv4 and ipv6:
        raise InputError("--ipv4 and --ipv6 cannot go together: one family is probed on all hosts")
    if port_range is not None and 0 in (_number(end) for end in port_range.split("-")):
        raise InputError(
            f"--port-range {port_range!r}: ports from 1 to 65535 are needed; without the option any are used"
        )
    return {
        "latency": latency,
        "source_ports": source_ports,
        "family": "ipv4" if ipv4 else "ipv6" if ipv6 else None,
    }


def _number(text: str) -> int | None:
    """None for what is no number, of which others complain."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else None
