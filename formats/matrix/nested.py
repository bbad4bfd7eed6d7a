"""JSON that holds a matrix: objects in objects by source and destination, rows next to a list of names, or records.

The one part of a document that can be a matrix is taken, wherever it is. Several are refused until ``--column``
names the key of one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from netprobe.core.errors import InputError
from netprobe.core.text import one_line
from netprobe.formats.matrix.long import header_places
from netprobe.formats.matrix.numbers import Row

_DEEPEST = 6
_OURS = "netprobe."


def json_rows(text: str, column: str | None) -> tuple[str, list[Row]]:
    """``table`` with the rows of a square table, or ``long`` with those of a long form. Raises InputError.

    column: the key of the matrix where there are several, or that of the value where each pair has an object.
    """
    try:
        data = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        raise InputError("is not valid JSON: is it truncated?") from None
    if isinstance(data, dict) and str(data.get("schema", "")).startswith(_OURS):
        raise InputError("is a document of netprobe, and needs no import")
    records = _records(data)
    if records is not None:
        return "long", records
    found = dict(_matrices(data, "", column))
    if column is not None:
        found = {place: rows for place, rows in found.items() if place.endswith("/" + column)} or found
    if not found:
        raise InputError(
            "is JSON without a matrix: objects by source and destination, rows of numbers, or records with src and dst "
            "are read"
        )
    if len(found) > 1:
        keys = ", ".join(sorted({place.rpartition("/")[2] for place in found})[:8])
        raise InputError(f"holds {len(found)} matrices: say with --column which ({one_line(keys, 200)})")
    return "table", next(iter(found.values()))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"has the key {one_line(twice, 60)!r} twice in one object")
    return made


def _records(data: Any) -> list[Row] | None:
    """The only list of objects that have a source and a destination, as lines below a head."""
    if isinstance(data, dict):
        lists = [value for value in data.values() if isinstance(value, list) and _records(value) is not None]
        return _records(lists[0]) if len(lists) == 1 else None
    if not isinstance(data, list) or not data or not all(isinstance(entry, dict) for entry in data):
        return None
    head = list(data[0])
    if header_places(head) is None:
        return None
    rows: list[Row] = [(0, head)]
    for number, entry in enumerate(data, start=1):
        if set(entry) != set(head):
            raise InputError(
                f"entry {number} has other keys than the first: {one_line(', '.join(entry), 100)}"
            )
        rows.append((number, [_text(entry[key], number) for key in head]))
    return rows


def _matrices(data: Any, place: str, column: str | None, depth: int = 0) -> Iterator[tuple[str, list[Row]]]:
    """Each part of a document that can be a matrix, with its place."""
    if depth > _DEEPEST:
        return
    if isinstance(data, list):
        if _is_rows(data):
            yield place, [(i, [_text(v, i) for v in row]) for i, row in enumerate(data, start=1)]
    elif isinstance(data, dict) and data:
        if _is_nest(data):
            rows = _of_nest(data, column)
            if rows is not None:
                yield place, rows
                return
        for key, value in data.items():
            for where, rows in _matrices(value, f"{place}/{key}", column, depth + 1):
                names = _names_for(data, len(rows)) if isinstance(value, list) else None
                if names is not None:
                    rows = [(0, ["host", *names]), *((n, [names[n - 1], *c]) for n, c in rows)]
                yield where, rows


def _is_rows(data: Sequence[Any]) -> bool:
    return len(data) >= 2 and all(isinstance(row, list) and len(row) == len(data) for row in data)


def _names_for(data: dict[str, Any], size: int) -> list[str] | None:
    """The only list of as many different words next to a matrix."""
    lists = [
        value
        for value in data.values()
        if isinstance(value, list) and len(value) == size and all(isinstance(v, str) for v in value)
    ]
    return list(lists[0]) if len(lists) == 1 else None


def _is_nest(data: dict[str, Any]) -> bool:
    """Whether objects in an object can be rows: each names hosts of the others."""
    if not all(isinstance(row, dict) for row in data.values()):
        return False
    inner = {key for row in data.values() for key in row}
    return bool(inner) and len(inner | set(data)) >= 2 and (inner <= set(data) or set(data) <= inner)


def _of_nest(data: dict[str, Any], column: str | None) -> list[Row] | None:
    names = list(dict.fromkeys([*data, *(key for row in data.values() for key in row)]))
    leaves = [value for row in data.values() for value in row.values()]
    objects = [value for value in leaves if isinstance(value, dict)]
    if objects:
        keys = sorted(
            {key for leaf in objects for key, value in leaf.items() if not isinstance(value, (dict, list))}
        )
        key = column if column in keys else keys[0] if len(keys) == 1 else None
        if key is None:
            raise InputError(
                f"say with --column which key holds the value: {one_line(', '.join(keys), 200) or 'none'}"
            )
        pick = {(src, dst): leaf.get(key) if isinstance(leaf, dict) else leaf
                for src, row in data.items() for dst, leaf in row.items()}  # fmt: skip
    else:
        pick = {(src, dst): leaf for src, row in data.items() for dst, leaf in row.items()}
    if any(isinstance(value, (dict, list)) for value in pick.values()):
        return None
    body = [(i, [_text(pick.get((src, dst)), i) for dst in names]) for i, src in enumerate(names, start=1)]
    return [(0, ["host", *names]), *((i, [names[i - 1], *cells]) for i, cells in body)]


def _text(value: Any, number: int) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(
            f"row {number}: {one_line(repr(value), 40)} is not a number (null for a missing one)"
        )
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return repr(value)[:400]
