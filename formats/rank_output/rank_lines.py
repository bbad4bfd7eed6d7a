"""What ranks said of where they run (`rank_program`), found among everything else that a launcher prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from netprobe.core.errors import InputError
from netprobe.core.naming import name_fault
from netprobe.formats.hostfiles.ranks import MAX_RANKS
from netprobe.formats.rank_output.rank_program import MARK

MAX_LOG_BYTES = 64 * 1024 * 1024
_MAX_LINE = 8192
_MAX_WORDS = 256
_LAUNCHER = re.compile(r"[a-z]{1,20}")
_NUMBER = re.compile(r"[0-9]{1,7}")
_END = re.compile(r"end(?![A-Za-z0-9._:-])")
"""A tag, or a byte that separates records, may follow directly."""
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours and titles of a terminal (ECMA-48), such as grep --color and script leave in a file."""


@dataclass(frozen=True, kw_only=True)
class RankLine:
    """What one rank said; a number is None where its variable was not set. ``line`` counts from 1."""

    launcher: str
    rank: int | None
    size: int | None
    local_rank: int | None
    names: tuple[str, ...]
    addresses: tuple[str, ...]
    line: int


@dataclass(frozen=True, kw_only=True)
class RankLog:
    """The lines of a text in its order, and the numbers of lines that begin as such and cannot be read."""

    lines: tuple[RankLine, ...]
    torn: tuple[int, ...]


def read_rank_lines(text: str, *, source: str | None = None) -> RankLog:
    """Every rank's line of a text, among any other output.

    A line may have a launcher's tag in front, and several may run into one. Raises InputError for more lines than
    a job can have ranks.
    """
    lines: list[RankLine] = []
    torn: list[int] = []
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    before, *chunks = text.split(MARK)
    number = 1 + before.count("\n")
    for chunk in chunks:
        words = re.split(r"[\r\n]", chunk[:_MAX_LINE], maxsplit=1)[0].split(maxsplit=_MAX_WORDS)
        found = _line(words, number)
        if found is not None:
            lines.append(found)
        elif not any(word.startswith("$") for word in words[1:2]):  # the command itself, as `set -x` shows it
            torn.append(number)
        if len(lines) + len(torn) > MAX_RANKS:
            where = "" if source is None else f"{source}: "
            raise InputError(f"{where}more than {MAX_RANKS} lines of ranks: give the output of one job")
        number += chunk.count("\n")
    return RankLog(lines=tuple(lines), torn=tuple(torn))


def _line(words: list[str], number: int) -> RankLine | None:
    if len(words) < 7 or words[4] != "names":
        return None
    places = [place for place, word in enumerate(words) if word == "addresses" and place > 4]
    at = next(
        iter(places[1:] if places[:1] == [5] and len(places) > 1 else places), len(words)
    )  # a host's name?
    end = next((place for place in range(at + 1, len(words)) if _END.match(words[place])), None)
    if end is None:
        return None
    numbers = [int(word) if _NUMBER.fullmatch(word) else None for word in words[1:4]]
    known = all(n is not None or word == "none" for n, word in zip(numbers, words[1:4]))
    names, addresses = words[5:at], words[at + 1 : end]
    if not (_LAUNCHER.fullmatch(words[0]) and known) or any(map(name_fault, names + addresses)):
        return None
    rank, size, local_rank = numbers
    return RankLine(
        launcher=words[0],
        rank=rank,
        size=size,
        local_rank=local_rank,
        names=tuple(dict.fromkeys(names)),
        addresses=tuple(dict.fromkeys(addresses)),
        line=number,
    )
