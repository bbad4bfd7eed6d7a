"""The journal: every finished visit on disk as it ends, so that a killed scan loses nothing it measured.

JSON lines, appended. The first line is the header (hosts and options; no token), each further one is one visit
with its samples or a note about a host. The lines of visits that end in the same turn of the event loop go out in
one write; however the process ends, at most the last line in the file is torn. A note
``void`` names hosts whose visits up to there do not count: they were replaced before the scan was resumed.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from pydantic import ValidationError

from netprobe.core.documents.document import now_utc
from netprobe.core.documents.scan import GoodputReading, PathReading, Stamps
from netprobe.core.errors import DocumentError, InputError, OutputExistsError
from netprobe.core.hosts import Host
from netprobe.probe.records.samples import Samples, sample_fields, seconds
from netprobe.probe.records.visits import VisitResult

SCHEMA = "netprobe.journal/1.0"
_PLAIN = (
    "src", "dst", "round", "started_s", "duration_s", "measurement", "method", "src_port", "dst_port", "stamps",
    "sent", "received", "duplicates",
    "rejected", "beside", "reason",
)  # fmt: skip
_RECORDS: dict[str, type[GoodputReading | PathReading]] = {"goodput": GoodputReading, "path": PathReading}
_TEXTS = frozenset({"measurement", "method", "stamps", "reason"})
_SECONDS = frozenset({"started_s", "duration_s"})
_MOST = 1 << 31
MAX_VIA = 400
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_text = functools.lru_cache(maxsize=1024)(_encode)
_base64 = binascii.b2a_base64
_ARRAYS = {"seq": "<u4", "sent_at_s": "<f8", "rtt_s": "<f8"}


@dataclass(frozen=True, kw_only=True)
class JournalRecord:
    """What a journal holds. ``torn`` when its last line is not whole."""

    hosts: tuple[Host, ...]
    options: dict[str, Any]
    visits: tuple[VisitResult, ...]
    notes: tuple[dict[str, Any], ...]
    torn: bool
    measurements: tuple[str, ...] = ()
    """Ids of what is measured, in order; empty when the header does not say."""
    measuring: dict[str, Any] = field(default_factory=dict)
    """What was asked to be measured, with its budget, in the words of a command line; may be empty."""
    via: str | None = None
    """How its hosts were reached, as a command line said: to be shown, never to be run."""
    boots: dict[str, str] = field(default_factory=dict)
    """The last known ``boot_id`` of each host."""
    whole_bytes: int = 0
    """Where the last whole line ends."""


class Journal:
    """An open journal. Use as a context manager, or call ``close``.

    It is locked while it is open (flock), so that no second scan writes into it.
    """

    def __init__(
        self,
        path: Path,
        hosts: Sequence[Host],
        options: dict[str, Any],
        *,
        measurements: Sequence[str] = (),
        measuring: Mapping[str, Any] | None = None,
        via: str | None = None,
    ) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            raise OutputExistsError(f"{path}: a journal is there already; name another folder") from None
        except OSError as error:
            raise InputError(f"{path}: the journal cannot be written: {error.strerror}") from None
        self.path = path
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        header = {
            "journal": SCHEMA,
            "created_at": now_utc(),
            "hosts": [host.model_dump(mode="json") for host in hosts],
            "options": options,
        }
        header |= {"measurements": list(measurements)} if measurements else {}
        header |= {"measuring": dict(measuring)} if measuring else {}
        header |= {"via": via} if via else {}
        try:
            self._write(header)
        except OSError as error:
            self.close()
            raise InputError(f"{path}: the journal cannot be written: {error.strerror}") from None

    @classmethod
    def reopen(cls, path: Path) -> tuple[Journal, JournalRecord]:
        """Go on with the journal of a scan that ended early; a torn last line is cut off.

        Raises InputError when it cannot be written or another scan is writing it, DocumentError when it
        cannot be read.
        """
        try:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(f"{path}: the journal cannot be written: {error.strerror}") from None
        journal = cls.__new__(cls)
        journal.path, journal._fd = path, fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            journal.close()
            raise InputError(f"{path}: another scan is writing this journal: wait for its end") from None
        except OSError:
            pass  # a file system without locks
        try:
            record = read_journal(path)
            os.ftruncate(fd, record.whole_bytes)
            journal.note(resumed_at=now_utc(), visits=len(record.visits))
        except OSError as error:
            journal.close()
            raise InputError(f"{path}: the journal cannot be written: {error.strerror}") from None
        except BaseException:
            journal.close()
            raise
        return journal, record

    def visits(self, visits: Sequence[VisitResult]) -> None:
        """Append visits, a line each, in one write."""
        self._append(_lines(visits))

    def note(self, **note: Any) -> None:
        """Append something that is not a visit (a host that came up, or failed)."""
        self._write({"note": note})

    def close(self) -> None:
        """Flush to the disk and close; may be called twice."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # a full disk has been reported to the scan already
                os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _write(self, record: dict[str, Any]) -> None:
        self._append(_encode(record).encode() + b"\n")

    def _append(self, lines: bytes) -> None:
        view = memoryview(lines)
        while view:
            view = view[os.write(self._fd, view) :]


def _lines(visits: Sequence[VisitResult]) -> bytes:
    """One line per visit; what visits share is encoded once."""
    table, seq, sent_at_s, rtt_s = None, b"", b"", b""
    parts: list[bytes] = []
    for visit in visits:
        if visit.stop > visit.start and visit.samples is not table:
            table = visit.samples
            seq = table.seq.astype("<u4").tobytes()
            sent_at_s = seconds(table.sent_at).astype("<f8", copy=False).tobytes()
            rtt_s = seconds(table.rtt).astype("<f8", copy=False).tobytes()
        start, stop = visit.start, visit.stop
        parts += (
            _head(visit).encode(),
            _base64(seq[4 * start : 4 * stop], newline=False),
            b'","sent_at_s":"',
            _base64(sent_at_s[8 * start : 8 * stop], newline=False),
            b'","rtt_s":"',
            _base64(rtt_s[8 * start : 8 * stop], newline=False),
            b'"}}\n',
        )
    return b"".join(parts)


