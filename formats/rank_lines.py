"""What ranks said of where they run (`rank_program`), found among whatever else a launcher prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from netprobe.core.errors import InputError
from netprobe.core.naming import name_fault
from netprobe.formats.rank_program import MARK
from netprobe.formats.ranks import MAX_RANKS

MAX_LOG_BYTES = 64 * 1024 * 1024
_MAX_LINE = 8192
_MAX_WORDS = 256
_LAUNCHER = re.compile(r"[a-z]{1,20}")
_NUMBER = re.compile(r"[0-9]{1,7}")


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
    """Every rank's line of a text, whatever stands before, behind and between them.

    A line may have a launcher's tag in front, and several may run into one. Raises InputError for more lines than
    a job can have ranks.
    """
    lines: list[RankLine] = []
    torn: list[int] = []
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
    if len(words) < 7 or words[4] != "names" or "addresses" not in words or "end" not in words:
        return None
    at, end = words.index("addresses"), words.index("end")
    numbers = [int(word) if _NUMBER.fullmatch(word) else None for word in words[1:4]]
    known = all(n is not None or word == "none" for n, word in zip(numbers, words[1:4]))
    names, addresses = words[5:at], words[at + 1 : end]
    if not (_LAUNCHER.fullmatch(words[0]) and known and 5 <= at < end) or any(
        map(name_fault, names + addresses)
    ):
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
