"""What every cost model offers, and how a sum of rounds is priced.

A model is one algorithm of a collective. It prices an order, ``order[rank] = host``, in seconds; many orders
at once; and an order that differs a little from one already priced (``delta``). All three give the very
same number: they add the same floats in the same sequence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.costs.delta import Evaluation, RoundEvaluation
from netprobe.plan.costs.link import LinkCost, RankOrders, Ranks, checked_orders
from netprobe.plan.costs.phases import Phases, merged
from netprobe.plan.schedule.builders.rounds import Triple, triples
from netprobe.plan.schedule.contract import Collective
from netprobe.plan.schedule.schedule import Round


class CostModel(Protocol):
    """One algorithm of a collective, priced."""

    @property
    def name(self) -> str:
        """What a user calls it."""

    @property
    def collective(self) -> Collective:
        """What it computes."""

    def cost(self, order: Sequence[int], link_cost: LinkCost) -> float:
        """Seconds of the hosts in ``order``, rank 0 first. Raises InputError for an invalid order."""

    def costs(self, orders: Iterable[Sequence[int]] | RankOrders, link_cost: LinkCost) -> FloatMatrix:
        """``cost`` of each of ``orders`` (K, N), as an array (K,)."""

    def start(self, order: Sequence[int], link_cost: LinkCost) -> Evaluation:
        """``order`` priced, ready for the costs of its neighbours."""

    def chunks(self, ranks: int) -> int:
        """Into how many equal parts the buffer is cut."""

    def program(self, ranks: int) -> list[Round]:
        """What is sent, round by round, among any number of ranks from 1."""

    def rounds(self, ranks: int) -> Iterator[list[Triple]]:
        """``program`` as (sender, receiver, share of the buffer)."""

    def lower_bound(self, link_cost: LinkCost) -> float:
        """Seconds that no order of all the hosts goes below."""


@dataclass(frozen=True)
class RoundModel(ABC):
    """An algorithm whose rounds wait for each other: the sum over the rounds of the slowest transfer."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a user calls it."""

    @property
    def collective(self) -> Collective:
        """What it computes."""
        return "all_reduce"

    @abstractmethod
    def chunks(self, ranks: int) -> int:
        """Into how many equal parts the buffer is cut."""

    @abstractmethod
    def program(self, ranks: int) -> list[Round]:
        """What is sent, round by round."""

    @abstractmethod
    def lower_bound(self, link_cost: LinkCost) -> float:
        """Seconds that no order of all the hosts goes below."""

    def rounds(self, ranks: int) -> Iterator[list[Triple]]:
        """``program`` as (sender, receiver, share of the buffer)."""
        return triples(self.program(ranks), self.chunks(ranks))

    def phases(self, ranks: int) -> Phases:
        """The rounds as arrays, equal ones counted once."""
        return merged(self.rounds(ranks), ranks)

    def cost(self, order: Sequence[int], link_cost: LinkCost) -> float:
        """Seconds of the hosts in ``order``, rank 0 first. Raises InputError for an invalid order."""
        return float(self.costs([order], link_cost)[0])

    def costs(self, orders: Iterable[Sequence[int]] | RankOrders, link_cost: LinkCost) -> FloatMatrix:
        """``cost`` of each of ``orders`` (K, N), as an array (K,)."""
        array = checked_orders(orders, len(link_cost))
        phases = cached_phases(self, array.shape[1])
        return phases.totals(phases.values(array, link_cost))

    def start(self, order: Sequence[int], link_cost: LinkCost) -> Evaluation:
        """``order`` priced, ready for the costs of its neighbours."""
        array: Ranks = checked_orders([order], len(link_cost))[0]
        return RoundEvaluation(cached_phases(self, len(array)), array, link_cost)


@lru_cache(maxsize=64)
def cached_phases(model: RoundModel, ranks: int) -> Phases:
    """``model.phases``, built once for each number of ranks."""
    return model.phases(ranks)
