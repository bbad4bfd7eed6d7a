"""Host patterns of Ansible inventories: ``www[01:50].example.com``, ``db-[a:f]``, ``h[0:20:4]``, ``host:2222``."""

from __future__ import annotations

import itertools
import re
import string

from netprobe.core.errors import HostsError
from netprobe.core.hosts import is_ip_address
from netprobe.core.naming import MAX_EXPANSION

_BRACKETED = re.compile(r"\[([^\[\]]+)\]:([0-9]+)")
_WITH_PORT = re.compile(r"((?:[^:\[\]]|\[[^\[\]]*\])*):([0-9]+)")
_PARTS = re.compile(r"\[([^\[\]]*)\]")
_NUMBER = re.compile(r"[0-9]{1,18}")


def split_port(pattern: str) -> tuple[str, str | None]:
    """A pattern and the port behind it: ``host:22``, ``[2001:db8::1]:22``; an IPv6 address alone has none."""
    if is_ip_address(pattern):
        return pattern, None
    bracketed = _BRACKETED.fullmatch(pattern)
    if bracketed and is_ip_address(bracketed[1]):
        return bracketed[1], bracketed[2]
    match = _WITH_PORT.fullmatch(pattern)
    return (match[1], match[2]) if match else (pattern, None)


def expand_pattern(pattern: str) -> list[str]:
    """Names of a pattern; the last range runs fastest. Raises HostsError."""
    pieces = _PARTS.split(pattern)
    if any("[" in piece or "]" in piece for piece in pieces):
        raise HostsError(f"unbalanced brackets in {pattern[:60]!r}")
    columns: list[list[str]] = []
    names = 1
    for at, piece in enumerate(pieces):
        columns.append(_range(piece, pattern) if at % 2 else [piece])
        names *= len(columns[-1])
        if names > MAX_EXPANSION:
            raise HostsError(f"{pattern[:60]!r} names more than {MAX_EXPANSION} hosts")
    return ["".join(parts) for parts in itertools.product(*columns)]


def _range(text: str, pattern: str) -> list[str]:
    where = f"range [{text[:40]}] in {pattern[:60]!r}"
    bounds = text.split(":")
    if len(bounds) not in (2, 3):
        raise HostsError(f"{where} is not [FIRST:LAST] or [FIRST:LAST:STEP]")
    first, last, step = bounds[0] or "0", bounds[1], bounds[2] if len(bounds) == 3 else "1"
    if not _NUMBER.fullmatch(step) or int(step) < 1:
        raise HostsError(f"{where} needs a step of at least 1")
    letters = string.ascii_letters
    if len(first) == len(last) == 1 and first in letters and last in letters:
        low, high, width = letters.index(first), letters.index(last), None
    elif _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last):
        low, high = int(first), int(last)
        width = len(first) if first[0] == "0" and len(first) > 1 else 0
        if width and width != len(last):
            raise HostsError(f"{where} has ends of two lengths: write both with as many digits")
    else:
        raise HostsError(f"{where} has ends that are neither numbers nor single letters")
    if high < low:
        raise HostsError(f"{where} runs backwards: write [{last}:{first}]")
    steps = range(low, high + 1, int(step))
    if len(steps) > MAX_EXPANSION:
        raise HostsError(f"{where} names more than {MAX_EXPANSION} hosts")
    return [letters[n] if width is None else str(n).zfill(width) for n in steps]
