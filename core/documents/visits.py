"""The visits of a scan, as columns: a million of them fit in memory and into a side file.

A ``VisitTable`` is a read-only sequence of ``Visit``; each is made when it is looked at. In a document the
visits are a list of records up to ``INLINE_VISITS``, and above that columns in the document's side file.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from netprobe.core.documents.document import Record, canonical_text, dump, validation_text
from netprobe.core.documents.matrix import load_array, put_beside, rounded, set_aside

INLINE_VISITS = 1 << 14
NUMBERS: dict[str, Any] = {
    "round": np.int64,
    "started_s": np.float64,
    "duration_s": np.float64,
    "src_port": np.int32,
    "dst_port": np.int32,
    "sent": np.int64,
    "received": np.int64,
    "samples": np.int64,
    "rejected": np.int64,
    "beside": np.int64,
}
_PORTS = ("src_port", "dst_port")
_TEXTS = ("measurement", "src", "dst", "method", "stamps", "reason", "rest")
_NULLABLE_TEXTS = ("stamps", "reason", "rest")
_KEYS = frozenset((*NUMBERS, *_TEXTS))
_NULL = -1


class GoodputReading(Record):
    """What one goodput test gave: payload bytes that arrived, by the receiver's count and clock."""

    bytes_per_s: float = Field(ge=0)
    bytes: int = Field(ge=0)
    duration_s: float = Field(gt=0)
    streams: int = Field(ge=1)
    retransmits: int | None = Field(default=None, ge=0)
    sender_cpu_ratio: float | None = Field(default=None, ge=0)
    """Processor seconds a second of the sending process (1 is one core)."""
    receiver_cpu_ratio: float | None = Field(default=None, ge=0)
    version: str | None = None
    """Of the program that measured."""
    congestion_control: str | None = None
    flags: list[str] = Field(default_factory=list)
    """Why the reading may not be the network's (``cpu_bound``)."""


class PathReading(Record):
    """The path of a link's packets, by TTL."""

    hops: int | None = Field(default=None, ge=1, le=255)
    """Routers on the path and the destination itself (1: neighbours); null where it did not answer."""
    addresses: list[str | None] = Field(default_factory=list)
    """What answered for each TTL from 1; null where nothing did."""
    mtu_bytes: int | None = Field(default=None, ge=68, le=65535)
    """Largest IP packet that gets there unfragmented."""


class Visit(Record):
    """One measurement of a link: ``src`` probed ``dst``.

    The concurrent visits are the others of the same ``round``; ``beside`` counts them.
    """

    measurement: str = "rtt"
    """``id`` of the measurement it belongs to."""
    src: str
    dst: str
    round: int = Field(ge=0)
    started_s: float = Field(ge=0)
    """Seconds after the scan's first round began, on the controller's monotonic clock."""
    duration_s: float = Field(ge=0)
    method: str
    src_port: int | None = Field(default=None, ge=0, le=65535)
    dst_port: int | None = Field(default=None, ge=0, le=65535)
    stamps: str | None = None
    """Stamps of its samples: kernel at both ends, kernel on receipt only, or user space; never mixed."""
    sent: int = Field(ge=0)
    received: int = Field(ge=0)
    samples: int = Field(default=0, ge=0)
    """Readings kept: received less the first to arrive, those without a full set of stamps, the rejected."""
    rejected: int = Field(default=0, ge=0)
    """Readings that cannot be (negative, say after a clock step)."""
    beside: int = Field(ge=0)
    reason: str | None = None
    goodput: GoodputReading | None = None
    path: PathReading | None = None


_RECORDS = TypeAdapter(list[Visit])


