"""Options that the commands which plan schedules share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from netprobe.cli.options.documents import capacity_option

OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="File to write (plan.json in the map's folder; beside an order's plan-auto.json or plan-2lha.json).",
    ),
]
HostsOption = Annotated[
    str | None, typer.Option("--hosts", help="Hosts in their original order (the map's own otherwise).")
]
SizeOption = Annotated[
    str, typer.Option("--size", metavar="SIZE", help="The buffer on each host that is planned for.")
]
CapacityOption = Annotated[
    Path | None,
    capacity_option("what hosts and uplinks carry"),
]


def chunk_bytes_of(text: str) -> int | None:
    """A size; None for ``auto``. Raises InputError. ``64KB`` is PLink's, 65,536 bytes: 64KiB."""
    from netprobe.core.units import parse_size_bytes
    from netprobe.plan.auto.candidates import CHUNK_BYTES

    if text == "auto":
        return None
    return CHUNK_BYTES if text == "64KB" else parse_size_bytes(text, "--chunk", least=1)


def tried_rows(tried: Any, size_bytes: int) -> list[dict[str, Any]]:
    """The table of candidates in ``--json``."""
    rows = []
    for one in tried:
        found, candidate = one.prediction, one.candidate
        row: dict[str, Any] = {
            "algorithm": candidate.algorithm,
            "order": candidate.order_name,
            "grouping": None if candidate.groups is None else candidate.groups.name,
            "groups": None if candidate.groups is None else [len(ranks) for ranks in candidate.groups.ranks],
            "pieces": candidate.pieces(size_bytes),
            "chunk_bytes": candidate.chunk_bytes,
            "channels": candidate.channels,
            "at_least_s": one.at_least_s,
            "time_s": one.time_s,
        }
        rows.append(row | ({} if found is None else found.model_dump()))
    return rows
