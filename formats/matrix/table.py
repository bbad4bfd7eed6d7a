"""A square table of numbers, with or without names: CSV, or columns separated by white space.

Rows are the sources. Names may be in the first row, in the first column, or in both, and then in any order;
the corner cell does not matter. Names that are numbers are distinguished from readings by the shape of the
table alone, and refused where the shape is ambiguous.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.core.hosts import text_lines
from netprobe.core.text import listed, one_line
from netprobe.formats.matrix import triangle
from netprobe.formats.matrix.cells import is_name, unit_of, written
from netprobe.formats.matrix.foreign_matrix import MAX_MATRIX_HOSTS, ForeignMatrix, of_matrix
from netprobe.formats.matrix.numbers import Row, numbers
from netprobe.formats.matrix.summaries import check_side, hosts_among, kind_of_summary

_BLANKS = re.compile(r"[ \t\f\v]+")
_WIDE = re.compile(r"\t| {2,}")


@dataclass(frozen=True, kw_only=True)
class _Split:
    columns: list[str] | None
    rows: list[str] | None
    body: list[Row]


@dataclass(frozen=True, kw_only=True)
class _Side:
    """A row or a column that only one side of a table names."""

    name: str
    cells: list[str]
    line: int
    by_row: bool


def read_table(
    text: str,
    *,
    zeros: str,
    separator: str | None,
    decimal: str | None = None,
    hosts: Sequence[str] | None = None,
) -> ForeignMatrix:
    """The matrix of a table. ``separator`` is None for white space. Raises InputError naming the line."""
    faults: list[InputError] = []
    for rows in _readings(text, separator):
        try:
            return of_rows(rows, zeros=zeros, decimal=decimal, hosts=hosts)
        except InputError as error:
            faults.append(error)
    raise faults[0]


def _readings(text: str, separator: str | None) -> Iterator[list[Row]]:
    """The rows as the first line suggests, and then by every other mark in the text.

    A decimal comma must not be taken for what separates cells, nor a blank in a name.
    """
    yield table_rows(text, separator)
    for other in (";", "\t", ","):
        if other != separator and other in text:
            with contextlib.suppress(InputError):
                yield table_rows(text, other)
    if separator is not None:
        yield table_rows(text, None)
    yield [(number, _WIDE.split(line.strip(" "))) for number, line in _lines(text)]


def of_rows(
    rows: list[Row],
    *,
    zeros: str,
    decimal: str | None = None,
    where: str = "line",
    hosts: Sequence[str] | None = None,
) -> ForeignMatrix:
    """The matrix of rows of cells. ``where`` is what their numbers count.

    hosts: the names that are hosts, even those that look like summaries. Raises InputError naming a row.
    """
    if rows and all(cells[-1:] == [""] for _, cells in rows) and _split(rows) is None:
        rows = [(number, cells[:-1]) for number, cells in rows]  # a separator that ends each line
    rows, sides = _without_sides(rows)
    split = _split(rows)
    made = None if split is not None else triangle.whole(rows)
    if made is not None:
        split = _split(made)
    if split is None:
        raise InputError(_not_square(rows, where))
    names, order = _names(split)
    read = numbers([*split.body, *((side.line, side.cells) for side in sides)], decimal=decimal, where=where)
    values = read.values[: len(split.body)]
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not len(values):
        return of_matrix(values, names, zeros=zeros)  # which says what is wrong
    values = values.copy() if order is None else values[:, order]
    np.fill_diagonal(values, np.nan)
    notes = [*read.notes, *_checked(sides, read.values[len(split.body) :], values, order)]
    if names is not None or hosts is None:
        rest, note = hosts_among(values, names or [str(i) for i in range(len(values))], hosts)
        values = values[np.ix_(rest, rest)]
        names = None if names is None else [names[i] for i in rest]
        notes += [] if note is None else [note]
    mirrored = made is not None or _is_half(values)
    if mirrored:
        values = np.where(np.isnan(values), values.T, values)
        notes.append(triangle.NOTE)
    return of_matrix(
        values,
        names,
        zeros=zeros,
        unit=read.unit,
        notes=tuple(notes),
        parameters=read.parameters | ({"both_directions_alike": True} if mirrored else {}),
    )


def _checked(
    sides: Sequence[_Side], found: FloatMatrix, values: FloatMatrix, order: list[int] | None
) -> list[str]:
    """A sentence on what is named on one side only and left out. Raises InputError where it is not a summary."""
    for side, row in zip(sides, found):
        cells = row if side.by_row or order is None else row[order]
        check_side(side.name, cells, values, by_row=side.by_row)
    if not sides:
        return []
    shown = listed([one_line(side.name, 40) for side in sides])
    return [f"left out {shown}: {'it sums' if len(sides) == 1 else 'they sum'} up the table"]


def _is_half(values: FloatMatrix) -> bool:
    """Whether one half of a matrix is empty and the other is not: a triangle in a square of cells."""
    if len(values) < 3 or values.shape[0] != values.shape[1]:
        return False
    rows, columns = np.triu_indices(len(values), 1)
    above, below = np.isnan(values[rows, columns]), np.isnan(values[columns, rows])
    return bool((above.all() and not below.any()) or (below.all() and not above.any()))


def _without_sides(rows: list[Row]) -> tuple[list[Row], list[_Side]]:
    """The rows without lines and columns named as summaries on one side only, and those."""
    widths = {len(cells) for _, cells in rows[1:]}
    if len(rows) < 3 or len(widths) != 1 or len(rows[0][1]) - max(widths) not in (0, -1):
        return rows, []
    shift = max(widths) - len(rows[0][1])
    above, left = rows[0][1], [cells[0] for _, cells in rows]
    both = set(above[1 - shift :]) & set(left[1:])
    if not both:  # one side has no names at all
        return rows, []
    columns = [j for j in range(1 - shift, len(above)) if above[j] not in both and kind_of_summary(above[j])]
    lines = [i for i in range(1, len(rows)) if left[i] not in both and kind_of_summary(left[i])]
    gone_left, gone_above = set(lines), {j + shift for j in columns}
    kept = [i for i in range(1, len(rows)) if i not in gone_left]
    inner = [j for j in range(1, max(widths)) if j not in gone_above]
    sides = [
        _Side(
            name=above[j],
            cells=[rows[i][1][j + shift] for i in kept],
            line=rows[0][0],
            by_row=True,
        )
        for j in columns
    ] + [
        _Side(name=left[i], cells=[rows[i][1][j] for j in inner], line=rows[i][0], by_row=False)
        for i in lines
    ]
    head = (rows[0][0], [text for j, text in enumerate(above) if j not in set(columns)])
    taken = [(rows[i][0], [text for j, text in enumerate(rows[i][1]) if j not in gone_above]) for i in kept]
    return [head, *taken], sides


def _not_square(rows: Sequence[Row], where: str) -> str:
    """What is wrong with the shape: its size, and the first row that is shorter or longer than most."""
    lengths = Counter(len(cells) for _, cells in rows[1:] or rows)
    usual = lengths.most_common(1)[0][0] if lengths else 0
    odd = next(((n, len(c)) for n, c in rows if len(c) != usual and (n, c) != rows[0]), None)
    text = f"is not a square matrix: {len(rows)} {where}s of {usual} cells"
    if odd is not None:
        text += f", and {where} {odd[0]} of {odd[1]}"
    elif rows and len(rows[0][1]) != usual:
        text += f", below {where} {rows[0][0]} of {len(rows[0][1])}"
    return (
        f"{text} (names may be in the first {where} and the first column, with a word in the corner if they are "
        "numbers)"
    )


def _lines(text: str) -> list[tuple[int, str]]:
    return [
        (number, line)
        for number, line in enumerate(text_lines(text.removeprefix("\ufeff")), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]


def table_rows(text: str, separator: str | None) -> list[Row]:
    """Cells line by line, without comments and lines that are blank. Raises InputError for a broken CSV."""
    lines = _lines(text)
    if separator is None:
        return [(number, _words(line)) for number, line in lines]
    rows: list[Row] = []
    for number, line in lines:
        try:
            # One line at a time: a quote that is never closed must not swallow the rest of the file.
            cells = next(csv.reader([line], delimiter=separator, strict=True))
        except csv.Error as error:
            why = one_line(str(error).replace("\t", "\\t"))
            raise InputError(f"is not valid CSV in line {number}: {why}") from None
        rows.append((number, [value.strip() for value in cells]))
    return rows


def _words(line: str) -> list[str]:
    """What white space separates; a number and the unit behind it are one."""
    words: list[str] = []
    for word in _BLANKS.split(line.strip()):
        if words and word and word[0].isalpha() and unit_of(word) is not None:
            before = written(words[-1])
            if before is not None and before.unit is None:
                words[-1] += " " + word
                continue
        words.append(word)
    return words


def separator_of(text: str) -> str | None:
    """What separates the cells of the first line that has any: a comma, a semicolon, a tab, or white space (None)."""
    for line in text_lines(text.removeprefix("\ufeff")):
        if line.strip() and not line.lstrip().startswith("#"):
            return next((mark for mark in (",", ";", "\t") if mark in line), None)
    return None


def _split(rows: Sequence[Row]) -> _Split | None:
    """Names and numbers apart; None where no reading of the shape is square. Raises InputError for two of them."""
    if not rows or len(rows) > MAX_MATRIX_HOSTS + 1:
        return None
    first, rest = rows[0][1], rows[1:]
    height, width = len(rows), len(rows[-1][1])
    if any(len(cells) != width for _, cells in rest) or len(first) not in (width, width - 1):
        return None
    labels = [cells[0] for _, cells in rows]
    if len(first) == width - 1:  # a header without a corner, over rows with labels
        return _cut(rows, first, labels[1:]) if height == width else None
    if height == width:  # bare, or named above and left
        return _square(rows, first, labels)
    if height == width + 1 and _are_names(first):
        return _Split(columns=first, rows=None, body=list(rest))
    if height == width - 1 and _are_names(labels):
        return _Split(columns=None, rows=labels, body=[(n, cells[1:]) for n, cells in rows])
    return None


def _square(rows: Sequence[Row], first: list[str], labels: list[str]) -> _Split:
    above, left = first[1:], labels[1:]
    if is_name(first[0]) or (_are_words(above) and _are_words(left)) or _numbered(first, labels):
        return _cut(rows, above, left)
    if _are_words(above) and _counted(left):  # an index that nobody named
        return _Split(columns=above, rows=None, body=[(n, cells[1:]) for n, cells in rows[1:]])
    return _Split(columns=None, rows=None, body=list(rows))


def _are_words(names: Sequence[str]) -> bool:
    """Whether all of these can be names and none is a number: a stray word makes no names of its line."""
    return any(map(is_name, names)) and all(is_name(name) or name.isalpha() for name in names)


def _are_names(names: Sequence[str]) -> bool:
    """The same, or the numbers from 0 or 1 on."""
    return _are_words(names) or _counted(names)


def _cut(rows: Sequence[Row], columns: list[str], labels: list[str]) -> _Split:
    return _Split(columns=columns, rows=labels, body=[(number, cells[1:]) for number, cells in rows[1:]])


def _numbered(first: Sequence[str], labels: Sequence[str]) -> bool:
    """Whether the names under an empty corner are numbers. Raises InputError where that is ambiguous."""
    above, left = first[1:], labels[1:]
    digits = all(name.isascii() and name.isdigit() for name in above)
    if first[0] != "" or not digits or len(set(above)) < len(above) or set(above) != set(left):
        return False
    if "0" in above:  # no reading is 0
        return True
    raise InputError(
        "has an empty corner, and line and column 1 hold the same whole numbers: write 'host' into the corner "
        "if they are names, or nan if they are readings"
    )


def _counted(names: Sequence[str]) -> bool:
    """Whether these are the numbers 0 to N - 1, or 1 to N, in order."""
    start = names[0] if names else ""
    return start in ("0", "1") and list(names) == [str(int(start) + i) for i in range(len(names))]


def _names(split: _Split) -> tuple[list[str] | None, list[int] | None]:
    """Names of the hosts in the order of the rows, and the columns that put the matrix into this order."""
    names = split.rows or split.columns
    if names is None:
        return None, None
    for side in (split.rows, split.columns):
        if side is not None and len(set(side)) < len(side):
            twice = next(name for name in side if side.count(name) > 1)
            raise InputError(f"the name {one_line(twice, 60)!r} is repeated")
    if split.rows is None or split.columns is None or split.rows == split.columns:
        return names, None
    strange = set(split.columns) ^ set(split.rows)
    if strange:
        raise InputError(
            f"names its columns differently from its rows: {one_line(min(strange), 60)!r} is in one of them only"
        )
    place = {name: i for i, name in enumerate(split.columns)}
    return names, [place[name] for name in split.rows]
