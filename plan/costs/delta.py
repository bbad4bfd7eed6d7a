"""Costs of the neighbours of an order: two ranks swapped, a block moved, two blocks exchanged.

A neighbour is priced from the transfers that its moved hosts take part in; what comes out is the float that
pricing the whole order would give, so a search may run for millions of steps without drift.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

from netprobe.core.errors import InputError
from netprobe.core.matrix import FloatMatrix
from netprobe.plan.costs.link import LinkCost, Ranks
from netprobe.plan.costs.phases import Phases


class Evaluation(ABC):
    """An order and its cost in seconds. ``swap``, ``move`` and ``exchange`` price a neighbour and leave the
    order as it is; ``accept`` makes the neighbour priced last the order."""

    def __init__(self, order: Ranks) -> None:
        self._order = np.array(order, dtype=np.intp)
        self._cost = 0.0
        self._next: tuple[Ranks, float] | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """Host of each rank."""
        return tuple(self._order.tolist())

    @property
    def cost(self) -> float:
        """Seconds of ``order``."""
        return self._cost

    def swap(self, one: int, other: int) -> float:
        """Cost with the hosts of ranks ``one`` and ``other`` swapped."""
        return self.exchange(one, other, 1) if one != other else self._propose(self._order.copy(), [])

    def move(self, first: int, last: int, to: int) -> float:
        """Cost with the hosts of ranks ``first`` to ``last`` - 1 taken out and put back from rank ``to`` on."""
        size, length = len(self._order), last - first
        if not (0 <= first < last <= size and 0 <= to <= size - length):
            raise InputError(f"no block from {first} to {last} can move to {to} among {size} ranks")
        block, rest = self._order[first:last], np.delete(self._order, np.s_[first:last])
        order = np.concatenate([rest[:to], block, rest[to:]])
        changed = range(min(first, to), max(last, to + length)) if to != first else range(0)
        return self._propose(order, changed)

    def exchange(self, first: int, second: int, length: int) -> float:
        """Cost with the ``length`` ranks from ``first`` on and those from ``second`` on exchanged."""
        low, high = sorted((first, second))
        if not (low >= 0 and length >= 1 and low + length <= high and high + length <= len(self._order)):
            raise InputError(
                f"blocks of {length} from {first} and {second} overlap or leave {len(self._order)} ranks"
            )
        order = self._order.copy()
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

    def _propose(self, order: Ranks, changed: Iterable[int]) -> float:
        ranks = list(changed)
        cost = self._priced(order, ranks)
        self._next = (order, cost)
        return cost

    @abstractmethod
    def _priced(self, order: Ranks, changed: list[int]) -> float:
        """Cost of ``order``, which differs from the present one at ``changed`` only."""

    @abstractmethod
    def _keep(self) -> None:
        """What was computed for the neighbour priced last now holds."""


class RoundEvaluation(Evaluation):
    """Sums over rounds: the values of all transfers and the slowest of each round are kept."""

    def __init__(self, phases: Phases, order: Ranks, link_cost: LinkCost) -> None:
        super().__init__(order)
        self._phases, self._link_cost = phases, link_cost
        self._values = phases.values(self._order, link_cost)
        self._slowest, self._where = self._maxima(self._values)
        self._cost = self._total(self._values, self._slowest)
        self._ends = np.append(phases.starts[1:], len(phases.src))
        self._pending: tuple[Ranks, FloatMatrix, FloatMatrix, Ranks] | None = None

    def _priced(self, order: Ranks, changed: list[int]) -> float:
        phases = self._phases
        if not changed or not phases.times:
            at = np.zeros(0, dtype=np.intp)
            self._pending = (at, np.zeros(0), self._slowest, self._where)
            return self._cost
        at = np.concatenate([phases.touching[rank] for rank in changed])
        new = self._link_cost.seconds(order[phases.src[at]], order[phases.dst[at]], phases.share[at])
        if phases.adds or 4 * len(at) > len(phases.src):
            values = self._values.copy()
            values[at] = new
            slowest, where = self._maxima(values)
            self._pending = (at, new, slowest, where)
            return self._total(values, slowest)
        slowest, where = self._slowest.copy(), self._where.copy()
        gone = np.isin(where, at)
        slowest[gone] = -np.inf
        # A round whose slowest transfer moved is searched again; elsewhere only a slower one can matter.
        for number in np.flatnonzero(gone).tolist():
            first, last = int(phases.starts[number]), int(self._ends[number])
            values = self._values[first:last].copy()
            inside = (at >= first) & (at < last)
            values[at[inside] - first] = new[inside]
            where[number] = first + int(values.argmax())
            slowest[number] = values.max()
        rounds = phases.round_of[at]
        for number in np.unique(rounds[new > slowest[rounds]]).tolist():
            mine = np.flatnonzero(rounds == number)
            best = int(mine[new[mine].argmax()])
            slowest[number], where[number] = new[best], at[best]
        self._pending = (at, new, slowest, where)
        return self._total(self._values, slowest)

    def _keep(self) -> None:
        if self._pending is not None:
            at, new, self._slowest, self._where = self._pending
            self._values[at] = new

    def _maxima(self, values: FloatMatrix) -> tuple[FloatMatrix, Ranks]:
        """The slowest transfer of each round, and which it is."""
        starts = self._phases.starts
        if self._phases.adds or not len(starts):
            return np.zeros(len(starts)), np.zeros(len(starts), dtype=np.intp)
        slowest = np.maximum.reduceat(values, starts)
        where = [int(a + values[a:b].argmax()) for a, b in zip(starts, [*starts[1:], len(values)])]
        return slowest, np.array(where, dtype=np.intp)

    def _total(self, values: FloatMatrix, slowest: FloatMatrix) -> float:
        if self._phases.adds:
            return float(self._phases.totals(values[None])[0])
        total = 0.0
        for times, worst in zip(self._phases.times, slowest.tolist()):
            total += times * worst
        return total
