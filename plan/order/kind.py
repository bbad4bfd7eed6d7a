"""Plans of kind ``order``, made known to the loader: a loaded plan is proved, and what searches one is not imported."""

from __future__ import annotations

from netprobe.core.documents.plan import OrderPlan
from netprobe.plan.order.order_proof import prove_order_plan
from netprobe.plan.registry import PlanKind, register

register(
    PlanKind(
        kind="order",
        model=OrderPlan,
        prove=prove_order_plan,
        summary="hosts in rank order for one algorithm of a collective",
    )
)
