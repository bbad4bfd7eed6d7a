"""Options of ``netprobe scan`` for how round-trip times and paths are measured."""

from __future__ import annotations

from typing import Annotated

import typer

LatencyOption = Annotated[
    str,
    typer.Option(
        "--latency",
        metavar="METHOD",
        help="stamp (UDP, stamped by both kernels), tcp (handshakes), icmp (by scapy; needs CAP_NET_RAW), fping; auto "
        "is stamp, or tcp where no UDP passes.",
    ),
]
SourcePortsOption = Annotated[
    int,
    typer.Option(
        "--source-ports", metavar="N", help="Probe each link from N ports: this shows equal-cost paths."
    ),
]
FullVisitsOption = Annotated[
    bool,
    typer.Option(
        "--full-visits", help="Send all --probes, also where stamp knows the 10th percentile to 2 us before."
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
