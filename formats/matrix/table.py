"""A square table of numbers, with or without names: CSV, or columns separated by white space.

Rows are the sources. Names may be in the first row, in the first column, or in both, and then in any order;
the corner cell does not matter. Names that are numbers are distinguished from readings by the shape of the
table alone, and refused where the shape is ambiguous.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.errors import InputError
from netprobe.core.hosts import text_lines
from netprobe.core.text import one_line
from netprobe.formats.matrix.cells import cell, is_name
from netprobe.formats.matrix.foreign_matrix import MAX_MATRIX_HOSTS, ForeignMatrix, of_matrix

Row = tuple[int, list[str]]
"""The number of a line, and its cells."""


@dataclass(frozen=True, kw_only=True)
class _Split:
    columns: list[str] | None
    rows: list[str] | None
    body: list[Row]


def read_table(text: str, *, zeros: str, separator: str | None) -> ForeignMatrix:
    """The matrix of a table. ``separator`` is None for white space. Raises InputError naming the line."""
    rows = table_rows(text, separator)
    split = _split(rows)
    if split is None and rows and all(cells[-1] == "" for _, cells in rows):
        split = _split([(number, cells[:-1]) for number, cells in rows])  # a separator that ends each line
    if split is None:
        widths = sorted({len(cells) for _, cells in rows})
        raise InputError(
            f"is not a square matrix: {len(rows)} lines of {' to '.join(map(str, widths[:: max(1, len(widths) - 1)]))} "
            "cells (names may be in the first line and the first column, with a word in the corner if they are "
            "numbers)"
        )
    names, order = _names(split)
    values = np.array([_numbers(row) for row in split.body])
    return of_matrix(values if order is None else values[:, order], names, zeros=zeros)


def table_rows(text: str, separator: str | None) -> list[Row]:
    """Cells line by line, without comments and lines that are blank. Raises InputError for a broken CSV."""
    lines = [
        (number, line)
        for number, line in enumerate(text_lines(text.removeprefix("\ufeff")), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if separator is None:
        return [(number, line.split()) for number, line in lines]
    try:
        # One line at a time: a quote that is never closed must not swallow the rest of the file.
        return [
            (number, [value.strip() for value in next(csv.reader([line], delimiter=separator, strict=True))])
            for number, line in lines
        ]
    except csv.Error as error:
        raise InputError(f"is not valid CSV: {error}") from None


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


def _numbers(row: Row) -> list[float]:
    number, cells = row
    values = [cell(text) for text in cells]
    for text, value in zip(cells, values):
        if value is None:
            raise InputError(f"line {number}: {one_line(text, 40)!r} is not a number (nan for a missing one)")
    return [value for value in values if value is not None]
