"""Rows and columns that sum up the others (mean, max, total ..): they are not hosts.

One is left out, and that is said, where its name and its numbers both show what it is, or where its name is on one
side of the table only. Where one shows it and the other does not it is refused, for a host may be called ``max``;
``--hosts`` with that name settles it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.core.text import listed, one_line
from netprobe.formats.matrix.foreign_matrix import ForeignMatrix

_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("mean", "means", "avg", "average", "averages", "avrg"), "mean"),
    **dict.fromkeys(("median", "medians"), "median"),
    **dict.fromkeys(("min", "minimum", "mins"), "least"),
    **dict.fromkeys(("max", "maximum", "maxs"), "greatest"),
    **dict.fromkeys(("sum", "sums", "total", "totals"), "sum"),
    **dict.fromkeys(("std", "stddev", "stdev", "stdv", "standarddeviation"), "standard deviation"),
    **dict.fromkeys(("var", "variance"), "variance"),
    "count": "number",
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "mean": np.nanmean,
    "median": np.nanmedian,
    "least": np.nanmin,
    "greatest": np.nanmax,
    "sum": np.nansum,
}
_SIDE = re.compile(r"^(?:row|column|col|overall|grand)(?=.)")
_IN_BRACKETS = re.compile(r"[(\\[].*$")
_NO_LETTERS = re.compile(r"[^a-z]")
_LEAST_HOSTS = 2
_FEWEST = 4
"""Fewer numbers than this can be a mean by chance."""
_SPREAD = 10.0
"""Numbers that differ by less than this many times their rounding show nothing."""


def kind_of_summary(name: str) -> str | None:
    """``mean`` for ``Avg.`` or ``row mean (ms)``; None for a name that says no summary."""
    if any(c.isdigit() for c in name):
        return None
    bare = _NO_LETTERS.sub("", _IN_BRACKETS.sub("", name.lower()))
    return _KINDS.get(bare) or _KINDS.get(_SIDE.sub("", bare))


def without_summaries(readings: ForeignMatrix, hosts: Collection[str] | None) -> ForeignMatrix:
    """The readings without rows and columns that sum up the others; a note names each.

    hosts: names that are hosts, even those that look like summaries; any other summary's name is not a host. Raises
    InputError where that cannot be decided.
    """
    if readings.names is None and hosts is not None:
        return readings
    names = readings.names or tuple(str(i) for i in range(len(readings.values)))
    rest, note = hosts_among(readings.values, names, hosts)
    if note is None:
        return readings
    return replace(_taken(readings, rest), notes=(*readings.notes, note))


def hosts_among(
    values: FloatMatrix, names: Sequence[str], hosts: Collection[str] | None
) -> tuple[list[int], str | None]:
    """The places of the hosts, and a sentence on what is left out; None where nothing is.

    values: (N, N), the diagonal NaN. Raises InputError where that cannot be decided.
    """
    known = frozenset(hosts or ())
    kinds = {i: kind for i, name in enumerate(names) if name not in known and (kind := kind_of_summary(name))}
    rest = [i for i in range(len(names)) if i not in kinds]
    if not kinds or len(rest) < _LEAST_HOSTS:
        if not known:
            _refuse_hidden(values, names)
        return list(range(len(names))), None
    for i, kind in kinds.items():
        if hosts is None and not _is_summary(values, i, rest, kind):
            raise InputError(
                f"{one_line(names[i], 60)!r} may be a host, or the {kind} of the others, which its numbers are "
                "not: remove its row and column, or give the hosts, it among them, with --hosts"
            )
    shown = listed([one_line(names[i], 60) for i in kinds])
    return (
        rest,
        f"left out {shown}: {'it sums' if len(kinds) == 1 else 'they sum'} up the other rows and columns",
    )


def check_side(name: str, numbers: NDArray[np.float64], values: FloatMatrix, *, by_row: bool) -> None:
    """Refuse a row or column, on one side of a table only, whose numbers are not what its name says.

    numbers: (N,) what it holds for each host. values: (N, N). by_row: whether it sums up the rows (a column does).
    """
    kind = kind_of_summary(name) or "mean"
    if not _agrees(numbers, values if by_row else values.T, kind):
        raise InputError(
            f"{one_line(name, 60)!r} is on one side of the table only, and its numbers are not the {kind} of the "
            "others: remove it"
        )


def _is_summary(values: FloatMatrix, place: int, rest: Sequence[int], kind: str) -> bool:
    inner = values[np.ix_(rest, rest)]
    sides = [(values[rest, place], inner), (values[place, rest], inner.T)]
    there = [(numbers, rows) for numbers, rows in sides if not np.isnan(numbers).all()]
    return bool(there) and all(_agrees(numbers, rows, kind) for numbers, rows in there)


def _agrees(numbers: NDArray[np.float64], rows: FloatMatrix, kind: str) -> bool:
    """Whether each number is that statistic of its row: without the diagonal, or with a zero on it."""
    there = ~np.isnan(numbers)
    step = _step(numbers[there]) + _step(rows[~np.isnan(rows)])
    with_zeros = rows.copy()
    np.fill_diagonal(with_zeros, 0.0)
    for matrix in (rows, with_zeros):
        for found in _statistics(matrix[there], kind):
            near = np.abs(found - numbers[there]) <= step * (
                len(rows) if kind == "sum" else 1.0
            ) + 1e-9 * np.abs(found)
            if near.all():
                return True
    return False


def _statistics(rows: NDArray[np.float64], kind: str) -> list[NDArray[np.float64]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows without any number
        if kind in ("standard deviation", "variance"):
            power = 1 if kind == "variance" else 0.5
            return [np.nanvar(rows, axis=1, ddof=ddof) ** power for ddof in (0, 1)]
        if kind == "number":
            return [np.sum(~np.isnan(rows), axis=1).astype(float)]
        return [np.asarray(_FUNCTIONS[kind](rows, axis=1))]


def _step(numbers: NDArray[np.float64]) -> float:
    """The last decimal place that any of these has: how exact they can be."""
    if not numbers.size:
        return 0.0
    for digits in range(10):
        if np.allclose(numbers, np.round(numbers, digits), rtol=1e-12, atol=1e-12):
            return float(10.0**-digits)
    return 1e-10


def _refuse_hidden(values: FloatMatrix, names: Sequence[str]) -> None:
    """Refuse a row and column of any name that hold the mean, or the sum, of all others."""
    size = len(values)
    known = values[~np.isnan(values)]
    if size <= _FEWEST or not known.size:
        return
    step = 2 * _step(known)
    if float(np.std(known)) < _SPREAD * step:
        return
    found = _sums_up(values, step) & _sums_up(values.T, step)
    places = np.flatnonzero(found.any(axis=0))
    if len(places):
        name = one_line(names[places[0]], 60)
        raise InputError(
            f"row and column {name!r} are the mean, or the sum, of all others: remove them, or give the hosts with "
            "--hosts if it is one"
        )


def _sums_up(rows: FloatMatrix, step: float) -> NDArray[np.bool_]:
    """(3, N) whether a column is the mean, the mean with a zero on the diagonal, or the sum of its rows without it."""
    total, count = np.nansum(rows, axis=1), np.sum(~np.isnan(rows), axis=1)
    others = total[:, None] - np.nan_to_num(rows)  # row i without the cell that column k has there
    number = np.maximum(count[:, None] - ~np.isnan(rows), 1)
    missing = np.isnan(rows)
    enough = (~missing).sum(axis=0) >= _FEWEST
    return np.stack(
        [
            ((np.abs(expected - rows) <= slack) | missing).all(axis=0) & enough
            for expected, slack in (
                (others / number, step),
                (others / (number + 1), step),
                (others, step * len(rows)),
            )
        ]
    )


def _taken(readings: ForeignMatrix, rest: Sequence[int]) -> ForeignMatrix:
    made: dict[int, FloatMatrix] = {}
    for matrix in readings.statistics.values():
        if id(matrix) not in made:
            made[id(matrix)] = np.ascontiguousarray(matrix[np.ix_(rest, rest)])
    return replace(
        readings,
        names=None if readings.names is None else tuple(readings.names[i] for i in rest),
        statistics={key: made[id(matrix)] for key, matrix in readings.statistics.items()},
    )
