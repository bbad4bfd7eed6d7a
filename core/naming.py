"""Names of hosts: what is allowed, their natural order, and range expressions."""

from __future__ import annotations

import re

from netprobe.core.errors import HostsError

MAX_NAME_LENGTH = 255
MAX_EXPANSION = 65_536
MAX_EXPRESSION_LENGTH = 1_000_000

_NAME = re.compile(r"[A-Za-z0-9._:-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DIGITS = re.compile(r"(\d+)")


def name_fault(name: str, *, what: str = "host name") -> str | None:
    """Why ``name`` cannot be used as a name, address or launcher name; None when it can."""
    if not name:
        return f"empty {what}"
    if len(name) > MAX_NAME_LENGTH:
        return f"{what} of {len(name)} characters: at most {MAX_NAME_LENGTH} are allowed"
    if name.startswith("-"):
        return f"{what} {name!r} starts with '-': a program would take it for an option"
    if not name.isascii() or not _NAME.fullmatch(name):
        return f"{what} {name!r} has characters outside A-Z a-z 0-9 . _ : -"
    if not any(c.isalnum() or c == ":" for c in name):
        return f"{what} {name!r} has no letter or digit"
    return None


def target_fault(target: str) -> str | None:
    """Why ``target`` cannot be handed to a launcher; None when it can.

    A target is one element of an argument vector and never part of a shell string, so most characters
    are harmless; a leading ``-`` is not, since ``ssh -oProxyCommand=...`` would run a program.
    """
    if not target:
        return "empty target"
    if len(target) > MAX_NAME_LENGTH:
        return f"target of {len(target)} characters: at most {MAX_NAME_LENGTH} are allowed"
    if target.startswith("-"):
        return f"target {target!r} starts with '-': the launcher would take it for an option"
    if _CONTROL.search(target) or not target.isprintable():
        return f"target {target!r} has control characters"
    return None


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key in which ``n2`` comes before ``n10``; total, so equal keys mean equal names."""
    parts = _DIGITS.split(name)
    key = [(1, int(p), p) if i % 2 else (0, 0, p) for i, p in enumerate(parts)]
    return tuple(key)


def split_list(text: str) -> list[str]:
    """Split a comma (or white-space) separated list, leaving the commas inside brackets alone."""
    items: list[str] = []
    depth = 0
    current: list[str] = []
    for char in text:
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        if depth < 0 or depth > 1:
            raise HostsError(f"unbalanced brackets in {_short(text)}")
        if depth == 0 and (char == "," or char.isspace()):
            items.append("".join(current))
            current = []
        else:
            current.append(char)
    if depth:
        raise HostsError(f"unbalanced brackets in {_short(text)}")
    items.append("".join(current))
    return [item for item in items if item]


def expand_ranges(expression: str) -> list[str]:
    """Expand ``gpu[001-003,070]-ib`` to its names, in the order written.

    Several bracket groups multiply, the last one running fastest; leading zeros are kept, so ``n1`` and
    ``n01`` stay different. Raises HostsError on a reversed or malformed range, or on more than
    ``MAX_EXPANSION`` names.
    """
    names = [""]
    rest = expression
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise HostsError(f"range expression of {len(expression)} characters is too long")
    while rest:
        before, bracket, after = rest.partition("[")
        if "]" in before:
            raise HostsError(f"unbalanced brackets in {_short(expression)}")
        choices = [before]
        if bracket:
            inside, closing, rest = after.partition("]")
            if not closing or "[" in inside:
                raise HostsError(f"unbalanced brackets in {_short(expression)}")
            choices = [before + number for number in _numbers(inside, expression)]
        else:
            rest = ""
        if len(names) * len(choices) > MAX_EXPANSION:
            raise HostsError(f"{_short(expression)} names more than {MAX_EXPANSION} hosts")
        names = [name + choice for name in names for choice in choices]
    return names


def _numbers(inside: str, expression: str) -> list[str]:
    numbers: list[str] = []
    for item in inside.split(","):
        low, dash, high = item.strip().partition("-")
        ends = (low, high) if dash else (low,)
        if not all(end.isascii() and end.isdigit() and len(end) <= 18 for end in ends):
            raise HostsError(f"{item!r} in {_short(expression)} is not a number or range such as 001-064")
        first, last = int(low), int(high) if dash else int(low)
        if last < first:
            raise HostsError(f"range {item!r} in {_short(expression)} runs backwards: write {high}-{low}")
        if last - first >= MAX_EXPANSION - len(numbers):
            raise HostsError(f"{_short(expression)} names more than {MAX_EXPANSION} hosts")
        width = len(low) if dash and low.startswith("0") and len(low) > 1 else len(low) if not dash else 0
        numbers.extend(str(n).zfill(width) for n in range(first, last + 1))
    return numbers


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
