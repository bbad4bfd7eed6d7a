"""Units: text that people write, read into SI base units, and SI values as text.

Reading never guesses: a delay or a rate without a unit is refused, and ``b`` is bits where ``B`` is bytes.
``exact_*`` write a value so that it is read back unchanged; the other ``*_text`` functions round, for people.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from netprobe.core.errors import InputError

Quantity = Literal["rtt", "goodput"]

UNLIMITED = "unlimited"
_SHOWN = 64
"""Characters of what was given that a message shows."""
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_DELAY_UNITS = {**_SECONDS, "µs": 1e-6}
_DURATION_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_RATE_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_RATE_SUFFIXES = {"bit/s": 0.125, "bps": 0.125, "B/s": 1.0}
_QUANTITY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([^0-9.\s]\S*)", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,13}(?:\.[0-9]{1,9})?)([a-zA-Z]{1,3})")
_SIZE_LIKE = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Z]*)")
_PLAIN = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,9})?")
MOST_BYTES = 10**12
"""Of a size: what is larger is a slip."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A unit of a matrix: ``factor`` times a number in it is seconds (quantity rtt) or bytes a second (goodput)."""

    name: str
    quantity: Quantity
    factor: float


def parse_delay_s(text: object) -> float:
    """A delay such as ``50us``, ``0.15ms`` or ``1 s``, in seconds. Raises InputError."""
    number, unit = _number_and_unit(text, "a delay such as 50us or 0.15ms")
    if unit not in _DELAY_UNITS:
        raise InputError(f"{text!r} is not a valid delay: the unit must be ns, us, ms or s")
    # Whole nanoseconds: that is what the lab's switch takes, and 150 * 1e-6 is not 150e-6 in floating point.
    return round(number * _DELAY_UNITS[unit] * 1e9) / 1e9


def parse_rate_bytes_per_s(text: object) -> float:
    """A rate such as ``1Gbit/s`` or ``125MB/s``, in bytes a second; ``unlimited`` is infinity. Raises InputError."""
    if text == UNLIMITED:
        return math.inf
    number, unit = _number_and_unit(text, f"a rate such as 200Mbit/s, or {UNLIMITED}")
    for suffix, factor in _RATE_SUFFIXES.items():
        prefix = unit.removesuffix(suffix)
        if prefix != unit and prefix in _RATE_PREFIXES:
            return number * _RATE_PREFIXES[prefix] * factor
    raise InputError(
        f"{text!r} is not a valid rate: the unit must be bit/s or B/s, with k, M, G or T before it"
    )


def parse_loss_ratio(text: object) -> float:
    """A loss such as ``20%``, as a ratio from 0 to 1, in whole billionths. Raises InputError."""
    number, unit = _number_and_unit(text, "a loss such as 20%")
    if unit != "%" or number > 100:
        raise InputError(f"{text!r} is not a valid loss: a number from 0 to 100, and %")
    return round(number * 1e7) / 1e9


def parse_size_bytes(text: str, name: str = "size", *, least: int = 0) -> int:
    """A size such as ``1MB``, ``64KiB`` or ``1.5GB``, in bytes, from ``least`` to `MOST_BYTES`.

    Raises InputError, which calls it by its ``name`` (an option, say) and says what is wrong with it.
    """
    match = _SIZE.fullmatch(text)
    unit = _SIZE_UNITS.get(match[2]) if match else None
    if match is None or unit is None:
        raise InputError(_size_fault(text, name, least))
    size = float(match[1]) * unit
    if size > MOST_BYTES:
        raise InputError(_too_large(text, name))
    if round(size) < least:
        raise InputError(f"{name} {text!r} is too small: {_from(least)} are allowed")
    return round(size)


def _size_fault(text: str, name: str, least: int) -> str:
    """What is wrong with a text that is no size: its sign, its amount or its unit."""
    shown, like = repr(text[:_SHOWN]), _SIZE_LIKE.fullmatch(text.strip()[:_SHOWN])
    units = {known.lower(): known for known in _SIZE_UNITS}
    unit = units.get(like[2].lower()) if like else None
    if like is not None and (unit or not like[2]):
        number = float(like[1])
        if like[1].startswith("-") and number:
            return f"{name} {shown} is negative: {_from(least)} are allowed"
        if number * _SIZE_UNITS.get(unit or "B", 1) > MOST_BYTES:
            return _too_large(text, name)
        if not unit and number < least:
            return f"{name} {shown} is too small: {_from(least)} are allowed, such as 64kB"
        plain = _PLAIN.fullmatch(like[1]) is not None
        if not unit and plain:
            return f"{name} {shown} has no unit: {like[1]}B is bytes, {like[1]}MB is megabytes"
        if not unit:
            return f"{name} {shown} has no unit, one of {', '.join(_SIZE_UNITS)}: such as 100MB"
        if plain:
            return f"{name} {shown}: a number and one of {', '.join(_SIZE_UNITS)} is needed, such as {like[1]}{unit}"
    return f"{name} {shown}: a number and one of {', '.join(_SIZE_UNITS)} is needed, such as 100MB"


