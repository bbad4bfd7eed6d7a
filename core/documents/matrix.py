"""Directed matrices ``[src, dst]`` with missing cells, in memory and in documents.

In memory a matrix is a float64 array of shape (N, N) in which a missing cell is NaN. In a document it
is inline rows with ``null`` for a missing cell up to ``INLINE_HOSTS`` hosts, and above that a reference
``{npz, key, sha256, shape}`` to an array in a side file.
"""

from __future__ import annotations

import hashlib
import io
import math
import secrets
import weakref
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, SerializationInfo, ValidationInfo, WithJsonSchema

from netprobe.core.numeric.decimals import EXACT_POWERS, POWERS, SIGNIFICANT_DIGITS, row_texts

FloatMatrix = NDArray[np.float64]
INLINE_HOSTS = 256
# Readings hardly compress, and least where most time is spent on it.
_QUICK = 1
# Where it leaves more than this share of a sample it is not done: a map of a large fleet would wait for it.
_SAMPLE_BYTES, _LEAST_SHRINKING = 1 << 16, 0.85
_NPY_HEADER_LIMIT = 1 << 16
MOST_BYTES = 1 << 31
"""Of one array in a side file, unpacked: a matrix of 16,384 hosts. A small file may unpack to any size."""
_LONGEST_NAME, _SHOWN = 255, 80
"""Of a file's name: bytes that file systems take, and characters that a message shows."""
# How near to a tie a scaled number is left to its decimal text.
_NEAR_TIE = 1e-5
_DIGESTS: dict[int, tuple[weakref.ref[NDArray[Any]], str]] = {}
_PLAIN_CELLS = frozenset({float, int, type(None)})


@dataclass(kw_only=True)
class SideFile:
    """Arrays that a document being written puts in its folder, as an .npz of this ``name``."""

    name: str
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The .npz file; the same arrays give the same bytes (no time stamps in the archive)."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for key, array in sorted(self.arrays.items()):
                entry = io.BytesIO()
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)
                content = entry.getvalue()
                info = zipfile.ZipInfo(f"{key}.npy")
                info.compress_type = zipfile.ZIP_DEFLATED if _shrinks(content) else zipfile.ZIP_STORED
                archive.writestr(info, content, compresslevel=_QUICK)
        return buffer.getvalue()


def _shrinks(content: bytes) -> bool:
    """Whether compressing an array is worth its time, by its first numbers: unpacking costs more than reading it."""
    sample = content[:_SAMPLE_BYTES]
    return len(zlib.compress(sample, _QUICK)) < _LEAST_SHRINKING * len(sample)


