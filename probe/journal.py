"""The journal: every finished visit on disk as it ends, so that a killed scan loses nothing it measured.

JSON lines, appended. The first line is the header (hosts and options; no token), each further one a visit
with its samples or a note about a host. A line goes out in one write, so at most the last one is torn.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from netprobe.core.document import now_utc
from netprobe.core.errors import DocumentError, InputError, OutputExistsError
from netprobe.core.hosts import Host
from netprobe.core.scan import GoodputReading, PathReading
from netprobe.probe.visits import VisitResult

SCHEMA = "netprobe.journal/1.0"
_PLAIN = (
    "src", "dst", "round", "started_s", "duration_s", "measurement", "method", "src_port", "dst_port", "stamps",
    "sent", "received", "duplicates",
    "rejected", "beside", "reason",
)  # fmt: skip
_RECORDS: dict[str, type[GoodputReading | PathReading]] = {"goodput": GoodputReading, "path": PathReading}
_ARRAYS = {"seq": "<u4", "sent_at_s": "<f8", "rtt_s": "<f8"}


@dataclass(frozen=True, kw_only=True)
class JournalRecord:
    """What a journal holds. ``torn`` when its last line is not whole."""

    hosts: tuple[Host, ...]
    options: dict[str, Any]
    visits: tuple[VisitResult, ...]
    notes: tuple[dict[str, Any], ...]
    torn: bool


class Journal:
    """An open journal. Use as a context manager, or call ``close``."""

    def __init__(self, path: Path, hosts: Sequence[Host], options: dict[str, Any]) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            raise OutputExistsError(f"{path}: a journal is there already; name another folder") from None
        except OSError as error:
            raise InputError(f"{path}: the journal cannot be written: {error.strerror}") from None
        self.path = path
        self._write(
            {
                "journal": SCHEMA,
                "created_at": now_utc(),
                "hosts": [host.model_dump(mode="json") for host in hosts],
                "options": options,
            }
        )

    def visit(self, visit: VisitResult) -> None:
        """Append a visit."""
        record: dict[str, Any] = {key: getattr(visit, key) for key in _PLAIN}
        for key in _RECORDS:
            if (reading := getattr(visit, key)) is not None:
                record[key] = reading.model_dump(mode="json")
        samples = {
            key: base64.b64encode(np.ascontiguousarray(getattr(visit, key), dtype=kind).tobytes()).decode()
            for key, kind in _ARRAYS.items()
        }
        self._write({"visit": record, "samples": samples})

    def note(self, **note: Any) -> None:
        """Append something that is no visit (a host that came up, or failed)."""
        self._write({"note": note})

    def close(self) -> None:
        """Flush to the disk and close; may be called twice."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # of a full disk the scan has been told already
                os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _write(self, record: dict[str, Any]) -> None:
        view = memoryview(json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n")
        while view:
            view = view[os.write(self._fd, view) :]


def read_journal(path: Path) -> JournalRecord:
    """Read a journal back, a torn last line left out. Raises DocumentError for anything else amiss."""
    source = str(path)
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}", source=source) from None
    torn = lines.pop() != b""
    try:
        header = json.loads(lines[0]) if lines else None
        if not isinstance(header, dict) or not str(header.get("journal", "")).startswith(
            "netprobe.journal/1."
        ):
            raise DocumentError("no netprobe journal of version 1", source=source)
        hosts = tuple(Host.model_validate(host) for host in header["hosts"])
        options = dict(header["options"])
    except (ValueError, KeyError, TypeError, ValidationError):
        raise DocumentError("a journal whose header cannot be read", source=source) from None
    visits, notes = [], []
    for number, line in enumerate(lines[1:], start=2):
        try:
            record = json.loads(line)
            if "visit" in record:
                visits.append(_visit(record, len(hosts)))
            elif "note" in record:
                notes.append(dict(record["note"]))
        except (ValueError, KeyError, TypeError):
            raise DocumentError(f"line {number} cannot be read", source=source) from None
    return JournalRecord(hosts=hosts, options=options, visits=tuple(visits), notes=tuple(notes), torn=torn)


def _visit(record: dict[str, Any], hosts: int) -> VisitResult:
    arrays: dict[str, Any] = {
        key: np.frombuffer(base64.b64decode(record["samples"][key], validate=True), dtype=kind)
        for key, kind in _ARRAYS.items()
    }
    if len({len(array) for array in arrays.values()}) != 1:
        raise ValueError("samples of different lengths")
    plain: dict[str, Any] = {key: record["visit"][key] for key in _PLAIN}
    for key, model in _RECORDS.items():
        if key in record["visit"]:
            plain[key] = model.model_validate(record["visit"][key])
    if not (0 <= plain["src"] < hosts and 0 <= plain["dst"] < hosts):
        raise ValueError("a visit of a host that is not listed")
    return VisitResult(**plain, **arrays)
