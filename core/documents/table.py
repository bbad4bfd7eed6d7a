"""Tables of whole numbers in documents: rows inline, or an array in the side file where they are many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, SerializationInfo, ValidationInfo, WithJsonSchema

from netprobe.core.documents.matrix import load_array, put_beside, rows_schema, set_aside

IntTable = NDArray[np.int64]
INLINE_ROWS = 4096
MOST_ROWS = 1 << 23
MOST_COLUMNS = 16
MOST_CELLS = 1 << 25
"""Of all tables of a document in its side file: more than twice those of the largest schedule that can be proved."""
_READ = "table_cells"
LARGEST = 1 << 53
"""Whole numbers that every reader of JSON keeps."""


def _validate(value: Any, info: ValidationInfo) -> IntTable:
    if isinstance(value, dict):
        context = info.context or {}
        if "folder" not in context:
            raise ValueError("table is in a side file, and no folder was given to find it in")
        _count(value.get("shape"), context)
        loaded = load_array(context["folder"], value)
        if loaded.dtype.kind not in "iu":
            raise ValueError("table in the side file is not one of whole numbers")
        if loaded.size and int(loaded.max()) > LARGEST:
            raise ValueError(f"table has a number beyond {LARGEST}")  # 64 bits with a sign may not hold it
        array = loaded.astype(np.int64)
    elif isinstance(value, np.ndarray):
        array = value.astype(np.int64)
    else:
        array = _from_rows(value)
    if array.ndim != 2 or len(array) > MOST_ROWS or array.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"table of shape {array.shape}: at most {MOST_ROWS} rows of {MOST_COLUMNS} are allowed"
        )
    if array.size and (array.max() > LARGEST or array.min() < -LARGEST):
        raise ValueError(f"table has a number beyond {LARGEST}")
    array.flags.writeable = False
    return array


def _count(shape: object, context: dict[str, Any]) -> None:
    """Refuse a table in a side file before it is unpacked where it, or all of a document together, are too large.

    A few kilobytes unpack to gigabytes, and each of many tables may be the same array again.
    """
    if not (
        isinstance(shape, list) and len(shape) == 2 and {int}.issuperset(map(type, shape)) and min(shape) >= 0
    ):
        raise ValueError(f"table in a side file of shape {repr(shape)[:60]}: rows and columns are needed")
    rows, columns = shape
    context[_READ] = context.get(_READ, 0) + rows * columns
    if rows > MOST_ROWS or columns > MOST_COLUMNS or context[_READ] > MOST_CELLS:
        raise ValueError(
            f"table of shape {repr(shape)[:60]}: at most {MOST_ROWS} rows of {MOST_COLUMNS}, and {MOST_CELLS} cells "
            "of all tables together are allowed"
        )


def _from_rows(value: Any) -> IntTable:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MOST_ROWS:
        raise ValueError("table must be rows of whole numbers")
    width = len(value[0]) if value and isinstance(value[0], Sequence) else 0
    for row in value:
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != width or width > MOST_COLUMNS:
            raise ValueError("table must be rows of whole numbers, as many in each")
        if not {int}.issuperset(map(type, row)) or any(abs(cell) > LARGEST for cell in row):
            raise ValueError(
                f"table row {repr(row)[:60]} has a cell that is not a whole number, or too large"
            )
    return np.array([list(row) for row in value], dtype=np.int64).reshape(len(value), width)


def _serialize(array: IntTable, info: SerializationInfo) -> Any:
    side = (info.context or {}).get("side")
    if len(array) <= INLINE_ROWS or side is None:
        return set_aside(info, array.tolist())
    small = array.astype(np.int32) if not array.size or abs(array).max() < 1 << 31 else array
    return put_beside(side, small)


_SCHEMA = rows_schema("rows of whole numbers; many rows are an array in the side file", {"type": "integer"})

Table = Annotated[IntTable, PlainValidator(_validate), PlainSerializer(_serialize), WithJsonSchema(_SCHEMA)]
"""A field of a document: a read-only (R, C) int64 array in memory."""
