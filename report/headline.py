"""The one sentence that ends a command: what to do, by how much it helps, and how sure that is."""

from __future__ import annotations

from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.verify import Verify
from netprobe.core.units import count

WIDE = 0.25
"""An interval that reaches further than this from its middle, relatively, is no proof yet."""


def headline(map_: Map | None, plan: OrderPlan | None = None, verify: Verify | None = None) -> str:
    """For people who read nothing else."""
    found = "" if map_ is None else _groups(map_)
    if verify is not None and verify.comparison.ratio is not None and verify.status != "failed":
        return _measured(verify) + (f"; {found}" if found else "")
    if plan is not None:
        return _planned(plan, map_) + (f"; {found}" if found else "")
    return found[:1].upper() + found[1:]


def is_wide(verify: Verify) -> bool:
    """Whether the interval of the speed-up is so wide that it proves nothing yet."""
    found = verify.comparison
    if found.ratio is None or found.low is None or found.high is None:
        return True
    return found.high - found.ratio > WIDE * found.ratio or found.ratio - found.low > WIDE * found.ratio


def _groups(map_: Map) -> str:
    verdict = map_.verdict.locality
    if verdict == "found":
        return f"{count(len(map_.groups), 'group')} of near hosts found"
    if verdict == "none":
        return "no groups found, the hosts are about equally near each other"
    return "whether the hosts form groups cannot be told"


def _measured(verify: Verify) -> str:
    found = verify.comparison
    ratio = found.ratio or 1.0
    what = "this plan" if any(one.kind == "schedule" for one in verify.orders) else "this order"
    spread = "" if found.low is None else f" ({found.low:.2f} to {found.high:.2f})"
    if found.verdict == "faster":
        sure = "measured, but not yet proved" if is_wide(verify) else "measured"
        return f"Use {what}: {ratio:.1f}x faster{spread}, {sure}"
    if found.verdict == "slower":
        return f"Do not use {what}: {1 / ratio:.1f}x slower{spread}, measured"
    if found.verdict == "same":
        return f"Either will do: {what} is as fast as {_other(found.against)}, measured"
    return f"No difference is proved: {what} ran {ratio:.1f}x as fast{spread}"


def _other(against: str) -> str:
    return {"given": "the original one", "random": "random ones"}.get(against, against)


def _planned(plan: OrderPlan, map_: Map | None) -> str:
    if plan.kept_given is not None or plan.cost_s <= 0 or plan.cost_given_s <= plan.cost_s * 1.0005:
        flat = map_ is not None and map_.verdict.locality == "none"
        return "Any order will do" if flat else "Keep your order: no better one is known"
    held = plan.held_out
    if held is not None and held.cost_s and held.cost_given_s:
        return f"Use this order: {held.cost_given_s / held.cost_s:.1f}x less latency by readings held out"
    return f"Use this order: {plan.cost_given_s / plan.cost_s:.1f}x less by the map, not yet measured"
