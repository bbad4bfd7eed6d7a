"""The long form: a line a reading, with source, destination and value; CSV or white space, header or not.

Readings of one link are pooled. A pair whose other direction is not there has one direction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netprobe.core.errors import InputError
from netprobe.core.text import one_line
from netprobe.formats.matrix.cells import cell
from netprobe.formats.matrix.foreign_matrix import ForeignMatrix, of_links
from netprobe.formats.matrix.table import Row, table_rows

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
    text: str, *, zeros: str, separator: str | None, column: str | None, select: Sequence[tuple[str, str]]
) -> ForeignMatrix:
    """Readings of a long form.

    column: the header's name of the value; needed where more than one column is left over. select: (column,
    value) pairs that a line must have. Raises InputError naming the line, or the columns that there are.
    """
    rows = table_rows(text, separator)
    if not rows:
        raise InputError("has no line with a reading")
    places = header_places(rows[0][1])
    if places is None:
        return _without_header(rows, zeros, column, select)
    header, rows = rows[0][1], rows[1:]
    check_widths(rows, len(header))
    value = value_column(header, column, set(places) | {column_of(header, key) for key, _ in select})
    rows = selected(rows, header, select)
    return _readings(rows, places[0], places[1], value, zeros, {"column": header[value]})


def _without_header(
    rows: Sequence[Row], zeros: str, column: str | None, select: Sequence[tuple[str, str]]
) -> ForeignMatrix:
    if column is not None or select:
        raise InputError(
            f"has no header that names a source ({', '.join(SOURCES[:3])}) and a destination "
            f"({', '.join(DESTINATIONS[:3])}): --column and --select need one"
        )
    check_widths(rows, 3)
    return _readings(rows, 0, 1, 2, zeros, {})


def check_widths(rows: Sequence[Row], width: int) -> None:
    """Raise InputError for a line of another number of cells."""
    for number, cells in rows:
        if len(cells) != width:
            raise InputError(f"line {number}: {len(cells)} cells, and {width} are needed")


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
    """The value of a line, NaN where missing. Raises InputError naming the line."""
    value = cell(row[1][place])
    if value is None:
        text = one_line(row[1][place], 40)
        raise InputError(f"line {row[0]}: {text!r} is not a number (nan for a missing one)")
    return value


def _readings(
    rows: Sequence[Row], src: int, dst: int, value: int, zeros: str, parameters: dict[str, str]
) -> ForeignMatrix:
    index: dict[str, int] = {}
    ends = [
        (index.setdefault(cells[src], len(index)), index.setdefault(cells[dst], len(index)))
        for _, cells in rows
    ]
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    values = np.array([number_of(row, value) for row in rows])
    return of_links(list(index), pairs[:, 0], pairs[:, 1], values, zeros=zeros, parameters=parameters)
