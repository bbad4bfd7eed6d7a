"""What every document shares: the header, reading, writing, and the canonical hash.

A document is JSON. Its header is ``schema`` ("netprobe.scan/1.0"), ``created_at`` (UTC), ``generator``,
``seed`` and ``parents``. A newer major version is refused; a newer minor version is read, and the keys
this version does not know are kept.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import math
import os
import re
import signal
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError, from_json

from netprobe._version import __version__
from netprobe.core.documents.matrix import Ready, SideFile, round_float
from netprobe.core.documents.notebook import document_html
from netprobe.core.errors import DocumentError
from netprobe.core.hosts import Host, is_ip_address
from netprobe.core.numeric.decimals import RowTexts
from netprobe.core.system.interrupts import signals_held
from netprobe.core.text import one_line

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_DOCUMENT_BYTES = 1024**3
HEADER_KEYS = ("schema", "created_at", "generator", "seed", "parents")
_MOST_SHOWN = 160
NOT_HASHED = frozenset({"created_at", "own_sha256"})
"""Keys that are not part of a document's canonical content: when it was written, and that content's own hash."""
_NESTING = frozenset({dict, list, RowTexts})
_SCHEMA_NAME = re.compile(r"netprobe\.([a-z_]+)/(\d{1,9})\.(\d{1,9})")


class Record(BaseModel):
    """Base of the records inside a document: frozen, and keeping keys of a newer minor version."""

    model_config = ConfigDict(frozen=True, extra="allow", arbitrary_types_allowed=True, allow_inf_nan=False)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """As pydantic's, but an interrupt in the middle stays one: pydantic makes an error of serialization of it."""
        try:
            return super().model_dump(**options)
        except PydanticSerializationError as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise


class Generator(Record):
    """What wrote the document."""

    name: str = "netprobe"
    version: str = __version__


class Parent(Record):
    """A document this one was made from."""

    schema_: str = Field(alias="schema")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    model_config = ConfigDict(populate_by_name=True)


def now_utc() -> str:
    """The wall clock as a document writes it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Document(Record):
    """Base of the documents. A subclass sets ``KIND`` and ``VERSION``."""

    KIND: ClassVar[str]
    VERSION: ClassVar[tuple[int, int]] = (1, 0)

    model_config = ConfigDict(populate_by_name=True)

    schema_: str = Field(alias="schema")
    created_at: str = Field(default_factory=now_utc, pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
    generator: Generator = Field(default_factory=Generator)
    seed: int = Field(default=0, ge=0)
    parents: list[Parent] = Field(default_factory=list)

    @classmethod
    def schema_name(cls) -> str:
        """``netprobe.KIND/MAJOR.MINOR`` of this version."""
        return f"netprobe.{cls.KIND}/{cls.VERSION[0]}.{cls.VERSION[1]}"

    def parent(self) -> Parent:
        """This document as an entry of another's ``parents``."""
        return Parent(schema=self.schema_, sha256=canonical_sha256(self))

    def as_written(self) -> Self:
        """The document as it goes to a file."""
        return self

    def summary(self) -> str:
        """What is in it, in a few words; on one line."""
        return self.schema_

    def __repr__(self) -> str:
        # Not the thousands of numbers of its matrices.
        return f"<{type(self).__name__}: {one_line(self.summary(), _MOST_SHOWN)}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return document_html(f"{type(self).__name__}: {self.summary()}")


D = TypeVar("D", bound=Document)


def dump(document: BaseModel, side: SideFile | None = None) -> dict[str, Any]:
    """The document as plain JSON data; large matrices go to ``side`` when one is given."""
    return _dumped(document, side, Ready())


def _dumped(document: BaseModel, side: SideFile | None, ready: Ready) -> dict[str, Any]:
    data = document.model_dump(mode="json", by_alias=True, context={"side": side, "ready": ready})
    return _rounded(data, ready)  # type: ignore[no-any-return]


def canonical_sha256(document: BaseModel) -> str:
    """SHA-256 of the canonical content: sorted keys, 9 significant digits; empty keys and `NOT_HASHED` left out."""
    ready = Ready(as_text=True, canonical=True)
    text = canonical_text(_dumped(document, SideFile(name=""), ready))
    return hashlib.sha256(ready.put_in(text).encode()).hexdigest()


