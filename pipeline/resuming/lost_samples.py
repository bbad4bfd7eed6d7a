"""Samples of a complete scan that its folder lacks (a disk that was full), taken from its journal."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from netprobe.core.documents.matrix import SideFile
from netprobe.core.documents.scan import SamplesFile, Scan
from netprobe.core.units import count
from netprobe.pipeline import files
from netprobe.pipeline.scanning.scan import LOST
from netprobe.probe.records.journal import JournalRecord
from netprobe.probe.records.matrices import in_order, sample_table
from netprobe.probe.records.visits import VisitResult


def samples_missing(scan: Scan, folder: Path) -> bool:
    """Whether the folder lacks the samples of its scan, or holds others."""
    if scan.samples is None:
        return any(warning.startswith(LOST) for warning in scan.warnings)
    try:
        content = (folder / files.SAMPLES).read_bytes()
    except OSError:
        return True
    return hashlib.sha256(content).hexdigest() != scan.samples.sha256


def restore_samples(scan: Scan, record: JournalRecord, folder: Path) -> Scan:
    """Write the samples out of the journal, and the scan that refers to them.

    Where the journal does not have all visits of the scan nothing is written, and a warning says so. Raises
    InputError where the disk does not take them.
    """
    names = [host.name for host in record.hosts]
    visits = in_order(record.visits)
    kept = [warning for warning in scan.warnings if not warning.startswith(LOST)]
    if [_key(visit, names) for visit in visits] != [_document_key(visit) for visit in scan.visits]:
        warning = f"{LOST}: the journal has {len(visits)} of its {count(len(scan.visits), 'visit')}"
        return scan.model_copy(update={"samples": None, "warnings": [*kept, warning]})
    content = SideFile(name=files.SAMPLES, arrays=sample_table(visits)).to_bytes()
    samples = SamplesFile(npz=files.SAMPLES, sha256=hashlib.sha256(content).hexdigest())
    files.save_bytes(content, folder / files.SAMPLES)
    restored = scan.model_copy(update={"samples": samples, "warnings": kept})
    files.save(restored, folder / files.SCAN, keep=False)
    return restored


def _key(visit: VisitResult, names: Sequence[str]) -> tuple[object, ...]:
    return (names[visit.src], names[visit.dst], visit.round, visit.measurement, visit.src_port, visit.size)


def _document_key(visit: object) -> tuple[object, ...]:
    return tuple(getattr(visit, key) for key in ("src", "dst", "round", "measurement", "src_port", "samples"))
