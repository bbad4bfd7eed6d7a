"""How the order of one algorithm is searched, priced, bounded and judged.

One strategy is chosen for a plan (`netprobe.plan.order.strategies`), and nothing after that depends on which algorithm
it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.costs import CostModel, LinkCost, RankOrders
from netprobe.plan.search.leaves import leaf_order

CLOSE = 0.02
"""Costs within this share of each other count as equal: readings are not more exact. The original is then kept."""
RUNS = 2
"""Annealing runs of a plan, one more where links are persistently slow; each fold of held-out readings takes one."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An order of the hosts of a matrix, rank 0 first. ``kind`` is as in `OrderSolver`."""

    kind: str
    order: tuple[int, ...]
    runs: int = 0
    steps: int = 0
    lower_bound: float | None = None
    """Where the search itself proves one, on the costs it searched on."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to search.

    ``iterations`` bounds the kicks of a ring and the steps of an annealing run. With ``time_s`` searches are repeated
    with other seeds until so many seconds have passed, and what is found depends on the machine.
    """

    seed: int = 0
    iterations: int | None = None
    runs: int = RUNS
    time_s: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchCosts:
    """Costs of links for a search: the denoised ones, those to search on, and those with slow links in full.

    ``slow`` is None where no link is persistently slow.
    """

    denoised: LinkCost
    search: LinkCost
    slow: LinkCost | None = None

    @property
    def judge(self) -> LinkCost:
        """The costs that decide between orders that were found."""
        return self.search if self.slow is None else self.slow


class OrderStrategy(ABC):
    """What depends on the algorithm. Orders are host indices, rank 0 first; costs are in seconds."""

    is_ring: ClassVar[bool]
    """Hops between groups are counted, an exact search is not needed, and rank 0 costs no more than other ranks."""
    has_leaf: ClassVar[bool] = True
    """Whether the leaf order is a candidate of a plan."""
    states_raw_share: ClassVar[bool] = True
    """Whether a plan states how much of the readings was in the costs searched on."""
    sum_decides_ties: ClassVar[bool] = False
    """Whether orders of equal cost are distinguished by the sum of their hops round a ring."""
    slack: ClassVar[float] = 1.0
    """How many times the held-out cost of the original order that of the plan's order may be."""

    def __init__(self, model: CostModel) -> None:
        self.model = model

    def price(self, order: Sequence[int], link_cost: LinkCost) -> float:
        """Seconds of ``order``."""
        return self.model.cost(order, link_cost)

    def prices(self, orders: RankOrders, link_cost: LinkCost) -> FloatMatrix:
        """``price`` of each of ``orders`` (K, N), as an array (K,)."""
        return self.model.costs(orders, link_cost)

    def lower_bound(self, link_cost: LinkCost) -> float:
        """Seconds that no order's ``price`` goes below."""
        return self.model.lower_bound(link_cost)

    @abstractmethod
    def with_root(self, order: Sequence[int], root: int) -> list[int]:
        """``order``, changed as little as the algorithm allows so that ``root`` is rank 0."""

    @abstractmethod
    def leaf_orders(self, leaf: list[int]) -> list[list[int]]:
        """The orders to make of the leaves of the hierarchy."""

    def leaf(self, denoised: LinkCost, root: int) -> Candidate:
        """The best of the leaf orders: nothing is searched."""
        orders = self.leaf_orders(leaf_order(denoised.matrix(), root))
        best = min(orders, key=lambda order: self.price(order, denoised))
        return Candidate(kind="leaf", order=tuple(best))

    def costs_of_plan(self, costs: SearchCosts) -> SearchCosts:
        """The costs that the order of a plan is searched on."""
        return costs

    def costs_of_fold(self, costs: SearchCosts) -> SearchCosts:
        """The costs that an order is searched on to be priced on readings held out."""
        return costs

    @abstractmethod
    def search(
        self, costs: SearchCosts, original: Sequence[int], leaf: Sequence[int], effort: Effort
    ) -> Candidate:
        """The best order found on ``costs``, under the original order's root."""

    def search_for_plan(
        self, costs: SearchCosts, original: Sequence[int], leaf: Sequence[int], effort: Effort
    ) -> Candidate:
        """``search`` on costs of `costs_of_plan`; a bound holds on the denoised costs, or is None."""
        return self.search(costs, original, leaf, effort)

    @abstractmethod
    def worst(self, link_cost: LinkCost, original: Sequence[int], effort: Effort) -> list[int]:
        """The most expensive order found, under the original order's root."""

    def may_keep_original(self, made: Sequence[Candidate], link_cost: LinkCost) -> bool:  # noqa: ARG002
        """Whether the original order, the first of ``made``, may be kept for costing nearly as little as the best."""
        return True

    def reason_to_write(self, hops: Hops) -> str:  # noqa: ARG002
        """Why an order is written that costs no less than the original one."""
        return "it costs least on what was searched, if by little"


@dataclass(frozen=True, kw_only=True)
class Hops:
    """Of an order and of the original one: how often each crosses between groups (None: no groups), and the sum of
    its hops round a ring, in seconds."""

    crossings: int | None
    crossings_original: int | None
    sum_s: float
    sum_original_s: float
