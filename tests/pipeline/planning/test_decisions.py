"""Which order, groups or schedule a plan ends with, by given times, and what it says of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import DIRECTED, Map, Verdict
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.schedule_plan import Prediction
from netprobe.core.units import seconds_text as t
from netprobe.pipeline.planning import plan_order as module
from netprobe.pipeline.planning import timed_order
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.pipeline.planning.timed_order import TimedSearch, search_by_time, timed_plan
from netprobe.plan.order.order_proof import prove_order_plan
from tests.maps import made_capacity, made_map

MAP = made_map([4, 4], seed=2)
CAPACITY = made_capacity(MAP)
FREE = PlanRequest(held_out=False)


def decided(
    monkeypatch: pytest.MonkeyPatch,
    *,
    took: float,
    original: float,
    apart: bool = True,
    order: list[str] | None = None,
    request: PlanRequest = FREE,
    map_: Map = MAP,
) -> OrderPlan:
    """A plan where the order found by costs takes ``took``, the original one ``original``, ``order`` 0.5 s."""
    asked: dict[str, Any] = {}

    def times(plans: list[OrderPlan], capacity: Capacity, given: Map) -> list[float]:
        assert capacity is CAPACITY and given is map_ and len(plans) == 2
        asked["plans"] = plans
        return [took, original]

    def intervals(plans: list[OrderPlan], _capacity: Capacity, _map: Map) -> list[tuple[float, float]]:
        asked["compared"] = plans
        return [(1.0, 2.0), (2.1, 3.0)] if apart else [(1.0, 2.0), (2.0, 3.0)]

    def search(kept: OrderPlan, planned: OrderPlan, *_rest: Any) -> TimedSearch:
        assert kept.order == asked["plans"][1].order and planned.order == asked["plans"][0].order
        found = None if order is None else tuple(order)
        return TimedSearch(order=found, time_s=0.5, said="9 orders simulated")

    monkeypatch.setattr(module, "shared_times_s", times)
    monkeypatch.setattr(module, "shared_intervals_s", intervals)
    monkeypatch.setattr(module, "search_by_time", search)
    plan = plan_order(map_, request, capacity=CAPACITY)
    prove_order_plan(plan)
    assert plan.parents == [map_.parent(), CAPACITY.parent()]
    return plan


def advice(plan: OrderPlan) -> str:
    assert plan.advice is not None
    return plan.advice


def test_an_order_found_by_costs_is_kept_where_it_takes_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    by_costs = plan_order(MAP, FREE)
    plan = decided(monkeypatch, took=1.0, original=1.5)
    assert plan.order == by_costs.order and plan.kept_given is None and plan.cost_s == by_costs.cost_s
    assert advice(plan).startswith("use this order") and "9 orders simulated" in advice(plan)
    assert f"{t(1.5)} in the original order, {t(1.0)} in this one" in advice(plan)
    assert module.LEFT_OPEN not in advice(plan)
    assert module.LEFT_OPEN in advice(decided(monkeypatch, took=1.0, original=1.5, apart=False))
    # As long as the original one, to the last digit, is not longer.
    assert decided(monkeypatch, took=1.5, original=1.5).order == by_costs.order


def test_an_order_that_takes_longer_is_not_taken_and_its_figures_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_costs = plan_order(MAP, FREE)
    plan = decided(monkeypatch, took=1.6, original=1.5)
    assert plan.order == [host.name for host in MAP.hosts] and plan.kept_given is not None
    assert f"{t(1.5)} in it, {t(1.6)} in the order found; 9 orders simulated" in plan.kept_given
    assert advice(plan) == f"keep your order: {plan.kept_given}"
    assert plan.cost_s == plan.cost_given_s == by_costs.cost_given_s
    assert plan.lower_bound_s == by_costs.lower_bound_s and plan.cost_random == by_costs.cost_random
    assert by_costs.lower_bound_s is not None and plan.gap == pytest.approx(
        plan.cost_s / by_costs.lower_bound_s - 1
    )
    assert plan.solver is not None and by_costs.solver is not None
    assert plan.solver.kind == "given" and plan.solver.text == f"{by_costs.solver.text}; not taken"
    assert plan.solver.candidates_s == by_costs.solver.candidates_s
    open_ = decided(monkeypatch, took=1.6, original=1.5, apart=False)
    assert open_.kept_given is not None and open_.kept_given.endswith(module.LEFT_OPEN)


def test_an_order_found_by_time_is_used_or_either_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    best = list(plan_order(MAP, FREE).order)
    turned = [best[0], *best[:0:-1]]
    for apart, opening in ((True, "use this order"), (False, "either will do")):
        plan = decided(monkeypatch, took=1.0, original=1.5, order=turned, apart=apart)
        assert plan.order == turned and plan.kept_given is None and advice(plan).startswith(opening)
        assert (module.LEFT_OPEN in advice(plan)) == (not apart)
        assert f"{t(1.5)} in the original order, {t(0.5)} in this one (9 orders simulated)" in advice(plan)
        assert plan.solver is not None and plan.solver.kind == "capacity"
        assert plan.solver.candidates_s["capacity"] == plan.cost_s
        assert plan.held_out is not None and plan.held_out.folds == 0
        assert plan.crossings == 2 and plan.cost_s == pytest.approx((6 * 100e-6 + 2 * 300e-6) / 2)


def test_where_the_original_order_was_kept_it_stays_and_its_time_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none = MAP.model_copy(update={"verdict": Verdict(locality="none", text="none")})
    plan = decided(monkeypatch, took=9.0, original=9.0, request=PlanRequest(), map_=none)
    assert plan.kept_given is not None and plan.kept_given.startswith(
        "nobody can tell whether another costs less"
    )
    best = plan_order(MAP, FREE)
    assert (
        f"on the map alone it costs {best.cost_given_s / best.cost_s:.2f}x the best found" in plan.kept_given
    )
    said = f"by the measured capacities 32 MB take {t(9.0)}; 9 orders simulated"
    assert advice(plan) == f"keep your order: {plan.kept_given}; {said}"
    assert plan.order == [host.name for host in MAP.hosts]
    # Asked to let the map decide, it does; and where locality was found.
    assert plan_order(none, PlanRequest(held_out=False)).kept_given is None
    assert plan_order(MAP, PlanRequest()).kept_given is None and plan_order(none).kept_given is not None


def test_a_gain_by_time_alone_is_a_reason_to_use_an_order_of_equal_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where all links cost the same a ring that is turned costs as much, and may take another time."""
    flat = made_map([8])
    monkeypatch.setattr(sys.modules[__name__], "CAPACITY", made_capacity(flat))
    found = plan_order(flat, FREE)
    either = found.model_copy(
        update={
            "order": [found.order[0], *found.order[:0:-1]],
            "advice": "either will do: both cost the same",
        }
    )
    monkeypatch.setattr(
        module._Problem, "plan", lambda self, keep_original=None: found if keep_original else either
    )
    for took, apart, opening in (
        (1.9, True, "use this order"), (1.97, True, "either will do"), (1.9, False, "either will do")
    ):  # fmt: skip
        said = advice(decided(monkeypatch, took=took, original=2.0, apart=apart, map_=flat))
        assert said.startswith(opening) and (module.LEFT_OPEN in said) == (not apart)


