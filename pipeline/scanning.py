"""hosts -> scan: probe every pair, and keep what was seen whatever happens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from netprobe.core.errors import InterruptedScanError
from netprobe.core.hosts import Host
from netprobe.core.matrix import SideFile
from netprobe.core.scan import SamplesFile, Scan
from netprobe.pipeline import files
from netprobe.probe.events import OnEvent, ignore
from netprobe.probe.journal import Journal
from netprobe.probe.launch import Launcher
from netprobe.probe.options import ScanOptions
from netprobe.probe.result import NoReadingError, ScanOutcome
from netprobe.probe.session import Phase, run_scan


def scan(
    hosts: Sequence[Host],
    *,
    launcher: Launcher,
    folder: Path,
    options: ScanOptions | None = None,
    phases: Sequence[Phase] = (),
    on_event: OnEvent = ignore,
) -> Scan:
    """Probe the hosts and write scan.json, its samples and its journal into ``folder`` (which exists).

    The journal grows while the scan runs, so a killed scan loses no finished link. Raises
    NothingMeasuredError when no link gave a reading and InterruptedScanError after Ctrl-C; what was seen is
    written all the same.
    """
    options = options or ScanOptions()
    with Journal(folder / files.JOURNAL, hosts, options.as_dict()) as journal:
        try:
            outcome = run_scan(hosts, launcher, options, phases=phases, journal=journal, on_event=on_event)
        except NoReadingError as error:
            write_outcome(error.outcome, folder)
            raise
    scan = write_outcome(outcome, folder)
    if outcome.interrupted:
        raise InterruptedScanError(
            f"interrupted: {len(scan.visits)} visits are kept in {folder / files.SCAN} (status {scan.status})"
        )
    return scan


def write_outcome(outcome: ScanOutcome, folder: Path) -> Scan:
    """Write scan.json and its samples; the scan with the reference to the samples in it."""
    content = SideFile(name=files.SAMPLES, arrays=outcome.samples).to_bytes()
    samples = SamplesFile(npz=files.SAMPLES, sha256=hashlib.sha256(content).hexdigest())
    scan = outcome.scan.model_copy(update={"samples": samples})
    # The document first: on a disk that is nearly full it is worth more than its samples.
    files.save(scan, folder / files.SCAN)
    files.save_bytes(content, folder / files.SAMPLES)
    return scan
