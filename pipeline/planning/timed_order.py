"""An order searched by the time that measured capacities let a large buffer take, as a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import round_float
from netprobe.core.documents.plan import HeldOutOrders, OrderPlan, OrderSolver
from netprobe.core.units import seconds_text
from netprobe.plan import prove_plan
from netprobe.plan.auto.known import known_network
from netprobe.plan.costs import cost_model
from netprobe.plan.order.figures import optimality_gap
from netprobe.plan.order.order_proof import crossings_of, group_by_host
from netprobe.plan.order.strategy import CLOSE
from netprobe.plan.order.timed import OrderTimes, can_differ, fastest_order

MOST_HOSTS = 256
"""Above this a search by time takes minutes: the orders found by the map's costs are compared, and no others."""
BY_TIME = "capacity"
"""The kind of order, as documents name it."""


@dataclass(frozen=True, kw_only=True)
class TimedSearch:
    """What a search by time found. ``order`` None: nothing is surely faster. ``said``: what was tried, in words."""

    order: tuple[str, ...] | None
    time_s: float
    said: str


def search_by_time(
    kept: OrderPlan,
    planned: OrderPlan,
    capacity: Capacity,
    map_: Map,
    size_bytes: int,
    price: Callable[[Sequence[str]], float],
) -> TimedSearch:
    """The order that takes least by ``capacity``, if it is surely faster than both plans' (``kept``: the original one).

    ``price`` is what an order costs link by link: one that costs more than the original is not looked at, since a plan
    never makes that worse on its map. Raises InputError for capacities of other hosts, or without a reading.
    """
    network = known_network(map_, kept.order, capacity).network
    if not can_differ(network):
        return TimedSearch(order=None, time_s=0.0, said="all hosts and uplinks carry the same in any order")
    if len(kept.order) > MOST_HOSTS:
        return TimedSearch(
            order=None, time_s=0.0, said=f"above {MOST_HOSTS} hosts no order is searched by capacities"
        )
    times = OrderTimes(kept.algorithm, network, size_bytes)
    original = tuple(range(len(kept.order)))
    other = tuple(network.index(name) for name in planned.order)
    most = price(kept.order)
    found = fastest_order(
        cost_model(kept.algorithm),
        times,
        [original, other],
        seed=kept.seed or 0,
        allowed=lambda order: price([kept.order[host] for host in order]) <= most,
    )
    tried = f"{found.simulated} orders simulated"
    if not all(times.surely_faster(found.order, one, CLOSE) for one in (original, other)):
        return TimedSearch(
            order=None,
            time_s=found.time_s,
            said=f"none of {tried} is surely more than {CLOSE:.0%} faster than both "
            "the original order and the one found by latency",
        )
    return TimedSearch(
        order=tuple(kept.order[host] for host in found.order),
        time_s=found.time_s,
        said=f"the fastest of {tried}",
    )


def timed_plan(
    kept: OrderPlan,
    planned: OrderPlan,
    found: TimedSearch,
    cost: float,
    map_: Map,
) -> OrderPlan:
    """``found`` as a plan, with what the search by costs found (``planned``); proved."""
    assert found.order is not None  # only an order that was found is made a plan
    cost_s = round_float(cost)
    bound = planned.lower_bound_s
    bound = None if bound is None else min(bound, cost_s)
    others = planned.solver.candidates_s if planned.solver is not None else {"given": kept.cost_given_s}
    solver = OrderSolver(
        kind=BY_TIME,
        candidates_s={**others, BY_TIME: cost_s},
        held_out_s={} if planned.solver is None else planned.solver.held_out_s,
        text=found.said,
    )
    is_ring = planned.crossings is not None
    made = planned.model_copy(
        update={
            "order": list(found.order),
            "kept_given": None,
            "cost_s": cost_s,
            "lower_bound_s": bound,
            "gap": None if bound is None else optimality_gap(cost_s, bound),
            "solver": solver,
            "held_out": HeldOutOrders(text="measured capacities decided, not readings held out"),
            "crossings": crossings_of(found.order, group_by_host(map_.groups)) if is_ring else None,
        }
    )
    prove_plan(made)
    return made


def times_text(measured: str, original_s: float, took_s: float, what: str) -> str:
    """``measured`` ends in "take"."""
    return f"{measured} {seconds_text(original_s)} in the original order, {seconds_text(took_s)} in {what}"
