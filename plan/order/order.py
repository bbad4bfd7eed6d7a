"""Plans of kind ``order``: which host takes which rank, for one algorithm of a collective.

Orders are searched in natural name order of the hosts, under the root as rank 0; the original order decides the root,
the cost it is compared with, and ties.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from netprobe.core.documents.matrix import round_float
from netprobe.core.documents.plan import HeldOutOrders, OrderPlan, OrderSolver
from netprobe.core.hosts import plain_host
from netprobe.plan.order.advice import advise
from netprobe.plan.order.candidates import candidates
from netprobe.plan.order.choice import LEAF, ORIGINAL, Choice, choose, judged_as
from netprobe.plan.order.cross_validation import Gain, HeldOutCosts, held_out_costs
from netprobe.plan.order.figures import PricedOrders, optimality_gap, random_orders
from netprobe.plan.order.link_costs import Links
from netprobe.plan.order.order_proof import crossings_of
from netprobe.plan.order.readings import HeldOutReadings
from netprobe.plan.order.request import OrderProblem, OrderRequest, checked_problem
from netprobe.plan.order.strategy import Candidate, Hops
from netprobe.plan.registry import prove_plan
from netprobe.plan.search.ring import ring_cost

Fields = dict[str, Any]
"""Fields of an OrderPlan."""


def build_order_plan(
    request: OrderRequest, links: Links, readings: HeldOutReadings | None = None
) -> OrderPlan:
    """The plan for ``request`` on ``links``, in the order of its hosts.

    ``readings``, in the same order, add what a map alone does not say: a share of the readings to search on, and
    folds to judge orders by.

    Raises InputError for a missing or impossible cost, an unknown root or algorithm, or when no host is left.
    """
    problem = checked_problem(request, links)
    strategy, link_cost, original = problem.strategy, problem.link_cost, problem.original

    @functools.cache
    def sample() -> PricedOrders:
        return random_orders(strategy, link_cost, root=original[0], seed=request.seed)

    cost_original = strategy.price(original, link_cost)
    if request.keep_original is not None:
        order = original
        found: Fields = {"kept_given": request.keep_original, "cost_s": round_float(cost_original)}
    else:
        search = _searched(problem, readings or HeldOutReadings())
        order = search.order
        found = _figures(problem, search, cost_original) | {
            "cost_random": sample().figures(),
            "held_out": _held_out(readings, search),
        }
    if request.maximize:
        found |= _worst(problem, sample)
    names = problem.named(order)
    is_ring = strategy.is_ring
    plan = OrderPlan.model_validate(
        {
            **_requested(problem),
            **found,
            "order": names,
            "cost_given_s": round_float(cost_original),
            "crossings": crossings_of(names, problem.group_of) if is_ring else None,
            "crossings_given": crossings_of(problem.ranked, problem.group_of) if is_ring else None,
        }
    )
    prove_plan(plan)
    return plan


@dataclass(frozen=True, kw_only=True)
class _Search:
    """What was found. ``costs`` are by kind of candidate, in seconds, on the map; ``judged``: on readings held out."""

    made: list[Candidate]
    costs: Mapping[str, float]
    judged: HeldOutCosts
    choice: Choice
    raw_share: float
    """Of the readings, in the costs searched on."""

    @property
    def order(self) -> tuple[int, ...]:
        """The order of the kind that was chosen."""
        return next(entry.order for entry in self.made if entry.kind == self.choice.kind)

    @property
    def held_out(self) -> Mapping[str, float]:
        """The cost of each kind on readings held out."""
        return self.judged.costs

    @property
    def gain(self) -> Gain | None:
        """Over the original order on readings held out, of the kind that was chosen, or that was rejected for it."""
        kind = judged_as(self.choice.kind)
        others = [name for name in self.judged.gains if name in self.costs]
        if kind == ORIGINAL and others:
            kind = min(others, key=lambda name: self.held_out[name])
        return self.judged.gains.get(kind)

    @property
    def cost(self) -> float:
        """Its cost on the map."""
        return self.costs[self.choice.kind]


def _searched(problem: OrderProblem, readings: HeldOutReadings) -> _Search:
    """The candidates, what each costs on the map and on readings held out, and the one to take."""
    strategy, link_cost, request = problem.strategy, problem.link_cost, problem.request
    costs = readings.among(problem.hosts, link_cost)
    made = candidates(strategy, costs, problem.original, request.effort, request.exact_s)
    judged = held_out_costs(
        strategy, readings.folds, problem.hosts, problem.original, request.fold_effort, readings.noise
    )
    on_map = {entry.kind: strategy.price(entry.order, link_cost) for entry in made}
    choice = choose(
        on_map,
        {entry.kind: strategy.price(entry.order, costs.judge) for entry in made},
        judged.costs,
        gains=judged.gains,
        hop_sums=judged.hop_sums,
        may_keep=strategy.may_keep_original(made, link_cost),
        slow_repeats=readings.slow_repeats,
    )
    states_share = strategy.states_raw_share and readings.search is not None
    return _Search(
        made=made,
        costs=on_map,
        judged=judged,
        choice=choice,
        raw_share=readings.raw_share if states_share else 0.0,
    )


def _requested(problem: OrderProblem) -> Fields:
    """What the request says."""
    request = problem.request
    left_out = set(request.left_out)
    return {
        "seed": request.seed,
        "parents": list(request.parents),
        "hosts": [plain_host(host) for host in request.hosts],
        "collective": problem.strategy.model.collective,
        "algorithm": request.algorithm,
        "objective": request.objective,
        "size_bytes": problem.size_bytes,
        "left_out": [host.name for host in request.hosts if host.name in left_out],
    }


def _figures(problem: OrderProblem, search: _Search, cost_original: float) -> Fields:
    """What was found, what it costs, and what follows from it."""
    bounds = [entry.lower_bound for entry in search.made if entry.lower_bound is not None]
    bound = bounds[0] if bounds else problem.strategy.lower_bound(problem.link_cost)
    cost_s, bound_s = round_float(search.cost), round_float(min(bound, search.cost))
    advice = advise(
        search.choice,
        search.cost,
        cost_original,
        search.held_out,
        is_original=search.order == problem.original,
        gain=search.gain,
        why=problem.strategy.reason_to_write(_hops(problem, search.order)),
    )
    return {
        "kept_given": search.choice.kept_original,
        "cost_s": cost_s,
        "lower_bound_s": bound_s,
        "gap": optimality_gap(cost_s, bound_s),
        "solver": OrderSolver(
            kind=search.choice.kind,
            candidates_s={kind: round_float(value) for kind, value in search.costs.items()},
            held_out_s={kind: round_float(value) for kind, value in search.held_out.items()},
            raw_share=search.raw_share,
            runs=sum(entry.runs for entry in search.made),
            steps=sum(entry.steps for entry in search.made),
            text=search.choice.why,
        ),
        "advice": str(advice),
    }


def _hops(problem: OrderProblem, order: tuple[int, ...]) -> Hops:
    cost = problem.link_cost.matrix()
    return Hops(
        crossings=crossings_of(problem.named(order), problem.group_of),
        crossings_original=crossings_of(problem.ranked, problem.group_of),
        sum_s=ring_cost(cost, order),
        sum_original_s=ring_cost(cost, problem.original),
    )


def _held_out(readings: HeldOutReadings | None, search: _Search) -> HeldOutOrders:
    if readings is None or not search.held_out:
        text = "" if readings is None else readings.text
        return HeldOutOrders(text=text or "not known: the scan of the map was not given")
    held_out, gain = search.held_out, search.gain
    return HeldOutOrders(
        folds=len(readings.folds),
        pairs=readings.pairs,
        cost_s=round_float(held_out[judged_as(search.choice.kind)]),
        cost_given_s=round_float(held_out[ORIGINAL]),
        cost_leaf_s=round_float(held_out[LEAF]),
        gain_low=None if gain is None else round_float(gain.low),
        gain_high=None if gain is None else round_float(gain.high),
        text=readings.text,
    )


def _worst(problem: OrderProblem, sample: Callable[[], PricedOrders]) -> Fields:
    """The most expensive of the order searched for that and the random ones."""
    strategy, link_cost, original = problem.strategy, problem.link_cost, problem.original
    searched = strategy.worst(link_cost, original, problem.request.effort)
    random = strategy.with_root(sample().most_expensive, original[0])
    worst = max((searched, random), key=lambda order: strategy.price(order, link_cost))
    return {
        "cost_worst_s": round_float(strategy.price(worst, link_cost)),
        "order_worst": problem.named(worst),
    }
