"""One cell of a text: a number, a missing one, or neither."""

from __future__ import annotations

import math

MISSING = frozenset({"", "-", "--", "nan", "na", "n/a", "null", "none", "*", "?", "x", "."})
"""What people write for a missing cell, in lower case."""
_NUMBER = frozenset("0123456789+-.eE")


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


def is_name(text: str) -> bool:
    """Whether a cell can only be a name: it is present and not a number."""
    return cell(text) is None
