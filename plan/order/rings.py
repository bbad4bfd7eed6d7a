"""Rings: orders found by the ring solver, by the sum of the hops or by the largest one."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import Objective
from netprobe.plan.bounds.rings import bottleneck_lower_bound
from netprobe.plan.costs import LinkCost, RankOrders
from netprobe.plan.order.strategy import CLOSE, Candidate, Effort, Hops, OrderStrategy, SearchCosts
from netprobe.plan.search.ring import RingSolution, ring_cost, solve_ring


class RingStrategy(OrderStrategy):
    """What all rings have in common: the solver, rotation to the root, and crossings."""

    is_ring = True
    solver_objective: ClassVar[Objective]

    def share(self, hosts: int) -> float:  # noqa: ARG002
        """The share of the buffer that one hop carries."""
        return 1.0

    def repeats(self, hosts: int) -> int:  # noqa: ARG002
        """How often the cost that the solver minimises is paid."""
        return 1

    def with_root(self, order: Sequence[int], root: int) -> list[int]:
        """The same ring, rotated."""
        place = list(order).index(root)
        return [*order[place:], *order[:place]]

    def leaf_orders(self, leaf: list[int]) -> list[list[int]]:
        """The leaves as they are."""
        return [leaf]

    def search(
        self,
        costs: SearchCosts,
        original: Sequence[int],
        leaf: Sequence[int],  # noqa: ARG002
        effort: Effort,
    ) -> Candidate:
        """The best ring of the solver's runs; it has starts of its own."""
        end = None if effort.time_s is None else time.monotonic() + effort.time_s
        cost = costs.search.matrix(self.share(len(original)))
        runs, kicks = 0, 0
        best = None
        while best is None or (end is not None and not best.proven and time.monotonic() < end):
            found = solve_ring(
                cost,
                objective=self.solver_objective,
                seed=effort.seed + runs,
                start=original,
                root=original[0],
                iterations=effort.iterations,
            )
            runs, kicks = runs + 1, kicks + found.iterations
            if best is None or found.cost_s < best.cost_s:
                best = found
        return Candidate(
            kind="ring",
            order=self._settled(best, cost, effort),
            runs=runs,
            steps=kicks,
            lower_bound=best.lower_bound_s * self.repeats(len(original)),
        )

    def _settled(self, best: RingSolution, cost: FloatMatrix, effort: Effort) -> tuple[int, ...]:  # noqa: ARG002
        """The order to take of the best ring found."""
        return best.order

    def search_for_plan(
        self, costs: SearchCosts, original: Sequence[int], leaf: Sequence[int], effort: Effort
    ) -> Candidate:
        """Searched again on the denoised costs where the readings led to a ring that those price above the original."""
        found = self.search(costs, original, leaf, effort)
        searched = costs.search
        if self.price(found.order, costs.denoised) > self.price(original, costs.denoised):
            searched = costs.denoised
            found = self.search(replace(costs, search=searched), original, leaf, effort)
        if searched is not costs.denoised:
            # A bound proven on the costs searched on says nothing about the denoised ones.
            found = replace(found, lower_bound=None)
        return found

    def worst(self, link_cost: LinkCost, original: Sequence[int], effort: Effort) -> list[int]:
        """The most expensive ring found."""
        if len(original) < 3:
            return list(original)
        return self._worst(link_cost.matrix(self.share(len(original))), original, effort)

    @abstractmethod
    def _worst(self, cost: FloatMatrix, original: Sequence[int], effort: Effort) -> list[int]:
        """The same for three hosts or more, on the costs of hops."""

    def reason_to_write(self, hops: Hops) -> str:
        """Fewer crossings, or a smaller sum of the hops."""
        ours, theirs = hops.crossings, hops.crossings_original
        if ours is not None and theirs is not None and ours < theirs:
            return f"it crosses between groups {ours} times, and yours {theirs} times"
        if hops.sum_s < hops.sum_original_s:
            return f"the sum of its hops is {hops.sum_s / hops.sum_original_s:.3g} of yours"
        return super().reason_to_write(hops)


