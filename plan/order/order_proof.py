"""What an order plan says of itself, proved: alone when it is built or loaded, and against its map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from netprobe.core.documents.document import canonical_sha256, check_same_hosts
from netprobe.core.documents.map import Group, Map
from netprobe.core.documents.plan import OrderPlan, OrderSolver, Plan, RandomOrders
from netprobe.core.errors import DocumentError, InputError
from netprobe.plan.costs import MODELS
from netprobe.plan.order.link_costs import Links, links_of
from netprobe.plan.order.strategies import has_objective, strategy_of
from netprobe.plan.order.strategy import OrderStrategy
from netprobe.plan.search.ring import crossings

DIGITS = 1e-8
"""Relative: a document keeps 9 significant digits of each cost it was computed from."""
MOST_COST_S = 1e18
"""Longer than the universe has lasted."""
MOST_BYTES = 10**15
"""Of a buffer; what can be requested ends far below."""
SLACK = 1 + DIGITS


def prove_order_plan(plan: Plan) -> None:
    """Prove what a plan says of itself. Raises ValueError naming the first fault.

    The model has already checked the permutation and the range of each number.
    """
    if not isinstance(plan, OrderPlan):
        raise ValueError("is not an order plan")
    if not plan.order:
        raise ValueError("order is empty")
    strategy = _strategy(plan)
    _prove_numbers(plan)
    _prove_original(plan, strategy)
    _prove_bound(plan)
    _prove_random(plan)
    if plan.solver is not None:
        _prove_solver(plan, plan.solver)
    _prove_held_out(plan, strategy)
    count = len(plan.order)
    for key in ("crossings", "crossings_given"):
        value = getattr(plan, key)
        if value is not None and (value > count or value == 1):
            raise ValueError(f"{key} is {value}: a ring of {count} hosts has 0 or 2 to {count}")


def _strategy(plan: OrderPlan) -> OrderStrategy:
    model = MODELS.get(plan.algorithm)
    if model is None:
        raise ValueError(f"algorithm is {plan.algorithm[:60]!r}: known are {', '.join(MODELS)}")
    if plan.collective != model.collective:
        raise ValueError(f"collective is {plan.collective}, and {model.name} is one of {model.collective}")
    if not has_objective(plan.algorithm, plan.objective):
        raise ValueError(f"objective is {plan.objective}, which {plan.algorithm} does not have")
    return strategy_of(plan.algorithm, plan.objective)


def _prove_numbers(plan: OrderPlan) -> None:
    for key in ("cost_s", "cost_given_s", "lower_bound_s", "cost_worst_s", "gap"):
        value = getattr(plan, key)
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{key} is {value}")
        if value is not None and key != "gap" and value > MOST_COST_S:
            raise ValueError(f"{key} is {value:.9g}: no order takes more than {MOST_COST_S:g} s")
    if plan.size_bytes is not None and plan.size_bytes > MOST_BYTES:
        raise ValueError(f"size_bytes is above {MOST_BYTES:.0e}, and no buffer is so large")


def _prove_original(plan: OrderPlan, strategy: OrderStrategy) -> None:
    """The cost of the original order."""
    if plan.cost_s > plan.cost_given_s * SLACK:
        raise ValueError("cost_s is above cost_given_s: an order plan never makes the original order worse")
    is_original = _under_root(_original(plan), plan.order[0], strategy) == list(plan.order)
    if is_original and not math.isclose(plan.cost_s, plan.cost_given_s, rel_tol=DIGITS):
        raise ValueError(
            f"cost_given_s is {plan.cost_given_s}, and the order is the original one, of {plan.cost_s}"
        )
    if plan.kept_given is not None and not is_original:
        raise ValueError("kept_given says the original order was kept, and order is another")


def _prove_bound(plan: OrderPlan) -> None:
    """The lower bound, the optimality gap, and the most expensive order."""
    if plan.lower_bound_s is not None and plan.lower_bound_s > plan.cost_s * SLACK:
        raise ValueError("lower_bound_s is above cost_s")
    if plan.gap is not None:
        if plan.lower_bound_s is None:
            raise ValueError("gap has a value, and lower_bound_s does not")
        true = plan.cost_s / plan.lower_bound_s - 1.0 if plan.lower_bound_s > 0 else 0.0
        if not math.isclose(max(true, 0.0), plan.gap, rel_tol=DIGITS, abs_tol=DIGITS):
            raise ValueError(f"gap is {plan.gap}, and by cost_s and lower_bound_s it is {true:.9g}")
    if (plan.cost_worst_s is None) != (not plan.order_worst):
        raise ValueError("cost_worst_s and order_worst go together")
    if plan.cost_worst_s is not None and plan.cost_worst_s * SLACK < (plan.lower_bound_s or 0.0):
        raise ValueError("cost_worst_s is below lower_bound_s")


def _prove_random(plan: OrderPlan) -> None:
    """The costs of random orders."""
    spread: RandomOrders | None = plan.cost_random
    if spread is None:
        return
    numbers = [spread.least_s, spread.mean_s, spread.most_s, *spread.percentiles_s.values()]
    if max(numbers) > MOST_COST_S:
        raise ValueError(f"cost_random has {max(numbers):.9g}: no order takes more than {MOST_COST_S:g} s")
    if not all(spread.least_s <= value * SLACK and value <= spread.most_s * SLACK for value in numbers):
        raise ValueError("cost_random has a figure that is not between its least_s and its most_s")
    if spread.least_s * SLACK < (plan.lower_bound_s or 0.0):
        raise ValueError("cost_random.least_s is below lower_bound_s")


def _prove_solver(plan: OrderPlan, solver: OrderSolver) -> None:
    """The costs of the candidates."""
    stated = solver.candidates_s.get(solver.kind)
    if stated is None or not math.isclose(stated, plan.cost_s, rel_tol=DIGITS):
        raise ValueError("solver.candidates_s does not give its kind the cost_s of the plan")
    original = solver.candidates_s.get("given")
    if original is not None and not math.isclose(original, plan.cost_given_s, rel_tol=DIGITS):
        raise ValueError(
            f"cost_given_s is {plan.cost_given_s}, and solver.candidates_s has {original} for it"
        )
    if (plan.kept_given is not None) and solver.kind != "given":
        raise ValueError(f"kept_given says the original order was kept, and solver.kind is {solver.kind}")


def _prove_held_out(plan: OrderPlan, strategy: OrderStrategy) -> None:
    """The costs on readings held out."""
    held = plan.held_out
    if held is None or held.cost_s is None or held.cost_given_s is None:
        return
    if held.cost_s > held.cost_given_s * (SLACK * strategy.slack):
        raise ValueError("held_out.cost_s is above held_out.cost_given_s: your order should have been kept")


def prove_against_map(plan: OrderPlan, document: Map, *, source: str | None = None) -> None:
    """Recompute the plan's costs and crossings on the map it was made from.

    Raises DocumentError when the hosts differ, when the plan names another map as its parent, or when
    a number does not come out again within the digits a document keeps.
    """
    check_same_hosts(list(plan.hosts), list(document.hosts), what="the map", source=source)
    maps = [parent for parent in plan.parents if parent.schema_.startswith("netprobe.map/")]
    if maps and canonical_sha256(document) not in {parent.sha256 for parent in maps}:
        raise DocumentError("was made from another map than this one", source=source)
    _prove_costs(plan, document, _links(plan, document, source), source)
    group_of = group_by_host(document.groups)
    for what, order, count in (
        ("crossings", plan.order, plan.crossings),
        ("crossings_given", _original(plan), plan.crossings_given),
    ):
        if count is not None and count != crossings_of(order, group_of):
            raise DocumentError(f"{what} is {count}, which is not what this map says", source=source)


def _links(plan: OrderPlan, document: Map, source: str | None) -> Links:
    """Those of the map, for the plan's buffer."""
    try:
        links = links_of(document, plan.size_bytes)
    except InputError as error:
        size = "" if plan.size_bytes is None else f"size_bytes is {plan.size_bytes}: "
        raise DocumentError(f"{size}{error}", source=source) from None
    if plan.size_bytes != links.size_bytes:
        raise DocumentError(
            f"size_bytes is {plan.size_bytes}, and of this map it is {links.size_bytes}", source=source
        )
    return links


