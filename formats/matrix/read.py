"""The bytes of a file to a ForeignMatrix: by the format that was named, or by what they look like.

A format is recognised by signs that no other has (the first bytes of an .npy, mpiGraph's own words, the columns of
an NCCL sweep, a header with source and destination). Everything else is a table.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netprobe.core.errors import InputError
from netprobe.formats.matrix import goldpinger, mpigraph, nccl, npy
from netprobe.formats.matrix.cells import cell, is_name
from netprobe.formats.matrix.foreign_matrix import ForeignMatrix
from netprobe.formats.matrix.long import header_places, read_long
from netprobe.formats.matrix.table import read_table, separator_of, table_rows

AUTO = "auto"
FORMATS = ("csv", "npy", "text", "long", "mpigraph", "nccl", "goldpinger")
ZEROS = ("refuse", "missing")
MAX_BYTES = 256 * 1024 * 1024
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a file.

    format: one of FORMATS, or auto. zeros: ``refuse`` a zero off the diagonal, or ``missing``. column, select: of
    the long form and of NCCL sweeps. Raises InputError for any other word.
    """

    format: str = AUTO
    zeros: str = "refuse"
    column: str | None = None
    select: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        if self.format not in (AUTO, *FORMATS):
            raise InputError(f"unknown format {self.format[:30]!r}: known are {', '.join((AUTO, *FORMATS))}")
        if self.zeros not in ZEROS:
            raise InputError(f"--zeros {self.zeros[:30]!r} is neither {' nor '.join(ZEROS)}")


def read_matrix(content: bytes, *, options: ReadOptions | None = None) -> tuple[str, ForeignMatrix]:
    """The format and the readings of a file's bytes, which may be gzipped.

    Raises InputError, one line that says what was wrong where, for anything that is not a matrix of readings.
    """
    options = options or ReadOptions()
    content = _unzipped(content)
    if options.format == "npy" or (options.format == AUTO and content.startswith(npy.MAGIC)):
        _refuse_columns(options, "npy")
        return "npy", npy.read_npy(content, zeros=options.zeros)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is neither UTF-8 text nor an .npy") from None
    if not text.strip():
        raise InputError("is empty")
    name = _detected(text) if options.format == AUTO else options.format
    if name not in ("long", "nccl"):
        _refuse_columns(options, name)
    return name, _READERS[name](text, options)


def _csv(text: str, options: ReadOptions) -> ForeignMatrix:
    return read_table(text, zeros=options.zeros, separator=separator_of(text) or ",")


def _text(text: str, options: ReadOptions) -> ForeignMatrix:
    return read_table(text, zeros=options.zeros, separator=None)


def _long(text: str, options: ReadOptions) -> ForeignMatrix:
    return read_long(
        text,
        zeros=options.zeros,
        separator=separator_of(text),
        column=options.column,
        select=options.select,
    )


def _nccl(text: str, options: ReadOptions) -> ForeignMatrix:
    return nccl.read_nccl(text, zeros=options.zeros, column=options.column, select=options.select)


_READERS: dict[str, Callable[[str, ReadOptions], ForeignMatrix]] = {
    "csv": _csv,
    "text": _text,
    "long": _long,
    "nccl": _nccl,
    "mpigraph": lambda text, options: mpigraph.read_mpigraph(text, zeros=options.zeros),
    "goldpinger": lambda text, options: goldpinger.read_goldpinger(text, zeros=options.zeros),
}


def _detected(text: str) -> str:
    """The format of a text."""
    if goldpinger.looks_like_goldpinger(text):
        return "goldpinger"
    # Before JSON: launchers mark lines by ranks in brackets.
    if mpigraph.looks_like_mpigraph(text):
        return "mpigraph"
    if text.lstrip().startswith(("{", "[")):
        raise InputError(
            "is JSON, but not a reply of goldpinger's /check_all (a netprobe document needs no import)"
        )
    separator = separator_of(text)
    rows = table_rows("\n".join(text.splitlines()[:100]), separator)
    if rows and nccl.looks_like_nccl(rows[0][1]):
        return "nccl"
    if rows and (header_places(rows[0][1]) is not None or _three_columns([cells for _, cells in rows])):
        return "long"
    return "text" if separator is None else "csv"


def _three_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Whether lines of three cells are two names and a number each, and no table of two or three hosts."""
    if any(len(cells) != 3 or cell(cells[2]) is None for cells in rows):
        return False
    named = all(is_name(cells[0]) and is_name(cells[1]) for cells in rows)
    return named or len(rows) > 4


def _refuse_columns(options: ReadOptions, name: str) -> None:
    if options.column is not None or options.select:
        raise InputError(f"--column and --select are for long and nccl, and this is {name}")


def _unzipped(content: bytes) -> bytes:
    if not content.startswith(_GZIP):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            plain = stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise InputError("is a gzip file that cannot be unpacked: is it truncated?") from None
    if len(plain) > MAX_BYTES:
        raise InputError(f"unpacks to more than {MAX_BYTES} bytes")
    return plain
