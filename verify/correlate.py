"""Whether predicted and measured costs rank orders in the same way: Kendall's tau-b, and Spearman's coefficient.

Table 6.4 of the dissertation has Spearman's. Where predictions are equal no measurement can agree with them, so
tau-b has a ceiling below 1, which is given with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """Of ``orders`` orders. None where all values of one side are the same."""

    tau_b: float | None
    ceiling: float | None
    """What tau-b would be if every two orders that differ in both values had the same sequence."""
    spearman: float | None
    orders: int


def correlate(predicted: Sequence[float], measured: Sequence[float]) -> Correlation:
    """Of pairs of values, one an order; O(n^2)."""
    count = len(predicted)
    concordant = discordant = tied_x = tied_y = tied = 0
    for i in range(count):
        for j in range(i):
            x, y = predicted[i] - predicted[j], measured[i] - measured[j]
            tied_x += x == 0
            tied_y += y == 0
            if x == 0 or y == 0:
                tied += 1
            elif (x > 0) == (y > 0):
                concordant += 1
            else:
                discordant += 1
    pairs = count * (count - 1) // 2
    scale = math.sqrt((pairs - tied_x) * (pairs - tied_y))
    return Correlation(
        tau_b=(concordant - discordant) / scale if scale else None,
        ceiling=(pairs - tied) / scale if scale else None,
        spearman=_pearson(_ranks(predicted), _ranks(measured)) if scale else None,
        orders=count,
    )


def _ranks(values: Sequence[float]) -> list[float]:
    """From 1; equal values share the mean of their places."""
    order = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(order, 1)))}
    last = {value: place for place, value in enumerate(order, 1)}
    return [(first[value] + last[value]) / 2 for value in values]


def _pearson(x: Sequence[float], y: Sequence[float]) -> float:
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    across = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    return across / math.sqrt(
        math.fsum((a - mean_x) ** 2 for a in x) * math.fsum((b - mean_y) ** 2 for b in y)
    )