class SumRing(RingStrategy):
    """The sum of the hops: the one cost whose orders are not tuned to noise, so denoised costs are all it needs."""

    solver_objective = "sum"
    has_leaf = False
    states_raw_share = False

    def costs_of_plan(self, costs: SearchCosts) -> SearchCosts:
        """The denoised ones."""
        return SearchCosts(denoised=costs.denoised, search=costs.denoised)

    def costs_of_fold(self, costs: SearchCosts) -> SearchCosts:
        """The denoised ones."""
        return self.costs_of_plan(costs)

    def _worst(self, cost: FloatMatrix, original: Sequence[int], effort: Effort) -> list[int]:
        far = cost.max() - cost
        return list(solve_ring(far, seed=effort.seed, start=original, iterations=effort.iterations).order)


class LargestHopRing(RingStrategy):
    """The largest hop decides, and among rings that are equal by it the sum of the hops."""

    solver_objective = "bottleneck"
    sum_decides_ties = True
    slack = 1 + CLOSE
    """The sum of the hops decides between rings whose largest hops are within `CLOSE`, on readings held out too."""

    def costs_of_plan(self, costs: SearchCosts) -> SearchCosts:
        """One search, on the costs that decide."""
        return SearchCosts(denoised=costs.denoised, search=costs.judge)

    def costs_of_fold(self, costs: SearchCosts) -> SearchCosts:
        """One search; slow links are as dear as a share of their readings makes them."""
        return SearchCosts(denoised=costs.denoised, search=costs.search)

    def _settled(self, best: RingSolution, cost: FloatMatrix, effort: Effort) -> tuple[int, ...]:
        """Of the rings whose largest hop is about as small that of the least sum, if less than ``best``'s by CLOSE.

        Of links that differ by their noise alone a bottleneck ring takes the fastest, and crosses between groups
        once more for it, where all its hops share the uplinks.
        """
        # No more expensive than the original order, even where other evidence supports it.
        most = min(best.cost_s * (1 + CLOSE), max(best.cost_s, best.cost_given_s))
        allowed = np.where(cost <= most, cost, cost.sum())
        root = best.order[0]
        found = solve_ring(
            allowed, seed=effort.seed, start=best.order, root=root, iterations=effort.iterations
        ).order
        is_near = ring_cost(cost, found, "bottleneck") <= most
        is_less = ring_cost(cost, found) < ring_cost(cost, best.order) * (1 - CLOSE)
        return found if is_near and is_less else best.order

    def _worst(self, cost: FloatMatrix, original: Sequence[int], effort: Effort) -> list[int]:  # noqa: ARG002
        """Any ring with the largest hop."""
        src, dst = np.unravel_index(int(cost.argmax()), cost.shape)
        rest = [host for host in original if host not in (int(src), int(dst))]
        return self.with_root([int(src), int(dst), *rest], original[0])

    def may_keep_original(self, made: Sequence[Candidate], link_cost: LinkCost) -> bool:
        """A largest hop says nothing about the others, which share the uplinks: the sums have to be near too."""
        cost = link_cost.matrix()
        sums = [ring_cost(cost, entry.order) for entry in made]
        return sums[0] <= min(sums) * (1 + CLOSE)


class BottleneckRing(LargestHopRing):
    """The objective ``bottleneck`` of the algorithm ``ring``: the cost is the largest hop, once."""

    states_raw_share = False

    def price(self, order: Sequence[int], link_cost: LinkCost) -> float:
        """Seconds of the largest hop."""
        return ring_cost(link_cost.matrix(), order, "bottleneck")

    def prices(self, orders: RankOrders, link_cost: LinkCost) -> FloatMatrix:
        """The largest hop of each."""
        largest: FloatMatrix = link_cost.matrix()[orders, np.roll(orders, -1, axis=1)].max(axis=1)
        return largest

    def lower_bound(self, link_cost: LinkCost) -> float:
        """Seconds that no ring's largest hop goes below."""
        return bottleneck_lower_bound(link_cost.matrix())


class ChunkedRing(LargestHopRing):
    """The algorithm ``chunked-ring``: a chunk for each host, so that the largest hop sets the pace of each round."""

    def share(self, hosts: int) -> float:
        """A chunk."""
        return 1.0 / max(hosts, 1)

    def repeats(self, hosts: int) -> int:
        """Once a round."""
        return 2 * (hosts - 1)
