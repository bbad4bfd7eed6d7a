"""The bytes of a file as text: UTF-8, or UTF-16 and UTF-32 as spreadsheets save them. No other encoding is guessed."""

from __future__ import annotations

import codecs

from netprobe.core.errors import InputError

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_LOOKED_AT = 4096


def text_of(content: bytes) -> str:
    """The text, its byte order mark left out. Raises InputError."""
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), None) or _without_mark(
        content
    )
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise InputError("is neither UTF-8 nor UTF-16 text, nor an .npy: save it as UTF-8") from None


def _without_mark(content: bytes) -> str:
    """UTF-16 of numbers and Latin letters has a zero in every other byte, which no UTF-8 text has."""
    even, odd = content[:_LOOKED_AT:2], content[1:_LOOKED_AT:2]
    if 2 * odd.count(0) > len(odd) and not even.count(0):
        return "utf-16-le"
    if 2 * even.count(0) > len(even) and not odd.count(0):
        return "utf-16-be"
    return "utf-8"
