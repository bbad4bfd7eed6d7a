"""Finds the report in what ``iperf3 -J`` printed, among what a wrapper or the program printed around it. No I/O.

The first complete report counts: an object that begins at the text's first brace or at the start of a line, and
holds what a report holds. Later braces within a line are not tried, for they belong to an object that was cut
short, and a part of it (an interval, a server's report inside) must not pass for the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

SAID = 160
"""How much of what is printed around a report is kept."""
_USAGE = re.compile(
    r"^iperf3: (parameter error[^\n]*)|^(?:iperf3: )?(unrecognized option[^\n]*)", re.MULTILINE
)
_SHOWS_USAGE = re.compile(r"^\s*usage:", re.IGNORECASE | re.MULTILINE)
_MOST_STARTS = 64
_START = re.compile(r"^\{", re.MULTILINE)
# A string, passed over (one that is never closed ends with its line, so that no text takes long), or a word that C
# prints for something that is not a number.
_WORDS = re.compile(
    r'"(?:[^"\\\n]|\\[^\n]?)*(?:"|(?=\n)|\Z)'
    r"|(?<![\w.])[+-]?(?:nan|inf(?:inity)?)(?:\([^)\n]{0,40}\))?(?!\w)",
    re.IGNORECASE,
)


class Repeated(list[Any]):
    """The values of a key that an object has several times, in their order."""


@dataclass(frozen=True, kw_only=True)
class Iperf3Output:
    """What was found. ``report`` is None where no complete one was printed; ``around`` is the text around it, one
    line; ``usage`` what the program said of options that it does not take."""

    report: dict[str, Any] | None
    around: str | None = None
    usage: str | None = None


def find_report(text: str) -> Iperf3Output:
    """The first complete report of a text. Never raises."""
    readable = _WORDS.sub(lambda word: word[0] if word[0].startswith('"') else "NaN", text)
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    for start in _starts(readable):
        try:
            found, end = decoder.raw_decode(readable, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and _is_report(found):
            return Iperf3Output(report=found, around=_one_line(readable[:start] + " " + readable[end:]))
    usage = _USAGE.search(text)
    said = (usage[1] or usage[2]) if usage else "it printed its usage" if _SHOWS_USAGE.search(text) else None
    return Iperf3Output(report=None, around=_one_line(text), usage=None if said is None else _one_line(said))


def _starts(text: str) -> Iterator[int]:
    first = text.find("{")
    if first >= 0:
        yield first
    lines = islice(_START.finditer(text), _MOST_STARTS)
    yield from (match.start() for match in lines if match.start() != first)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key not in made:
            made[key] = value
        elif isinstance(made[key], Repeated):
            made[key].append(value)
        else:
            made[key] = Repeated([made[key], value])
    return made


def _is_report(found: dict[str, Any]) -> bool:
    """An interval has a start and an end too, which are numbers."""
    return "error" in found or isinstance(found.get("start"), dict) or isinstance(found.get("end"), dict)


def _one_line(text: str) -> str | None:
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:10_000]).split())
    return (line[:SAID] + " .." if len(line) > SAID else line) or None