def _prove_costs(plan: OrderPlan, document: Map, links: Links, source: str | None) -> None:
    strategy = strategy_of(plan.algorithm, plan.objective)
    index = {host.name: at for at, host in enumerate(document.hosts)}
    link_cost = links.among([index[name] for name in plan.order])
    at = {name: place for place, name in enumerate(plan.order)}
    stated_costs: Iterable[tuple[str, Sequence[str], float | None]] = (
        ("cost_s", plan.order, plan.cost_s),
        ("cost_given_s", _under_root(_original(plan), plan.order[0], strategy), plan.cost_given_s),
        ("cost_worst_s", plan.order_worst, plan.cost_worst_s),
    )
    for what, order, stated in stated_costs:
        if stated is None:
            continue
        true = strategy.price([at[name] for name in order], link_cost)
        if not math.isclose(true, stated, rel_tol=DIGITS, abs_tol=0.0):
            raise DocumentError(f"{what} is {stated:.9g}, and on this map it is {true:.9g}", source=source)


def group_by_host(groups: Sequence[Group]) -> dict[str, str]:
    """Group id of each grouped host."""
    return {name: group.id for group in groups for name in group.hosts}


def crossings_of(order: Sequence[str], group_of: Mapping[str, str] | None) -> int | None:
    """Crossings; a host in no group is a group of its own. None without groups."""
    if group_of is None:
        return None
    return crossings(range(len(order)), [group_of.get(name, f"\0{name}") for name in order])


def _original(plan: OrderPlan) -> list[str]:
    """The original order of the hosts that have a rank."""
    left_out = set(plan.left_out)
    return [host.name for host in plan.hosts if host.name not in left_out]


def _under_root(order: Sequence[str], root: str, strategy: OrderStrategy) -> list[str]:
    """``order`` with ``root`` as rank 0, as the plan's algorithm has it."""
    places = strategy.with_root(range(len(order)), list(order).index(root))
    return [order[place] for place in places]
