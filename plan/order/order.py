"""Plans of kind ``order``: which host takes which rank, for one algorithm of a collective.

Orders are sought in natural name order of the hosts, under the root as rank 0; the order in which hosts were
given decides the root, the cost it is compared with, and ties.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from netprobe.core.documents.document import Parent
from netprobe.core.documents.map import Group
from netprobe.core.documents.matrix import FloatMatrix, round_float
from netprobe.core.documents.plan import HeldOutOrders, Objective, OrderPlan, OrderSolver
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, natural_order, plain_host
from netprobe.plan.bounds.matrices import impossible, needed
from netprobe.plan.costs import CostModel, LinkCost, cost_model
from netprobe.plan.order.advice import advice, judged, why_written
from netprobe.plan.order.candidates import (
    CLOSE,
    RINGS,
    Candidate,
    is_sum_ring,
    leaf_candidate,
    least_price,
    price,
    sought_candidate,
    turned,
    worst_candidate,
)
from netprobe.plan.order.cross_validation import HeldOutReadings, Links, choose, held_out_costs
from netprobe.plan.order.figures import DrawnOrders, drawn_orders, random_orders
from netprobe.plan.order.order_proof import crossings_of, group_by_host, prove_order_plan
from netprobe.plan.registry import PlanKind, prove_plan, register
from netprobe.plan.search.polish import check_polish, polish
from netprobe.plan.search.ring import ring_cost


def build_order_plan(
    hosts: Sequence[Host],
    cost_s: FloatMatrix,
    groups: Sequence[Group] = (),
    *,
    algorithm: str = "ring",
    objective: Objective = "sum",
    root: str | None = None,
    seed: int = 0,
    parents: Sequence[Parent] = (),
    left_out: Sequence[str] = (),
    iterations: int | None = None,
    keep_given: str | None = None,
    beta_s_per_byte: FloatMatrix | None = None,
    size_bytes: int | None = None,
    readings: HeldOutReadings | None = None,
    time_s: float | None = None,
    maximize: bool = False,
    exact_s: float | None = None,
) -> OrderPlan:
    """The plan for ``hosts`` (as given) on ``cost_s`` [src, dst], seconds one-way, in the order of ``hosts``.

    With ``beta_s_per_byte`` [src, dst] a transfer costs its share of ``size_bytes`` besides. Hosts in
    ``left_out`` get no rank, and their rows and columns are ignored. ``groups`` are only counted against.
    ``root`` is the name of rank 0 (default: the first given host that has a rank).

    ``readings`` (all of them in the order of ``hosts``) add what a map alone does not say: a share of the readings
    to search on, and folds to judge orders by. ``keep_given`` is a reason not to search: the given order is
    kept, under the root, and priced. ``iterations`` bounds each search; ``time_s`` repeats searches for so long,
    and ``exact_s`` polishes the order of a few hosts by CP-SAT: with either, bytes depend on the machine.
    ``maximize`` also seeks the dearest order.

    Raises InputError for a missing or impossible cost, an unknown root or algorithm, or when no host is left.
    """
    model = checked_model(algorithm, objective)
    names = [host.name for host in hosts]
    ranked = _ranked(names, left_out)
    _check_limits(model, time_s, exact_s, len(ranked))
    for what, matrix in (("costs", cost_s), ("times a byte", beta_s_per_byte)):
        if matrix is not None and matrix.shape != (len(hosts), len(hosts)):
            raise InputError(f"{what} of shape {matrix.shape} for {len(hosts)} hosts")
    first = ranked[0] if root is None else root
    if first not in ranked:
        why = "has no reading" if first in names else f"is none of the {len(names)} hosts"
        raise InputError(f"root {first!r} {why}")
    kept = [i for i in natural_order(hosts) if names[i] in set(ranked)]
    _check_costs(cost_s, kept, names, "cost")
    if beta_s_per_byte is not None:
        _check_costs(beta_s_per_byte, kept, names, "time a byte")
    link = Links(alpha_s=cost_s, beta_s_per_byte=beta_s_per_byte, size_bytes=size_bytes).among(kept)
    index = {names[i]: at for at, i in enumerate(kept)}
    given = turned([index[name] for name in ranked], index[first], model)
    common = {
        "seed": seed,
        "parents": list(parents),
        "hosts": [plain_host(host) for host in hosts],
        "collective": model.collective,
        "algorithm": algorithm,
        "objective": objective,
        "size_bytes": size_bytes,
        "left_out": [name for name in names if name in set(left_out)],
    }
    cost_given = price(model, objective, given, link)
    group_of = group_by_host(groups) if groups else None

    def named(order: Sequence[int]) -> list[str]:
        return [names[kept[at]] for at in order]

    @functools.cache
    def draw() -> DrawnOrders:
        return drawn_orders(model, objective, link, seed=seed, root=None if model.name in RINGS else given[0])

    if keep_given is not None:
        found = {"kept_given": keep_given, "cost_s": round_float(cost_given)}
        order = given
    else:
        search = link if readings is None or readings.search is None else readings.search.among(kept)
        stays = None if readings is None or readings.stays is None else readings.stays.among(kept)
        made = _candidates(model, objective, link, search, stays, given, seed, iterations, time_s, exact_s)
        folds = () if readings is None else readings.folds
        held = held_out_costs(model, objective, folds, kept, given, seed=seed, iterations=iterations)
        costs = {entry.kind: price(model, objective, entry.order, link) for entry in made}
        judge = search if stays is None else stays
        on_search = {entry.kind: price(model, objective, entry.order, judge) for entry in made}
        repeats = readings is not None and readings.repeats
        choice = choose(costs, on_search, held, alike=_alike(model, objective, made, link), repeats=repeats)
        chosen = next(entry for entry in made if entry.kind == choice.kind)
        order = list(chosen.order)
        cost = costs[choice.kind]
        bounds = [entry.lower_bound for entry in made if entry.lower_bound is not None]
        bound = bounds[0] if bounds else least_price(model, objective, link)
        bound = min(bound, cost)
        found = {
            "kept_given": choice.kept_given,
            "cost_s": round_float(cost),
            "lower_bound_s": round_float(bound),
            "gap": gap(round_float(cost), round_float(bound)),
            "cost_random": random_orders(draw()),
            "held_out": _held_out(readings, held, choice.kind),
            "solver": OrderSolver(
                kind=choice.kind,
                candidates_s={kind: round_float(value) for kind, value in costs.items()},
                held_out_s={kind: round_float(value) for kind, value in held.items()},
                raw_share=0.0
                if search is link or model.name == "ring"
                else (readings or HeldOutReadings()).raw_share,
                runs=sum(entry.runs for entry in made),
                steps=sum(entry.steps for entry in made),
                text=choice.why,
            ),
            "advice": advice(
                choice,
                cost,
                cost_given,
                held,
                same=order == given,
                why=why_written(model, link, named(order), ranked, order, given, group_of),
            ),
        }
    if maximize:
        sought = worst_candidate(model, objective, link, given, seed=seed, iterations=iterations)
        worst = max(
            (sought, turned(draw().dearest, given[0], model)),
            key=lambda one: price(model, objective, one, link),
        )
        found |= {
            "cost_worst_s": round_float(price(model, objective, worst, link)),
            "order_worst": named(worst),
        }
    is_ring = algorithm in RINGS
    plan = OrderPlan.model_validate(
        {
            **common,
            **found,
            "order": named(order),
            "cost_given_s": round_float(cost_given),
            "crossings": crossings_of(named(order), group_of) if is_ring else None,
            "crossings_given": crossings_of(ranked, group_of) if is_ring else None,
        }
    )
    prove_plan(plan)
    return plan


def gap(cost_s: float, lower_bound_s: float) -> float:
    """By how much a cost is above its bound, as a share of it; 0 where both are 0. Derived: it is checked again."""
    if cost_s <= lower_bound_s:
        return 0.0
    return round_float(cost_s / lower_bound_s - 1.0) if lower_bound_s > 0 else 0.0


def _candidates(
    model: CostModel,
    objective: Objective,
    link: LinkCost,
    search: LinkCost,
    stays: LinkCost | None,
    given: Sequence[int],
    seed: int,
    iterations: int | None,
    time_s: float | None,
    exact_s: float | None,
) -> list[Candidate]:
    """Given, leaf, sought, and where it is asked for polished; a sum of hops is sought on the map's own costs."""
    if is_sum_ring(model, objective):
        search, stays = link, None
    judge = search if stays is None else stays
    if model.name in RINGS:
        search, stays = judge, None
    leaf = leaf_candidate(model, objective, link, given[0])
    seek = functools.partial(
        sought_candidate, model, objective, stays=stays, seed=seed, iterations=iterations, time_s=time_s
    )
    sought = seek(search, given, leaf.order)
    if model.name in RINGS and price(model, objective, sought.order, link) > price(
        model, objective, given, link
    ):
        search = link  # readings drew it where the map says that the given order is better
        sought = seek(search, given, leaf.order)
    found = [Candidate(kind="given", order=tuple(given)), sought]
    if not is_sum_ring(model, objective):
        found.insert(1, leaf)
    if model.name in RINGS and search is not link:
        # What was proven of the costs searched on says nothing of the map's.
        found[-1] = Candidate(kind="ring", order=sought.order, runs=sought.runs, steps=sought.steps)
    if exact_s is not None:
        better = polish(model, judge, sought.order, seconds=exact_s, seed=seed)
        if model.cost(better.order, judge) < model.cost(sought.order, judge):
            found.append(Candidate(kind="polished", order=better.order))
    return found


