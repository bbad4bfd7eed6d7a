"""The paths of a scan in a few lines of text."""

from __future__ import annotations

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.scan import Scan
from netprobe.core.units import count

_SHOWN = 6


def paths_text(scan: Scan) -> list[str]:
    """How many links have how many hops, and which path MTU; nothing where paths were not measured."""
    if scan.hops is None or scan.path_mtu_bytes is None:
        return []
    return [f"hops: {_tally(scan.hops)}; path MTU: {_tally(scan.path_mtu_bytes, ' bytes')}"]


def _tally(matrix: FloatMatrix, unit: str = "") -> str:
    values, counts = np.unique(matrix[np.isfinite(matrix)], return_counts=True)
    if not len(values):
        return "no reading"
    shown = [
        f"{value:.0f}{unit} on {count(int(links), 'link')}"
        for value, links in zip(values, counts, strict=True)
    ]
    return ", ".join(shown[:_SHOWN]) + (
        f" and {len(shown) - _SHOWN} further values" if len(shown) > _SHOWN else ""
    )
