"""Orders searched where flows share what hosts and uplinks carry: rough times steer, the simulator decides.

Annealing on rough times (`plan.costs.rough_times`) from several starts makes a pool; the simulator ranks the best of
it, and climbs from the first by moves that it times itself, for rounds overlap in truth. Work is bounded by steps,
never by time, so that the same seed gives the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.plan.costs import CostModel
from netprobe.plan.costs.rough_times import RoughTimes
from netprobe.plan.schedule.builders import ON_THE_WIRE, build
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.search.anneal import drawn_moves
from netprobe.plan.search.anneal_kernels import EXCHANGE
from netprobe.plan.search.leaves import interleaved
from netprobe.plan.simulate import Job, Network, simulate
from netprobe.plan.simulate.fair import Floats
from netprobe.plan.simulate.simulate import loads

Order = tuple[int, ...]
RUNS, STEPS_A_HOST, MOST_STEPS, MOST_WORK = 4, 100, 4_000, 400_000
"""Annealing runs, and steps of each: fewer where steps times hosts are more than MOST_WORK."""
HOT, COLD = 0.02, 0.0002
RANDOM = 8
RANKED, CLIMBED_A_HOST, MOST_CLIMBED = 24, 8, 250
"""How many orders the simulator ranks, and how many moves it tries from the best."""
MOST_TRANSFERS = 64_000
"""Of all orders that are ranked, and of all that are climbed over: fewer orders where a schedule is large."""
LEAST_RANKED = 3


@dataclass(frozen=True, kw_only=True)
class TimedOrder:
    """An order (hosts of the network by rank), what it takes, and how many orders were simulated to find it."""

    order: Order
    time_s: float
    simulated: int


class OrderTimes:
    """Seconds of orders of ``network.hosts`` by an algorithm, as libraries run it, by the simulator."""

    def __init__(self, algorithm: str, network: Network, size_bytes: int) -> None:
        self.network, self.size_bytes = network, size_bytes
        self.schedule: Schedule = build(ON_THE_WIRE.get(algorithm, algorithm), len(network.hosts))
        self._found: dict[Order, float] = {}

    def __call__(self, order: Sequence[int], network: Network | None = None) -> float:
        """Of one order; on another network where one is given."""
        key = tuple(order)
        if network is not None or key not in self._found:
            names = [self.network.hosts[host] for host in key]
            job = Job(schedule=self.schedule, order=names, size_bytes=self.size_bytes)
            time_s = simulate(network or self.network, [job]).time_s
            if network is not None:
                return time_s
            self._found[key] = time_s
        return self._found[key]

    @property
    def simulated(self) -> int:
        """Orders so far."""
        return len(self._found)

    def surely_faster(self, order: Sequence[int], other: Sequence[int], share: float) -> bool:
        """Whether ``order`` takes less by ``share``, and no more at either end of what the capacities may be.

        Of what may carry nothing it passes no more bytes.
        """
        if self(order) * (1 + share) >= self(other):
            return False
        net = self.network
        ends = () if net.certain else (net.with_capacity(net.high), net.slowest())
        if not all(self(order, end) <= self(other, end) * (1 + share) for end in ends):
            return False
        endless = net.endless
        return not endless.any() or bool((self._loads(order) <= self._loads(other))[endless].all())

    def _loads(self, order: Sequence[int]) -> Floats:
        names = [self.network.hosts[host] for host in order]
        return loads(self.network, Job(schedule=self.schedule, order=names, size_bytes=self.size_bytes))


def can_differ(network: Network) -> bool:
    """Whether orders can take different times: where hosts share uplinks, or do not all carry the same."""
    own = 2 * len(network.hosts)
    return len(network.resources) > own or len(set(network.capacity.tolist())) > 1


def fastest_order(
    model: CostModel,
    times: OrderTimes,
    starts: Iterable[Sequence[int]],
    *,
    seed: int = 0,
    allowed: Callable[[Sequence[int]], bool] = lambda _order: True,
) -> TimedOrder:
    """The fastest order found; the first of ``starts`` (hosts by rank, all with one rank 0) where none is faster.

    Only orders that are ``allowed`` are looked at, apart from the first.
    """
    given = [tuple(order) for order in starts]
    size = len(given[0])
    rng = np.random.default_rng([seed, size])
    groups = _by_group(times.network, given[0])
    known = [order for order in (*given[1:], groups) if allowed(order)]
    made = [*given, groups, tuple(interleaved(list(groups)))]
    made += [(given[0][0], *rng.permutation(given[0][1:]).tolist()) for _ in range(RANDOM if size > 2 else 0)]
    pool = list(dict.fromkeys(order for order in made if order == given[0] or allowed(order)))
    rough = RoughTimes(model, times.network)
    if size > 2:
        first = _ranked(rough, pool, times.size_bytes)[:RUNS]
        for start in first:
            pool += [order for order in _annealed(rough, start, times.size_bytes, rng) if allowed(order)]
    transfers = max(len(times.schedule.expanded()), 1)
    count = min(RANKED, max(LEAST_RANKED, MOST_TRANSFERS // transfers))
    best = min([given[0], *known, *_ranked(rough, pool, times.size_bytes)[:count]], key=times)
    moves = min(CLIMBED_A_HOST * size, MOST_CLIMBED, MOST_TRANSFERS // transfers) if size > 2 else 0
    for row in drawn_moves(rng, max(size, 3), moves).tolist():
        order = _moved(best, row)
        if allowed(order) and times(order) < times(best):
            best = order
    return TimedOrder(order=best, time_s=times(best), simulated=times.simulated)


def _by_group(network: Network, order: Order) -> Order:
    """The order group by group, rank 0 first."""
    groups: dict[str, list[int]] = {}
    for host in order:
        groups.setdefault(network.group_of[host] if network.group_of else "", []).append(host)
    return tuple(host for members in groups.values() for host in members)


def _ranked(rough: RoughTimes, orders: Sequence[Order], size_bytes: int) -> list[Order]:
    """Each once, ascending by rough time."""
    each = list(dict.fromkeys(orders))
    took = rough.times_s(np.array(each, dtype=np.intp), size_bytes)
    return [each[at] for at in np.argsort(took, kind="stable")]


def _annealed(rough: RoughTimes, start: Order, size_bytes: int, rng: np.random.Generator) -> list[Order]:
    """The best order of a run, and the last few that were the best before it."""
    at = rough.start(start, size_bytes)
    steps = min(STEPS_A_HOST * len(start), MOST_STEPS, MOST_WORK // len(start))
    moves = drawn_moves(rng, len(start), steps)
    slack = np.geomspace(HOT, COLD, max(steps, 1))[:steps] * at.cost * rng.standard_exponential(steps)
    best, found = at.cost, []
    for (kind, a, b, c), most in zip(moves.tolist(), slack.tolist()):
        cost = at.exchange(a, b, c) if kind == EXCHANGE else at.move(a, b, c)
        if cost - at.cost <= most:
            at.accept()
            if cost < best:
                best = cost
                found.append(at.order)
    return found[-RANKED // RUNS :]


def _moved(order: Order, row: Sequence[int]) -> Order:
    """``order`` after a drawn move."""
    kind, a, b, c = row
    made = list(order)
    if kind == EXCHANGE:
        made[a : a + c], made[b : b + c] = order[b : b + c], order[a : a + c]
        return tuple(made)
    rest = [*order[:a], *order[b:]]
    return (*rest[:c], *order[a:b], *rest[c:])
