"""Pretty numbers: the one place where SI values become text for people."""

from __future__ import annotations


def seconds(value: float | None) -> str:
    """``0.0003`` -> ``300 us``."""
    if value is None or value != value:
        return "-"
    magnitude = abs(value)
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if magnitude < limit:
            return f"{_three(value * factor)} {unit}"
    return f"{_three(value)} s"


def _three(value: float) -> str:
    if value == 0:
        return "0"
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) < 100 else 0
    return f"{value:.{digits}f}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``3 hosts``, ``1 host``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def rate(bytes_per_s: float) -> str:
    """``12.5e6`` -> ``100 Mbit/s``."""
    bits = 8 * bytes_per_s
    for limit, factor, unit in ((1e6, 1e3, "kbit/s"), (1e9, 1e6, "Mbit/s")):
        if bits < limit:
            return f"{_three(bits / factor)} {unit}"
    return f"{_three(bits / 1e9)} Gbit/s"
