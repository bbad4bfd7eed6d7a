"""The one sentence that ends a command: what to do, by how much it helps, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from netprobe.core.units import count, seconds_text, size_text
from netprobe.plan.order.advice import advice_of


class Advised(Protocol):
    """The schedule that `plan auto` would write, and how many times as fast as ``baseline`` it is (None: no gain)."""

    @property
    def label(self) -> str: ...

    @property
    def baseline(self) -> str: ...

    @property
    def ratio(self) -> float | None: ...


if TYPE_CHECKING:
    from netprobe.core.documents.capacity import Capacity
    from netprobe.core.documents.ds_sync_plan import DsSyncPlan
    from netprobe.core.documents.map import Map
    from netprobe.core.documents.plan import OrderPlan
    from netprobe.core.documents.schedule_plan import SchedulePlan
    from netprobe.core.documents.verify import Verify

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


def chain_headline(
    map_: Map | None, plan: OrderPlan | None, verify: Verify | None, advised: Advised | None
) -> str:
    """`headline`, and what ``advised`` gains where that is more than the order does; each with what it rests on."""
    sentence = headline(map_, plan, verify)
    if advised is None or advised.ratio is None or advised.ratio <= _gain(plan, verify):
        return sentence
    return (
        f"Use {advised.label} for an all-reduce run by netprobe: {advised.ratio:.1f}x as fast as "
        f"{advised.baseline} by the measured capacities, predicted (netprobe plan auto writes it). "
        f"For a job's own collectives: {sentence}"
    )


def _gain(plan: OrderPlan | None, verify: Verify | None) -> float:
    """How many times as cheap the sentence on an order says it to be; 1 where it says no such thing."""
    if verify is not None and verify.comparison.ratio is not None and verify.status != "failed":
        return verify.comparison.ratio
    if plan is None or plan.kept_given is not None or plan.cost_s <= 0:
        return 1.0
    held = plan.held_out
    if held is not None and held.cost_s and held.cost_given_s:
        return held.cost_given_s / held.cost_s
    return plan.cost_given_s / plan.cost_s


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
        return f"Either will do: {what} is as fast as {in_words(found.against)}, measured"
    return f"No difference is proved: {what} ran {ratio:.1f}x as fast{spread}"


def in_words(name: str) -> str:
    """An order as a sentence calls it; documents call the original one ``given``, alone or after an algorithm."""
    if name in ("given", "random"):
        return {"given": "the original order", "random": "random orders"}[name]
    algorithm, comma, order = name.rpartition(", ")
    return f"{algorithm} in the original order" if comma and order == "given" else name


def _planned(plan: OrderPlan, map_: Map | None) -> str:
    if plan.kept_given is not None or plan.cost_s <= 0 or plan.cost_given_s <= plan.cost_s * 1.0005:
        flat = map_ is not None and map_.verdict.locality == "none"
        return "Any order will do" if flat else "Keep your order: no better one is known"
    advice = advice_of(plan)
    if advice is not None and advice.action == "either":
        return "Either order will do: no difference in latency was found"
    held = plan.held_out
    if held is not None and held.cost_s and held.cost_given_s:
        return f"Use this order: {held.cost_given_s / held.cost_s:.1f}x less latency by readings held out"
    return f"Use this order: {plan.cost_given_s / plan.cost_s:.1f}x less by the map, not yet measured"


RING_OF_GROUPS = "a ring all-reduce group by group"
"""The ring that a DS-Sync plan is held against: through the hosts in the map's order of groups."""
UNKNOWN_TIME = "is not known without capacities"
MEASURES_IT = ": netprobe capacity measures them"
"""Of hosts that agents reach; what was imported has nobody to ask."""
EXPORTED = {
    "hostfile": "A job that is started with it has its ranks in the plan's order.",
    "topology": "A scheduler that reads it knows the groups that were measured.",
    "schedule": "It holds the plan's transfers, each of them proved.",
}
"""What an exported file is good for, by its kind."""


def unknown_time(what: str, *, by_agents: bool) -> str:
    """That ``what`` is not known without capacities, and what measures them where that can be done."""
    return f"{what} {UNKNOWN_TIME}{MEASURES_IT if by_agents else ''}"


