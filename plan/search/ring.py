"""Rings: an order of hosts in which the sum of the hops, or the largest hop, is small.

A ring is closed: rank i sends to rank i + 1 and the last to the first. One host has no hop and costs 0; two
hosts cost c[0][1] + c[1][0]. Costs are directed, in seconds one-way (half a round trip).

The pieces: a pure search (improve_ring, compiled), the starts (construct), proofs of a few hosts (exact) and bounds of
the rest (bounds, onetree). Work is limited by kicks and done in whole units, so the same input, seed and kicks give
the same ring on every machine, compiled or not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import Objective
from netprobe.core.errors import InputError
from netprobe.core.numeric.compiled import compiled_kernels, numba_is_installed
from netprobe.plan.bounds.matrices import checked_costs
from netprobe.plan.bounds.rings import bottleneck_lower_bound, sum_bound
from netprobe.plan.search import improve_ring, ring_list
from netprobe.plan.search.construct import linkage_leaves, nearest_neighbour, neighbours, padded, whole_units
from netprobe.plan.search.exact import MAX_EXACT_HOSTS, best_sum_ring, least_largest_hop

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)
KICKS_A_HOST = 40
MOST_KICKS = 10_240
DIRECTED_SHARE = 0.4
"""Of the kicks, since a move on directed costs takes two to three times as long."""
COMPILED_FROM = 192
"""Hosts. Fewer are done in plain Python sooner than numba compiles, which takes seconds the first time."""
LOOK_AT_CLOCK = 0.1
"""Seconds of kicks between two looks at the clock."""
TIE = 1e-9
THRESHOLDS = 8


class Groups(Protocol[K_contra]):
    """A mapping or a sequence that tells the group of each entry of an order."""

    def __getitem__(self, key: K_contra, /) -> object:
        """The group of ``key``."""


@dataclass(frozen=True, kw_only=True)
class RingSolution:
    """A ring found. Costs are in seconds: the sum, or for ``bottleneck`` the largest hop."""

    order: tuple[int, ...]
    objective: Objective
    cost_s: float
    cost_given_s: float
    lower_bound_s: float
    """No ring of these hosts costs less."""
    proven: bool
    """The cost is the least possible: proved by enumeration, or equal to the bound."""
    iterations: int
    """Kicks made; 0 when the hosts were few enough to prove the best ring."""


def ring_cost(cost_s: FloatMatrix, order: Sequence[int], objective: Objective = "sum") -> float:
    """Cost of ``order`` on ``cost_s`` (N, N) [src, dst]: the exactly rounded sum of its hops, or the largest.

    0 for fewer than two hosts. The same hops in another rotation give the same float.
    """
    if len(order) < 2:
        return 0.0
    hops = [float(cost_s[a, b]) for a, b in zip(order, [*order[1:], order[0]])]
    return math.fsum(hops) if objective == "sum" else max(hops)


def crossings(order: Sequence[K], group_of: Groups[K]) -> int:
    """Hops of the ring that lead to another group; ``group_of`` maps an entry of ``order`` to its group.

    A ring through g > 1 groups has at least g.
    """
    groups = [group_of[host] for host in order]
    return sum(a != b for a, b in zip(groups, [*groups[1:], *groups[:1]]))


def solve_ring(
    cost_s: FloatMatrix,
    *,
    objective: Objective = "sum",
    seed: int = 0,
    start: Sequence[int] | None = None,
    root: int | None = None,
    iterations: int | None = None,
    time_s: float | None = None,
    compiled: bool | None = None,
) -> RingSolution:
    """Find a ring through all hosts of ``cost_s`` (N, N) [src, dst], seconds one-way, diagonal ignored.

    ``bottleneck`` minimises the largest hop, and the sum among the rings that share it. ``start`` is the
    given order (default: the order of the matrix): the result never costs more, and is the given order
    itself when nothing found is better by more than 1e-9 of its cost. ``root`` (default: the first of the
    given order) comes first. With symmetric costs both directions cost the same; the one in which host 0 is
    followed by its smaller neighbour is taken. ``iterations`` bounds the kicks of the search (default: 40
    a host, at most MOST_KICKS; fewer when directed). Up to MAX_EXACT_HOSTS hosts the ring is proven best.

    ``time_s`` stops the search early, which gives up that the same seed gives the same ring: how far it came
    depends on the machine. ``compiled`` (default: where numba is installed, from COMPILED_FROM hosts on) says how
    the kicks are run; with the same ``iterations`` that changes nothing but the time.

    Raises InputError for a matrix that is not square, has a missing, infinite or negative cost, or for
    a start that is not a permutation.
    """
    cost = checked_costs(cost_s)
    work = _Work.of(len(cost), iterations, time_s, compiled)
    if not cost.size:
        raise InputError(
            "a ring of no hosts: one row and one column a host are needed, and one host at least"
        )
    size = len(cost)
    given = list(range(size)) if start is None else [int(host) for host in start]
    if sorted(given) != list(range(size)):
        raise InputError(f"the given order must list each of the {size} hosts once")
    first = given[0] if root is None else root
    if first not in range(size):
        raise InputError(f"root {first} is not one of the {size} hosts")
    given = _rotated(given, first)
    given_rank = _rank(cost, given, objective)
    if size <= 2:
        found, kicks, proven = given, 0, True
    elif size <= MAX_EXACT_HOSTS:
        found, kicks, proven = _exact(cost, objective), 0, True
    else:
        found, kicks = _searched(cost, objective, seed, work)
        proven = False
        if _rank(cost, found, objective)[0] > given_rank[0]:
            found, more = _searched(cost, objective, seed, work, given)
            kicks += more
    found = _directed(cost, found, objective, first)
    rank = _rank(cost, found, objective)
    bound = rank[0]
    if not proven and objective == "sum":
        bound, ring = _bounded(cost, rank[0])
        if ring is not None and ring_cost(cost, ring) < rank[0] * (1 - TIE):
            found = _directed(cost, ring, objective, first)
            rank = _rank(cost, found, objective)
    elif not proven:
        bound = bottleneck_lower_bound(cost)
    if all(mine <= best * (1 + TIE) for mine, best in zip(given_rank, rank)) or given_rank[0] < rank[0]:
        found, rank = given, given_rank
    bound = min(bound, rank[0])
    return RingSolution(
        order=tuple(found),
        objective=objective,
        cost_s=rank[0],
        cost_given_s=given_rank[0],
        lower_bound_s=bound,
        proven=proven or bound >= rank[0] * (1 - TIE),
        iterations=kicks,
    )


def _rank(cost: FloatMatrix, order: Sequence[int], objective: Objective) -> tuple[float, ...]:
    total = ring_cost(cost, order, "sum")
    return (total,) if objective == "sum" else (ring_cost(cost, order, "bottleneck"), total)


def _exact(cost: FloatMatrix, objective: Objective) -> list[int]:
    units = whole_units(cost)
    limit = None if objective == "sum" else least_largest_hop(units)
    found = best_sum_ring(units, limit)
    return list(range(len(cost))) if found is None else found


def _bounded(cost: FloatMatrix, upper: float) -> tuple[float, tuple[int, ...] | None]:
    """The bound of all rings in seconds, and a ring that its steps met, if any; in whole units, as rings are."""
    units = whole_units(cost).astype(np.float64)
    one = float(cost.max()) / float(units.max()) if units.any() else 0.0
    if one == 0:
        return 0.0, None
    found = sum_bound(units, upper / one)
    # Each hop is rounded to whole units, by half of one at most.
    return max((found.bound - len(cost) / 2) * one, 0.0), found.ring


def _searched(
    cost: FloatMatrix, objective: Objective, seed: int, work: _Work, given: list[int] | None = None
) -> tuple[list[int], int]:
    """The search, from the constructed starts or from ``given``: a ring and the kicks made."""
    units = whole_units(cost)
    fleet = _Fleet(units, seed, work)
    kicks = work.kicks(directed=not fleet.symmetric)
    starts = fleet.starts() if given is None else [given]
    if objective == "sum":
        return fleet.best(starts, kicks)
    return _bottleneck(fleet, cost, starts, kicks)


def _bottleneck(
    fleet: _Fleet, cost: FloatMatrix, starts: list[list[int]], kicks: int
) -> tuple[list[int], int]:
    """Binary search for the least largest hop between the bound and what a plain search reaches.

    A threshold is reached when the search finds a ring without a hop above it; such hops carry
    a penalty larger than any ring. The bound itself, tried first, is usually reached.
    """
    bound = bottleneck_lower_bound(cost)
    best, made = fleet.best(starts, kicks // 8)
    values = np.unique(fleet.units)
    low = int(np.searchsorted(values, int(_whole_units_of(bound, cost))))
    high = int(np.searchsorted(values, fleet.largest_hop(best)))
    tried, middle = 0, low
    while low < high and tried < THRESHOLDS:
        found, more = fleet.best([best], kicks // 8, limit=int(values[middle]))
        made, tried = made + more, tried + 1
        if fleet.largest_hop(found) < values[high]:
            best = found
            high = int(np.searchsorted(values, fleet.largest_hop(best)))
        if high > middle:
            low = middle + 1
        middle = (low + high) // 2
    found, more = fleet.best([best], kicks // 2, limit=fleet.largest_hop(best), to_the_end=True)
    return found, made + more


def _whole_units_of(value: float, cost: FloatMatrix) -> int:
    """A cost of the matrix in the whole units of the matrix."""
    place = np.argwhere(cost == value)
    return int(whole_units(cost)[tuple(place[0])]) if len(place) else 0


@dataclass(frozen=True, kw_only=True)
class _Work:
    """How much to search, and how. ``deadline`` is a time of the monotonic clock."""

    hosts: int
    iterations: int | None
    deadline: float
    compiled: dict[str, Any] | None

    @classmethod
    def of(cls, hosts: int, iterations: int | None, time_s: float | None, compiled: bool | None) -> _Work:
        """From the arguments of `solve_ring`. Raises InputError where numba is requested and not usable."""
        wanted = hosts >= COMPILED_FROM and numba_is_installed() if compiled is None else compiled
        kernels = compiled_kernels(improve_ring) if wanted else None
        if compiled and kernels is None:
            raise InputError("compiled kernels need numba, and it cannot be used: install the extra 'fast'")
        deadline = math.inf if time_s is None else time.monotonic() + time_s
        return cls(hosts=hosts, iterations=iterations, deadline=deadline, compiled=kernels)

    def kicks(self, *, directed: bool) -> int:
        """The kicks of one search."""
        if self.iterations is not None:
            return max(0, self.iterations)
        kicks = min(KICKS_A_HOST * self.hosts, MOST_KICKS)
        return int(kicks * DIRECTED_SHARE) if directed else kicks


class _Fleet:
    """The costs in whole units, with what every search on them shares."""

    def __init__(self, units: NDArray[np.int64], seed: int, work: _Work) -> None:
        self.units = units
        self.seed = seed
        self.work = work
        self.symmetric = bool(np.array_equal(units, units.T))
        after = neighbours(units)
        both = padded(after + (after if self.symmetric else neighbours(units.T.copy())))
        self.near = (both[: len(units)], both[len(units) :])
        self.penalty = len(units) * int(units.max()) + 1

    def starts(self) -> list[list[int]]:
        size = len(self.units)
        return [linkage_leaves(self.units), nearest_neighbour(self.units, 0), list(range(size))]

    def largest_hop(self, order: Sequence[int]) -> int:
        return int(self.units[order, np.roll(order, -1)].max())

    def best(
        self, starts: Sequence[Sequence[int]], kicks: int, limit: int | None = None, to_the_end: bool = False
    ) -> tuple[list[int], int]:
        """The best ring from a descent from each start and kicks from the best of them; and the kicks made.

        With a ``limit`` larger hops are penalised, and unless ``to_the_end`` the search stops without any.
        """
        cost = self.units
        if limit is not None:
            cost = np.where(cost > limit, cost + self.penalty, cost)
        plain = self.work.compiled is None
        run: dict[str, Any] = vars(improve_ring) if self.work.compiled is None else self.work.compiled
        rings = [ring_list.start(cost, self.near, order, self.seed, as_lists=plain) for order in starts]
        for ring in rings:
            run["improve_all"](ring)
        ring = min(rings, key=lambda r: int(r.state[ring_list.TOTAL]))
        enough = -1 if limit is None or to_the_end else self.penalty - 1
        made = self._kick(run["search"], ring, kicks, enough)
        run["turn"](ring, len(cost) // 2)
        run["improve_all"](ring)
        return [int(host) for host in ring.ring[: len(cost)]], made

    def _kick(
        self, search: Callable[[ring_list.Ring, int, int], int], ring: ring_list.Ring, kicks: int, enough: int
    ) -> int:
        """All the kicks, or as many as are made by the deadline."""
        if self.work.deadline == math.inf:
            return int(search(ring, kicks, enough))
        made, few = 0, 1
        while made < kicks and time.monotonic() < self.work.deadline:
            began = time.monotonic()
            wanted = min(few, kicks - made)
            more = int(search(ring, wanted, enough))
            made += more
            if more < wanted:
                break
            few = few * 2 if time.monotonic() - began < LOOK_AT_CLOCK / 2 else few
        return made


def _rotated(order: Sequence[int], first: int) -> list[int]:
    place = list(order).index(first)
    return [*order[place:], *order[:place]]


def _directed(cost: FloatMatrix, order: Sequence[int], objective: Objective, first: int) -> list[int]:
    """The cheaper direction; of equal ones that in which host 0 is followed by its smaller neighbour."""
    forward = _rotated(order, 0)
    if len(forward) > 2 and forward[1] > forward[-1]:
        forward = [forward[0], *reversed(forward[1:])]
    backward = [forward[0], *reversed(forward[1:])]
    best = min(forward, backward, key=lambda o: _rank(cost, o, objective))
    return _rotated(best, first)
