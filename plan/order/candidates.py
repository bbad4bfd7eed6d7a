"""The orders to choose from: the original one, the leaves of the hierarchy, and one or two that were searched."""

from __future__ import annotations

from collections.abc import Sequence

from netprobe.plan.order.choice import ORIGINAL, POLISHED
from netprobe.plan.order.strategy import Candidate, Effort, OrderStrategy, SearchCosts
from netprobe.plan.search.polish import polish


def candidates(
    strategy: OrderStrategy,
    costs: SearchCosts,
    original: Sequence[int],
    effort: Effort,
    exact_s: float | None = None,
) -> list[Candidate]:
    """The original order first, then leaf, searched, and with ``exact_s`` polished, each where there is one."""
    chosen = strategy.costs_of_plan(costs)
    leaf = strategy.leaf(costs.denoised, original[0])
    searched = strategy.search_for_plan(chosen, original, leaf.order, effort)
    found = [Candidate(kind=ORIGINAL, order=tuple(original)), searched]
    if strategy.has_leaf:
        found.insert(1, leaf)
    if exact_s is not None:
        judge = chosen.judge
        better = polish(strategy.model, judge, searched.order, seconds=exact_s, seed=effort.seed)
        if strategy.model.cost(better.order, judge) < strategy.model.cost(searched.order, judge):
            found.append(Candidate(kind=POLISHED, order=better.order))
    return found