def _alike(model: CostModel, objective: Objective, made: Sequence[Candidate], link: LinkCost) -> bool:
    """Whether the given order may be kept for being nearly as good.

    A largest hop says nothing of the others, which share the uplinks: the sum of the hops has to be near too.
    """
    if model.name not in RINGS or is_sum_ring(model, objective):
        return True
    sums = [ring_cost(link.matrix(), entry.order) for entry in made]
    return sums[0] <= min(sums) * (1 + CLOSE)


def _raw_share(model: CostModel, objective: Objective, readings: HeldOutReadings | None) -> float:
    if readings is None or readings.search is None or is_sum_ring(model, objective):
        return 0.0
    return readings.raw_share


def _held_out(readings: HeldOutReadings | None, held: Mapping[str, float], kind: str) -> HeldOutOrders:
    if readings is None:
        return HeldOutOrders(text="not known: the scan of the map was not given")
    if not held:
        return HeldOutOrders(text=readings.text or "not known: the scan of the map was not given")
    return HeldOutOrders(
        folds=len(readings.folds),
        pairs=readings.pairs,
        cost_s=round_float(held[judged(kind)]),
        cost_given_s=round_float(held["given"]),
        cost_leaf_s=round_float(held["leaf"]),
        text=readings.text,
    )


def _check_limits(model: CostModel, time_s: float | None, exact_s: float | None, hosts: int) -> None:
    for what, value in (("a time", time_s), ("an exact search", exact_s)):
        if value is not None and not 0 < value <= 86_400:
            raise InputError(f"{what} of {value:g} s: more than 0 and at most 86400 are needed")
    if exact_s is not None:
        if model.name in RINGS:
            raise InputError(
                f"an exact search of {model.name}: its own solver proves small rings, leave it out"
            )
        check_polish(hosts)


