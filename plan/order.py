"""Plans of kind ``order``: which host takes which rank, for one algorithm of a collective.

Orders are sought in natural name order of the hosts, under the root as rank 0; the order in which hosts were
given decides the root, the cost it is compared with, and ties.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from netprobe.core.document import Parent
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, natural_order
from netprobe.core.map import Group, Map
from netprobe.core.matrix import FloatMatrix, round_float
from netprobe.core.plan import HeldOutOrders, Objective, OrderPlan, OrderSolver
from netprobe.plan.candidates import (
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
from netprobe.plan.costs import CostModel, LinkCost, cost_model
from netprobe.plan.figures import random_orders
from netprobe.plan.held_out import Choice, Links, Readings, choose, held_out_costs
from netprobe.plan.matrices import MOST_COST, impossible, needed
from netprobe.plan.order_proof import crossings_of, group_by_host, verify_order_plan
from netprobe.plan.polish import check_polish, polish
from netprobe.plan.registry import PlanKind, register, verify_plan
from netprobe.plan.ring import ring_cost

MESSAGE_BYTES = 1_000_000
"""The message whose time is the cost of a link where only goodput was measured, and no size is asked for."""


def links_of(document: Map, size_bytes: int | None = None) -> Links:
    """Costs of the map's links: half the denoised round trip, and with a size the time of its bytes by goodput.

    Where the groups are those of goodput the latency is not known and taken for 0, and a size of
    `MESSAGE_BYTES` is meant unless another is given. Raises InputError for a size and a map without goodput,
    and for a distance above `MOST_COST`.
    """
    for name, layer in document.layers.named().items():
        _check_distances(name, layer.distance, [host.name for host in document.hosts])
    beta = document.layers.beta
    if document.grouped_by != "rtt":
        size = MESSAGE_BYTES if size_bytes is None else size_bytes
        # 0 where there is a place, NaN where there is none.
        return Links(
            alpha_s=document.distance * 0.0, beta_s_per_byte=document.distance.copy(), size_bytes=size
        )
    half = document.distance / 2.0
    if size_bytes is None:
        return Links(alpha_s=half)
    if beta is None:
        raise InputError(
            "a size was given, and the map knows no goodput: scan with --measure rtt,goodput, or leave --size out"
        )
    return Links(alpha_s=half, beta_s_per_byte=beta.distance.copy(), size_bytes=size_bytes)


def one_way_cost_s(document: Map) -> FloatMatrix:
    """Cost [src, dst] of a hop of a ring, in seconds; NaN for unplaced hosts (`links_of` without a size asked for)."""
    size = message_bytes(document)
    return document.distance / 2.0 if size is None else document.distance * size


def message_bytes(document: Map, size_bytes: int | None = None) -> int | None:
    """Size of the buffer whose time is priced, ``size_bytes`` being asked for; None: latency alone is."""
    return links_of(document, size_bytes).size_bytes


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
    readings: Readings | None = None,
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
            "cost_random": random_orders(
                model, objective, link, seed=seed, root=None if model.name in RINGS else given[0]
            ),
            "held_out": _held_out(readings, held, choice.kind),
            "solver": OrderSolver(
                kind=choice.kind,
                candidates_s={kind: round_float(value) for kind, value in costs.items()},
                held_out_s={kind: round_float(value) for kind, value in held.items()},
                raw_share=0.0
                if search is link or model.name == "ring"
                else (readings or Readings()).raw_share,
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
                why=_why_written(model, link, named(order), ranked, order, given, group_of),
            ),
        }
    if maximize:
        worst = worst_candidate(model, objective, link, given, seed=seed, iterations=iterations)
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
    verify_plan(plan)
    return plan


def gap(cost_s: float, lower_bound_s: float) -> float:
    """By how much a cost is above its bound, as a share of it; 0 where both are 0. Derived: it is checked again."""
    if cost_s <= lower_bound_s:
        return 0.0
    return round_float(cost_s / lower_bound_s - 1.0) if lower_bound_s > 0 else 0.0


def advice(
    choice: Choice,
    cost_s: float,
    cost_given_s: float,
    held: Mapping[str, float],
    *,
    same: bool = False,
    why: str = "it was found first",
) -> str:
    """What the figures say, in a sentence.

    same: whether the order is the given one, whatever its kind. ``why`` says for which other reason an order is
    written that costs as much as the given one.
    """
    if choice.kept_given is not None:
        return f"keep your order: {choice.kept_given}"
    if choice.kind == "given" or same:
        return "keep your order: none that costs less was found"
    if held and held[_judged(choice.kind)] > 0:
        gain = held["given"] / held[_judged(choice.kind)]
        if gain > 1 + CLOSE:
            return f"use this order: yours costs {gain:.2f}x as much on readings that the search did not see"
        return (
            f"either will do: to this algorithm both cost the same (within {CLOSE:.0%}) on readings that the search "
            f"did not see; this one is written because {why}"
        )
    if cost_given_s <= cost_s * (1 + CLOSE):
        return f"either will do: on the map both cost the same (within {CLOSE:.0%}); this one is written because {why}"
    return "use this order; what it saves is what the map says, and no reading was held out to check it"


def plain_host(host: Host) -> Host:
    """``host`` without what a scan found out about it."""
    return Host.model_validate({key: getattr(host, key) for key in Host.model_fields})


def _judged(kind: str) -> str:
    return "annealed" if kind == "polished" else kind


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


def _why_written(
    model: CostModel,
    link: LinkCost,
    order_names: Sequence[str],
    ranked: Sequence[str],
    order: Sequence[int],
    given: Sequence[int],
    group_of: Mapping[str, str] | None,
) -> str:
    """What speaks for an order that costs no less than the given one: crossings and the sum of the hops, of a ring."""
    if model.name in RINGS:
        ours, theirs = crossings_of(order_names, group_of), crossings_of(ranked, group_of)
        if ours is not None and theirs is not None and ours < theirs:
            return f"it crosses between groups {ours} times, and yours {theirs} times"
        total, total_given = (ring_cost(link.matrix(), ring) for ring in (order, given))
        if total < total_given:
            return f"the sum of its hops is {total / total_given:.3g} of yours"
    return "it costs least on what was searched, if by little"


def _raw_share(model: CostModel, objective: Objective, readings: Readings | None) -> float:
    if readings is None or readings.search is None or is_sum_ring(model, objective):
        return 0.0
    return readings.raw_share


def _held_out(readings: Readings | None, held: Mapping[str, float], kind: str) -> HeldOutOrders:
    if readings is None:
        return HeldOutOrders(text="not known: the scan of the map was not given")
    if not held:
        return HeldOutOrders(text=readings.text or "not known: the scan of the map was not given")
    return HeldOutOrders(
        folds=len(readings.folds),
        pairs=readings.pairs,
        cost_s=round_float(held[_judged(kind)]),
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


def _check_distances(layer: str, distance: FloatMatrix, names: Sequence[str]) -> None:
    """Refuse a map whose distances no arithmetic bears; a missing one may be of a host without a place."""
    bad = np.argwhere(impossible(distance) & ~np.isnan(distance))
    if len(bad):
        src, dst = bad[0].tolist()
        raise InputError(
            f"the map's distance ({layer}) from {names[src]} to {names[dst]} is {distance[src, dst]:g}: "
            f"at most {MOST_COST:g} is needed"
        )


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
        verify=verify_order_plan,
        summary="hosts in rank order for one algorithm of a collective",
    )
)