def auto_headline(
    name: str, baseline: str, ratio: float | None, *, decides: bool, by_agents: bool = True
) -> str:
    """``ratio``: how many times as fast the choice is as the baseline; None where nothing is surely faster."""
    if not decides:
        return (
            f"{unknown_time('Which algorithm is fastest', by_agents=by_agents)}; {name} is what libraries run"
        )
    if ratio is None:
        return f"Keep {name}: nothing is surely faster"
    return f"Use this plan: {ratio:.1f}x as fast as {baseline}, predicted and not yet measured"


def two_level_headline(plan: SchedulePlan, time_s: float | None, *, by_agents: bool = True) -> str:
    """``time_s``: of the plan's buffer, as predicted; None where it is not known."""
    if len(plan.groups) < 2 or all(len(group) == 1 for group in plan.groups):
        return (
            "Two levels gain nothing here, for the map has no groups to use: netprobe plan auto looks further"
        )
    if time_s is None or plan.size_bytes is None:
        return unknown_time("How long this plan takes", by_agents=by_agents)
    return f"{size_text(plan.size_bytes)} take {seconds_text(time_s)} by this plan, predicted and not yet measured"


UNCHECKED = "unchecked, for the plan was edited"
"""What is said of a figure where nothing shows any more that it is of its plan."""


def schedule_headline(
    file: str, plan: SchedulePlan, order: OrderPlan | None, *, unchecked: bool = False
) -> str:
    """What a schedule of a folder is for, beside the folder's order of ranks."""
    found = next((one for one in plan.predictions if one.size_bytes == plan.size_bytes), None)
    text = f"{file}, for an all-reduce run by netprobe: {plan.algorithm}"
    if order is not None:
        text += " in the same order" if plan.order == order.order else " in an order of its own"
    if found is None or plan.size_bytes is None:
        return f"{text}, whose time is not known"
    if not found.tells_time:
        return f"{text}; {found.summary()}"
    return f"{text}, {found.summary()}, {UNCHECKED if unchecked else 'predicted'}"


def ds_sync_headline(plan: DsSyncPlan, *, by_agents: bool = True) -> str:
    """Whether averages in groups pay, against the quicker of the two all-reduces that the plan has times of."""
    if plan.pattern_length == 1:
        return "DS-Sync gains nothing here: every iteration averages all hosts"
    known = ((plan.all_reduce_s, RING_OF_GROUPS), (plan.hierarchical_s, "a hierarchical all-reduce"))
    others = [(time, name) for time, name in known if time]
    if not plan.predicted_s or not others:
        return unknown_time("What DS-Sync gains", by_agents=by_agents)
    time_s, name = min(others)
    ratio = time_s / plan.predicted_s
    if ratio <= 1.02:
        return f"Do not use DS-Sync here: {name} is as fast, and averages all hosts"
    steps = plan.iterations_to_a_thousandth
    return (
        f"DS-Sync exchanges {ratio:.1f}x faster than {name}, predicted (netprobe plan auto looks for a faster one), "
        f"but averages fewer hosts: differences shrink to a thousandth in {count(steps, 'iteration')}, "
        f"{seconds_text(steps * plan.predicted_s)} of exchanges"
    )


def capacity_headline(capacity: Capacity) -> str:
    """Whether an uplink is what limits the fleet, and which one most."""
    known = [one for one in capacity.oversubscription if one.ratio is not None]
    if not known:
        return "Whether an uplink is a bottleneck cannot be told"
    worst = max(known, key=lambda one: one.ratio or 0.0)
    ratio = worst.ratio or 0.0
    if ratio <= 1.1:
        left = len(capacity.oversubscription) - len(known)
        rest = f", as far as is known ({left} of {len(capacity.oversubscription)} not)" if left else ""
        return f"No uplink is a bottleneck: each carries what its group's hosts send{rest}"
    sure = "" if worst.low is None or worst.low > 1 else ", though it may be none"
    return (
        f"The uplink of {worst.group} is a bottleneck: its hosts can send {ratio:.1f}x what it carries{sure}"
    )