def canonical_text(data: Any) -> str:
    """JSON of plain data as it is hashed."""
    return json.dumps(
        _canonical(data), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def write_document(document: Document, path: Path) -> None:
    """Write ``path`` and, when matrices are large, its side file: both or, where that fails or is interrupted, neither.

    An older document whose side file were replaced alone could no longer be read.
    """
    side = SideFile(name=side_path(path).name)
    data = _dumped(document.as_written(), side, Ready(as_text=True))
    files = [(side_path(path), side.to_bytes())] if side.arrays else []
    write_together([*files, (path, (to_json(data) + "\n").encode())])


def side_path(path: Path) -> Path:
    """Where the large matrices of the document at ``path`` are."""
    return path.with_name(path.name + ".npz")


def to_json(data: Any, indent: int = 0) -> str:
    """JSON a person can read: objects a key a line, lists of plain values on one line."""
    pad = " " * (indent + 2)
    if isinstance(data, RowTexts):
        return "[\n" + ",\n".join(f"{pad}[{row}]" for row in data) + "\n" + " " * indent + "]"
    if isinstance(data, dict) and data:
        if indent >= 4 and all(not isinstance(v, (dict, list)) for v in data.values()):
            return json.dumps(data, allow_nan=False)
        items = [f"{pad}{json.dumps(str(k))}: {to_json(v, indent + 2)}" for k, v in data.items()]
        return "{\n" + ",\n".join(items) + "\n" + " " * indent + "}"
    if isinstance(data, list) and not _is_plain(data):
        return "[\n" + ",\n".join(pad + to_json(v, indent + 2) for v in data) + "\n" + " " * indent + "]"
    return json.dumps(data, allow_nan=False)


def read_json(path: Path, most_bytes: int = MAX_DOCUMENT_BYTES) -> dict[str, Any]:
    """The JSON object in ``path``. Raises DocumentError when it is missing, too large, truncated or no object."""
    source = str(path)
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DocumentError("no regular file", source=source)
        with path.open("rb") as stream:
            content = stream.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise DocumentError(f"larger than {most_bytes} bytes", source=source)
        data = _parsed(content)
    except FileNotFoundError:
        raise DocumentError("no such document", source=source) from None
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}", source=source) from None
    except UnicodeDecodeError:
        raise DocumentError("not a text file, so no netprobe document", source=source) from None
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"no valid JSON (line {error.lineno}: {error.msg}): is it truncated?", source=source
        ) from None
    except _NoNumber as error:
        raise DocumentError(f"no valid JSON: {error}", source=source) from None
    except RecursionError:
        raise DocumentError(
            "no netprobe document: its lists or objects are nested too deep to be read", source=source
        ) from None
    except ValueError:
        # What is left: Python turns no whole number of thousands of digits into one.
        raise DocumentError(
            "no netprobe document: a number in it has more digits than can be read", source=source
        ) from None
    if not isinstance(data, dict):
        raise DocumentError("not a netprobe document: its JSON is not an object", source=source)
    return data


def schema_of(data: dict[str, Any], *, source: str) -> tuple[str, int, int]:
    """Kind, major and minor version that a document's header states."""
    schema = data.get("schema")
    match = _SCHEMA_NAME.fullmatch(schema) if isinstance(schema, str) else None
    if not match:
        raise DocumentError(f"no netprobe document: its schema is {str(schema)[:60]!r}", source=source)
    return match[1], int(match[2]), int(match[3])


def parse_document(model: type[D], data: dict[str, Any], *, source: str, folder: Path | None = None) -> D:
    """Validate ``data`` as ``model``; every fault ends as one line that names the first places."""
    kind, major, _minor = schema_of(data, source=source)
    if kind != model.KIND:
        raise DocumentError(f"is a {kind} document, and a {model.KIND} is needed", source=source)
    if major > model.VERSION[0]:
        raise DocumentError(
            f"has version {major}.x of the {kind} format, newer than the {model.schema_name()} that this "
            "netprobe reads: update netprobe",
            source=source,
        )
    if major < model.VERSION[0]:
        raise DocumentError(
            f"has version {major}.x of the {kind} format, and this netprobe reads {model.schema_name()}",
            source=source,
        )
    missing = [key for key in HEADER_KEYS if key not in data]
    if missing:
        raise DocumentError(f"its header lacks {', '.join(missing)}", source=source)
    try:
        return model.model_validate(data, context={} if folder is None else {"folder": folder})
    except ValidationError as error:
        raise DocumentError(validation_text(error), source=source) from None


