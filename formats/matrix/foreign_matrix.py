"""What a reader of a foreign matrix gives: hosts and the readings of each link, checked, in the file's own unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix, empty_matrix
from netprobe.core.errors import InputError
from netprobe.core.text import one_line

MAX_MATRIX_HOSTS = 4096
QUANTILES: Mapping[str, float] = {"min": 0.0, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}
NO_UNIT: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeignMatrix:
    """Hosts and what was read between them.

    names: of the hosts, None where the file has none. statistics: the keys of QUANTILES, each an (N, N)
    matrix ``[src, dst]`` in the file's unit, NaN where missing and on the diagonal; one and the same where
    each link has one reading. most: how many readings the link with the most of them has.
    unit: what the format itself says, as ``core.units.unit_named`` takes it; None where it says none.
    parameters: what else a reader should know, ready for a document. labels, addresses: by name.
    notes: what was decided about the file, a sentence each.
    """

    names: tuple[str, ...] | None
    statistics: Mapping[str, FloatMatrix]
    most: int = 1
    unit: str | None = NO_UNIT
    parameters: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def values(self) -> FloatMatrix:
        """(N, N) the median of each link's readings."""
        return self.statistics["p50"]


def of_matrix(values: FloatMatrix, names: Sequence[str] | None, *, zeros: str, **more: Any) -> ForeignMatrix:
    """One (N, N) matrix, its diagonal left out. Raises InputError naming the first bad cell.

    ``zeros``: ``refuse`` for a zero off the diagonal, or ``missing`` to take it for a missing cell.
    """
    matrix = np.array(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"is not a square matrix: it has {' x '.join(map(str, matrix.shape))} numbers")
    if names is not None and len(names) != len(matrix):
        raise InputError(f"has {len(names)} names for {len(matrix)} rows")
    check_size(len(matrix))
    np.fill_diagonal(matrix, np.nan)
    label = names or [str(i) for i in range(len(matrix))]
    rows, columns = np.nonzero(_bad(matrix, zeros))
    if len(rows):
        refuse_value(float(matrix[rows[0], columns[0]]), label[rows[0]], label[columns[0]])
    matrix[matrix == 0] = np.nan
    return ForeignMatrix(
        names=None if names is None else tuple(names), statistics=dict.fromkeys(QUANTILES, matrix), **more
    )


def of_links(
    names: Sequence[str],
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    values: NDArray[np.float64],
    *,
    zeros: str,
    **more: Any,
) -> ForeignMatrix:
    """M readings of links; several of one link are pooled, those from a host to itself are left out.

    src, dst: (M,) indices into ``names``; values: (M,), NaN where a reading is missing.
    """
    check_size(len(names))
    between = src != dst
    src, dst, values = src[between], dst[between], values[between]
    bad = np.flatnonzero(_bad(values, zeros))
    if len(bad):
        refuse_value(float(values[bad[0]]), names[src[bad[0]]], names[dst[bad[0]]])
    there = ~np.isnan(values) & (values != 0)
    cells = (src * len(names) + dst)[there]
    order = np.lexsort((values[there], cells))
    cells, values = cells[order], values[there][order]
    links, starts, counts = np.unique(cells, return_index=True, return_counts=True)
    most = int(counts.max(initial=0))
    statistics = {}
    for key, share in QUANTILES.items():
        matrix = empty_matrix(len(names))
        # Linear between the two nearest readings, as numpy's quantile has it.
        place = starts + share * (counts - 1)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, starts + counts - 1)
        matrix.ravel()[links] = values[low] + (place - low) * (values[high] - values[low]) if most else []
        statistics[key] = matrix
    return ForeignMatrix(names=tuple(names), statistics=statistics, most=max(most, 1), **more)


def check_size(hosts: int) -> None:
    """Raise InputError for less than two hosts, or more than a matrix may have."""
    if not 2 <= hosts <= MAX_MATRIX_HOSTS:
        raise InputError(f"is a matrix of {hosts} hosts: 2 to {MAX_MATRIX_HOSTS} are read")


def refuse_value(value: float, src: str, dst: str) -> None:
    """Raise the InputError that a bad reading deserves."""
    what = f"the reading from {one_line(src, 60)!r} to {one_line(dst, 60)!r} is {value:g}"
    if value == 0:
        raise InputError(f"{what}: give --zeros missing if 0 means no reading, or fix the file")
    raise InputError(f"{what}: a finite number above 0 is needed, or nan for a missing one")


def _bad(values: NDArray[np.float64], zeros: str) -> NDArray[np.bool_]:
    bad = np.isinf(values) | (values < 0)
    return np.asarray(bad if zeros == "missing" else bad | (values == 0))
