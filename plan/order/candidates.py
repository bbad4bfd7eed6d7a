"""The orders worth having, for any algorithm: the given one, the leaves of the hierarchy, and one that was sought."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import Objective
from netprobe.plan.bounds.rings import bottleneck_lower_bound
from netprobe.plan.costs import CostModel, LinkCost
from netprobe.plan.search.anneal import anneal
from netprobe.plan.search.leaves import dealt, leaf_order
from netprobe.plan.search.ring import ring_cost, solve_ring

STEPS_A_HOST = 2_000
MOST_STEPS, LEAST_STEPS = 100_000, 30_000
MOST_WORK = 10_000_000
"""Steps times hosts of a run, down to `LEAST_STEPS`: a step takes time by the hosts. Without numba the four or five
runs of a plan of 256 hosts then take half a minute, and the same steps are made with it."""
RUNS = 2
"""Annealing runs of a plan, and one more where links stay slow; each fold of held-out readings takes one."""
SCALE = float(1 << 40)
"""Whole units of the dearest cost that annealing compares by."""
CLOSE = 0.02
"""Costs within this share of each other are alike: readings say no more, and a given order so near is kept."""
RINGS = ("ring", "chunked-ring")
"""Algorithms whose order the ring solver seeks, the first by the sum of its hops, the second by the largest."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An order of the hosts of a matrix, rank 0 first."""

    kind: str
    order: tuple[int, ...]
    runs: int = 0
    steps: int = 0
    lower_bound: float | None = None
    """Where the search itself proves one, on the costs it searched on."""


def price(model: CostModel, objective: Objective, order: Sequence[int], link_cost: LinkCost) -> float:
    """Seconds of ``order``: the model's, or with ``bottleneck`` (of a ring) the largest hop."""
    if objective == "bottleneck" and model.name == "ring":
        return ring_cost(link_cost.matrix(), order, "bottleneck")
    return model.cost(order, link_cost)


def least_price(model: CostModel, objective: Objective, link_cost: LinkCost) -> float:
    """Seconds that no order's ``price`` goes below."""
    if objective == "bottleneck" and model.name == "ring":
        return bottleneck_lower_bound(link_cost.matrix())
    return model.lower_bound(link_cost)


def turned(given: Sequence[int], root: int, model: CostModel) -> list[int]:
    """``given`` with ``root`` at rank 0: a ring is turned; elsewhere the root and the first host swap places."""
    place = list(given).index(root)
    if model.name in RINGS:
        return [*given[place:], *given[:place]]
    order = list(given)
    order[0], order[place] = order[place], order[0]
    return order


def is_sum_ring(model: CostModel, objective: Objective) -> bool:
    """Whether the hops of a ring are added: the one cost that orders are not tuned to noise by."""
    return model.name == "ring" and objective == "sum"


def leaf_candidate(model: CostModel, objective: Objective, denoised: LinkCost, root: int) -> Candidate:
    """The leaf order, or that dealt out where the algorithm prefers it: nothing is searched."""
    leaf = leaf_order(denoised.matrix(), root)
    orders = [leaf] if model.name in RINGS else [leaf, dealt(leaf)]
    best = min(orders, key=lambda order: price(model, objective, order, denoised))
    return Candidate(kind="leaf", order=tuple(best))


def sought_candidate(
    model: CostModel,
    objective: Objective,
    link_cost: LinkCost,
    given: Sequence[int],
    leaf: Sequence[int],
    *,
    stays: LinkCost | None = None,
    seed: int,
    iterations: int | None = None,
    runs: int = RUNS,
    time_s: float | None = None,
) -> Candidate:
    """The best order found on ``link_cost``, under the given one's root (rank 0).

    Rings by ``solve_ring``; all else by annealing ``runs`` times from the cheaper one of ``leaf`` and ``given``.
    Where ``stays`` has the full costs of links that stay slow it decides: between those runs, and in one more
    run that starts from the best of them. Not in all: full costs are cliffs, between which a search gets stuck.
    ``iterations`` bounds the kicks of a ring and the steps of a run. With ``time_s`` searches are repeated with
    other seeds until so many seconds are over, and what is found depends on the machine.
    """
    end = None if time_s is None else time.monotonic() + time_s
    if model.name in RINGS:
        return _ring(model, objective, link_cost, given, seed=seed, iterations=iterations, end=end)
    work = on_a_grid(link_cost)
    judge = work if stays is None else on_a_grid(stays)
    size = len(given)
    steps = steps_of(size) if iterations is None else max(iterations, 0)
    best, best_cost, made, number = tuple(given), model.cost(given, judge), 0, 0
    first = leaf if model.cost(leaf, work) < model.cost(given, work) else given
    planned = runs if stays is None else runs + 1
    while number < planned or (end is not None and time.monotonic() < end and size > 2):
        # One seed for each run, far from those of another plan's runs.
        again = number >= runs and (number - runs) % 2 == 0
        where, start = (judge, best) if again else (work, first)
        found = anneal(model, where, start, steps=steps, seed=seed * 1_000_003 + number)
        made += found.steps
        number += 1
        cost = model.cost(found.order, judge)
        if cost < best_cost:
            best, best_cost = found.order, cost
    return Candidate(kind="annealed", order=best, runs=number, steps=made)


