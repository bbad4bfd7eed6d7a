"""The cells of a table as numbers of one unit. What a comma means follows from the file as a whole, or is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.core.text import one_line
from netprobe.core.units import Unit
from netprobe.formats.matrix.cells import COMMA, MISSING_READINGS, POINT, Written, cell, written

DECIMALS = {"point": POINT, "comma": COMMA}
Row = tuple[int, list[str]]
"""The number of a line, and its cells."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """values: as many rows and columns as there were cells, NaN where missing. unit: what the cells themselves say,
    None where they say none. notes: what a reader should know."""

    values: FloatMatrix
    unit: str | None
    notes: tuple[str, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Odd:
    """A number that is more than digits and a point, and its place."""

    row: int
    column: int
    line: int
    text: str
    number: Written


def numbers(rows: Sequence[Row], *, decimal: str | None = None, where: str = "line") -> Numbers:
    """Rows of the same length as numbers.

    decimal: one of DECIMALS, for files that do not show it. where: what the numbers of the rows count. Raises
    InputError naming the row of the first cell that is not a number, could be two, or has no unit
    where others have one.
    """
    values = [[_plain(text) for text in cells] for _, cells in rows]
    odd = list(_odd(rows, values, where))
    commas = decimal == "comma" or any(COMMA in o.number.digits for o in odd)
    if commas:  # a point may then be a mark of thousands
        odd += [
            _Odd(row=i, column=j, line=number, text=text, number=found)
            for i, (number, cells) in enumerate(rows)
            for j, text in enumerate(cells)
            if values[i][j] is not None and POINT in text and (found := written(text)) is not None
        ]
    notes = _put(values, odd, None if decimal is None else DECIMALS[decimal], commas, where)
    array = np.array([[math.nan if v is None else v for v in row] for row in values], dtype=np.float64)
    units = {o.number.unit.name: o.number.unit for o in odd if o.number.unit is not None}
    if not units:
        return Numbers(values=array, unit=None, notes=notes)
    return _with_units(rows, array, odd, units, notes, where)


def _plain(text: str) -> float | None:
    value = cell(text)
    return math.nan if value is None and text.strip().lower() in MISSING_READINGS else value


def _odd(rows: Sequence[Row], values: Sequence[Sequence[float | None]], where: str) -> Iterator[_Odd]:
    for i, row in enumerate(values):
        if None not in row:
            continue
        number, cells = rows[i]
        for j, value in enumerate(row):
            if value is None:
                found = written(cells[j])
                if found is None:
                    _refuse(where, number, cells[j], "is not a number (nan for a missing one)")
                yield _Odd(row=i, column=j, line=number, text=cells[j], number=found)


def _put(
    values: list[list[float | None]], odd: Sequence[_Odd], decimal: str | None, commas: bool, where: str
) -> tuple[str, ...]:
    """Put the odd numbers into ``values``; a note where the rest of the file decided."""
    shown = {o.number.decimal for o in odd} - {None}
    guided: list[_Odd] = []
    for o in odd:
        mark = decimal or o.number.decimal or POINT
        if o.number.either and decimal is None and commas:
            if len(shown) != 1:
                _refuse(
                    where,
                    o.line,
                    o.text,
                    "may have decimals or thousands: give --decimal comma, or --decimal point",
                )
            (decimal_mark,) = shown
            mark = decimal_mark or POINT
            guided.append(o)
        value = o.number.value(mark)
        if value is None:
            word = "comma" if mark == COMMA else "point"
            _refuse(where, o.line, o.text, f"is not a number with a decimal {word}")
        values[o.row][o.column] = value
    if not guided:
        return ()
    first = guided[0]
    value, word = values[first.row][first.column], "comma" if shown == {COMMA} else "point"
    return (
        f"{where} {first.line}: {one_line(first.text, 40)!r} is read as {value:.10g}, as other numbers of "
        f"the file have a decimal {word} (--decimal says otherwise)",
    )


def _with_units(
    rows: Sequence[Row],
    array: FloatMatrix,
    odd: Sequence[_Odd],
    units: dict[str, Unit],
    notes: tuple[str, ...],
    where: str,
) -> Numbers:
    """The numbers in one unit: that of all cells, or the base unit where they differ."""
    if len({unit.quantity for unit in units.values()}) > 1:
        raise InputError(f"has latencies and bandwidths in one table: {', '.join(sorted(units))}")
    factors = np.full(array.shape, np.nan)
    single = next(iter(units.values())) if len(units) == 1 else None
    for o in odd:
        if o.number.unit is not None:
            factors[o.row, o.column] = 1.0 if single else o.number.unit.factor
    bare = np.argwhere(np.isnan(factors) & ~np.isnan(array) & (array != 0))
    if len(bare):
        i, j = bare[0]
        _refuse(where, rows[i][0], rows[i][1][j], "has no unit, and other cells have one: write it to each")
    base = "s" if next(iter(units.values())).quantity == "rtt" else "B/s"
    return Numbers(
        values=np.where(np.isnan(factors), array, array * factors),
        unit=base if single is None else single.name,
        notes=notes,
        parameters={"units_in_cells": sorted(units)},
    )


def _refuse(where: str, number: int, text: str, fault: str) -> NoReturn:
    raise InputError(f"{where} {number}: {one_line(text, 40)!r} {fault}")
