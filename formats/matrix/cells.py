"""One cell of a text: a number, one with a unit or in other countries' writing, a missing one, or neither."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from netprobe.core.errors import InputError
from netprobe.core.units import Unit, unit_named

MISSING = frozenset(
    {"", "-", "--", "nan", "na", "n/a", "#n/a", "null", "none", "*", "?", "x", ".", "—", "–", "−"}
    | {"timeout", "timed out", "time out", "unreachable"}
)
"""What people write for a missing cell, in lower case."""
MISSING_READINGS = MISSING | {"fail", "failed", "lost", "error", "no reply", "no answer", "no data", "nil"}
"""The same, and words that could be names elsewhere, where only a reading can be."""
POINT, COMMA = ".", ","
_NUMBER = frozenset("0123456789+-.eE")
_WRITTEN = re.compile(
    r"([+-]?)([0-9](?:[0-9.,]|['\u2019\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9])))*)((?:[eE][+-]?[0-9]{1,3})?)"
    r"[ \u00a0\u2009\u202f]?([a-zA-Zµμ][a-zA-Zµμ/]*)?"
)
_BLANK_GROUPS = re.compile(r"['\u2019\u00a0\u2009\u202f]")
_GROUPS = re.compile(r"[1-9][0-9]{0,2}(?:[.,][0-9]{3})+")
_OTHER_NAMES = {
    "µs": "us", "μs": "us", "usec": "us", "msec": "ms", "sec": "s", "nsec": "ns", "secs": "s",
    "bits/sec": "bit/s", "kbits/sec": "kbit/s", "mbits/sec": "Mbit/s", "gbits/sec": "Gbit/s",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Written:
    """A number as it is written.

    digits: without signs for thousands that can be nothing else. decimal: the mark that must be its decimal one, None
    where nothing tells. either: whether its only mark could mean decimals or thousands.
    """

    digits: str
    exponent: str
    unit: Unit | None
    decimal: str | None
    either: bool

    def value(self, decimal: str) -> float | None:
        """The number, where ``decimal`` is the decimal mark; None where it cannot be one then."""
        if self.decimal is not None and self.decimal != decimal:
            return None
        thousands = COMMA if decimal == POINT else POINT
        if thousands in self.digits and not (self.either or self.decimal == decimal):
            return None
        return float(self.digits.replace(thousands, "").replace(decimal, ".") + self.exponent)


def cell(text: str) -> float | None:
    """A number (infinity where it is one or too large), NaN for a missing cell, None for anything else.

    Python's own reading of numbers is wider (``1_000``, digits of other scripts) and is not used alone.
    """
    if text.strip().lower() in MISSING:
        return math.nan
    bare = text.strip()
    if not _NUMBER.issuperset(bare):
        return math.inf if bare.lower().lstrip("+-") in ("inf", "infinity") else None
    try:
        return float(bare)
    except ValueError:
        return None


def written(text: str) -> Written | None:
    """A number with a unit, a decimal comma or marks of thousands; None for anything else."""
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        return None
    sign, body, exponent, name = match.groups()
    if not body[-1].isdigit():
        return None
    unit = None if name is None else unit_of(name)
    if name is not None and unit is None:
        return None
    marks = [c for c in body if c in ".,"]
    if marks == [POINT] * 3:  # an address
        return None
    blank = _BLANK_GROUPS.search(body) is not None
    body = _BLANK_GROUPS.sub("", body)
    decimal, either = _marks(body, marks, blank or exponent != "")
    if marks and decimal is None and not either:
        return None
    return Written(digits=sign + body, exponent=exponent, unit=unit, decimal=decimal, either=either)


def _marks(body: str, marks: list[str], is_decimal: bool) -> tuple[str | None, bool]:
    """The decimal mark, and whether the only mark may be either. ``is_decimal``: other cells show it."""
    if not marks:
        return None, False
    last = marks[-1]
    if len(set(marks)) == 2:
        head, _, _tail = body.rpartition(last)
        ok = marks.count(last) == 1 and _GROUPS.fullmatch(head) is not None
        return (last, False) if ok else (None, False)
    if len(marks) == 1:
        either = not is_decimal and _GROUPS.fullmatch(body) is not None
        return (None if either else last), either
    return (COMMA if last == POINT else POINT, False) if _GROUPS.fullmatch(body) else (None, False)


def unit_of(name: str) -> Unit | None:
    """The unit of a word behind a number; None where it is not a unit."""
    try:
        return unit_named(_OTHER_NAMES.get(name, _OTHER_NAMES.get(name.lower(), name)))
    except InputError:
        return None


def is_name(text: str) -> bool:
    """Whether a cell can only be a name: it is present and not a number."""
    return cell(text) is None and written(text) is None