def checked_model(algorithm: str, objective: Objective) -> CostModel:
    """The cost model. Raises InputError for an unknown algorithm, or an objective that is not one of it."""
    if objective == "bottleneck" and algorithm != "ring":
        raise InputError(f"the objective bottleneck is one of the algorithm ring, and not of {algorithm}")
    return cost_model(algorithm)


def _ranked(names: Sequence[str], left_out: Sequence[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise InputError("a host is listed twice")
    unknown = sorted(set(left_out) - set(names))
    if unknown:
        raise InputError(f"host {unknown[0]!r} is to be left out, and is none of the {len(names)} hosts")
    ranked = [name for name in names if name not in set(left_out)]
    if not ranked:
        raise InputError("no host is left to order: none has a reading")
    return ranked


def _check_costs(matrix: FloatMatrix, kept: Sequence[int], names: Sequence[str], what: str) -> None:
    work = matrix[np.ix_(kept, kept)]
    np.fill_diagonal(work, 0.0)
    bad = np.argwhere(impossible(work))
    if len(bad):
        src, dst = bad[0].tolist()
        value = work[src, dst]
        is_ = "is missing" if np.isnan(value) else f"is {value}"
        raise InputError(f"the {what} from {names[kept[src]]} to {names[kept[dst]]} {is_}: {needed()}")


register(
    PlanKind(
        kind="order",
        model=OrderPlan,
        prove=prove_order_plan,
        summary="hosts in rank order for one algorithm of a collective",
    )
)
