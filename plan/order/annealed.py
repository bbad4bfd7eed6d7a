"""All algorithms that are not rings: their orders are found by annealing."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from netprobe.plan.costs import LinkCost
from netprobe.plan.order.strategy import Candidate, Effort, OrderStrategy, SearchCosts
from netprobe.plan.search.anneal import anneal
from netprobe.plan.search.leaves import interleaved

STEPS_A_HOST = 2_000
MOST_STEPS, LEAST_STEPS = 100_000, 30_000
MOST_WORK = 10_000_000
"""Steps times hosts of a run, down to `LEAST_STEPS`: a step takes time by the hosts. Without numba the four or five
runs of a plan of 256 hosts then take half a minute, and the same steps are made with it."""
SCALE = float(1 << 24)
"""Steps of the largest cost that annealing compares by. See `on_a_grid` for why no finer."""


class AnnealedStrategy(OrderStrategy):
    """Exchanges and trees: rank 0 is special, and far ranks may exchange most."""

    is_ring = False

    def with_root(self, order: Sequence[int], root: int) -> list[int]:
        """The root and the first host swap places."""
        place = list(order).index(root)
        swapped = list(order)
        swapped[0], swapped[place] = swapped[place], swapped[0]
        return swapped

    def leaf_orders(self, leaf: list[int]) -> list[list[int]]:
        """The leaves as they are, and interleaved over the ranks."""
        return [leaf, interleaved(leaf)]

    def search(
        self, costs: SearchCosts, original: Sequence[int], leaf: Sequence[int], effort: Effort
    ) -> Candidate:
        """The best of ``effort.runs`` runs from the cheaper one of ``leaf`` and ``original``.

        Where slow links have costs of their own these decide: between the runs, and in one more run that starts from
        the best of them. Not in all: full costs are cliffs, between which a search gets stuck.
        """
        end = None if effort.time_s is None else time.monotonic() + effort.time_s
        work = on_a_grid(costs.search)
        judge = work if costs.slow is None else on_a_grid(costs.slow)
        size = len(original)
        steps = steps_of(size, effort)
        best, best_cost, made, number = tuple(original), self.model.cost(original, judge), 0, 0
        first = leaf if self.model.cost(leaf, work) < self.model.cost(original, work) else original
        planned = effort.runs if costs.slow is None else effort.runs + 1
        while number < planned or (end is not None and time.monotonic() < end and size > 2):
            # One seed for each run, far from those of another plan's runs.
            again = number >= effort.runs and (number - effort.runs) % 2 == 0
            where, start = (judge, best) if again else (work, first)
            found = anneal(self.model, where, start, steps=steps, seed=effort.seed * 1_000_003 + number)
            made += found.steps
            number += 1
            cost = self.model.cost(found.order, judge)
            if cost < best_cost:
                best, best_cost = found.order, cost
        return Candidate(kind="annealed", order=best, runs=number, steps=made)

    def worst(self, link_cost: LinkCost, original: Sequence[int], effort: Effort) -> list[int]:
        """The most expensive order of one run."""
        if len(original) < 3:
            return list(original)
        steps = steps_of(len(original), effort)
        work = on_a_grid(link_cost)
        return list(anneal(self.model, work, original, steps=steps, seed=effort.seed, maximize=True).order)


def steps_of(hosts: int, effort: Effort) -> int:
    """Steps of a run."""
    if effort.iterations is not None:
        return max(effort.iterations, 0)
    return min(STEPS_A_HOST * hosts, MOST_STEPS, max(MOST_WORK // max(hosts, 1), LEAST_STEPS))


def on_a_grid(link_cost: LinkCost) -> LinkCost:
    """The same costs in whole steps, the largest being 2^24 of them, so that the unit decides no comparison.

    Where all costs are whole numbers, below 2^25, of one unit (as in a file of so many digits), none is nearer to
    half a step than 2^-26 of it, and another unit (with the division five roundings to 53 bits) moves it by less:
    the steps are the same in every unit. A finer grid would round costs at half a step either way. Powers of two
    as units change nothing, for any costs.
    """
    alpha, whole = link_cost.flat
    shape = link_cost.alpha_s.shape
    top = max(float(alpha.max(initial=0.0)), 0.0 if whole is None else float(whole.max(initial=0.0)))
    if top <= 0:
        return link_cost
    return LinkCost(
        alpha_s=np.rint(alpha / top * SCALE).reshape(shape),
        # The time of the whole buffer: not a byte's, which times its size would be off the grid again.
        beta_s_per_byte=None if whole is None else np.rint(whole / top * SCALE).reshape(shape),
        size_bytes=0.0 if whole is None else 1.0,
    )
