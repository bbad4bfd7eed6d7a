"""hosts -> scan: probe every pair, and keep what was seen in every case."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from netprobe.core.documents.matrix import SideFile
from netprobe.core.documents.scan import SamplesFile, Scan
from netprobe.core.errors import InputError, InterruptedScanError
from netprobe.core.hosts import Host
from netprobe.core.system.interrupts import noted, signals_held
from netprobe.core.units import count
from netprobe.pipeline import files
from netprobe.pipeline.scanning.measuring import Measuring, phases_for
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.events import OnEvent, ignore
from netprobe.probe.records.journal import Journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import NoReadingError, ScanOutcome
from netprobe.probe.records.visits import VisitResult
from netprobe.probe.scan.session import ScanLog, run_scan

LOST = "the samples are lost"
"""How the warning begins that a scan without samples has."""


def scan(
    hosts: Sequence[Host],
    *,
    launcher: Launcher,
    folder: Path,
    options: ScanOptions | None = None,
    measuring: Measuring | None = None,
    resume: bool = False,
    via: str | None = None,
    on_event: OnEvent = ignore,
) -> Scan:
    """Probe the hosts and write scan.json, its samples and its journal into ``folder`` (which exists).

    The journal grows while the scan runs, so a killed scan loses no finished link; with ``resume`` the scan
    of the journal that is there is continued (``pipeline.resuming`` says whether it may be), and what hosts
    that were replaced had measured is measured again. Round-trip times alone are measured without ``measuring``.
    ``via`` is only recorded in the journal.
    Raises NothingMeasuredError when no link gave a reading and InterruptedScanError after Ctrl-C; what was seen is
    written all the same, however often it is pressed.
    """
    options = options or ScanOptions()
    path = folder / files.JOURNAL
    phases = phases_for(options, measuring)
    ids = [phase.method.measurement.id for phase in phases]
    visits: tuple[VisitResult, ...] = ()
    boots: Mapping[str, str] = {}
    if resume:
        journal, record = Journal.reopen(path)
        visits, boots = record.visits, record.boots
    else:
        words = {
            key: word for key, word in (measuring.words if measuring else {}).items() if word is not None
        }
        journal = Journal(path, hosts, options.as_dict(), measurements=ids, measuring=words, via=via)
    with signals_held() as late:
        with journal:
            try:
                outcome = run_scan(
                    hosts,
                    launcher,
                    options,
                    phases=phases,
                    log=ScanLog(journal=journal, resumed=visits, boots=boots),
                    on_event=on_event,
                )
            except NoReadingError as error:
                write_outcome(error.outcome, folder)
                raise
        scan = write_outcome(outcome, folder)
    if outcome.interrupted or late:
        noted()
        made = len(scan.visits)
        raise InterruptedScanError(
            f"interrupted: {count(made, 'visit')} {'is' if made == 1 else 'are'} kept in {folder / files.SCAN} "
            f"(status {scan.status})"
        )
    return scan


def write_outcome(outcome: ScanOutcome, folder: Path) -> Scan:
    """Write scan.json and its samples; the scan with the reference to the samples in it."""
    content = SideFile(name=files.SAMPLES, arrays=outcome.samples).to_bytes()
    samples = SamplesFile(npz=files.SAMPLES, sha256=hashlib.sha256(content).hexdigest())
    scan = outcome.scan.model_copy(update={"samples": samples})
    # The document first: on a disk that is nearly full it is worth more than its samples.
    try:
        files.save(scan, folder / files.SCAN, keep=False)
    except InputError as error:
        raise InputError(f"{error}; {files.kept_elsewhere(outcome.scan, files.SCAN)}") from None
    try:
        files.save_bytes(content, folder / files.SAMPLES)
    except InputError as error:
        warning = f"{LOST} here: {error}: make room, and --resume takes them from the journal"
        scan = outcome.scan.model_copy(update={"warnings": [*outcome.scan.warnings, warning]})
        try:
            files.save(scan, folder / files.SCAN, keep=False)
        except InputError:
            raise InputError(f"{warning}; the scan without them is whole in {folder / files.SCAN}") from None
    return scan
