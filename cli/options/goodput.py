"""Options of ``netprobe scan`` for what is measured, and for goodput."""

from __future__ import annotations

from typing import Annotated

import typer

MeasureOption = Annotated[
    str,
    typer.Option("--measure", metavar="WHAT", help="rtt, and with it path, goodput, capacity: rtt,goodput."),
]
GoodputOption = Annotated[
    str | None,
    typer.Option(
        "--goodput",
        metavar="WAY",
        help="iperf3, tcp (the agents' own flows), or auto: iperf3 where every host has it.",
    ),
]
GoodputSecondsOption = Annotated[
    float | None,
    typer.Option("--goodput-seconds", metavar="SECONDS", help="Of a test (0.42; iperf3: whole seconds)."),
]
SizeOption = Annotated[
    str | None,
    typer.Option("--size", metavar="SIZES", help="Tests of so many bytes instead: 1MB,100MB, say."),
]
StreamsOption = Annotated[
    str | None, typer.Option("--streams", metavar="COUNTS", help="TCP connections of a test: 1,4, say (1).")
]
