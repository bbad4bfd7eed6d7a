"""Units of foreign matrices. None is ever guessed: ``gbps`` and ``GB/s`` are a factor of eight apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from netprobe.core.errors import InputError

Quantity = Literal["rtt", "goodput"]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """``factor`` times a number of it is seconds (quantity rtt) or bytes a second (goodput)."""

    name: str
    quantity: Quantity
    factor: float


def _units() -> dict[str, Unit]:
    found: dict[str, Unit] = {}

    def add(quantity: Quantity, factor: float, name: str, *others: str) -> None:
        unit = Unit(name=name, quantity=quantity, factor=factor)
        found.update(dict.fromkeys((name, *others), unit))

    for name, factor in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        add("rtt", factor, name)
    for prefix, power in (("", 0), ("k", 3), ("M", 6), ("G", 9)):
        small = prefix.lower()
        add("goodput", 10.0**power / 8, f"{prefix}bit/s", f"{prefix}bps", f"{prefix}b/s", f"{small}bps")
        add("goodput", 10.0**power, f"{prefix}B/s", f"{prefix}Bps")
    for prefix, power in (("Ki", 10), ("Mi", 20), ("Gi", 30)):
        add("goodput", 2.0**power, f"{prefix}B/s")
    return found


UNITS = _units()


def unit_named(name: str) -> Unit:
    """The unit of that name; capitals count (b: bits, B: bytes). Raises InputError listing the known ones."""
    if name not in UNITS:
        known = ", ".join(dict.fromkeys(unit.name for unit in UNITS.values()))
        raise InputError(
            f"unknown unit {name[:30]!r}: known are {known} (also gbps; B is bytes and b is bits)"
        )
    return UNITS[name]
