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
from netprobe.core.text import meant
from netprobe.formats.matrix import goldpinger, mpigraph, nccl, npy
from netprobe.formats.matrix.cells import is_name
from netprobe.formats.matrix.decode import text_of
from netprobe.formats.matrix.foreign_matrix import ForeignMatrix
from netprobe.formats.matrix.long import header_places, read_long
from netprobe.formats.matrix.markup import html_rows, looks_like_html, looks_like_markdown, markdown_rows
from netprobe.formats.matrix.nested import json_rows
from netprobe.formats.matrix.numbers import DECIMALS, Row
from netprobe.formats.matrix.summaries import without_summaries
from netprobe.formats.matrix.table import of_rows, read_table, separator_of, table_rows

AUTO = "auto"
FORMATS = ("csv", "npy", "text", "long", "markdown", "html", "json", "mpigraph", "nccl", "goldpinger")
COLUMNS = ("long", "nccl", "json", "markdown", "html")
"""Those that may have columns of which one holds the value."""
ZEROS = ("refuse", "missing")
MAX_BYTES = 256 * 1024 * 1024
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a file.

    format: one of FORMATS, or auto. zeros: ``refuse`` a zero off the diagonal, or ``missing``. column, select: of
    the long form, of JSON and of NCCL sweeps. decimal: ``point`` or ``comma`` where the file does not show it. hosts:
    the names that are hosts, even those that look like summaries. Raises InputError for any other word.
    """

    format: str = AUTO
    zeros: str = "refuse"
    column: str | None = None
    select: Sequence[tuple[str, str]] = ()
    decimal: str | None = None
    hosts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.format not in (AUTO, *FORMATS):
            known = ", ".join((AUTO, *FORMATS))
            raise InputError(
                f"unknown format {self.format[:30]!r}: known are {known}{meant(self.format, FORMATS)}"
            )
        if self.zeros not in ZEROS:
            raise InputError(f"--zeros {self.zeros[:30]!r} is neither {' nor '.join(ZEROS)}")
        if self.decimal is not None and self.decimal not in DECIMALS:
            raise InputError(f"--decimal {self.decimal[:30]!r} is neither {' nor '.join(DECIMALS)}")


def read_matrix(content: bytes, *, options: ReadOptions | None = None) -> tuple[str, ForeignMatrix]:
    """The format and the readings of a file's bytes, which may be gzipped.

    Raises InputError, one line that says what was wrong where, for anything that is not a matrix of readings.
    """
    options = options or ReadOptions()
    name, readings = _read(_unzipped(content), options)
    return name, without_summaries(readings, options.hosts)


def _read(content: bytes, options: ReadOptions) -> tuple[str, ForeignMatrix]:
    if options.format == "npy" or (options.format == AUTO and content.startswith(npy.MAGIC)):
        _refuse_columns(options, "npy")
        return "npy", npy.read_npy(content, zeros=options.zeros)
    text = text_of(content)
    if not text.strip():
        raise InputError("is empty")
    name = _detected(text) if options.format == AUTO else options.format
    if name not in COLUMNS:
        _refuse_columns(options, name)
    return name, _READERS[name](text, options)


def _csv(text: str, options: ReadOptions) -> ForeignMatrix:
    separator = separator_of(text) or ","
    return _table(text, options, separator)


def _text(text: str, options: ReadOptions) -> ForeignMatrix:
    return _table(text, options, None)


def _table(text: str, options: ReadOptions, separator: str | None) -> ForeignMatrix:
    return read_table(
        text, zeros=options.zeros, separator=separator, decimal=options.decimal, hosts=options.hosts
    )


def _rows(rows: list[Row], options: ReadOptions, where: str = "line") -> ForeignMatrix:
    return of_rows(rows, zeros=options.zeros, decimal=options.decimal, hosts=options.hosts, where=where)


def _long(text: str, options: ReadOptions) -> ForeignMatrix:
    return _long_rows(table_rows(text, separator_of(text)), options)


def _long_rows(rows: list[Row], options: ReadOptions, where: str = "line") -> ForeignMatrix:
    return read_long(
        rows,
        zeros=options.zeros,
        column=options.column,
        select=options.select,
        decimal=options.decimal,
        where=where,
    )


def _marked_up(rows: list[Row], options: ReadOptions, name: str) -> ForeignMatrix:
    if rows and header_places(rows[0][1]) is not None:
        return _long_rows(rows, options)
    _refuse_columns(options, f"{name}, and has no head with src and dst")
    return _rows(rows, options)


def _json(text: str, options: ReadOptions) -> ForeignMatrix:
    kind, rows = json_rows(text, options.column)
    if kind == "long":
        return _long_rows(rows, options, "entry")
    if options.select:
        raise InputError("--select is for records, and this JSON has none")
    return _rows(rows, options, "row")


def _nccl(text: str, options: ReadOptions) -> ForeignMatrix:
    return nccl.read_nccl(text, zeros=options.zeros, column=options.column, select=options.select)


_READERS: dict[str, Callable[[str, ReadOptions], ForeignMatrix]] = {
    "csv": _csv,
    "text": _text,
    "long": _long,
    "markdown": lambda text, options: _marked_up(markdown_rows(text), options, "markdown"),
    "html": lambda text, options: _marked_up(html_rows(text), options, "html"),
    "json": _json,
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
        return "json"
    if looks_like_html(text):
        return "html"
    if looks_like_markdown(text):
        return "markdown"
    separator = separator_of(text)
    rows = table_rows("\n".join(text.splitlines()[:100]), separator)
    if rows and nccl.looks_like_nccl(rows[0][1]):
        return "nccl"
    if rows and (header_places(rows[0][1]) is not None or _three_columns([cells for _, cells in rows])):
        return "long"
    return "text" if separator is None else "csv"


def _three_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Whether lines of three cells are two names and a number each, and no table of two or three hosts."""
    if any(len(cells) != 3 or is_name(cells[2]) for cells in rows):
        return False
    named = all(is_name(cells[0]) and is_name(cells[1]) for cells in rows)
    return named or len(rows) > 4


def _refuse_columns(options: ReadOptions, name: str) -> None:
    if options.column is not None or options.select:
        raise InputError(f"--column and --select are for long, json and nccl, and this is {name}")


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