def worst_candidate(
    model: CostModel,
    objective: Objective,
    link_cost: LinkCost,
    given: Sequence[int],
    *,
    seed: int,
    iterations: int | None = None,
) -> list[int]:
    """The dearest order found, under the given one's root."""
    size = len(given)
    cost = link_cost.matrix(1.0 / max(size, 1) if model.name == "chunked-ring" else 1.0)
    if size < 3:
        return list(given)
    if model.name == "chunked-ring" or objective == "bottleneck":
        # One largest hop is all it takes.
        src, dst = np.unravel_index(int(cost.argmax()), cost.shape)
        rest = [host for host in given if host not in (int(src), int(dst))]
        return turned([int(src), int(dst), *rest], given[0], model)
    if model.name == "ring":
        far = cost.max() - cost
        return list(solve_ring(far, seed=seed, start=given, iterations=iterations).order)
    work = on_a_grid(link_cost)
    steps = steps_of(size) if iterations is None else max(iterations, 0)
    return list(anneal(model, work, given, steps=steps, seed=seed, maximize=True).order)


def steps_of(hosts: int) -> int:
    """Steps of a run unless they are given."""
    return min(STEPS_A_HOST * hosts, MOST_STEPS, max(MOST_WORK // max(hosts, 1), LEAST_STEPS))


def on_a_grid(link_cost: LinkCost) -> LinkCost:
    """The same costs in whole units, the largest being 2^40, so that the unit decides no comparison."""
    alpha = link_cost.matrix(0.0)
    beta = None if link_cost.beta_s_per_byte is None else link_cost.matrix(1.0) - alpha
    top = max(float(alpha.max(initial=0.0)), 0.0 if beta is None else float(beta.max(initial=0.0)))
    if top <= 0:
        return link_cost
    return LinkCost(
        alpha_s=np.rint(alpha / top * SCALE),
        beta_s_per_byte=None if beta is None else np.rint(np.maximum(beta, 0.0) / top * SCALE),
        size_bytes=0.0 if beta is None else 1.0,
    )


def _ring(
    model: CostModel,
    objective: Objective,
    link_cost: LinkCost,
    given: Sequence[int],
    *,
    seed: int,
    iterations: int | None,
    end: float | None,
) -> Candidate:
    share = 1.0 / len(given) if model.name == "chunked-ring" else 1.0
    wanted: Objective = "bottleneck" if model.name == "chunked-ring" else objective
    cost = link_cost.matrix(share)
    runs, kicks = 0, 0
    best = None
    while best is None or (end is not None and not best.proven and time.monotonic() < end):
        found = solve_ring(
            cost, objective=wanted, seed=seed + runs, start=given, root=given[0], iterations=iterations
        )
        runs, kicks = runs + 1, kicks + found.iterations
        if best is None or found.cost_s < best.cost_s:
            best = found
    bound = best.lower_bound_s * (2 * (len(given) - 1) if model.name == "chunked-ring" else 1)
    order = best.order
    if wanted == "bottleneck":
        # No dearer than the given order, whatever else speaks for it.
        most = min(best.cost_s * (1 + CLOSE), max(best.cost_s, best.cost_given_s))
        order = _of_least_sum(cost, best.order, most, seed=seed, iterations=iterations)
    return Candidate(kind="ring", order=order, runs=runs, steps=kicks, lower_bound=bound)


def _of_least_sum(
    cost: FloatMatrix, best: tuple[int, ...], most: float, *, seed: int, iterations: int | None
) -> tuple[int, ...]:
    """Of the rings whose largest hop is at most ``most`` that of the least sum, if it is less than ``best``'s by CLOSE.

    Of links that differ by their noise alone a bottleneck ring takes the fastest, and crosses between groups once
    more for it, where all its hops share the uplinks.
    """
    allowed = np.where(cost <= most, cost, cost.sum())
    found = solve_ring(allowed, seed=seed, start=best, root=best[0], iterations=iterations).order
    is_near = ring_cost(cost, found, "bottleneck") <= most
    return found if is_near and ring_cost(cost, found) < ring_cost(cost, best) * (1 - CLOSE) else best
