"""A phase of a scan: one measurement, and which links in which rounds."""

from __future__ import annotations

from dataclasses import dataclass

from netprobe.probe.methods.base import Method
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.rounds.chooser import Chooser


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One measurement of a scan: how a link is measured, and which links in which rounds."""

    method: Method
    chooser: Chooser
    links_at_once: int = 0
    """A cap of this phase, in addition to that of the options; 0 means no cap."""


def links_at_once(phase: Phase, options: ScanOptions) -> int:
    """How many links of a phase are measured at the same time, at the most; 0: no cap."""
    return min(filter(None, (phase.links_at_once, options.links_at_once)), default=0)