class VisitTable(Sequence[Visit]):
    """Visits as columns: numbers as arrays, texts as indices into a list of distinct texts (-1: null).

    The content of ``goodput``, ``path`` and keys of a later version is one text, their JSON.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]], texts: Sequence[str]) -> None:
        self.columns = dict(columns)
        self.texts = tuple(texts)

    @classmethod
    def of(cls, visits: Iterable[Mapping[str, Any]]) -> VisitTable:
        """From mappings with a Visit's keys that are known to be valid."""
        index: dict[str, int] = {}
        values: dict[str, list[Any]] = {key: [] for key in (*NUMBERS, *_TEXTS)}
        numbers = [(values[key].append, key, _NULL if key in _PORTS else 0) for key in NUMBERS]
        texts = [(values[key].append, key) for key in _TEXTS[:-1]]
        for visit in visits:
            for append, key, absent in numbers:
                value = visit.get(key)
                append(absent if value is None else value)
            for append, key in texts:
                text = visit.get(key, "rtt" if key == "measurement" else None)
                append(_NULL if text is None else index.setdefault(text, len(index)))
            rest = {key: visit[key] for key in visit.keys() - _KEYS if visit[key] is not None}
            text = json.dumps(rest, sort_keys=True, allow_nan=False) if rest else visit.get("rest")
            values["rest"].append(_NULL if text is None else index.setdefault(text, len(index)))
        columns: dict[str, NDArray[Any]] = {
            key: np.array(values[key], dtype=kind) for key, kind in NUMBERS.items()
        }
        columns |= {key: np.array(values[key], dtype=np.int64) for key in _TEXTS}
        return cls(columns, list(index))

    @classmethod
    def of_columns(
        cls, numbers: Mapping[str, NDArray[Any]], texts: Mapping[str, Sequence[str | None]]
    ) -> VisitTable:
        """The same from columns, a value a visit in each: the keys of ``NUMBERS``, and all that are texts."""
        first: dict[str, tuple[int, int]] = {}
        for turn, key in enumerate(_TEXTS):
            seen: dict[str | None, int] = {}
            for place, text in enumerate(texts[key]):
                if text not in seen:
                    seen[text] = place
            for text, place in seen.items():
                if text is not None:
                    first[text] = min(first.get(text, (place, turn)), (place, turn))
        # In the order in which they are met, visit by visit.
        distinct = sorted(first, key=first.__getitem__)
        index: dict[str | None, int] = {text: code for code, text in enumerate(distinct)}
        index[None] = _NULL
        columns = {key: np.asarray(numbers[key], dtype=kind) for key, kind in NUMBERS.items()}
        columns |= {
            key: np.fromiter(map(index.__getitem__, texts[key]), np.int64, len(texts[key])) for key in _TEXTS
        }
        return cls(columns, distinct)

    def __len__(self) -> int:
        return len(self.columns["round"])

    @overload
    def __getitem__(self, place: int) -> Visit: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Visit]: ...
    def __getitem__(self, place: int | slice) -> Visit | Sequence[Visit]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        return Visit.model_validate(self.record(place))

    def __iter__(self) -> Iterator[Visit]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def text(self, key: str) -> list[str | None]:
        """One of the columns of text, entry by entry."""
        return [None if code < 0 else self.texts[code] for code in self.columns[key].tolist()]

    def distinct(self, key: str) -> set[str]:
        """The texts of a column."""
        return {self.texts[code] for code in np.unique(self.columns[key]).tolist() if code >= 0}

    def record(self, place: int) -> dict[str, Any]:
        """One visit as plain data, null keys left in."""
        record: dict[str, Any] = {}
        for key in _TEXTS[:-1]:
            code = int(self.columns[key][place])
            record[key] = None if code < 0 else self.texts[code]
        for key in NUMBERS:
            value = self.columns[key][place].item()
            record[key] = None if key in _PORTS and value < 0 else value
        code = int(self.columns["rest"][place])
        return record if code < 0 else record | json.loads(self.texts[code])


def _validate(value: Any, info: ValidationInfo) -> VisitTable:
    if isinstance(value, VisitTable):
        return value
    if isinstance(value, dict):
        context = info.context or {}
        if "folder" not in context:
            raise ValueError("visits are in a side file, and no folder was given to find it in")
        return _loaded(value, context["folder"])
    if isinstance(value, list) and all(isinstance(one, Visit) for one in value):
        visits = value
    else:
        try:
            visits = _RECORDS.validate_python(value)
        except ValidationError as error:
            raise ValueError(validation_text(error)) from None
    try:
        table = VisitTable.of(_plain(visit) for visit in visits)
        for text in table.texts:
            text.encode()
    except OverflowError:
        raise ValueError("visits have a number too large to be one") from None
    except UnicodeEncodeError:
        raise ValueError("visits have a text that is not Unicode (half of a surrogate pair)") from None
    return table


def _plain(visit: Visit) -> dict[str, Any]:
    """As its model dumps it; quicker for one that is numbers and texts alone."""
    if visit.goodput is None and visit.path is None and not visit.model_extra:
        return visit.__dict__
    return visit.model_dump(mode="json")


def _loaded(reference: dict[str, Any], folder: Any) -> VisitTable:
    named = reference.get("columns")
    if not isinstance(named, dict) or set(named) != {*NUMBERS, *_TEXTS, "text_bytes", "text_ends"}:
        raise ValueError("visits in a side file need the columns that docs/data-format.md lists")
    columns = {}
    for key, place in named.items():
        if not isinstance(place, dict):
            raise ValueError(f"column {key} of visits is not a reference")
        columns[key] = load_array(folder, place)
        if columns[key].ndim != 1:
            raise ValueError(f"column {key} of visits is not a list")
    ends, content = columns.pop("text_ends"), columns.pop("text_bytes")
    if ends.dtype != np.int64 or content.dtype != np.uint8 or (np.diff(ends, prepend=0) < 0).any():
        raise ValueError("the texts of visits cannot be read")
    if (ends[-1] if len(ends) else 0) != len(content):
        raise ValueError("the texts of visits are cut short")
    encoded = content.tobytes()
    starts = [0, *ends.tolist()]
    try:
        texts = [encoded[a:b].decode() for a, b in itertools.pairwise(starts)]
    except UnicodeDecodeError:
        raise ValueError("the texts of visits are not UTF-8") from None
    _check_columns(columns, texts)
    return VisitTable(columns, texts)


