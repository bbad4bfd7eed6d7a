"""Names as people write them in tables, made names that launchers take: ``US East (N. Example)`` is not valid."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from netprobe.core.errors import InputError
from netprobe.core.naming import name_fault
from netprobe.core.text import one_line

_OTHER = re.compile(r"[^A-Za-z0-9._:]+")


def host_names(names: Sequence[str]) -> tuple[list[str], Mapping[str, str]]:
    """Names of hosts for names of a table, in their order, and by each one that was changed what it was.

    A name that can be one stays. Marks above letters go, other characters become ``-``; a name of which nothing is
    left becomes ``h`` and its place. Raises InputError where two become one.
    """
    made = [name if name_fault(name) is None else _made(name, place) for place, name in enumerate(names)]
    seen: dict[str, str] = {}
    for name, new in zip(names, made):
        if new in seen:
            raise InputError(
                f"{one_line(seen[new], 60)!r} and {one_line(name, 60)!r} would both be the host {new!r}: rename one"
            )
        seen[new] = name
    return made, {new: one_line(name, 255) for name, new in zip(names, made) if name != new}


def _made(name: str, place: int) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    made = _OTHER.sub("-", plain)[:255].strip("-")
    return made if name_fault(made) is None else f"h{place}"
