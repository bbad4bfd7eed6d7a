"""Delays and rates as a person writes them, read into SI base units.

A number without a unit is refused: whether ``delay: 5`` means seconds or milliseconds is a guess that no
program should make.
"""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([^0-9.\s]\S*)", re.ASCII)

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_RATE_SUFFIXES = {"bit/s": 0.125, "bps": 0.125, "B/s": 1.0}

UNLIMITED = "unlimited"


def delay_s(text: object) -> float:
    """A delay such as ``50us``, ``0.15ms`` or ``1 s``, in seconds.

    Raises ValueError, with what was given and what is needed, when it is none.
    """
    number, unit = _split(text, "a delay such as 50us or 0.15ms")
    if unit not in _SECONDS:
        raise ValueError(f"{text!r} is not a valid delay: the unit must be ns, us, ms or s")
    # Whole nanoseconds: that is what the switch takes, and 150 * 1e-6 is not 150e-6 in floating point.
    return round(number * _SECONDS[unit] * 1e9) / 1e9


def rate_bytes_per_s(text: object) -> float:
    """A rate such as ``1Gbit/s``, ``80 Mbit/s`` or ``125MB/s``, in bytes a second; ``unlimited`` is infinity.

    Raises ValueError, with what was given and what is needed, when it is none.
    """
    if text == UNLIMITED:
        return math.inf
    number, unit = _split(text, f"a rate such as 200Mbit/s, or {UNLIMITED}")
    for suffix, factor in _RATE_SUFFIXES.items():
        prefix = unit.removesuffix(suffix)
        if prefix != unit and prefix in _PREFIXES:
            return number * _PREFIXES[prefix] * factor
    raise ValueError(
        f"{text!r} is not a valid rate: the unit must be bit/s or B/s, with k, M, G or T before it"
    )


def loss_ratio(text: object) -> float:
    """A loss such as ``20%``, as a ratio from 0 to 1, in whole parts of a billion.

    Raises ValueError, with what was given and what is needed, when it is none.
    """
    number, unit = _split(text, "a loss such as 20%")
    if unit != "%" or number > 100:
        raise ValueError(f"{text!r} is not a valid loss: a number from 0 to 100, and %")
    return round(number * 1e7) / 1e9


def delay_text(seconds: float) -> str:
    """The shortest text that ``delay_s`` reads back as the same delay."""
    nanoseconds = round(seconds * 1e9)
    for unit, factor in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds % factor == 0:
            return f"{nanoseconds // factor}{unit}"
    return f"{nanoseconds}ns"


def rate_text(bytes_per_s: float) -> str:
    """A text that ``rate_bytes_per_s`` reads back as the same rate."""
    if math.isinf(bytes_per_s):
        return UNLIMITED
    bits = bytes_per_s * 8
    for prefix in ("G", "M", "k", ""):
        if bits % _PREFIXES[prefix] == 0:
            return f"{int(bits // _PREFIXES[prefix])}{prefix}bit/s"
    return f"{bytes_per_s!r}B/s"


def loss_text(ratio: float) -> str:
    """A text that ``loss_ratio`` reads back as the same ratio."""
    return f"{round(ratio * 1e9) / 1e7:.7f}".rstrip("0").rstrip(".") + "%"


def _split(text: object, wanted: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text.strip()) if isinstance(text, str) and len(text) < 64 else None
    if match is None:
        shown = repr(text) if isinstance(text, (str, int, float)) else type(text).__name__
        raise ValueError(f"{shown[:64]} is not {wanted}: a number and its unit")
    return float(match[1]), match[2]