def round_float(value: float) -> float:
    """``value`` at the significant digits a document keeps."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def empty_matrix(size: int) -> FloatMatrix:
    """A matrix with every cell missing."""
    return np.full((size, size), np.nan)


def to_rows(array: FloatMatrix) -> list[list[float | None]]:
    """Rows for a JSON document: NaN as None."""
    rows: list[list[float | None]] = array.tolist()
    for row, column in np.argwhere(np.isnan(array)).tolist():
        rows[row][column] = None
    return rows


def rounded(array: FloatMatrix) -> FloatMatrix:
    """``array`` at the significant digits a document keeps, so that memory and file hold the same numbers.

    Cell by cell the same number as `round_float` gives. Whole digits and powers of ten up to 10^22 are exact,
    so their quotient is the double nearest to the decimal; what lies too near a tie for the product to tell,
    or out of that range, goes through the decimal text.
    """
    flat = np.array(array, dtype=np.float64).ravel()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        power = SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(np.abs(flat)))
        usual = (power >= 0) & (power <= EXACT_POWERS)
        tens = POWERS[np.where(usual, power, 0).astype(np.intp)]
        scaled = flat * tens
        digits = np.rint(scaled)
        size = np.abs(scaled)
        usual &= (size >= 10.0 ** (SIGNIFICANT_DIGITS - 1)) & (size < 10.0**SIGNIFICANT_DIGITS)
        usual &= np.abs(np.abs(scaled - digits) - 0.5) > _NEAR_TIE
        result = np.where(usual, digits / tens, flat)
    for place in np.flatnonzero(~usual & (flat != 0.0) & np.isfinite(flat)).tolist():
        result[place] = round_float(float(flat[place]))
    return result.reshape(np.shape(array))


def array_digest(array: NDArray[Any]) -> str:
    """SHA-256 over shape, type and little-endian content."""
    known = _DIGESTS.get(id(array))
    if known is not None and known[0]() is array:
        return known[1]
    contiguous = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    digest = hashlib.sha256(f"{contiguous.dtype.str}{contiguous.shape}".encode())
    digest.update(contiguous.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _remember(array: NDArray[Any], digest: str) -> None:
    """Of an array that nobody can change: its digest need not be computed again as long as it is there."""
    key = id(array)
    _DIGESTS[key] = weakref.ref(array, lambda _: _DIGESTS.pop(key, None)), digest


def load_array(folder: Path, reference: dict[str, Any]) -> NDArray[Any]:
    """Read the array a reference names, from the document's folder. Raises ValueError with a reason."""
    name, key = reference.get("npz"), reference.get("key")
    if not isinstance(name, str) or not isinstance(key, str):
        raise ValueError("a matrix reference needs npz and key")
    if Path(name).name != name or name in ("", ".", ".."):
        raise ValueError(f"side file {name[:_SHOWN]!r} is not a plain file name in the document's folder")
    if len(name.encode(errors="replace")) > _LONGEST_NAME or not (folder / name).exists():
        raise ValueError(f"side file {name[:_SHOWN]!r} is missing from the document's folder")
    if not (folder / name).is_file():
        raise ValueError(f"side file {name!r} is not a regular file")
    try:
        with zipfile.ZipFile(folder / name) as archive, archive.open(f"{key}.npy") as entry:
            array = _read_array(entry, archive.getinfo(f"{key}.npy").file_size, reference.get("shape"))
    except Exception as error:  # foreign bytes: zip, zlib, header and type errors of all kinds
        raise ValueError(f"side file {name!r} cannot be read: {type(error).__name__}: {error}") from None
    if list(array.shape) != reference.get("shape"):
        raise ValueError(
            f"side file {name!r} has an array of shape {array.shape}, not {reference.get('shape')}"
        )
    if reference.get("sha256") != array_digest(array):
        raise ValueError(f"side file {name!r} is not the one this document was written with (sha256 differs)")
    # It is backed by bytes, which are never written.
    _remember(array, reference["sha256"])
    return array


def _read_array(entry: IO[bytes], size: int, shape: object) -> NDArray[Any]:
    """The array of an .npy whose header agrees with its size and the shape that is due, before it is read."""
    version = np.lib.format.read_magic(entry)
    if version != (1, 0):
        raise ValueError(f"arrays of .npy version {version} are not read")
    found, fortran, kind = np.lib.format.read_array_header_1_0(entry)
    if fortran or kind.hasobject or kind.kind not in "iuf" or list(found) != shape:
        raise ValueError(f"an array of shape {found} and type {kind}, not {shape}")
    count = math.prod(found)
    if count * kind.itemsize > MOST_BYTES:
        raise ValueError(f"an array of shape {found}, larger than {MOST_BYTES} bytes")
    if size > count * kind.itemsize + _NPY_HEADER_LIMIT:
        raise ValueError(f"{size} bytes for {count} numbers")
    content = entry.read(count * kind.itemsize + 1)
    if len(content) != count * kind.itemsize:
        raise ValueError("an array that is cut short")
    return np.frombuffer(content, dtype=kind).reshape(found)


def _kept_digits(array: FloatMatrix) -> FloatMatrix:
    # What goes to a side file goes there bit by bit.
    return rounded(array) if len(array) <= INLINE_HOSTS and array.ndim == 2 else array.copy()


def _validate(value: Any, info: ValidationInfo) -> FloatMatrix:
    if isinstance(value, dict):
        context = info.context or {}
        if "folder" not in context:
            raise ValueError("matrix is in a side file, and no folder was given to find it in")
        value = load_array(context["folder"], value)
        array = np.asarray(value, dtype=np.float64)
    elif isinstance(value, np.ndarray):
        array = _kept_digits(value.astype(np.float64))
    else:
        array = _kept_digits(_from_rows(value))
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(f"matrix of shape {array.shape}: one row and one column a host are needed")
    if np.isinf(array).any() or (array < 0).any():
        raise ValueError("matrix has a negative or infinite cell")
    array.flags.writeable = False
    return array


