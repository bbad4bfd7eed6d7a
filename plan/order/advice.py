"""What the figures of an order say to whoever has to choose: an action and its reason.

A document holds it as a sentence. This module alone knows how the sentence of each action begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from netprobe.core.documents.plan import OrderPlan
from netprobe.plan.order.choice import ORIGINAL, Choice, judged_as
from netprobe.plan.order.cross_validation import Gain
from netprobe.plan.order.strategy import CLOSE

Action = Literal["use", "either", "keep"]
"""Use the plan's order; either order will do; keep the original order."""
OPENINGS: dict[Action, str] = {
    "use": "use this order",
    "either": "either will do",
    "keep": "keep your order",
}
CHECKED, UNCHECKED = ": ", "; "
"""What follows the opening: whether more than the map supports the action."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to do, and why. ``checked`` is False where only the map supports a new order."""

    action: Action
    reason: str
    checked: bool = True

    def __str__(self) -> str:
        """The sentence of a document."""
        return f"{OPENINGS[self.action]}{CHECKED if self.checked else UNCHECKED}{self.reason}"

    def adding(self, reason: str) -> Advice:
        """The same action, for one more reason."""
        return replace(self, reason=f"{self.reason}; {reason}")


def advice_of(plan: OrderPlan) -> Advice | None:
    """The advice of a plan; None where it has none, or one that no version up to this one writes."""
    for action, opening in OPENINGS.items():
        for joint in (CHECKED, UNCHECKED):
            head = opening + joint
            if plan.advice is not None and plan.advice.startswith(head):
                return Advice(action=action, reason=plan.advice[len(head) :], checked=joint == CHECKED)
    return None


def advise(
    choice: Choice,
    cost_s: float,
    cost_original_s: float,
    held_out: Mapping[str, float],
    *,
    gain: Gain | None = None,
    is_original: bool = False,
    why: str = "it was found first",
) -> Advice:
    """What the figures say.

    ``gain``: what is known of its gain on readings held out. ``is_original``: the order is the original one, of
    any kind. ``why`` is a reason to write an order that costs as much as the original one.
    """
    if choice.kept_original is not None:
        return Advice(action="keep", reason=choice.kept_original)
    if choice.kind == ORIGINAL or is_original:
        return Advice(action="keep", reason="none that costs less was found")
    if held_out and held_out[judged_as(choice.kind)] > 0:
        ratio = held_out[ORIGINAL] / held_out[judged_as(choice.kind)]
        if ratio > 1 + CLOSE and (gain is None or gain.is_sure):
            by_noise = (
                f" (by their noise {gain.interval_text})" if gain is not None and gain.interval_text else ""
            )
            return Advice(
                action="use",
                reason=f"yours costs {ratio:.2f}x as much on readings that the search did not see{by_noise}",
            )
        return Advice(
            action="either",
            reason=f"to this algorithm both cost the same (within {CLOSE:.0%}) on readings that the search "
            f"did not see; this one is written because {why}",
        )
    if cost_original_s <= cost_s * (1 + CLOSE):
        return Advice(
            action="either",
            reason=f"on the map both cost the same (within {CLOSE:.0%}); this one is written because {why}",
        )
    return Advice(
        action="use",
        reason="what it saves is what the map says, and no reading was held out to check it",
        checked=False,
    )