def load_document(model: type[D], path: Path) -> D:
    """Read and validate a document of one kind."""
    return parse_document(model, read_json(path), source=str(path), folder=path.parent)


def validation_text(error: ValidationError, most: int = 3) -> str:
    """pydantic's faults on one line, with their places."""
    faults = [
        f"{_short('.'.join(str(p) for p in e['loc'])) or 'document'}: "
        f"{_short(str(e['msg']).removeprefix('Value error, '))}"
        for e in error.errors(include_url=False, include_input=False)
    ]
    more = f" (and {len(faults) - most} more)" if len(faults) > most else ""
    return " ".join(("; ".join(faults[:most]) + more).split())


def _short(text: str, most: int = 240) -> str:
    """A fault may quote what it found, and a damaged document may hold anything."""
    return text if len(text) <= most else text[: most - 2] + ".."


def check_same_hosts(ours: list[Host], theirs: list[Host], *, what: str, source: str | None = None) -> None:
    """Refuse to apply a document to another list of hosts than its own (order does not matter)."""
    mine, other = {h.name: h.address for h in ours}, {h.name: h.address for h in theirs}
    if set(mine) == set(other):
        for name, address in mine.items():
            there = other[name]
            # A name may replace the address that a scan resolved it to: only literals can differ.
            if address and there and is_ip_address(address) and is_ip_address(there) and address != there:
                raise DocumentError(
                    f"host {name!r} has the address {there}, and {address} in {what}", source=source
                )
        return
    missing, extra = sorted(set(mine) - set(other))[:3], sorted(set(other) - set(mine))[:3]
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    parts += [f"has {', '.join(extra)} besides"] if extra else []
    raise DocumentError(f"its hosts differ from those of {what}: it {' and '.join(parts)}", source=source)


def write_atomically(path: Path, content: bytes) -> None:
    """Write through a temporary file in the same folder, so a reader never sees half a file."""
    write_together([(path, content)])


def write_together(files: Sequence[tuple[Path, bytes]]) -> None:
    """Write (path, content) of each through temporary files, which take their places when all of them are whole."""
    made: list[tuple[Path, Path]] = []
    try:
        for path, content in files:
            descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            temporary = Path(name)
            made.append((temporary, path))
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
        with signals_held() as held:
            for temporary, path in made:
                temporary.replace(path)
        for number in held[:1]:
            signal.raise_signal(number)
    except BaseException:
        for temporary, _ in made:
            temporary.unlink(missing_ok=True)
        raise


class _NoNumber(ValueError):
    """NaN or an infinity, which Python's JSON would take."""


def _parsed(content: bytes) -> Any:
    """The JSON in a file: by pydantic's parser, in half the time, and where it objects by Python's, which says why."""
    try:
        return from_json(content.removeprefix(codecs.BOM_UTF8), allow_inf_nan=False)
    except ValueError:
        return json.loads(content.decode("utf-8-sig"), parse_constant=_no_constant)


def _no_constant(name: str) -> float:
    raise _NoNumber(f"{name} is not a JSON number; a missing value is null")


def _rounded(data: Any, ready: Ready) -> Any:
    """Floats at the digits a document keeps; what was set aside is put back in its place, as it is."""
    if isinstance(data, float):
        return round_float(data) if math.isfinite(data) else None
    if isinstance(data, dict):
        if ready.key in data:
            return ready.parts[data[ready.key]]
        return {key: _rounded(value, ready) for key, value in data.items()}
    if isinstance(data, list):
        return [_rounded(value, ready) for value in data]
    return data


def _canonical(data: Any) -> Any:
    """Without null and empty keys and `NOT_HASHED`, and with arrays in side files as their digests alone.

    A key that is null or empty says nothing, so that one which a later version adds changes no hash.
    """
    if isinstance(data, dict):
        if len(data) == 4 and {"npz", "key", "sha256", "shape"} == set(data):
            return {"sha256": data["sha256"], "shape": data["shape"]}
        kept = {}
        # Most values are plain, of tens of thousands of visits: no call and no second look for these.
        for key, value in data.items():
            if value is None or key in NOT_HASHED:
                continue
            if type(value) in _NESTING:
                value = _canonical(value)
                if not value:
                    continue
            kept[key] = value
        return kept
    if isinstance(data, list):
        return data if _is_plain(data) else [_canonical(v) for v in data]
    return data


def _is_plain(values: list[Any]) -> bool:
    """Whether a list of JSON data contains no object and no list."""
    return _NESTING.isdisjoint(map(type, values))
