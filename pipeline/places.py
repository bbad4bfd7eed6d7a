"""Where a document is: at the path that was given, or in the folder of a scan; and what is there instead."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netprobe.core.errors import DocumentError
from netprobe.pipeline import files

if TYPE_CHECKING:
    from netprobe.formats.recognize import Recognized

NAMES = {
    "scan": files.SCAN,
    "map": files.MAP,
    "capacity": files.CAPACITY,
    "plan": files.PLAN,
    "verify": files.VERIFY,
    "truth": files.TRUTH,
}
"""The usual name of each kind of document in a scan's folder, in the order of the chain."""
_MADE_BY = {
    "scan": "netprobe scan --resume --out {}",
    "map": "netprobe map {}",
    "capacity": "netprobe capacity {}",
    "plan": "netprobe plan {}",
    "verify": "netprobe verify {}",
}
_READ_BY = {
    "scan": "netprobe map {}",
    "map": "netprobe plan {}",
    "capacity": "netprobe show {}",
    "plan": "netprobe verify {}",
    "verify": "netprobe show {}",
    "truth": "netprobe eval MAP --truth {}",
}
_MOST_FOREIGN = 1 << 24
_NEEDS = {"map": "scan", "capacity": "map", "plan": "map", "verify": "plan"}


def find_document(given: Path, kind: str) -> Path:
    """The file of a document of a kind: ``given`` itself, or the one of the usual name in the folder ``given``.

    Raises DocumentError where another thing is there: with what it is, and the command that reads it. What does not
    exist, or cannot be looked at, is left to the reader, whose words for it are better.
    """
    try:
        if given.is_dir():
            return _in_folder(given, kind)
        if not given.is_file():
            return given
        found = files.kind_of(given)
        if found == kind:
            return given
        if found is None:
            from netprobe.formats.recognize import HEAD_BYTES, recognize

            with given.open("rb") as stream:
                head = stream.read(HEAD_BYTES)
            if _may_be_ours(given, head):
                return given
            raise _of_another_kind(given, kind, found=None, foreign=recognize(head))
    except (OSError, ValueError):
        return given
    raise _of_another_kind(given, kind, found=found, foreign=None)


def refuse_foreign(path: Path, kind: str) -> None:
    """Raise DocumentError for a file that netprobe did not write, as ``find_document`` does."""
    try:
        foreign = path.is_file() and files.kind_of(path) is None
    except (OSError, ValueError):
        return
    if foreign:
        find_document(path, kind)


def documents_in(given: Path, kinds: Sequence[str]) -> list[Path]:
    """The documents of these kinds in a folder, under their usual names; ``given`` itself where it is none.

    Raises DocumentError for a folder without any.
    """
    try:
        if not given.is_dir():
            return [given]
        found = [given / NAMES[kind] for kind in kinds if (given / NAMES[kind]).is_file()]
    except (OSError, ValueError):
        return [given]
    if not found:
        raise _lacking(given, kinds[0])
    return found


def _may_be_ours(path: Path, head: bytes) -> bool:
    """Whether it is one of ours, or was until it was damaged: its reader says what is wrong with it."""
    if not head:
        return True
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    if b'"schema"' in head or path.stat().st_size > _MOST_FOREIGN:
        return True
    try:
        json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return True
    return False


def _in_folder(folder: Path, kind: str) -> Path:
    path = folder / NAMES[kind]
    if path.is_file():
        return path
    raise _lacking(folder, kind)


def _lacking(folder: Path, kind: str) -> DocumentError:
    """What a folder without a document of a kind is told: what is there, and what makes the document."""
    there = [known for known, name in NAMES.items() if (folder / name).is_file()]
    journal = (folder / files.JOURNAL).is_file()
    text = f"a folder without {NAMES[kind]}"
    where = shlex.quote(str(folder))
    if not there and not journal:
        return DocumentError(
            f"{text}: the folder of a scan is needed (netprobe scan --out DIR makes one), or a {kind} document",
            source=str(folder),
        )
    needed = kind
    while needed in _NEEDS and _NEEDS[needed] not in there:
        needed = _NEEDS[needed]
    made_by = _MADE_BY.get(needed)
    has = f"; it has {', '.join(NAMES[known] for known in there)}" if there else "; its scan ended early"
    first = "" if needed == kind else " first"
    return DocumentError(
        text + has + (f": {made_by.format(where)} makes the {needed}{first}" if made_by else ""),
        source=str(folder),
    )


def _of_another_kind(
    path: Path, kind: str, *, found: str | None, foreign: Recognized | None
) -> DocumentError:
    where = shlex.quote(str(path))
    if foreign is not None:
        what, command = foreign.what, foreign.command
    elif found == "journal":
        what = "the journal of a scan"
        command = f"netprobe scan --resume --out {shlex.quote(str(path.parent))}"
        where = ""
    else:
        what, command = f"a {found} document", _READ_BY.get(found or "")
    text = f"is {what}, and a {kind} is needed"
    sibling = path.parent / NAMES[kind]
    if foreign is not None and foreign.is_schedule and kind == "plan":
        return DocumentError(f"{text}: give the plan that it was exported from", source=str(path))
    if sibling != path and sibling.is_file() and files.kind_of(sibling) == kind:
        text += f": {shlex.quote(str(sibling))} is one"
        if command is not None:
            text += f" ({command.replace('{}', where)} reads this file)"
    elif command is not None:
        text += f": {command.replace('{}', where)} reads it"
    else:
        text += f": give the {NAMES[kind]} of a scan's folder, or the folder"
    return DocumentError(text, source=str(path))
