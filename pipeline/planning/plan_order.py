"""map -> plan: the rank order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import Parent, check_same_hosts
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import Objective, OrderPlan
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError
from netprobe.core.hosts import Host
from netprobe.core.units import seconds_text
from netprobe.pipeline.planning.held_out import is_parent, readings_of
from netprobe.pipeline.planning.predicting import by_capacity
from netprobe.pipeline.planning.timed_order import search_by_time, timed_plan, times_text
from netprobe.plan import HeldOutReadings, Links, OrderRequest, build_order_plan, links_of
from netprobe.plan.order.advice import Advice, advice_of
from netprobe.plan.order.figures import optimality_gap
from netprobe.plan.order.strategies import strategy_of
from netprobe.plan.order.strategy import CLOSE
from netprobe.verify.predict import ByCapacity

PRICED_BYTES = 32_000_000
"""A large buffer, where no other is named."""
LEFT_OPEN = ", but how well capacities are known leaves open which is faster"


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What to order the ranks for, and how to find the order.

    ``hosts`` (default: the map's own) gives the original order, slots and launcher names; it must hold the same hosts
    as the map. The first of them stays rank 0 unless ``root`` names another. ``held_out`` (None: up to 256 hosts) says
    whether orders are judged by readings held out. The rest is as in `OrderRequest`.
    """

    hosts: Sequence[Host] | None = None
    algorithm: str = "ring"
    objective: Objective = "sum"
    size_bytes: int | None = None
    root: str | None = None
    seed: int = 0
    held_out: bool | None = None
    maximize: bool = False
    time_s: float | None = None
    exact_s: float | None = None
    iterations: int | None = None


DEFAULT = PlanRequest()


