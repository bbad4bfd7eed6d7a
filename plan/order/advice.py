"""What the figures of an order say to whoever has to choose, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netprobe.plan.costs import CostModel, LinkCost
from netprobe.plan.order.candidates import CLOSE, RINGS
from netprobe.plan.order.cross_validation import Choice
from netprobe.plan.order.order_proof import crossings_of
from netprobe.plan.search.ring import ring_cost


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
    if held and held[judged(choice.kind)] > 0:
        gain = held["given"] / held[judged(choice.kind)]
        if gain > 1 + CLOSE:
            return f"use this order: yours costs {gain:.2f}x as much on readings that the search did not see"
        return (
            f"either will do: to this algorithm both cost the same (within {CLOSE:.0%}) on readings that the search "
            f"did not see; this one is written because {why}"
        )
    if cost_given_s <= cost_s * (1 + CLOSE):
        return f"either will do: on the map both cost the same (within {CLOSE:.0%}); this one is written because {why}"
    return "use this order; what it saves is what the map says, and no reading was held out to check it"


def judged(kind: str) -> str:
    """The kind whose held-out cost speaks for ``kind``: a polished order is an annealed one gone over once more."""
    return "annealed" if kind == "polished" else kind


def why_written(
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