def _head(v: VisitResult) -> str:
    """The line of a visit up to its first array. A third of the time of an encoder; floats are those of a clock."""
    rest = ""
    if v.goodput is not None or v.path is not None:
        for key in _RECORDS:
            if (reading := getattr(v, key)) is not None:
                rest += f',"{key}":{_encode(reading.model_dump(mode="json"))}'
    return (
        f'{{"visit":{{"src":{v.src},"dst":{v.dst},"round":{v.round},'
        f'"started_s":{float(v.started_s)!r},"duration_s":{float(v.duration_s)!r},'
        f'"measurement":{_text(v.measurement)},"method":{_text(v.method)},'
        f'"src_port":{"null" if v.src_port is None else v.src_port},'
        f'"dst_port":{"null" if v.dst_port is None else v.dst_port},"stamps":{_text(v.stamps)},'
        f'"sent":{v.sent},"received":{v.received},"duplicates":{v.duplicates},"rejected":{v.rejected},'
        f'"beside":{v.beside},"reason":{_text(v.reason)}{rest}}},"samples":{{"seq":"'
    )


def read_journal(path: Path) -> JournalRecord:
    """Read a journal back, a torn last line left out. Raises DocumentError for anything else amiss."""
    source = str(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}", source=source) from None
    lines = content.split(b"\n")
    torn = lines.pop() != b""
    try:
        header = json.loads(lines[0]) if lines else None
        if not isinstance(header, dict) or not str(header.get("journal", "")).startswith(
            "netprobe.journal/1."
        ):
            raise DocumentError("no netprobe journal of version 1", source=source)
        hosts = tuple(Host.model_validate(host) for host in header["hosts"])
        options = dict(header["options"])
        measurements = tuple(str(id_) for id_ in header.get("measurements", ()))
        measuring = dict(header.get("measuring", {}))
        via = None if header.get("via") is None else str(header["via"])[:MAX_VIA]
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError):
        raise DocumentError("a journal whose header cannot be read", source=source) from None
    visits: list[VisitResult] = []
    notes: list[dict[str, Any]] = []
    boots: dict[str, str] = {}
    places = {host.name: index for index, host in enumerate(hosts)}
    for number, line in enumerate(lines[1:], start=2):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("no object")
            if "visit" in record:
                visits.append(_visit(record, len(hosts)))
            elif "note" in record:
                note = dict(record["note"])
                notes.append(note)
                if isinstance(note.get("boot_id"), str):
                    boots[str(note["host"])] = note["boot_id"]
                if isinstance(note.get("latency"), str):
                    options["latency"] = note["latency"]  # what auto turned out to be
                if "void" in note:
                    void = {places[name] for name in note["void"]}
                    visits = [visit for visit in visits if not {visit.src, visit.dst} & void]
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            raise DocumentError(
                f"line {number} cannot be read: take that line out, and --resume measures its link again",
                source=source,
            ) from None
    return JournalRecord(
        hosts=hosts,
        options=options,
        visits=tuple(visits),
        notes=tuple(notes),
        torn=torn,
        measurements=measurements,
        measuring=measuring,
        via=via,
        boots=boots,
        whole_bytes=content.rfind(b"\n") + 1,
    )


def _visit(record: dict[str, Any], hosts: int) -> VisitResult:
    arrays: dict[str, Any] = {
        key: np.frombuffer(base64.b64decode(record["samples"][key], validate=True), dtype=kind)
        for key, kind in _ARRAYS.items()
    }
    if len({len(array) for array in arrays.values()}) != 1:
        raise ValueError("samples of different lengths")
    plain: dict[str, Any] = {key: record["visit"][key] for key in _PLAIN}
    _check_plain(plain, hosts)
    if not (np.isfinite(arrays["sent_at_s"]).all() and (arrays["rtt_s"] > 0).all()):
        raise ValueError("samples that cannot be")
    if not np.isfinite(arrays["rtt_s"]).all() or len(arrays["rtt_s"]) > plain["received"]:
        raise ValueError("samples that cannot be")
    for key, model in _RECORDS.items():
        if key in record["visit"]:
            plain[key] = model.model_validate(record["visit"][key])
    samples = Samples.of_seconds(arrays["seq"], arrays["sent_at_s"], arrays["rtt_s"])
    return VisitResult(**plain, **sample_fields(samples))


def _check_plain(plain: dict[str, Any], hosts: int) -> None:
    """Types and ranges of a visit's numbers and texts; raises ValueError."""
    for key, value in plain.items():
        if key in _TEXTS:
            fits = isinstance(value, str) or (value is None and key in ("stamps", "reason"))
        elif key in _SECONDS:
            fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _MOST
        else:
            fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
            fits = fits or (value is None and key in ("src_port", "dst_port"))
        if not fits:
            raise ValueError(f"a visit whose {key} cannot be")
    if not (plain["src"] < hosts and plain["dst"] < hosts and plain["src"] != plain["dst"]):
        raise ValueError("a visit that is not between two of the hosts")
    if plain["received"] > plain["sent"] or max(plain["src_port"] or 0, plain["dst_port"] or 0) > 65535:
        raise ValueError("counts that cannot be")
    if plain["stamps"] not in (None, *get_args(Stamps)):
        raise ValueError("stamps of an unknown level")
