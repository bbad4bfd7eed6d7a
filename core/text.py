"""Text that came from elsewhere, made safe to print: no terminal escapes, no invisible characters."""

from __future__ import annotations

from collections.abc import Sequence

MAX_LINE_SHOWN = 400


def printable(text: str, *, instead: str = "?", keep: str = "") -> str:
    """``text`` with each character that nobody sees replaced by ``instead``, those of ``keep`` apart.

    Those are all that Python calls unprintable: controls (ESC and the C1 set too), marks that turn the direction of
    writing, surrogates, separators of lines. Blanks stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else instead for c in text)


def one_line(text: str, limit: int = MAX_LINE_SHOWN) -> str:
    """``text`` on one printable line of at most ``limit`` characters."""
    return " ".join(printable(text[: 8 * limit], instead=" ").split())[:limit]


def listed(names: Sequence[str], most: int = 4) -> str:
    """``a, b, c, d and 3 more``: the first of them, and how many the others are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