def plan_order(
    map_: Map,
    request: PlanRequest = DEFAULT,
    *,
    scan: Scan | None = None,
    capacity: Capacity | None = None,
    readings: HeldOutReadings | None = None,
) -> OrderPlan:
    """Order the ranks for an algorithm on the denoised RTT/2, and with ``size_bytes`` on the time of its bytes too.

    A map that knows goodput only is priced by that, at a megabyte unless a size is given. With the ``scan`` that
    the map was made from orders are judged by readings held out, and an original order that is within 2 % of the
    best found is kept. ``readings`` are those of `readings_of` (or `readings_in_folder`), in place of a scan.

    ``capacity`` says what hosts and uplinks carry, which no cost of single links knows. An order is then searched by
    the time that a large buffer takes too, and used where it is surely faster; where the order found by costs takes
    longer than the original one, and no other is faster, the original one is kept. Raises InputError where it is of
    other hosts or lacks a reading.

    Groups and orders are two questions: where the map found no locality an order may still cost less. With readings
    held out these decide. Without them nobody can tell, and the original order is kept, since one tuned to noise would
    only look better; the advice says what another would save by the map. ``held_out=False`` lets the map decide, and so
    does a gain that comes from directions that differ beyond noise.
    """
    problem = _Problem.of(map_, request)
    if readings is None and scan is not None:
        if not is_parent(map_, scan):
            raise DocumentError("the scan is not the one that the map was made from", source="scan")
        readings = readings_of(
            map_, scan, size_bytes=request.size_bytes, held_out=request.held_out, seed=request.seed
        )
    if readings is not None:
        problem = replace(problem, readings=readings.permuted(problem.hosts))
    planned = problem.plan()
    trusted = map_.verdict.locality != "none" or request.held_out is False
    if (
        not trusted
        and _is_unchecked(planned)
        and not (map_.is_directed and problem.gains_by_direction(planned))
    ):
        planned = _unchecked(problem, planned)
    return planned if capacity is None else _with_capacity(problem, planned, capacity, map_)


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """A request on a map. ``links`` and ``readings`` are in the original order of the hosts: ``hosts`` of the map."""

    request: OrderRequest
    hosts: Sequence[int]
    links: Links
    readings: HeldOutReadings | None = None

    @classmethod
    def of(cls, map_: Map, request: PlanRequest) -> _Problem:
        """Raises DocumentError for other hosts than the map's."""
        if request.hosts is not None:
            check_same_hosts(list(request.hosts), list(map_.hosts), what="the hosts file", source="map")
        hosts = list(request.hosts if request.hosts is not None else map_.hosts)
        index = {host.name: i for i, host in enumerate(map_.hosts)}
        where = [index[host.name] for host in hosts]
        return cls(
            request=OrderRequest(
                hosts=hosts,
                groups=map_.groups,
                parents=[map_.parent()],
                left_out=map_.unplaced,
                algorithm=request.algorithm,
                objective=request.objective,
                root=request.root,
                seed=request.seed,
                maximize=request.maximize,
                time_s=request.time_s,
                exact_s=request.exact_s,
                iterations=request.iterations,
            ),
            hosts=where,
            links=links_of(map_, request.size_bytes).permuted(where),
        )

    def plan(self, keep_original: str | None = None) -> OrderPlan:
        """The plan, or the original order for the reason ``keep_original``."""
        return build_order_plan(replace(self.request, keep_original=keep_original), self.links, self.readings)

    def pricer(self) -> Callable[[Sequence[str]], float]:
        """What orders of all ranked hosts (names) cost link by link."""
        left_out = set(self.request.left_out)
        ranked = [at for at, host in enumerate(self.request.hosts) if host.name not in left_out]
        number = {self.request.hosts[at].name: rank for rank, at in enumerate(ranked)}
        strategy = strategy_of(self.request.algorithm, self.request.objective)
        cost = self.links.among(ranked)
        return lambda order: strategy.price([number[name] for name in order], cost)

    def gains_by_direction(self, plan: OrderPlan) -> bool:
        """Whether an order gains more than it would if each link were as fast as the faster of its directions."""
        strategy = strategy_of(plan.algorithm, plan.objective)
        left_out = set(plan.left_out)
        ranked = [at for at, host in enumerate(self.request.hosts) if host.name not in left_out]
        number = {self.request.hosts[at].name: rank for rank, at in enumerate(ranked)}
        order = [number[name] for name in plan.order]
        cost = self.links.without_direction().among(ranked)
        original = strategy.price(strategy.with_root(range(len(ranked)), order[0]), cost)
        # As a product: a cost may be 0.
        return plan.cost_given_s * strategy.price(order, cost) > (1 + CLOSE) * plan.cost_s * original


def _is_unchecked(plan: OrderPlan) -> bool:
    """Whether a new order was found that nothing but the map speaks for."""
    return plan.kept_given is None and (plan.held_out is None or plan.held_out.folds == 0)


def _unchecked(problem: _Problem, found: OrderPlan) -> OrderPlan:
    """The original order, since nobody can tell whether the one that was found costs less; its figures are kept."""
    reason = "" if found.held_out is None else found.held_out.text.removeprefix("cannot tell: ")
    why = f"nobody can tell whether another costs less ({reason})"
    if found.cost_s < found.cost_given_s:
        why += f"; on the map alone it costs {found.cost_given_s / found.cost_s:.2f}x the best found"
    return _with_figures(problem.plan(why), found)


