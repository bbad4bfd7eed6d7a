"""Resuming a scan that ended early: what its folder holds, and whether it is the scan that the user wants."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from netprobe.core.documents.document import load_document
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError, InputError
from netprobe.core.hosts import Host
from netprobe.core.units import count
from netprobe.pipeline import files
from netprobe.pipeline.resuming.lost_samples import samples_missing
from netprobe.pipeline.scanning.measuring import Measuring, parse_measuring
from netprobe.probe.records.journal import JournalRecord, read_journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.visits import RTT

REACH = ("python", "setup", "start_timeout_s")
"""How hosts are reached is never taken from a journal: a file in a folder must not name commands to run."""


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """The scan in a folder. ``scan`` is its document when it is complete: nothing is left to measure.

    lacks_samples: whether the folder lacks the samples of a complete scan, which its journal may have.
    """

    record: JournalRecord
    scan: Scan | None
    lacks_samples: bool = False


def find_earlier(folder: Path) -> Earlier:
    """What a folder holds of a scan. Raises InputError when it holds none that can be continued."""
    path = folder / files.JOURNAL
    if not path.is_file():
        raise InputError(f"{folder}: there is no scan to resume: {files.JOURNAL} is missing")
    record = read_journal(path)
    document = folder / files.SCAN
    scan = load_document(Scan, document) if document.is_file() else None
    complete = scan is not None and scan.status == "ok"
    if scan is None or not complete:
        return Earlier(record=record, scan=None)
    return Earlier(record=record, scan=scan, lacks_samples=samples_missing(scan, folder))


def check_same_hosts(record: JournalRecord, hosts: Sequence[Host]) -> None:
    """Refuse to resume with other hosts than those of the journal. Raises InputError."""
    if len(hosts) != len(record.hosts):
        raise InputError(
            f"--resume: the scan is of {count(len(record.hosts), 'host')}, and --hosts gives {len(hosts)}: leave "
            "--hosts out"
        )
    for given, scanned in zip(hosts, record.hosts, strict=True):
        for key in ("name", "target", "address"):
            one, other = getattr(given, key), getattr(scanned, key)
            if one != other:
                raise InputError(
                    f"--resume: the scan has a host of {key} {other!r} where --hosts gives {one!r}: "
                    "leave --hosts out, or start a new scan"
                )


def check_way_in(record: JournalRecord, via: str | None) -> None:
    """Refuse to try ssh, the default, where the scan was reached by another launcher: all hosts would be unreachable.

    The journal's own is only named: a file in a folder must not name commands to run. Raises InputError.
    """
    if via is None and record.via not in (None, "ssh"):
        raise InputError(
            f"--resume: the scan reached its hosts by --via {shlex.quote(str(record.via))}, and how they are reached "
            "is never taken from a file: give --via again, and what goes with it (--via ssh if it is ssh now)"
        )


def continued_options(
    record: JournalRecord, requested: ScanOptions, *, given: Mapping[str, str] | None = None
) -> ScanOptions:
    """The options of the journal, with those that say how hosts are reached taken from ``requested``.

    ``given`` are the fields that the user gave a value for, with the name of the option; such a field must
    have the value it has in the journal. Raises InputError that lists all that differ.
    """
    known = {field.name for field in fields(ScanOptions)}
    try:
        values: dict[str, Any] = {k: v for k, v in record.options.items() if k in known}
        values["port_range"] = tuple(values.get("port_range", (0, 0)))
        options = ScanOptions(**(values | {key: getattr(requested, key) for key in REACH}))
    except (TypeError, ValueError, InputError):
        raise DocumentError("the options in the journal's header cannot be read") from None
    faults = [
        f"{option} {getattr(requested, field)} (the scan has {getattr(options, field)})"
        for field, option in (given or {}).items()
        if field not in REACH and getattr(requested, field) != getattr(options, field)
    ]
    if faults:
        raise InputError(f"--resume keeps the options of the scan, and these differ: {'; '.join(faults)}")
    return options


def continued_measuring(
    record: JournalRecord, requested: Measuring, *, given: Mapping[str, str] | None = None
) -> Measuring:
    """What the journal's scan measures, and its budget. Capacity, which is not part of the scan, may be added.

    ``given`` are the words of ``parse_measuring`` that the user gave, with the names of their options; each
    must mean the same as in the journal. Raises InputError that lists all that differ.
    """
    if not record.measuring:
        return requested
    given = given or {}
    try:
        measuring = parse_measuring(**record.measuring)
    except (TypeError, ValueError, AttributeError, InputError):
        raise DocumentError("what is measured cannot be read from the journal's header") from None

    def differs(word: str) -> bool:
        try:
            other = parse_measuring(**(record.measuring | {word: requested.words[word]}))
        except InputError:
            return True
        return replace(other, capacity=None) != replace(measuring, capacity=None)

    faults = [
        f"{option} {requested.words[word]} (the scan has {record.measuring.get(word) or 'none'})"
        for word, option in given.items()
        if differs(word)
    ]
    if faults:
        raise InputError(
            f"--resume measures what the scan measures, and these differ: {'; '.join(faults)}: leave them "
            "out, or start a new scan"
        )
    measuring = _same_way(measuring, record)
    return replace(measuring, capacity=requested.capacity) if "measure" in given else measuring


def _same_way(measuring: Measuring, record: JournalRecord) -> Measuring:
    """The goodput method that was used stays: two methods are never mixed in one matrix."""
    if measuring.goodput is None or measuring.goodput.options.way != "auto":
        return measuring
    methods = {visit.method for visit in record.visits if visit.goodput is not None} & {"tcp", "iperf3"}
    if len(methods) != 1:
        return measuring
    options = replace(measuring.goodput.options, way=methods.pop())  # type: ignore[arg-type]
    return replace(measuring, goodput=replace(measuring.goodput, options=options))


def check_same_measurements(record: JournalRecord, ids: Sequence[str]) -> None:
    """Refuse to resume with other measurements than those of the journal. Raises InputError."""
    scanned = record.measurements or (RTT,)
    if tuple(ids) != scanned:
        raise InputError(
            f"--resume: the scan measures {', '.join(scanned)}, and {', '.join(ids)} is requested: "
            "give --measure as it was, or start a new scan"
        )
