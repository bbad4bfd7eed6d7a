"""Rough times of orders where hosts share uplinks: the least time of each round, added up.

For choosing among thousands of orders only; what is shown comes from the simulator (`netprobe.plan.simulate`), on the
same network. A round takes as long as its fullest resource: bytes through it over what it carries. Rounds overlap in
truth, and latencies and what one connection carries are left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import mul

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.capacity import Capacity
from netprobe.plan.costs.delta import Evaluation
from netprobe.plan.costs.link import RankOrders
from netprobe.plan.costs.model import CostModel
from netprobe.plan.simulate.network import Network, network_of

MOST_CELLS = 1 << 19
"""Transfers of all orders together that are priced at once."""
Sent = tuple[int, int, int]
"""Sender, receiver, number of chunks."""


class RoughTimes:
    """Times of orders of ``network.hosts`` by an algorithm, over every resource that the network's transfers pass."""

    def __init__(self, model: CostModel, network: Network) -> None:
        self._model, self._network = model, network
        self._count = len(network.resources)
        self._slots = network.passed.shape[2]
        self._passed = np.where(network.passed < 0, self._count, network.passed)

    def times_s(self, orders: RankOrders, size_bytes: int) -> NDArray[np.float64]:
        """Seconds (K,) of a buffer of ``size_bytes`` in each of ``orders`` (K, N), indices into the hosts."""
        orders = np.asarray(orders, dtype=np.intp)
        times = np.zeros(len(orders))
        unit = size_bytes / self._model.chunks(orders.shape[1]) / self._network.capacity
        if not self._count:
            return times
        for sent, often in counted_rounds(self._model, orders.shape[1]).items():
            at_once = max(1, MOST_CELLS // (len(sent) * self._slots + self._count))
            for first in range(0, len(orders), at_once):
                part = slice(first, first + at_once)
                times[part] += often * self._round(orders[part], sent, unit)
        return times

    def start(self, order: Sequence[int], size_bytes: int) -> RoughEvaluation:
        """``order`` (indices into the hosts) timed, ready for the times of its neighbours."""
        unit = size_bytes / self._model.chunks(len(order)) / self._network.capacity
        passed = [
            [[int(r) for r in row if r < self._count] for row in rows] for rows in self._passed.tolist()
        ]
        return RoughEvaluation(counted_rounds(self._model, len(order)), order, passed, unit.tolist())

    def _round(
        self, orders: RankOrders, sent: Sequence[Sent], unit: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Seconds (K,) of one round: those of the fullest resource."""
        senders, receivers, chunks = np.array(sent, dtype=np.intp).T
        passed = self._passed[orders[:, senders], orders[:, receivers]]
        rows = np.arange(len(orders))[:, None, None] * (self._count + 1) + passed
        weights = np.broadcast_to(chunks[None, :, None].astype(np.float64), passed.shape)
        load = np.bincount(rows.ravel(), weights.ravel(), len(orders) * (self._count + 1))
        whole = load.reshape(len(orders), self._count + 1)[:, : self._count] * unit
        return np.asarray(whole.max(axis=1))


class RoughEvaluation(Evaluation):
    """Keeps the chunks that each round sends through each resource: whole numbers, which never drift."""

    def __init__(
        self,
        rounds: dict[tuple[Sent, ...], int],
        order: Sequence[int],
        passed: list[list[list[int]]],
        unit: list[float],
    ) -> None:
        super().__init__(np.asarray(order, dtype=np.intp))
        self._passed, self._unit = passed, unit
        self._often = list(rounds.values())
        self._sent = [one for transfers in rounds for one in transfers]
        self._round_of = [number for number, transfers in enumerate(rounds) for _ in transfers]
        self._touching: list[list[int]] = [[] for _ in order]
        for number, (src, dst, _) in enumerate(self._sent):
            self._touching[src].append(number)
            self._touching[dst].append(number)
        self._loads = [[0] * len(unit) for _ in rounds]
        for number, (src, dst, chunks) in enumerate(self._sent):
            for resource in passed[self._order[src]][self._order[dst]]:
                self._loads[self._round_of[number]][resource] += chunks
        self._times = [self._longest(loads) for loads in self._loads]
        self._changed: dict[int, tuple[list[int], float]] = {}
        self._cost = math.fsum(map(mul, self._often, self._times))

    def _longest(self, loads: list[int]) -> float:
        return max(map(mul, loads, self._unit), default=0.0)

    def _priced(self, order: list[int], changed: list[int]) -> float:
        old, passed = self._order, self._passed
        loads: dict[int, list[int]] = {}
        for number in {t for rank in changed for t in self._touching[rank]}:
            src, dst, chunks = self._sent[number]
            before, after = passed[old[src]][old[dst]], passed[order[src]][order[dst]]
            if before == after:
                continue
            at = self._round_of[number]
            if at not in loads:
                loads[at] = list(self._loads[at])
            own = loads[at]
            for resource in before:
                own[resource] -= chunks
            for resource in after:
                own[resource] += chunks
        self._changed = {at: (own, self._longest(own)) for at, own in loads.items()}
        if not self._changed:
            return self._cost
        times = list(self._times)
        for at, (_, longest) in self._changed.items():
            times[at] = longest
        return math.fsum(map(mul, self._often, times))

    def _keep(self) -> None:
        for at, (own, longest) in self._changed.items():
            self._loads[at], self._times[at] = own, longest
        self._changed = {}


def counted_rounds(model: CostModel, ranks: int) -> dict[tuple[Sent, ...], int]:
    """The rounds of an algorithm in which anything is sent, each once with how often it comes."""
    return Counter(
        tuple(sorted((t.src, t.dst, t.last - t.first) for t in transfers))
        for transfers in model.program(ranks)
        if transfers
    )


def rough_time_s(model: CostModel, order: Sequence[str], capacity: Capacity, size_bytes: int) -> float:
    """Seconds of ``size_bytes`` by ``model`` in ``order`` (host names). Raises InputError as `network_of` does."""
    rough = RoughTimes(model, network_of(capacity, order))
    return float(rough.times_s(np.arange(len(order))[None], size_bytes)[0])


def worst_uplink_crossings(order: Sequence[str], groups: Sequence[Iterable[str]]) -> int:
    """Most hops of the ring that leave one group: as often each byte passes that group's uplink."""
    of = {name: g for g, names in enumerate(groups) for name in names}
    left: Counter[int] = Counter(
        of[a] for a, b in zip(order, [*order[1:], *order[:1]], strict=True) if of[a] != of[b]
    )
    return max(left.values(), default=0)
