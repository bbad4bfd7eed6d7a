"""The options of a goodput measurement: the way, the time, sizes and streams."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from netprobe.core.errors import InputError
from netprobe.core.text import meant
from netprobe.core.units import parse_size_bytes

GoodputTool = Literal["auto", "iperf3", "tcp"]
GOODPUT_TOOLS: tuple[GoodputTool, ...] = ("auto", "iperf3", "tcp")
CPU_BOUND = "cpu_bound"
"""Flag of a reading that a processor may have set, and not the network."""
SHORT = "short"
"""Flag of a reading over too short a time, or of too few bytes."""
BOTH_DIRECTIONS = "both_ways"
"""Flag of a reading that was taken while the other direction was loaded too."""
MAX_SECONDS = 600.0
MIN_SECONDS = 0.1
MAX_STREAMS = 64


@dataclass(frozen=True, kw_only=True)
class GoodputOptions:
    """Raises InputError that lists every fault at once."""

    way: GoodputTool = "auto"
    """``iperf3``, ``tcp`` (the agents' own flows), or ``auto``: iperf3 where every host has it."""
    seconds: float = 0.42
    """Of a timed test, and the longest a sized one may take is ten times that and ten seconds. iperf3 knows
    whole seconds only, and rounds it up."""

    def __post_init__(self) -> None:
        faults = []
        if self.way not in GOODPUT_TOOLS:
            faults.append(
                f"{self.way!r} is not one of {', '.join(GOODPUT_TOOLS)}{meant(self.way, GOODPUT_TOOLS)}"
            )
        if not math.isfinite(self.seconds) or not MIN_SECONDS <= self.seconds <= MAX_SECONDS:
            faults.append(f"{self.seconds} seconds a test: {MIN_SECONDS} to {MAX_SECONDS:.0f} are allowed")
        if faults:
            raise InputError("goodput: " + "; ".join(faults))


@dataclass(frozen=True, kw_only=True)
class GoodputSize:
    """How many bytes a sized test sends, and how that was written."""

    bytes: int
    text: str


def parse_size(text: str, name: str = "--size") -> GoodputSize:
    """``1MB``, ``64KiB``, ``1.5GB``; ``name`` is the option that it was given with. Raises InputError."""
    return GoodputSize(bytes=parse_size_bytes(text, name, least=1), text=text)


def parse_sizes(text: str | None) -> list[GoodputSize | None]:
    """``1MB,100MB``; nothing is one timed test, ``[None]``. Raises InputError."""
    return [None] if text is None else [parse_size(part.strip()) for part in text.split(",")]


def parse_streams(text: str | None) -> list[int]:
    """``1,4``; nothing is one stream. Raises InputError."""
    if text is None:
        return [1]
    counts = []
    for part in text.split(","):
        digits = part.strip()
        if not re.fullmatch("[0-9]{1,3}", digits) or not 1 <= int(digits) <= MAX_STREAMS:
            raise InputError(f"streams {part.strip()!r}: whole numbers from 1 to {MAX_STREAMS} are needed")
        counts.append(int(digits))
    return counts


def measurement_id(size: GoodputSize | None, streams: int, *, first: bool) -> str:
    """``goodput`` for the first, ``goodput:100MB:4`` or ``goodput:timed:4`` for others."""
    return "goodput" if first else f"goodput:{'timed' if size is None else size.text}:{streams}"


def longest_s(seconds: float, count: int) -> float:
    """How long a test may send: timed ones their time, sized ones with room for slow links."""
    return 10.0 * seconds + 10.0 if count else seconds
