"""The long form: one line per reading, with source, destination and value; CSV or white space, header or not.

Readings of one link are pooled. A pair whose other direction is not there has one direction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netprobe.core.errors import InputError
from netprobe.core.text import one_line
from netprobe.formats.matrix.foreign_matrix import ForeignMatrix, of_links
from netprobe.formats.matrix.numbers import Row, numbers

SOURCES = ("src", "source", "from", "sender", "client", "host1", "src_host", "source_host")
DESTINATIONS = (
    "dst",
    "dest",
    "destination",
    "to",
    "target",
    "receiver",
    "server",
    "host2",
    "dst_host",
    "dest_host",
)


def header_places(cells: Sequence[str]) -> tuple[int, int] | None:
    """Where a header has the source and the destination; None when it has neither."""
    lower = [text.strip().lower() for text in cells]
    src = next((i for i, text in enumerate(lower) if text in SOURCES), None)
    dst = next((i for i, text in enumerate(lower) if text in DESTINATIONS), None)
    return None if src is None or dst is None else (src, dst)


def read_long(
    rows: list[Row],
    *,
    zeros: str,
    column: str | None,
    select: Sequence[tuple[str, str]],
    decimal: str | None = None,
    where: str = "line",
) -> ForeignMatrix:
    """Readings of a long form.

    column: the header's name of the value; needed where more than one column is left over. select: (column,
    value) pairs that a line must have. Raises InputError naming the line, or the columns that there are.
    """
    if not rows:
        raise InputError("has no line with a reading")
    places = header_places(rows[0][1])
    if places is None:
        return _without_header(rows, zeros, column, select, decimal)
    header, rows = rows[0][1], rows[1:]
    check_widths(rows, len(header), where)
    value = value_column(header, column, set(places) | {column_of(header, key) for key, _ in select})
    rows = selected(rows, header, select)
    ends = (places[0], places[1])
    return _readings(rows, ends, value, zeros, {"column": header[value]}, decimal, where)


def _without_header(
    rows: Sequence[Row],
    zeros: str,
    column: str | None,
    select: Sequence[tuple[str, str]],
    decimal: str | None,
) -> ForeignMatrix:
    if column is not None or select:
        raise InputError(
            f"has no header that names a source ({', '.join(SOURCES[:3])}) and a destination "
            f"({', '.join(DESTINATIONS[:3])}): --column and --select need one"
        )
    check_widths(rows, 3)
    return _readings(rows, (0, 1), 2, zeros, {}, decimal, "line")


def check_widths(rows: Sequence[Row], width: int, where: str = "line") -> None:
    """Raise InputError for a line of another number of cells."""
    for number, cells in rows:
        if len(cells) != width:
            raise InputError(f"{where} {number}: {len(cells)} cells, and {width} are needed")


def column_of(header: Sequence[str], name: str) -> int:
    """The place of a column. Raises InputError listing those that there are."""
    if list(header).count(name) != 1:
        what = "several columns" if name in header else "no column"
        known = one_line(", ".join(header), 200)
        raise InputError(f"has {what} {one_line(name, 40)!r}: its columns are {known}")
    return list(header).index(name)


def value_column(header: Sequence[str], column: str | None, taken: set[int]) -> int:
    """The place of the value: ``column``, or the only one that is not ``taken``. Raises InputError."""
    if column is not None:
        return column_of(header, column)
    left = [i for i in range(len(header)) if i not in taken]
    if len(left) != 1:
        names = one_line(", ".join(header[i] for i in left), 200) or "none"
        raise InputError(f"say with --column which column holds the value: {names}")
    return left[0]


def selected(rows: Sequence[Row], header: Sequence[str], select: Sequence[tuple[str, str]]) -> list[Row]:
    """The lines that have each selected value. Raises InputError when none is left."""
    wanted = [(column_of(header, key), value) for key, value in select]
    left = [row for row in rows if all(row[1][place] == value for place, value in wanted)]
    if not left:
        raise InputError("no line with a reading is left" if select else "has no line with a reading")
    return left


def number_of(row: Row, place: int) -> float:
    """The value of a line without a unit, NaN where missing. Raises InputError naming the line."""
    read = numbers([(row[0], [row[1][place]])])
    if read.unit is not None:
        raise InputError(f"line {row[0]}: {one_line(row[1][place], 40)!r} has a unit of its own")
    return float(read.values[0, 0])


def _readings(
    rows: Sequence[Row],
    ends: tuple[int, int],
    value: int,
    zeros: str,
    parameters: dict[str, str],
    decimal: str | None,
    where: str,
) -> ForeignMatrix:
    index: dict[str, int] = {}
    pairs = np.array(
        [[index.setdefault(cells[end], len(index)) for end in ends] for _, cells in rows], dtype=np.int64
    ).reshape(-1, 2)
    read = numbers([(number, [cells[value]]) for number, cells in rows], decimal=decimal, where=where)
    return of_links(
        list(index),
        pairs[:, 0],
        pairs[:, 1],
        read.values.reshape(-1),
        zeros=zeros,
        unit=read.unit,
        notes=read.notes,
        parameters={**parameters, **read.parameters},
    )
