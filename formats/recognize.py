"""What a file is that netprobe did not write, by its first bytes, and which command reads it.

A guess is only made where a sign shows it; anything else is a text or a binary file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from netprobe.core.errors import HostsError
from netprobe.formats.detect import looks_like_ansible, read_hosts_text

HEAD_BYTES = 1 << 16
_NUMPY, _ZIP, _GZIP = b"\x93NUMPY", b"PK\x03\x04", b"\x1f\x8b"
_LAB_KEY = re.compile(r"^racks\s*:", re.MULTILINE)
_HTML = re.compile(r"<\s*(?:!doctype html|html|table)\b", re.IGNORECASE)
_MSCCL = re.compile(r"<\s*algo\b")
_ACTIONS = re.compile(r'\{\s*"algorithm":\s*"[^"]*",\s*"collective":\s*"')
_SLURM = re.compile(r"^\s*(?:SwitchName|BlockName)\s*=", re.MULTILINE | re.IGNORECASE)
_SEPARATORS = ((",", "a CSV"), (";", "a CSV"), ("\t", "a table with tabs"))
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, kw_only=True)
class Recognized:
    """``what`` it is, with its article, and the command that reads it, ``{}`` being its path (None: none does)."""

    what: str
    command: str | None = None
    is_schedule: bool = False
    """Whether it was exported from a plan, which is what is read instead."""


def recognize(head: bytes) -> Recognized:
    """By the first ``HEAD_BYTES`` of a file, or fewer."""
    if not head:
        return Recognized(what="an empty file")
    if head.startswith(_NUMPY):
        return Recognized(what="a NumPy array", command="netprobe import matrix {} --unit UNIT")
    if head.startswith(_GZIP):
        return Recognized(what="a gzip file", command="netprobe import matrix {}")
    if head.startswith(_ZIP):
        return Recognized(what="an archive of arrays, of which a document next to it is read")
    try:
        text = head[: head.rfind(b"\n") + 1 or None].decode("utf-8-sig")
    except UnicodeDecodeError:
        return Recognized(what="a binary file")
    return _of_text(text)


def _of_text(text: str) -> Recognized:
    start = text.lstrip()[:200]
    if _MSCCL.match(start):
        return Recognized(what="a schedule in MSCCL's XML", is_schedule=True)
    if _HTML.match(start):
        return Recognized(what="an HTML page", command="netprobe import matrix {}")
    if start.startswith(("{", "[")) and not looks_like_ansible(text):
        known = ("_meta" in text and "hostvars" in text) or _lists_names(start)
        if known:
            return Recognized(what="a list of hosts in JSON", command="netprobe scan --hosts {}")
        if _ACTIONS.match(start) is not None:
            return Recognized(
                what="a schedule as action lists, which netprobe export schedule writes", is_schedule=True
            )
        return Recognized(
            what="JSON that netprobe did not write", command="netprobe import matrix {} --unit UNIT"
        )
    if _SLURM.search(text):
        return Recognized(what="Slurm's topology.conf", command="netprobe eval SCAN --truth {}")
    if _LAB_KEY.search(text):
        return Recognized(what="the spec of a lab", command="netprobe scan --lab {}")
    table = _table(text)
    if table is not None:
        return Recognized(what=table, command="netprobe import matrix {} --unit UNIT")
    try:
        read_hosts_text(text)
    except HostsError:
        return Recognized(what="a text that netprobe did not write")
    return Recognized(what="a list of hosts", command="netprobe scan --hosts {}")


def _lists_names(start: str) -> bool:
    return re.match(r'\[\s*(?:"|\{\s*"(?:name|host)")', start) is not None


def _table(text: str) -> str | None:
    """Its name where the first lines have equally many cells, and numbers in the last of them."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")][:8]
    if len(lines) < 2:
        return None
    for separator, name in _SEPARATORS:
        rows = [line.split(separator) for line in lines]
        widths = {len(row) for row in rows}
        if len(widths) == 1 and widths.pop() > 1 and any(_NUMBER.fullmatch(c.strip(' "')) for c in rows[-1]):
            return name
    rows = [line.split() for line in lines]
    if len({len(row) for row in rows}) == 1 and all(
        len(row) > 2 and any(_NUMBER.fullmatch(cell) for cell in row[1:]) for row in rows[1:]
    ):
        return "a matrix in text"
    return None