def _from_rows(value: Any) -> FloatMatrix:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError("matrix must be rows of numbers or null")
    for row in value:
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != len(value):
            raise ValueError("matrix must be rows of numbers or null, as many in each row as there are rows")
        if _PLAIN_CELLS.issuperset(map(type, row)):
            continue
        for cell in row:
            if cell is not None and (isinstance(cell, bool) or not isinstance(cell, (int, float))):
                raise ValueError(f"matrix cell {repr(cell)[:60]} is neither a number nor null")
    size = len(value)
    try:
        # numpy makes NaN of None.
        array = np.array([list(row) for row in value], dtype=np.float64)
    except OverflowError:
        raise ValueError("matrix has a number too large to be one") from None
    return array.reshape(size, size)


@dataclass(kw_only=True)
class Ready:
    """Parts of a document being written that are plain JSON data already, rounded.

    pydantic would copy them cell by cell, and rounding walk them again. ``key`` marks their stand-ins; it is
    random each time, so that nothing in a document can be taken for one.

    as_text: the document is written and not looked at, so matrices may be in it as `RowTexts`. canonical: it is
    written to be hashed, and what has its canonical text at hand puts that into ``texts``.
    """

    key: str = field(default_factory=lambda: secrets.token_hex(16))
    parts: list[Any] = field(default_factory=list)
    as_text: bool = False
    canonical: bool = False
    texts: list[str] = field(default_factory=list)

    def stand_in(self, text: str) -> str:
        """The stand-in for a part of which the canonical text is ``text``."""
        self.texts.append(text)
        return f"{self.key}:{len(self.texts) - 1}"

    def put_in(self, text: str) -> str:
        """``text``, canonical JSON, with the texts put where their stand-ins are."""
        pieces = text.split(f'"{self.key}:')
        return pieces[0] + "".join(
            self.texts[int(number)] + after for number, after in (piece.split('"', 1) for piece in pieces[1:])
        )


def set_aside(info: SerializationInfo, value: Any) -> Any:
    """Plain JSON data, or their stand-in where the one who writes the document collects them (`Ready`)."""
    ready = (info.context or {}).get("ready")
    if ready is None:
        return value
    ready.parts.append(value)
    return {ready.key: len(ready.parts) - 1}


def put_beside(side: SideFile, array: NDArray[Any], key: str | None = None) -> dict[str, Any]:
    """Hand ``array`` to the side file; what stands in the document for it (`load_array` reads it back).

    ``key`` is its name there: the start of its digest where none is given.
    """
    digest = array_digest(array)
    key = digest[:16] if key is None else key
    side.arrays[key] = array
    return {"npz": side.name, "key": key, "sha256": digest, "shape": list(array.shape)}


def rows_schema(description: str, cell: dict[str, Any]) -> dict[str, Any]:
    """JSON schema of rows of ``cell``, or of the reference that `put_beside` gives."""
    text = {"type": "string"}
    shape = {"type": "array", "items": {"type": "integer"}}
    return {
        "description": description,
        "anyOf": [
            {"type": "array", "items": {"type": "array", "items": cell}},
            {
                "type": "object",
                "properties": {"npz": text, "key": text, "sha256": text, "shape": shape},
                "required": ["npz", "key", "sha256", "shape"],
            },
        ],
    }


def _serialize(array: FloatMatrix, info: SerializationInfo) -> Any:
    context = info.context or {}
    side = context.get("side")
    if len(array) <= INLINE_HOSTS or side is None:
        ready = context.get("ready")
        if ready is None or not ready.as_text or not len(array):
            return set_aside(info, to_rows(rounded(array)))
        if ready.canonical:
            return ready.stand_in("[[" + "],[".join(row_texts(rounded(array), ",")) + "]]")
        return set_aside(info, row_texts(rounded(array), ", "))
    return put_beside(side, array)


_SCHEMA = rows_schema(
    "[src][dst] in the order of hosts[]; null is a missing cell",
    {"anyOf": [{"type": "number"}, {"type": "null"}]},
)

Matrix = Annotated[
    FloatMatrix, PlainValidator(_validate), PlainSerializer(_serialize), WithJsonSchema(_SCHEMA)
]
"""A field of a document: a read-only (N, N) float64 array in memory, NaN where missing."""
