"""hosts -> scan: probe every pair, and keep what was seen whatever happens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netprobe.core.hosts import Host
from netprobe.core.scan import Scan
from netprobe.pipeline import files
from netprobe.probe import Launcher, OnEvent, ScanOptions, run_scan
from netprobe.probe.events import ignore


def scan(
    hosts: Sequence[Host],
    *,
    launcher: Launcher,
    folder: Path,
    options: ScanOptions | None = None,
    on_event: OnEvent = ignore,
) -> Scan:
    """Probe the hosts and write scan.json, its samples and its journal into ``folder`` (which exists).

    The journal is written while the scan runs, so a killed scan loses no finished link. Raises
    NothingMeasuredError when no link could be measured (the scan, saying why for each host, is written all
    the same) and ScanInterrupted after Ctrl-C (likewise, with what had been measured).
    """
    raise NotImplementedError
