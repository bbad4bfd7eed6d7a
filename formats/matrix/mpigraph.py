"""The output of mpiGraph: a table of send bandwidths and one of receive bandwidths, in the midst of other lines.

Source: mpiGraph 1.5. Each table has a line of ``HOST:RANK`` and then a line for each rank, ``HOST:RANK to`` or
``HOST:RANK from``, separated by tabs. Numbers are MiB/s: bytes over 1024 x 1024, not what the manual says; 0
is not a reading. Goodput is the receiver's: the receive table is used where there is one, transposed so
that rows are sources, and the send table otherwise.

Launchers can mark each line with the rank that said it: ``0: `` (``srun --label``), ``[1,0]<stdout>:`` (``mpirun
--tag-output``, with a time in front by ``--timestamp-output``), ``[0] `` (``mpiexec -prepend-rank``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from netprobe.core.errors import InputError
from netprobe.core.hosts import text_lines
from netprobe.core.text import one_line
from netprobe.formats.matrix.cells import cell
from netprobe.formats.matrix.foreign_matrix import MAX_MATRIX_HOSTS, ForeignMatrix, of_matrix

_RANK = re.compile(r"(\S+):(\d{1,7})")
_HEAD = re.compile(r"(Send|Recv)\t(?=\S+:\d)")
# No line of mpiGraph's own begins like this: its words hold no bracket, and its colons no space behind them.
_MARK = re.compile(r" {0,8}\d{1,7}: |[^\t\[<]{0,40}\[[^\]\t]{1,80}\]<std(?:out|err)>: ?|\[\d{1,7}\] ")


def looks_like_mpigraph(text: str) -> bool:
    """Whether a text has the first line of a run, or that of a table."""
    return any(line.startswith("START mpiGraph") or _HEAD.match(line) for line in _lines(text))


def read_mpigraph(text: str, *, zeros: str) -> ForeignMatrix:
    """The receive table, or the send table of an output that has no other. Raises InputError."""
    lines = _lines(text)
    heads = {match[1]: number for number, line in enumerate(lines) if (match := _HEAD.match(line))}
    if not heads:
        raise InputError("has no table of mpiGraph: did the run end?")
    kind = "Recv" if "Recv" in heads else "Send"
    ranks = _ranks(lines[heads[kind]].split("\t")[1:])
    rows = list(_rows(lines[heads[kind] + 1 :], ranks, "from" if kind == "Recv" else "to"))
    if len(rows) < len(ranks):
        raise InputError(f"its {kind} table has {len(rows)} of {len(ranks)} rows: is it truncated?")
    matrix = np.array(rows)
    names = [host for host, _ in ranks]
    return of_matrix(
        matrix.T if kind == "Recv" else matrix,
        names,
        zeros=zeros,
        unit="MiB/s",
        parameters={"table": kind},
    )


def _lines(text: str) -> list[str]:
    """The lines of a text without a launcher's marks."""
    return [
        _MARK.sub("", line, count=1) if _MARK.match(line) else line
        for line in text_lines(text.lstrip("\ufeff"))
    ]


def _ranks(cells: Sequence[str]) -> list[tuple[str, int]]:
    """Host and rank of each column. Raises InputError for ranks that share a host."""
    ranks = []
    for text in cells:
        if not text.strip():
            continue
        match = _RANK.fullmatch(text.strip())
        if match is None:
            raise InputError(f"{one_line(text, 60)!r} in the head of a table is not HOST:RANK")
        ranks.append((match[1], int(match[2])))
    if len(ranks) > MAX_MATRIX_HOSTS:
        raise InputError(f"is a table of {len(ranks)} ranks: at most {MAX_MATRIX_HOSTS} are read")
    hosts = [host for host, _ in ranks]
    if len(set(hosts)) < len(hosts):
        twice = next(host for host in hosts if hosts.count(host) > 1)
        raise InputError(
            f"host {one_line(twice, 60)!r} has several ranks: run mpiGraph with one rank per host"
        )
    return ranks


def _rows(lines: Sequence[str], ranks: Sequence[tuple[str, int]], word: str) -> Iterator[list[float]]:
    """The numbers of each row, in the order of the ranks; lines of other programs in between are passed over."""
    left = iter(ranks)
    due = next(left, None)
    for line in lines:
        if due is None or _HEAD.match(line):
            return
        head, *cells = line.rstrip("\t\r ").split("\t")
        if head.strip() != f"{due[0]}:{due[1]} {word}":
            continue
        values = [cell(text) for text in cells]
        if len(values) != len(ranks):
            raise InputError(f"the row of {one_line(due[0], 60)!r} has {len(values)} of {len(ranks)} numbers")
        if None in values:
            text = cells[values.index(None)]
            raise InputError(f"{one_line(text, 40)!r} in the row of {one_line(due[0], 60)!r} is not a number")
        yield [value for value in values if value is not None]
        due = next(left, None)