def test_directions_that_differ_are_a_gain_that_needs_no_second_reading() -> None:
    """A ring of four whose one direction is quick: two readings of it are of two things."""
    map_ = made_map([4])
    assert map_.layers.rtt is not None
    slow = np.full((4, 4), 4e-4)
    for host in range(4):
        slow[host, (host + 3) % 4] = 1e-4
    np.fill_diagonal(slow, 0.0)
    both = map_.layers.rtt.model_copy(update={"distance_s": slow})
    verdict = Verdict(locality="none", text="none")
    directed = map_.model_copy(
        update={
            "layers": map_.layers.model_copy(update={"rtt": both}),
            "verdict": verdict,
            "requires": [DIRECTED],
        }
    )
    assert directed.is_directed
    plan = plan_order(directed)
    assert plan.order == ["h0", "h3", "h2", "h1"] and plan.kept_given is None
    problem = module._Problem.of(directed, PlanRequest())
    assert problem.gains_by_direction(plan)
    # An order that is better by the faster directions as well gains nothing by them.
    alike = np.array([[0, 1, 9, 9.1], [1, 0, 9, 1], [9, 9, 0, 1], [9, 1, 1, 0]]) * 1e-4
    layer = both.model_copy(update={"distance_s": alike})
    other = directed.model_copy(update={"layers": directed.layers.model_copy(update={"rtt": layer})})
    kept = plan_order(other)
    found = plan_order(other, PlanRequest(held_out=False))
    assert not module._Problem.of(other, PlanRequest()).gains_by_direction(found)
    assert (kept.kept_given is None) == (found.kept_given is not None or found.order == kept.order)


