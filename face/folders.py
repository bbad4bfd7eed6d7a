"""Documents from disk and to disk: ``load``, ``save``, and a scan's folder."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import Document, load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import Plan
from netprobe.core.documents.scan import Scan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import DocumentError, InputError
from netprobe.core.text import meant, one_line
from netprobe.pipeline import files
from netprobe.pipeline.places import NAMES, documents_in, find_document
from netprobe.plan import load_plan

D = TypeVar("D", bound=Document)
Kind = Literal["scan", "map", "capacity", "plan", "verify"]
_MODELS: dict[str, type[Document]] = {
    "scan": Scan,
    "map": Map,
    "capacity": Capacity,
    "plan": Plan,
    "verify": Verify,
}


class Folder:
    """The folder of a scan. A document is read when it is first asked for; DocumentError where it is not there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _path(path)
        """Where it is."""
        documents_in(self.path, tuple(_MODELS))
        if not self.path.is_dir():
            raise DocumentError("is not the folder of a scan", source=str(self.path))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the documents that are there, in the order of the chain."""
        return tuple(kind for kind in _MODELS if (self.path / NAMES[kind]).is_file())

    @cached_property
    def scan(self) -> Scan:
        """Of ``scan.json``."""
        return load_document(Scan, find_document(self.path, "scan"))

    @cached_property
    def map(self) -> Map:
        """Of ``map.json``."""
        return load_document(Map, find_document(self.path, "map"))

    @cached_property
    def capacity(self) -> Capacity:
        """Of ``capacity.json``."""
        return load_document(Capacity, find_document(self.path, "capacity"))

    @cached_property
    def plan(self) -> Plan:
        """Of ``plan.json``, proved."""
        return load_plan(find_document(self.path, "plan"))

    @cached_property
    def verify(self) -> Verify:
        """Of ``verify.json``."""
        return load_document(Verify, find_document(self.path, "verify"))

    def __repr__(self) -> str:
        return f"<Folder {one_line(str(self.path), 200)}: {', '.join(self.kinds)}>"


@overload
def load(source: str | os.PathLike[str], kind: Literal["scan"]) -> Scan: ...
@overload
def load(source: str | os.PathLike[str], kind: Literal["map"]) -> Map: ...
@overload
def load(source: str | os.PathLike[str], kind: Literal["capacity"]) -> Capacity: ...
@overload
def load(source: str | os.PathLike[str], kind: Literal["plan"]) -> Plan: ...
@overload
def load(source: str | os.PathLike[str], kind: Literal["verify"]) -> Verify: ...
@overload
def load(source: str | os.PathLike[str], kind: None = None) -> Any: ...


def load(source: str | os.PathLike[str], kind: Kind | None = None) -> Any:
    """A document of the path ``source``, or a `Folder` where that is a scan's folder.

    With ``kind`` it is the document of that kind, at the path or in the folder. Raises DocumentError for what is
    not there, damaged, or of another kind; InputError for a kind that there is not.
    """
    path = _path(source)
    if kind is not None:
        if kind not in _MODELS:
            raise InputError(
                f"kind {one_line(repr(kind), 60)} is not one of {', '.join(_MODELS)}{meant(str(kind), _MODELS)}"
            )
        return _read(kind, find_document(path, kind))
    if path.is_dir():
        return Folder(path)
    found = files.kind_of(path) if path.is_file() else None
    # A file of another kind is refused by the reader of scans, which says what it is.
    return _read(found, path) if found in _MODELS else _read("scan", find_document(path, "scan"))


def save(document: Document, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write a document to the file ``path``, or under its usual name into the folder ``path``; where it is.

    An existing file of the same kind is replaced with ``force`` only, and any other never. Raises OutputExistsError,
    and InputError where nothing can be written.
    """
    if not isinstance(document, Document) or document.KIND not in NAMES:
        raise InputError(f"{type(document).__name__}: a document of netprobe's is needed")
    target = _path(path)
    if target.is_dir():
        target = target / NAMES[document.KIND]
    files.prepare_file(target, kind=document.KIND, force=force)
    files.save(document, target)
    return target


def _read(kind: str, path: Path) -> Document:
    return load_plan(path) if kind == "plan" else load_document(_MODELS[kind], path)


def _path(given: object) -> Path:
    if isinstance(given, (str, os.PathLike)) and isinstance(os.fspath(given), str) and os.fspath(given):
        return Path(given)
    raise InputError(f"{one_line(repr(given), 60)} ({type(given).__name__}): a path is needed")
