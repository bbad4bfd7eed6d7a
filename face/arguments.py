"""What a person has, as what the library takes: a document, its path, or a scan's folder. Raises InputError."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, Union

from netprobe.core.documents.document import Document, load_document
from netprobe.core.documents.plan import Plan
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.text import meant, one_line
from netprobe.face.folders import Folder
from netprobe.formats import load_hosts
from netprobe.pipeline.places import find_document
from netprobe.plan import load_plan
from netprobe.probe.methods.goodput_options import parse_size

D = TypeVar("D", bound=Document)
T = TypeVar("T")
Place = Union[str, "os.PathLike[str]", Folder]
"""A path, or a folder that was loaded."""
HostsLike = Union[str, "os.PathLike[str]", Sequence[str]]
"""A hosts file, a list or source as ``--hosts`` takes it, or names."""


def document(model: type[D], given: D | Place, what: str) -> D:
    """The document itself, or the one at a path or in a folder. Raises InputError and DocumentError."""
    if isinstance(given, model):
        return given
    if isinstance(given, Document):
        raise InputError(f"{what} is a {given.KIND} document, and a {model.KIND} is needed")
    path = find_document(place(given, what, f"a {model.__name__}"), model.KIND)
    if issubclass(model, Plan):
        return load_plan(path)  # type: ignore[return-value]
    return load_document(model, path)


def maybe(model: type[D], given: D | Place | None, what: str) -> D | None:
    """The same, where it may be left out."""
    return None if given is None else document(model, given, what)


def place(given: object, what: str, other: str = "") -> Path:
    """A path. Raises InputError for what is none; ``other`` is what may be given besides."""
    if isinstance(given, Folder):
        return given.path
    if isinstance(given, (str, os.PathLike)) and isinstance(os.fspath(given), str) and os.fspath(given):
        return Path(given)
    raise InputError(f"{what} is {_shown(given)}: {other + ' or ' if other else ''}a path is needed")


def whole(given: object, what: str, *, least: int = 0) -> int:
    """A whole number; a float or a text is not rounded to one."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise InputError(f"{what} is {_shown(given)}: a whole number is needed")
    number = int(given.__index__())
    if number < least:
        raise InputError(f"{what} is {number}: {least} or more is needed")
    return number


def number(given: object, what: str) -> float:
    """A number."""
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise InputError(f"{what} is {_shown(given)}: a number is needed")
    return float(given)


def word(given: object, what: str, known: Iterable[str]) -> str:
    """One of the known words."""
    words = list(known)
    if isinstance(given, str) and given in words:
        return given
    hint = meant(given, words) if isinstance(given, str) else ""
    raise InputError(f"{what} is {_shown(given)}: one of {', '.join(words)} is needed{hint}")


def size_bytes(given: object, what: str) -> int:
    """Bytes, or ``100MB``."""
    if isinstance(given, str):
        return parse_size(given, "size").bytes
    return whole(given, what, least=1)


def texts(given: object, what: str) -> list[str]:
    """A sequence of texts."""
    found = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else []
    if not found or not all(isinstance(one, str) for one in found):
        raise InputError(f"{what} is {_shown(given)}: a list of texts is needed")
    return found


def options(given: T | None, kind: type[T], what: str) -> T:
    """Options of a kind, or its default."""
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise InputError(f"{what} is {_shown(given)}: netprobe.{kind.__name__} is needed")
    return given


def hosts_text(given: object, what: str = "hosts") -> str:
    """Hosts as ``--hosts`` takes them; a sequence of names is joined. Raises InputError."""
    if isinstance(given, (str, os.PathLike)):
        return str(place(given, what)) if not isinstance(given, str) else given
    names = list(given) if isinstance(given, Iterable) and not isinstance(given, (bytes, dict)) else []
    odd = next((name for name in names if not isinstance(name, str) or not name.strip() or "," in name), None)
    if not names or odd is not None:
        found = _shown(given if odd is None else odd)
        raise InputError(f"{what}: {found}: a hosts file, or a list of the names of hosts, is needed")
    return ",".join(names) + ("," if len(names) == 1 else "")


def hosts(given: HostsLike | None) -> tuple[Host, ...] | None:
    """The hosts, None where none are given. Raises HostsError."""
    return None if given is None else load_hosts(hosts_text(given))


def _shown(given: Any) -> str:
    return f"{one_line(repr(given), 60)} ({type(given).__name__})"