def _check_columns(columns: dict[str, NDArray[Any]], texts: list[str]) -> None:
    """As strict as a list of Visit would be."""
    count = len(columns["round"])
    for key, kind in {**NUMBERS, **dict.fromkeys(_TEXTS, np.int64)}.items():
        column = columns[key]
        if column.dtype != kind or len(column) != count:
            raise ValueError(f"column {key} of visits has {len(column)} entries of type {column.dtype}")
        least = _NULL if key in _PORTS or key in _NULLABLE_TEXTS else 0
        most = len(texts) - 1 if key in _TEXTS else 65535 if key in _PORTS else np.inf
        if not np.isfinite(column).all() or (column < least).any() or (column > most).any():
            raise ValueError(f"column {key} of visits has a value out of range")
    for code in np.unique(columns["rest"]).tolist():
        if code >= 0:
            try:
                rest = json.loads(texts[code])
            except (ValueError, RecursionError):
                rest = None
            if not isinstance(rest, dict) or not set(rest).isdisjoint({*NUMBERS, *_TEXTS}):
                raise ValueError("column rest of visits has an entry that is not an object of further keys")
            for key, model in (("goodput", GoodputReading), ("path", PathReading)):
                if rest.get(key) is not None:
                    model.model_validate(rest[key])


def _serialize(table: VisitTable, info: SerializationInfo) -> Any:
    side = (info.context or {}).get("side")
    if len(table) <= INLINE_VISITS or side is None:
        ready = (info.context or {}).get("ready")
        if ready is not None and ready.canonical and len(table):
            return ready.stand_in(_canonical_records(table))
        return set_aside(info, _records(table))
    encoded = [text.encode() for text in table.texts]
    arrays = {
        **table.columns,
        "text_bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "text_ends": np.cumsum([len(text) for text in encoded], dtype=np.int64),
    }
    references = {name: put_beside(side, array, f"visits_{name}") for name, array in arrays.items()}
    return {"count": len(table), "columns": references}


def _records(table: VisitTable) -> list[dict[str, Any]]:
    """Every visit as its model dumps it, floats rounded."""
    lists: dict[str, list[Any]] = {key: table.text(key) for key in _TEXTS}
    for key, kind in NUMBERS.items():
        column = table.columns[key]
        lists[key] = (rounded(column) if kind is np.float64 else column).tolist()
    for key in _PORTS:
        lists[key] = [None if value < 0 else value for value in lists[key]]
    count, keys = len(table), list(Visit.model_fields)
    columns = [lists.get(key, itertools.repeat(None, count)) for key in keys]
    records = [dict(zip(keys, values)) for values in zip(*columns)]
    for place in np.flatnonzero(table.columns["rest"] >= 0).tolist():
        records[place] = dump(table[place])
    return records


def _canonical_records(table: VisitTable) -> str:
    """The canonical text of `_records`, made a column at a time: of ten thousand visits that is most of a scan's."""
    codes = [json.dumps(text) for text in table.texts]
    # Each entry with its key and the comma before it; a null key says nothing.
    columns = []
    for key in sorted({*_TEXTS[:-1], *NUMBERS}):
        column = table.columns[key]
        if NUMBERS.get(key) is np.float64:
            columns.append([f',"{key}":{value!r}' for value in rounded(column).tolist()])
            continue
        values, places = np.unique(column, return_inverse=True)
        kept = [
            None if value < 0 and (key in _TEXTS or key in _PORTS) else value for value in values.tolist()
        ]
        shown = [None if value is None else codes[value] if key in _TEXTS else value for value in kept]
        entries = ["" if one is None else f',"{key}":{one}' for one in shown]
        columns.append([entries[place] for place in places.ravel().tolist()])
    records = ["{" + "".join(entries)[1:] + "}" for entries in zip(*columns)]
    for place in np.flatnonzero(table.columns["rest"] >= 0).tolist():
        records[place] = canonical_text(dump(table[place]))
    return "[" + ",".join(records) + "]"


class _Schema:
    """The JSON Schema of both forms."""

    def __get_pydantic_json_schema__(self, _core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "description": f"a record a visit; above {INLINE_VISITS} of them columns in the side file",
            "anyOf": [
                handler(_RECORDS.core_schema),
                {
                    "type": "object",
                    "properties": {"count": {"type": "integer"}, "columns": {"type": "object"}},
                    "required": ["count", "columns"],
                },
            ],
        }


Visits = Annotated[VisitTable, PlainValidator(_validate), PlainSerializer(_serialize), _Schema()]
"""A field of a document: visits as a VisitTable in memory."""