def _too_large(text: str, name: str) -> str:
    return f"{name} {text[:_SHOWN]!r} is too large: at most {MOST_BYTES // 10**9} GB are allowed"


def _from(least: int) -> str:
    return f"{least} B to {MOST_BYTES // 10**9} GB"


def parse_duration_s(text: str) -> float:
    """A duration such as ``60s``, ``5m``, ``2h``, or a number of seconds. Raises InputError."""
    factor = _DURATION_UNITS.get(text[-1:])
    number = plain_number(text if factor is None else text[:-1])
    if number is None:
        raise InputError(f"{text[:64]!r} is not a duration such as 60s, 5m or 2h")
    return number * (factor or 1.0)


def plain_number(text: str) -> float | None:
    """The number that digits and at most one point are; None for any other text, signs and exponents included."""
    plain = text.replace(".", "", 1)
    return float(text) if plain.isascii() and plain.isdigit() and len(text) <= 12 else None


def exact_delay_text(seconds: float) -> str:
    """The shortest text that ``parse_delay_s`` reads back as the same delay."""
    nanoseconds = round(seconds * 1e9)
    for unit, factor in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds % factor == 0:
            return f"{nanoseconds // factor}{unit}"
    return f"{nanoseconds}ns"


def exact_rate_text(bytes_per_s: float) -> str:
    """A text that ``parse_rate_bytes_per_s`` reads back as the same rate."""
    if math.isinf(bytes_per_s):
        return UNLIMITED
    bits = bytes_per_s * 8
    for prefix in ("G", "M", "k", ""):
        if bits % _RATE_PREFIXES[prefix] == 0:
            return f"{int(bits // _RATE_PREFIXES[prefix])}{prefix}bit/s"
    return f"{bytes_per_s!r}B/s"


def exact_loss_text(ratio: float) -> str:
    """A text that ``parse_loss_ratio`` reads back as the same ratio."""
    return f"{round(ratio * 1e9) / 1e7:.7f}".rstrip("0").rstrip(".") + "%"


def seconds_text(value: float | None) -> str:
    """``0.0003`` -> ``300 us``; ``-`` where there is no value."""
    if value is None or value != value:
        return "-"
    magnitude = abs(value)
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if magnitude < limit:
            return f"{_three_digits(value * factor)} {unit}"
    return f"{_three_digits(value)} s"


def rate_text(bytes_per_s: float) -> str:
    """``12.5e6`` -> ``100 Mbit/s``."""
    bits = 8 * bytes_per_s
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bits >= factor:
            return f"{_three_digits(bits / factor)} {unit}"
    return f"{_three_digits(bits)} bit/s"


def size_text(size_bytes: float) -> str:
    """``1234567`` -> ``1.235 MB``, ``64e3`` -> ``64 kB``."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes:.0f} B"


def rough_size_text(size_bytes: float) -> str:
    """Two digits, for what is only estimated: ``1234567`` -> ``1.2 MB``, ``987654`` -> ``990 kB``."""
    return size_text(_two_digits(size_bytes))


def rough_rate_text(bytes_per_s: float) -> str:
    """Two digits, for what is only estimated: ``12.34e6`` -> ``99 Mbit/s``."""
    number, unit = rate_text(_two_digits(8 * bytes_per_s) / 8).split()
    return f"{float(number):g} {unit}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``3 hosts``, ``1 host``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def unit_named(name: str) -> Unit:
    """The unit of that name; capitals count (b: bits, B: bytes). Raises InputError listing the known ones."""
    if name not in UNITS:
        known = ", ".join(dict.fromkeys(unit.name for unit in UNITS.values()))
        raise InputError(
            f"unknown unit {name[:30]!r}: known are {known} (also gbps; B is bytes and b is bits)"
        )
    return UNITS[name]


def _number_and_unit(text: object, wanted: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) and len(text) < 64 else None
    if match is None:
        shown = repr(text) if isinstance(text, (str, int, float)) else type(text).__name__
        raise InputError(f"{shown[:64]} is not {wanted}: a number and its unit")
    return float(match[1]), match[2]


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def _three_digits(value: float) -> str:
    if value == 0:
        return "0"
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) < 100 else 0
    return f"{value:.{digits}f}"


def _matrix_units() -> dict[str, Unit]:
    found: dict[str, Unit] = {}

    def add(quantity: Quantity, factor: float, name: str, *others: str) -> None:
        unit = Unit(name=name, quantity=quantity, factor=factor)
        found.update(dict.fromkeys((name, *others), unit))

    for name, factor in _SECONDS.items():
        add("rtt", factor, name)
    for prefix, power in (("", 0), ("k", 3), ("M", 6), ("G", 9)):
        small = prefix.lower()
        add("goodput", 10.0**power / 8, f"{prefix}bit/s", f"{prefix}bps", f"{prefix}b/s", f"{small}bps")
        add("goodput", 10.0**power, f"{prefix}B/s", f"{prefix}Bps")
    for prefix, power in (("Ki", 10), ("Mi", 20), ("Gi", 30)):
        add("goodput", 2.0**power, f"{prefix}B/s")
    return found


UNITS = _matrix_units()
"""Every accepted name of a unit of a matrix of round-trip times or goodputs."""
