"""Triangles: tables of which each line has one cell more, or one less, than the one before.

People print one where both directions of a pair are one number. A triangle is made whole from its half, and the scan
says so. Whether its first or last cells are the diagonal is shown by zeros or missing cells there.
"""

from __future__ import annotations

from collections.abc import Sequence

from netprobe.formats.matrix.cells import cell, is_name
from netprobe.formats.matrix.numbers import Row

NOTE = "half of the table is empty: each reading counts for both directions of its pair"


def whole(rows: Sequence[Row]) -> list[Row] | None:
    """The square table of a ragged triangle, names left and above where it has names; None for anything else."""
    if len(rows) < 2:
        return None
    head, body = _without_head(rows)
    named = all(cells and is_name(cells[0]) for _, cells in body)
    numbers = [(number, cells[1:] if named else list(cells)) for number, cells in body]
    labels = [cells[0] for _, cells in body] if named else None
    for lower in (True, False):
        half = _half(numbers, lower)
        if half is not None and (made := _square(half, labels, head, lower)) is not None:
            return made
    return None


def _without_head(rows: Sequence[Row]) -> tuple[list[str] | None, Sequence[Row]]:
    first = rows[0][1]
    names = first[1:] if first and first[0] == "" else list(first)
    if len(names) >= 2 and all(map(is_name, names)):
        return names, rows[1:]
    return None, rows


def _half(rows: Sequence[Row], lower: bool) -> list[Row] | None:
    """Rows of 0, 1, .. N - 1 readings, those of the lower half; None where the lengths are not those of a triangle."""
    rows = rows if lower else [(number, cells[::-1]) for number, cells in reversed(rows)]
    lengths = [len(cells) for _, cells in rows]
    if lengths not in (list(range(len(rows))), list(range(1, len(rows) + 1))):
        return None
    if lengths[0] == 0:
        return list(rows)
    if all(_is_nothing(cells[-1]) for _, cells in rows):  # the diagonal
        return [(number, cells[:-1]) for number, cells in rows]
    # The line of the first host, which has no reading, is left out.
    return [(rows[0][0], []), *rows]


def _is_nothing(text: str) -> bool:
    value = cell(text)
    return value is not None and (value == 0 or value != value)


def _square(
    half: list[Row], labels: list[str] | None, head: list[str] | None, lower: bool
) -> list[Row] | None:
    """The whole, in the order of the file; None where the names do not fit."""
    size = len(half)
    names = _names(size, labels, head, lower)
    if names is None and (labels is not None or head is not None):
        return None
    cells = [["" for _ in range(size)] for _ in range(size)]
    for i, (_, readings) in enumerate(half):
        for j, text in enumerate(readings):
            cells[i][j] = cells[j][i] = text
    order = list(range(size)) if lower else list(range(size))[::-1]  # that of the file
    rows = [(half[i][0], [cells[i][j] for j in order]) for i in order]
    if names is None:
        return rows
    names = [names[i] for i in order]
    return [(rows[0][0], ["host", *names]), *((number, [name, *c]) for name, (number, c) in zip(names, rows))]


def _names(size: int, labels: list[str] | None, head: list[str] | None, lower: bool) -> list[str] | None:
    """Of all hosts in the order of the half; None where neither side has them all, or the sides differ."""
    left = labels if lower or labels is None else labels[::-1]
    above = head if lower or head is None else head[::-1]
    if left is not None and len(left) == size:
        inner = above is None or above == left or above in (left[:-1], left[1:])
        return left if inner else None
    if above is not None and len(above) == size and (left is None or left == above[1:]):
        return above
    if left is not None and above is not None and len(left) == len(above) == size - 1:
        # A head that leaves the last host out, over lines that leave the first one out.
        return [above[0], *left] if above[1:] == left[:-1] else None
    return None
