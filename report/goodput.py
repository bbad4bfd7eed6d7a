"""Goodput of a scan in a few lines of text."""

from __future__ import annotations

import numpy as np

from netprobe.core.documents.scan import Scan
from netprobe.core.units import count, rate_text

_METHODS = {"tcp": "the agents' own TCP flows"}
_SLOWEST = 3


def goodput_text(scan: Scan) -> list[str]:
    """A line for each goodput measurement: its spread, and the slowest links by name."""
    lines = []
    links = len(scan.hosts) * (len(scan.hosts) - 1)
    for measurement in scan.measurements:
        matrix = scan.goodput_bytes_per_s.get(measurement.id)
        if matrix is None:
            continue
        way = _METHODS.get(measurement.method, measurement.method)
        cells = np.argwhere(np.isfinite(matrix))
        if not len(cells):
            lines.append(f"{measurement.id} ({way}): no reading")
            continue
        ordered = sorted((float(matrix[src, dst]), int(src), int(dst)) for src, dst in cells)
        values = [value for value, _src, _dst in ordered]
        slowest = ", ".join(
            f"{scan.hosts[src].name} to {scan.hosts[dst].name} {rate_text(value)}"
            for value, src, dst in ordered[:_SLOWEST]
        )
        median = rate_text(float(np.median(values)))
        lines.append(
            f"{measurement.id} ({way}): {len(values)} of {count(links, 'link')}, median {median}, "
            f"{rate_text(values[0])} to {rate_text(values[-1])}; slowest: {slowest}"
        )
    return lines
