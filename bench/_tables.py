"""What the bench scripts share: tables, quantiles, CPU time of children."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Sequence
from datetime import datetime, timezone


def heading(text: str) -> None:
    """A title with the date and the machine, since figures mean nothing without them."""
    cores = len(os.sched_getaffinity(0))
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    print(
        f"{text}\n({when}, {cores} cores, Linux {platform.release()}, Python {platform.python_version()})\n"
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A Markdown table on stdout."""
    cells = [[str(c) for c in row] for row in rows]
    widths = [max(len(columns[i]), *(len(row[i]) for row in cells)) for i in range(len(columns))]
    for row in (list(columns), ["-" * w for w in widths], *cells):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
    print()
    sys.stdout.flush()


def quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def cpu_s() -> float:
    """CPU seconds, user and system, of this process and of the children that have been waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))
