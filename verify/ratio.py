"""How many times faster one order is than another, from repetitions made in turn.

Each repetition is compared with its neighbour in time, so that drift affects both. The ratio is the geometric
mean over the pairs; its interval of 95 % is Student's, over the logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from netprobe.core.documents.verify import Outcome
from netprobe.core.errors import InputError

LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Time of the baseline over that of the proposed order: above 1 the proposed one is faster."""

    value: float
    low: float | None = None
    high: float | None = None
    """The interval; None of a single pair."""
    pairs: int

    @property
    def width(self) -> float:
        """How far the interval goes from the ratio, as a share of it; infinite where there is none."""
        return math.inf if self.high is None else self.high / self.value - 1.0


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """Of pairs (seconds of the baseline, seconds of the proposed order); None without any."""
    if not pairs:
        return None
    logs = [math.log(baseline / proposed) for baseline, proposed in pairs]
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Ratio(value=math.exp(mean), pairs=1)
    from scipy.special import stdtrit

    variance = math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1)
    half = float(stdtrit(len(logs) - 1, (1 + LEVEL) / 2)) * math.sqrt(variance / len(logs))
    # Two readings that differ by a hundredfold make an interval that no float holds.
    low, high = math.exp(max(mean - half, -700.0)), math.exp(min(mean + half, 700.0))
    return Ratio(value=math.exp(mean), low=low, high=high, pairs=len(logs))


def outcome_of(ratio: Ratio | None, precision: float) -> Outcome:
    """What the interval allows to say; ``same`` where it lies within ``precision`` of 1."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return "cannot_tell"
    if 1.0 / (1.0 + precision) <= ratio.low and ratio.high <= 1.0 + precision:
        return "same"
    if ratio.low > 1.0:
        return "faster"
    return "slower" if ratio.high < 1.0 else "cannot_tell"


def check_precision(precision: float) -> None:
    """Raise InputError for an invalid precision."""
    if not 0.001 <= precision <= 1.0:
        raise InputError(f"a precision of {100 * precision:g} %: 0.1 % to 100 % are allowed")
