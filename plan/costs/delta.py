"""Costs of the neighbours of an order: two ranks swapped, a block moved, two blocks exchanged.

A neighbour is priced from the transfers that its moved hosts take part in; what comes out is the float that
pricing the whole order would give, so a search may run for millions of steps without drift.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

from netprobe.core.errors import InputError
from netprobe.plan.costs.link import LinkCost, Ranks
from netprobe.plan.costs.phases import Phases

FEW = 8
"""Up to one rank in so many changed, transfers are priced one by one."""


class Evaluation(ABC):
    """An order and its cost in seconds. ``swap``, ``move`` and ``exchange`` price a neighbour and leave the
    order as it is; ``accept`` makes the neighbour priced last the order."""

    def __init__(self, order: Ranks) -> None:
        self._order: list[int] = order.tolist()
        self._cost = 0.0
        self._next: tuple[list[int], float] | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """Host of each rank."""
        return tuple(self._order)

    @property
    def cost(self) -> float:
        """Seconds of ``order``."""
        return self._cost

    def swap(self, one: int, other: int) -> float:
        """Cost with the hosts of ranks ``one`` and ``other`` swapped."""
        return self.exchange(one, other, 1) if one != other else self._propose(list(self._order), [])

    def move(self, first: int, last: int, to: int) -> float:
        """Cost with the hosts of ranks ``first`` to ``last`` - 1 taken out and put back from rank ``to`` on."""
        size, length = len(self._order), last - first
        if not (0 <= first < last <= size and 0 <= to <= size - length):
            raise InputError(f"no block from {first} to {last} can move to {to} among {size} ranks")
        rest = self._order[:first] + self._order[last:]
        order = rest[:to] + self._order[first:last] + rest[to:]
        changed = range(min(first, to), max(last, to + length)) if to != first else range(0)
        return self._propose(order, changed)

    def exchange(self, first: int, second: int, length: int) -> float:
        """Cost with the ``length`` ranks from ``first`` on and those from ``second`` on exchanged."""
        low, high = sorted((first, second))
        if not (low >= 0 and length >= 1 and low + length <= high and high + length <= len(self._order)):
            raise InputError(
                f"blocks of {length} from {first} and {second} overlap or leave {len(self._order)} ranks"
            )
        order = list(self._order)
        order[low : low + length] = self._order[high : high + length]
        order[high : high + length] = self._order[low : low + length]
        return self._propose(order, [*range(low, low + length), *range(high, high + length)])

    def accept(self) -> None:
        """Take the neighbour priced last. Raises InputError when there is none."""
        if self._next is None:
            raise InputError("no neighbour was priced since the last one was accepted")
        self._order, self._cost = self._next
        self._keep()
        self._next = None

    def _propose(self, order: list[int], changed: Iterable[int]) -> float:
        ranks = list(changed)
        cost = self._priced(order, ranks)
        self._next = (order, cost)
        return cost

    @abstractmethod
    def _priced(self, order: list[int], changed: list[int]) -> float:
        """Cost of ``order``, which differs from the present one at ``changed`` only."""

    @abstractmethod
    def _keep(self) -> None:
        """What was computed for the neighbour priced last now holds."""


class RoundEvaluation(Evaluation):
    """Sums over rounds: the value of each transfer and the slowest of each round are kept.

    Few transfers are priced one by one, for a numpy call costs as much as thirty of them; many at once.
    """

    def __init__(self, phases: Phases, order: Ranks, link_cost: LinkCost) -> None:
        super().__init__(order)
        self._phases, self._link_cost = phases, link_cost
        self._src, self._dst, self._share = phases.src.tolist(), phases.dst.tolist(), phases.share.tolist()
        self._touching, self._round_of = phases.touching, phases.round_of.tolist()
        starts = phases.starts.tolist()
        self._bounds = list(zip(starts, [*starts[1:], len(self._src)]))
        self._values: list[float] = []
        self._slowest: list[float] = []
        self._where: list[int] = []
        self._new: dict[int, float] = {}
        self._cost = self._all(self._order)
        self._keep()

    def _priced(self, order: list[int], changed: list[int]) -> float:
        if FEW * len(changed) > len(order):
            return self._all(order)
        new: dict[int, float] = {}
        of_round: dict[int, list[int]] = {}
        src, dst, share, seconds = self._src, self._dst, self._share, self._link_cost.one
        for rank in changed:
            for t in self._touching[rank]:
                if t not in new:
                    new[t] = seconds(order[src[t]], order[dst[t]], share[t])
                    of_round.setdefault(self._round_of[t], []).append(t)
        if self._phases.adds:
            values = list(self._values)
            for t, value in new.items():
                values[t] = value
            self._pending = (values, self._slowest, self._where)
            self._new = {}
            return math.fsum(values)
        slowest, where = list(self._slowest), list(self._where)
        for number, transfers in of_round.items():
            best = max(transfers, key=new.__getitem__)
            if new[best] >= slowest[number]:
                slowest[number], where[number] = new[best], best
            elif where[number] in new:
                # The slowest became faster: any transfer of the round may be the slowest now.
                first, last = self._bounds[number]
                values = self._values[first:last]
                for t in transfers:
                    values[t - first] = new[t]
                slowest[number] = max(values)
                where[number] = first + values.index(slowest[number])
        self._pending = (self._values, slowest, where)
        self._new = new
        return self._total(slowest)

    def _keep(self) -> None:
        self._values, self._slowest, self._where = self._pending
        for t, value in self._new.items():
            self._values[t] = value

    def _all(self, order: list[int]) -> float:
        """Cost of ``order``, every transfer priced again."""
        values = self._phases.values(np.array(order), self._link_cost).tolist()
        self._new = {}
        if self._phases.adds:
            self._pending = (values, [], [])
            return math.fsum(values)
        slowest = [max(values[first:last]) for first, last in self._bounds]
        # Where the slowest is in the order is looked up from its round's start: an equal one elsewhere serves as well.
        where = [values.index(worst, first) for worst, (first, _) in zip(slowest, self._bounds)]
        self._pending = (values, slowest, where)
        return self._total(slowest)

    def _total(self, slowest: list[float]) -> float:
        total = 0.0
        for times, worst in zip(self._phases.times, slowest):
            total += times * worst
        return total
