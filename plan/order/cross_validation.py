"""What an order costs on readings that it was not searched on, and how sure that is.

Each pair of hosts has two readings, visited in rounds far apart. Each half of the readings gets one of the two, chosen
at random; an order is searched on one half and priced on the other, and the reverse (two folds).

How sure a ratio of two such costs is follows from how much two readings of a pair differ: the orders are priced again
and again on held-out readings that are disturbed as much (a parametric bootstrap: Efron and Tibshirani 1993, chapter 6,
with the empirical distribution of the differences), and the deviation of the ratio gives its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.costs import LinkCost
from netprobe.plan.order.readings import Fold
from netprobe.plan.order.strategy import Effort, OrderStrategy
from netprobe.plan.search.ring import ring_cost

DRAWS = 100
COVERAGE = 0.95
FOLDS_ALIKE = 1.0
"""Correlation of the two folds' errors, at its most: what disturbs the prices of one misled the search of the other."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How many times as much the original order costs as another one, with its interval of `COVERAGE`."""

    ratio: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether the other order costs less, beyond what the readings' noise explains."""
        return self.low > 1.0

    @property
    def interval_text(self) -> str:
        """``1.44x to 1.50x``; empty where both ends are the ratio itself in two decimals, and add nothing to it."""
        low, high = f"{self.low:.2f}x", f"{self.high:.2f}x"
        if low != high:
            return f"{low} to {high}"
        return "" if low == f"{self.ratio:.2f}x" else f"about {low}"


@dataclass(frozen=True, kw_only=True)
class HeldOutCosts:
    """By kind of order, on readings that it did not see: mean cost in seconds, and its gain over the original order.

    hop_sums: the gain by the sum of the hops, where the cost is the largest one. All are empty without folds.
    """

    costs: Mapping[str, float] = field(default_factory=dict)
    gains: Mapping[str, Gain] = field(default_factory=dict)
    hop_sums: Mapping[str, Gain] = field(default_factory=dict)


def held_out_costs(
    strategy: OrderStrategy,
    folds: Sequence[Fold],
    hosts: Sequence[int],
    original: Sequence[int],
    effort: Effort,
    noise: Sequence[float] = (),
) -> HeldOutCosts:
    """Costs and gains of the original order, the leaf order and the searched one.

    ``original`` holds places in ``hosts``, which are indices of the document's hosts, its root first. ``noise`` holds
    the differences of the two readings of the pairs, in the logarithm; without any, gains are exact.
    """
    if not folds:
        return HeldOutCosts()
    made: list[tuple[LinkCost, dict[str, Sequence[int]]]] = []
    for fold in folds:
        costs = fold.among(hosts)
        leaf = strategy.leaf(costs.denoised, original[0])
        searched = strategy.search(strategy.costs_of_fold(costs), original, leaf.order, effort)
        orders: dict[str, Sequence[int]] = {
            "given": tuple(original),
            "leaf": leaf.order,
            searched.kind: searched.order,
        }
        made.append((fold.unseen.among(hosts), orders))
    prices = [_prices(strategy, [unseen for unseen, _ in made], [orders for _, orders in made])]
    rng = np.random.default_rng([effort.seed, len(hosts)])
    for _ in range(DRAWS if len(noise) else 0):
        disturbed = [_disturbed(unseen, np.asarray(noise), rng) for unseen, _ in made]
        prices.append(_prices(strategy, disturbed, [orders for _, orders in made]))
    array = np.array(prices)
    kinds = list(made[0][1])
    # Where either of two gains may speak for an order, each has half of the chance to be wrong (Bonferroni).
    tests = 2 if strategy.sum_decides_ties else 1
    return HeldOutCosts(
        costs=dict(zip(kinds, array[0, 0].tolist())),
        gains=_gains(kinds, array[:, 0], len(noise), tests),
        hop_sums=_gains(kinds, array[:, 1], len(noise), tests) if strategy.sum_decides_ties else {},
    )


def _prices(
    strategy: OrderStrategy, unseen: Sequence[LinkCost], orders: Sequence[Mapping[str, Sequence[int]]]
) -> FloatMatrix:
    """(2, K) means over the folds: the cost of each kind of order, and the sum of its hops round a ring."""
    costs = [[strategy.price(order, link) for order in by.values()] for link, by in zip(unseen, orders)]
    sums = costs
    if strategy.sum_decides_ties:
        sums = [[ring_cost(link.matrix(), o) for o in by.values()] for link, by in zip(unseen, orders)]
    count = len(costs)
    return np.array([[math.fsum(column) / count for column in zip(*table)] for table in (costs, sums)])


def _disturbed(unseen: LinkCost, noise: FloatMatrix, rng: np.random.Generator) -> LinkCost:
    """The same readings, each disturbed once more; one reading has 1/sqrt(2) of the difference of two."""
    size = len(unseen)
    more = rng.choice(noise, (size, size)) * rng.choice([-1.0, 1.0], (size, size)) / math.sqrt(2.0)
    more = np.triu(more, 1)
    return LinkCost(alpha_s=unseen.alpha_s * np.exp(more + more.T))


def _gains(kinds: Sequence[str], prices: FloatMatrix, differences: int, tests: int) -> dict[str, Gain]:
    """Of (1 + DRAWS, K) prices, the first row as read and the original order's first."""
    found = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.log(prices[:, :1] / prices)
    for at, kind in enumerate(kinds[1:], 1):
        middle, drawn = float(log_ratio[0, at]), log_ratio[1:, at]
        if not np.isfinite(log_ratio[:, at]).all():
            continue  # links that cost nothing have no ratio
        deviation = float(drawn.std(ddof=1)) * math.sqrt(1.0 + FOLDS_ALIKE) if len(drawn) else 0.0
        reach = deviation * _quantile(max(differences - 1, 1), tests) if deviation else 0.0
        found[kind] = Gain(
            ratio=math.exp(middle), low=math.exp(middle - reach), high=math.exp(middle + reach)
        )
    return found


def _quantile(degrees: int, tests: int) -> float:
    """Student's, two-sided, for one of so many tests."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 1.0 - (1.0 - COVERAGE) / 2.0 / tests))