def _with_capacity(problem: _Problem, planned: OrderPlan, capacity: Capacity, map_: Map) -> OrderPlan:
    """``planned``, or an order searched by what hosts and uplinks carry; the original one where that is as fast."""
    parents: list[Parent] = [*planned.parents, capacity.parent()]
    is_kept = planned.kept_given is not None
    kept = planned if is_kept else problem.plan("in place of the order found")
    took_s, original_s = shared_times_s([planned, kept], capacity, map_)
    size_bytes = planned.size_bytes or PRICED_BYTES
    price = problem.pricer()
    found = search_by_time(kept, planned, capacity, map_, size_bytes, price)
    measured = f"by the measured capacities {size_bytes / 1e6:g} MB take"
    if found.order is not None:
        searched = timed_plan(kept, planned, found, price(found.order), map_)
        took = times_text(measured, original_s, found.time_s, "this one")
        open_ = _left_open([searched, kept], capacity, map_)
        advice = Advice(action="either" if open_ else "use", reason=f"{took} ({found.said}){open_}")
        return searched.model_copy(update={"parents": parents, "advice": str(advice)})
    if is_kept:
        said = f"{measured} {seconds_text(original_s)}; {found.said}"
        added = None if planned.advice is None else f"{planned.advice}; {said}"
        return planned.model_copy(update={"parents": parents, "advice": added})
    open_ = _left_open([planned, kept], capacity, map_)
    if took_s > original_s and planned.order != kept.order:
        both = f"{seconds_text(original_s)} in it, {seconds_text(took_s)} in the order found"
        why = f"{measured} {both}; {found.said}{open_}"
        return _with_figures(problem.plan(why), planned).model_copy(update={"parents": parents})
    said = f"{times_text(measured, original_s, took_s, 'this one')}; {found.said}"
    said += open_ if planned.order != kept.order else ""
    old = advice_of(planned)
    assert old is not None  # an order that was searched has one
    advice = old.adding(said)
    if advice.action != "use" and not open_ and took_s * (1 + CLOSE) < original_s:
        # What costs the same link by link does not where links are shared. No win where the intervals overlap.
        advice = Advice(action="use", reason=said)
    return planned.model_copy(update={"parents": parents, "advice": str(advice)})


def _left_open(plans: Sequence[OrderPlan], capacity: Capacity, map_: Map) -> str:
    """`LEFT_OPEN` where the intervals of two plans overlap."""
    (low_s, high_s), (other_low_s, other_high_s) = shared_intervals_s(plans, capacity, map_)
    return "" if high_s < other_low_s or other_high_s < low_s else LEFT_OPEN


def _with_figures(kept: OrderPlan, found: OrderPlan) -> OrderPlan:
    """``kept``, whose order is the original one, with what ``found``, which is not taken, was compared with."""
    bound, solver, held = found.lower_bound_s, found.solver, found.held_out
    bound = None if bound is None else min(bound, kept.cost_s)
    figures = {
        "cost_random": found.cost_random,
        "lower_bound_s": bound,
        "gap": None if bound is None else optimality_gap(kept.cost_s, bound),
        "solver": solver and solver.model_copy(update={"kind": "given", "text": f"{solver.text}; not taken"}),
        "held_out": held and held.model_copy(update={"cost_s": held.cost_given_s}),
        "advice": str(Advice(action="keep", reason=kept.kept_given or "")),
    }
    return kept.model_copy(update=figures)


def shared_times_s(plans: Sequence[OrderPlan], capacity: Capacity, map_: Map | None = None) -> list[float]:
    """Seconds that a large buffer takes in the order of each of ``plans``, which differ in nothing else.

    Raises InputError for capacities of other hosts, or without a reading of one that is needed.
    """
    predicted, orders = _predicted(plans, capacity, map_)
    return [float(time) for time in predicted.costs(orders)]


def shared_intervals_s(
    plans: Sequence[OrderPlan], capacity: Capacity, map_: Map | None = None
) -> list[tuple[float, float]]:
    """The least and the most seconds of each, by both ends of the measured capacities; errors as `shared_times_s`.

    inf where nothing bounds the most.
    """
    predicted, orders = _predicted(plans, capacity, map_)
    ends = [predicted.interval(order) for order in orders]
    return [(low, math.inf if high is None else high) for low, high in ends]


def _predicted(
    plans: Sequence[OrderPlan], capacity: Capacity, map_: Map | None
) -> tuple[ByCapacity, list[list[int]]]:
    """What predicts, and the orders as it takes them."""
    plan = plans[0]
    place = {host.name: at for at, host in enumerate(plan.hosts)}
    predicted = by_capacity(plan, capacity, plan.algorithm, plan.size_bytes or PRICED_BYTES, map_)
    return predicted, [[place[name] for name in one.order] for one in plans]