def test_orders_are_priced_link_by_link_among_ranked_hosts() -> None:
    map_ = made_map([2, 2], unplaced=1, seed=1)
    hosts = list(map_.hosts)[::-1]
    problem = module._Problem.of(map_, PlanRequest(hosts=hosts, algorithm="chunked-ring"))
    price = problem.pricer()
    names = [host.name for host in hosts if host.name not in map_.unplaced]
    rack = {name: group.id for group in map_.groups for name in group.hosts}
    for order in (names, names[::-1], [names[i] for i in (0, 2, 1, 3)]):
        hops = [
            50e-6 if rack[a] == rack[b] else 150e-6
            for a, b in zip(order, [*order[1:], order[0]], strict=True)
        ]
        assert price(order) == pytest.approx(6 * max(hops))


class Timed:
    """Stands for times of orders: each is as given, and faster or not as told."""

    def __init__(self, sure: bool) -> None:
        self.sure, self.asked = sure, []  # type: ignore[var-annotated]

    def surely_faster(self, order: Any, other: Any, share: float) -> bool:
        self.asked.append((tuple(order), tuple(other), share))
        return self.sure


@pytest.mark.parametrize("sure", [True, False])
def test_a_search_by_time_begins_with_both_plans_and_looks_at_none_that_costs_more(
    sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan_order(MAP, FREE)
    kept = plan_order(MAP, replace(FREE, algorithm="ring", seed=7)).model_copy(
        update={"order": [host.name for host in MAP.hosts], "seed": 7}
    )
    capacity = made_capacity(MAP, uplink=5e7)
    times = Timed(sure)
    asked: dict[str, Any] = {}
    best = (0, 2, 1, 3, 4, 5, 6, 7)

    def fastest(model: Any, its: Any, starts: Any, *, seed: int, allowed: Any) -> Any:
        asked.update(model=model.name, starts=list(starts), seed=seed, times=its)
        asked["allowed"] = [allowed(one) for one in (tuple(range(8)), best, (1, *range(7)))]
        return SimpleNamespace(order=best, time_s=0.4, simulated=12)

    monkeypatch.setattr(timed_order, "fastest_order", fastest)
    monkeypatch.setattr(timed_order, "OrderTimes", lambda algorithm, network, size: times)
    costs = {tuple(kept.order): 1.0, tuple(kept.order[h] for h in best): 1.0}
    found = search_by_time(kept, planned, capacity, MAP, 1000, lambda order: costs.get(tuple(order), 1.1))
    where = {host.name: at for at, host in enumerate(MAP.hosts)}
    assert asked["starts"] == [tuple(range(8)), tuple(where[name] for name in planned.order)]
    assert (asked["model"], asked["seed"], asked["allowed"]) == ("ring", 7, [True, True, False])
    assert found.time_s == 0.4 and "12 orders simulated" in found.said
    assert found.order == (tuple(kept.order[h] for h in best) if sure else None)
    assert [one for _, one, _ in times.asked] == asked["starts"][: 2 if sure else 1]
    assert {share for *_, share in times.asked} == {0.02}
    same = search_by_time(
        kept, planned, made_capacity(made_map([8])), made_map([8]), 1000, lambda _order: 1.0
    )
    assert same.order is None and "the same in any order" in same.said
    monkeypatch.setattr(timed_order, "MOST_HOSTS", 7)
    assert "above 7 hosts" in search_by_time(kept, planned, capacity, MAP, 1000, lambda _order: 1.0).said
    monkeypatch.setattr(timed_order, "MOST_HOSTS", 8)
    assert "orders simulated" in search_by_time(kept, planned, capacity, MAP, 1000, lambda _order: 1.0).said


def test_a_timed_order_has_a_bound_that_it_does_not_go_below() -> None:
    planned = plan_order(MAP, FREE)
    turned = TimedSearch(order=(planned.order[0], *planned.order[:0:-1]), time_s=1.0, said="said")
    made = timed_plan(planned, planned, turned, planned.cost_s, MAP)
    assert made.lower_bound_s == min(planned.lower_bound_s or 0.0, planned.cost_s) and made.crossings == 2
    assert made.gap == pytest.approx(made.cost_s / (made.lower_bound_s or 1.0) - 1, abs=1e-8)
    assert made.solver is not None and planned.solver is not None
    assert made.solver.candidates_s == {**planned.solver.candidates_s, "capacity": made.cost_s}


def prediction(
    time_s: float, low: float | None = None, high: float | None = None, **fields: Any
) -> Prediction:
    return Prediction(size_bytes=1000, time_s=time_s, low_s=low, high_s=high, basis="capacity",
                      bytes_on_wire=10, steps=fields.pop("steps", 4), **fields)  # fmt: skip
