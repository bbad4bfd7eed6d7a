"""Text that came from elsewhere, made safe to print: no terminal escapes, no invisible characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

MAX_LINE_SHOWN = 400
LONGEST_LISTED = 120
"""Characters of one of several names in a sentence."""


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


def short(name: str, most: int = 60) -> str:
    """``name``, its middle left out where it is longer than ``most`` characters: both of its ends tell names apart."""
    if len(name) <= most:
        return name
    left = (most - 2) // 2
    return f"{name[: most - 2 - left]}..{name[len(name) - left :]}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """``a, b, c, d and 3 more``: the first of them, long ones shortened, and how many the others are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(short(name, LONGEST_LISTED) for name in names[:most]) + more


def meant(word: str, known: Iterable[str], *, others: Mapping[str, str] | None = None) -> str:
    """``: did you mean ring?`` where ``word`` is a likely slip for one of ``known``, and nothing where it is not.

    ``others`` are further words and what each stands for here (``mpirun``: ``mpi``).
    """
    from difflib import get_close_matches

    names = {name.lower(): name for name in known}
    names |= others or {}
    close = get_close_matches(word[:60].lower(), names, n=1, cutoff=0.6)
    return f": did you mean {names[close[0]]}?" if close else ""
