"""Solvers: from distances to plans, and the one public loader of plan documents.

    order/        plans of kind ``order``: the request, candidates, the choice between them, the document and its proof
    search/       orders of low cost: rings, and annealing for every other algorithm     (numbers in, numbers out)
    bounds/       what no ring costs less than                                           (numbers in, numbers out)
    costs/        what an order costs each algorithm of a collective                     (numbers in, numbers out)
    ds_sync/      plans of kind ``ds_sync``: averaging groups that change, until all hosts agree, with their proof
    schedule/     plans of kind ``schedule``: contract, transfers, actions, proof, builders
    auto/         schedules chosen for a network, by the simulator
    registry.py   the kinds of plans, load_plan, parse_plan

A new kind of plan is a module that ends with one ``register`` call and is named in ``registry.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netprobe.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from netprobe.plan.order.advice import Advice, advice_of
    from netprobe.plan.order.link_costs import Links, links_of, message_bytes, one_way_cost_s
    from netprobe.plan.order.order import build_order_plan
    from netprobe.plan.order.order_proof import prove_against_map
    from netprobe.plan.order.readings import Fold, HeldOutReadings
    from netprobe.plan.order.request import OrderRequest
    from netprobe.plan.registry import (
        PlanKind,
        load_plan,
        parse_plan,
        plan_json_schema,
        plan_kinds,
        prove_plan,
        register,
    )
    from netprobe.plan.schedule.document import build_schedule_plan, proved_schedule, schedule_of
    from netprobe.plan.search.ring import RingSolution, crossings, ring_cost, solve_ring

__all__ = [
    "Advice",
    "Fold",
    "HeldOutReadings",
    "Links",
    "OrderRequest",
    "PlanKind",
    "RingSolution",
    "advice_of",
    "build_order_plan",
    "build_schedule_plan",
    "crossings",
    "links_of",
    "load_plan",
    "message_bytes",
    "one_way_cost_s",
    "parse_plan",
    "plan_json_schema",
    "plan_kinds",
    "prove_against_map",
    "prove_plan",
    "proved_schedule",
    "register",
    "ring_cost",
    "schedule_of",
    "solve_ring",
]

__getattr__ = lazy_names(
    __name__,
    {
        "order.advice": "Advice advice_of",
        "order.link_costs": "Links links_of message_bytes one_way_cost_s",
        "order.order": "build_order_plan",
        "order.order_proof": "prove_against_map",
        "order.readings": "Fold HeldOutReadings",
        "order.request": "OrderRequest",
        "registry": "PlanKind load_plan parse_plan plan_json_schema plan_kinds prove_plan register",
        "schedule.document": "build_schedule_plan proved_schedule schedule_of",
        "search.ring": "RingSolution crossings ring_cost solve_ring",
    },
)
