"""What a folder, or a document, holds: read for looking at it, in a second, and its links in a table.

A scan's visits are left out: of a thousand hosts these are a million readings, whose matrices say what is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netprobe.core.documents.document import Document, load_document, parse_document, read_json, schema_of
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError, InputError
from netprobe.core.text import meant
from netprobe.pipeline import files
from netprobe.pipeline.places import NAMES, documents_in

if TYPE_CHECKING:
    from netprobe.core.documents.capacity import Capacity
    from netprobe.core.documents.matrix import FloatMatrix
    from netprobe.core.documents.plan import Plan
    from netprobe.core.documents.verify import Verify

KINDS = ("scan", "map", "capacity", "plan", "verify")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The documents, each None or empty where there is none. ``notes`` are about what could not be read."""

    source: Path
    scan: Scan | None = None
    map: Map | None = None
    capacity: Capacity | None = None
    plans: tuple[tuple[Path, Plan], ...] = ()
    verifies: tuple[tuple[Path, Verify], ...] = ()
    notes: tuple[str, ...] = field(default=())
    edited: frozenset[Path] = frozenset()
    """Plans whose figures and advice nothing shows to be of them, since they were edited."""


@dataclass(frozen=True, kw_only=True)
class LinkRow:
    """One directed link: what was measured, in seconds and bytes a second, None where it was not."""

    src: str
    dst: str
    rtt_s: float | None
    rtt_p99_s: float | None
    loss_ratio: float | None
    goodput_bytes_per_s: float | None
    distance_s: float | None
    """Of the map, denoised; None without one."""
    groups: str
    """``g0``, or ``g0-g1`` where it leads to another group; empty without a map."""


def load_shown(given: Path) -> Shown:
    """Read a scan's folder, or one document. Raises DocumentError, for a folder where nothing of it can be read."""
    paths = documents_in(given, KINDS)
    if paths == [given]:
        shown = _with_map_of(_one(Shown(source=given), given), given)
        return _with_edits(shown)
    for prefix in ("plan", "verify"):
        paths += sorted(path for path in given.glob(f"{prefix}-*.json") if path.is_file())
    shown, faults = Shown(source=given), []
    for path in paths:
        try:
            shown = _one(shown, path)
        except DocumentError as error:
            faults.append(str(error))
    if len(faults) == len(paths):
        raise DocumentError(faults[0])
    return _with_edits(replace(shown, notes=tuple(faults)))


def _with_edits(shown: Shown) -> Shown:
    """With what is to be said of plans that were edited since they were written."""
    if not shown.plans:
        return shown
    from netprobe.pipeline.edited import edits_of

    found = {path: edits_of(plan, path, shown.map) for path, plan in shown.plans}
    texts = [text for own in found.values() for text in own]
    edited = frozenset(path for path, own in found.items() if own)
    return replace(shown, notes=(*shown.notes, *texts), edited=edited)


def _one(shown: Shown, path: Path) -> Shown:
    kind = files.kind_of(path) if path.is_file() else None
    if kind == "scan":
        return replace(shown, scan=load_without_visits(path))
    if kind == "map":
        return replace(shown, map=load_document(Map, path))
    if kind == "capacity":
        from netprobe.core.documents.capacity import Capacity

        return replace(shown, capacity=load_document(Capacity, path))
    if kind == "plan":
        from netprobe.plan import load_plan

        return replace(shown, plans=(*shown.plans, (path, load_plan(path))))
    if kind == "verify":
        from netprobe.core.documents.verify import Verify

        return replace(shown, verifies=(*shown.verifies, (path, load_document(Verify, path))))
    data = read_json(path) if path.suffix == ".json" or not path.is_file() else None
    if data is not None and "schema" in data:
        kind = schema_of(data, source=str(path))[0]
        raise DocumentError(f"is a {kind}, of which there is nothing to show", source=str(path))
    from netprobe.formats.recognize import HEAD_BYTES, recognize

    if not path.is_file():
        raise DocumentError("no such document", source=str(path))
    with path.open("rb") as stream:
        found = recognize(stream.read(HEAD_BYTES))
    hint = "" if found.command is None else f": {found.command.replace('{}', str(path))} reads it"
    raise DocumentError(
        f"is {found.what}, and a document or a scan's folder is needed{hint}", source=str(path)
    )


def _with_map_of(shown: Shown, path: Path) -> Shown:
    """A map is drawn with the readings of its scan, where one of the same hosts is next to it."""
    neighbour = path.parent / NAMES["scan"]
    if shown.map is None or not neighbour.is_file():
        return shown
    try:
        scan = load_without_visits(neighbour)
    except DocumentError:
        return shown
    same = [host.name for host in scan.hosts] == [host.name for host in shown.map.hosts]
    return replace(shown, scan=scan) if same else shown


def load_without_visits(path: Path) -> Scan:
    """A scan whose table of visits is empty, whatever its file has. Raises DocumentError."""
    data = read_json(path)
    if "visits" in data:
        data["visits"] = []
    return parse_document(Scan, data, source=str(path), folder=path.parent)


def of_kind(shown: Shown) -> list[Document]:
    """Every document that was read, in the order of the chain."""
    first: list[Document | None] = [shown.scan, shown.map, shown.capacity]
    found = [one for one in first if one is not None]
    return [*found, *(plan for _, plan in shown.plans), *(verify for _, verify in shown.verifies)]


def link_rows(shown: Shown, *, host: str | None = None, slowest: int | None = None) -> list[LinkRow]:
    """The links in natural order, or the slowest first; those of one host where it is named. Raises InputError."""
    scan = shown.scan
    if scan is None:
        raise InputError(f"{shown.source}: --links are of a scan, and no scan is there")
    names = [one.name for one in scan.hosts]
    if host is not None and host not in names:
        raise InputError(f"--host {host[:60]!r} is not one of the {len(names)} hosts{meant(host, names)}")
    rows = list(_rows(scan, shown.map, names, None if host is None else names.index(host)))
    if slowest is not None:
        rows.sort(key=lambda row: (row.rtt_s is None, -(row.rtt_s or 0.0)))
        rows = rows[:slowest]
    return rows


def _rows(scan: Scan, map_: Map | None, names: list[str], only: int | None) -> Iterator[LinkRow]:
    group = {} if map_ is None else {name: one.id for one in map_.groups for name in one.hosts}
    matrices: dict[str, FloatMatrix | None] = {
        "rtt_s": scan.rtt_s.p10,
        "rtt_p99_s": scan.rtt_s.p99,
        "loss_ratio": scan.loss_ratio,
        "goodput_bytes_per_s": next(iter(scan.goodput_bytes_per_s.values()), None),
        "distance_s": None if map_ is None or map_.grouped_by != "rtt" else map_.distance,
    }
    values: dict[str, Any] = {
        key: None if matrix is None else np.asarray(matrix).tolist() for key, matrix in matrices.items()
    }
    for i, src in enumerate(names):
        for j, dst in enumerate(names):
            if i == j or (only is not None and only not in (i, j)):
                continue
            one, other = group.get(src, ""), group.get(dst, "")
            cells = {key: None if rows is None else _known(rows[i][j]) for key, rows in values.items()}
            yield LinkRow(src=src, dst=dst, groups=one if one == other else f"{one}-{other}", **cells)


def _known(value: float | None) -> float | None:
    return None if value is None or value != value else value
