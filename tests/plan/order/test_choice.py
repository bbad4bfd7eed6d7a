"""Which candidate is chosen, and what the user is advised."""

from __future__ import annotations

import numpy as np
import pytest

from netprobe.plan.order.advice import Action, Advice, advice_of, advise
from netprobe.plan.order.choice import Choice, choose
from netprobe.plan.order.cross_validation import Gain
from tests.plan.fleets import named, order_plan


@pytest.mark.parametrize(
    ("costs", "held", "kind", "kept"),
    [
        ({"given": 2.0, "leaf": 1.5, "annealed": 1.0}, {}, "annealed", False),
        ({"given": 1.0, "leaf": 1.5, "annealed": 1.0}, {}, "given", False),
        (
            {"given": 2.0, "leaf": 1.5, "annealed": 1.0},
            {"given": 2, "leaf": 1.5, "annealed": 3},
            "leaf",
            False,
        ),
        (
            {"given": 2.0, "leaf": 1.5, "annealed": 1.0},
            {"given": 1.01, "leaf": 1, "annealed": 3},
            "given",
            True,
        ),
        # Two folds do not tell a few per cent: the leaf order is preferred unless the gain is plain.
        (
            {"given": 2.0, "leaf": 1.5, "annealed": 1.0},
            {"given": 2, "leaf": 1, "annealed": 0.95},
            "leaf",
            False,
        ),
        (
            {"given": 2.0, "leaf": 1.5, "annealed": 1.0},
            {"given": 2, "leaf": 1, "annealed": 0.85},
            "annealed",
            False,
        ),
        # What would make the original order more expensive on the map is not a candidate.
        (
            {"given": 1.0, "leaf": 1.5, "annealed": 1.0},
            {"given": 3, "leaf": 1, "annealed": 2},
            "annealed",
            False,
        ),
        ({"given": 2.0, "polished": 0.9, "annealed": 1.0}, {"given": 3, "annealed": 2}, "polished", False),
    ],
)
def test_the_least_cost_on_readings_held_out_decides(
    costs: dict[str, float], held: dict[str, float], kind: str, kept: bool
) -> None:
    choice = choose(costs, costs, held)
    assert (choice.kind, choice.kept_original is not None) == (kind, kept)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.44, 1.5, "1.44x to 1.50x"),
        (1.8899, 1.8901, ""),
        (1.8801, 1.8802, "about 1.88x"),
        (1.88, 1.89, "1.88x to 1.89x"),
    ],
)
def test_an_interval_whose_ends_read_the_same_is_not_two_numbers(low: float, high: float, text: str) -> None:
    assert Gain(ratio=1.89, low=low, high=high).interval_text == text


SURE, UNSURE = Gain(ratio=1.5, low=1.2, high=1.9), Gain(ratio=1.5, low=0.9, high=2.5)


@pytest.mark.parametrize(
    ("gain", "hop_sum", "may_keep", "kind"),
    [
        (SURE, None, True, "ring"),
        (UNSURE, None, True, "given"),
        # For a largest hop the sum of the hops may speak as well, but not where the original order may be kept.
        (UNSURE, SURE, False, "ring"),
        (UNSURE, UNSURE, False, "given"),
        (UNSURE, SURE, True, "given"),
        (SURE, UNSURE, False, "ring"),
    ],
)
def test_an_order_whose_gain_is_not_sure_is_not_taken(
    gain: Gain, hop_sum: Gain | None, may_keep: bool, kind: str
) -> None:
    costs = {"given": 3.0, "ring": 2.0}
    sums = None if hop_sum is None else {"ring": hop_sum}
    choice = choose(costs, costs, costs, gains={"ring": gain}, hop_sums=sums, may_keep=may_keep)
    assert choice.kind == kind and (choice.kept_original is not None) == (kind == "given")
    if kind == "given":
        assert "0.90x to 2.50x" in choice.why


def test_where_slow_readings_repeat_all_readings_may_decide_for_the_annealed_order() -> None:
    costs = {"given": 2.0, "leaf": 1.5, "annealed": 1.0}
    for held, repeats, kind in (
        ({"given": 2.0, "leaf": 1.0, "annealed": 0.95}, True, "annealed"),
        ({"given": 2.0, "leaf": 1.0, "annealed": 1.01}, True, "annealed"),
        ({"given": 2.0, "leaf": 1.0, "annealed": 1.2}, True, "leaf"),
        ({"given": 2.0, "leaf": 1.0, "annealed": 0.95}, False, "leaf"),
    ):
        assert choose(costs, costs, held, slow_repeats=repeats).kind == kind
    # By little on all readings as well: nothing speaks for it.
    close = {"given": 2.0, "leaf": 1.05, "annealed": 1.0}
    assert (
        choose(close, close, {"given": 2.0, "leaf": 1.0, "annealed": 0.95}, slow_repeats=True).kind == "leaf"
    )


@pytest.mark.parametrize(
    ("cost", "cost_given", "held", "same", "action", "checked"),
    [
        (1.0, 1.0, {"given": 1.004, "ring": 1.0}, False, "either", True),
        (1.0, 1.5, {"given": 1.5, "ring": 1.0}, False, "use", True),
        (1.0, 1.5, {"given": 1.5, "ring": 1.0}, True, "keep", True),
        (1.0, 1.0, {}, False, "either", True),
        (1.0, 1.02, {}, False, "either", True),
        (1.0, 1.5, {}, False, "use", False),
    ],
)
def test_an_advice_does_not_send_one_to_an_order_that_is_no_better(
    cost: float, cost_given: float, held: dict[str, float], same: bool, action: Action, checked: bool
) -> None:
    choice = Choice(kind="ring", why="")
    found = advise(choice, cost, cost_given, held, is_original=same, why="of its hops")
    assert (found.action, found.checked) == (action, checked)
    assert ("because of its hops" in found.reason) == (action == "either")


@pytest.mark.parametrize(
    ("advice", "text"),
    [
        (
            Advice(action="use", reason="yours costs 1.50x as much"),
            "use this order: yours costs 1.50x as much",
        ),
        (Advice(action="use", reason="by the map", checked=False), "use this order; by the map"),
        (Advice(action="either", reason="both: the same").adding("so"), "either will do: both: the same; so"),
        (Advice(action="keep", reason="it is best"), "keep your order: it is best"),
    ],
)
def test_the_sentence_of_a_document_gives_the_advice_back(advice: Advice, text: str) -> None:
    plan = order_plan(named(2), np.full((2, 2), 1e-4))
    assert str(advice) == text
    assert advice_of(plan.model_copy(update={"advice": text})) == advice


def test_a_plan_without_an_advice_or_with_an_unknown_one_has_none() -> None:
    plan = order_plan(named(2), np.full((2, 2), 1e-4))
    for text in (None, "", "use this ordering: it is new"):
        assert advice_of(plan.model_copy(update={"advice": text})) is None


@pytest.mark.parametrize(
    ("held", "above"), [((1.01, 1.0), "1.0%"), ((1.015, 1.0), "1.5%"), ((0.9, 1.0), None), ((0.0, 0.0), None)]
)
def test_a_kept_order_is_said_to_be_above_the_best_by_as_much_as_it_is(
    held: tuple[float, float], above: str | None
) -> None:
    given, ring = held
    costs = {"given": 2.0, "ring": 1.0}
    choice = choose(costs, costs, {"given": given, "ring": ring})
    assert choice.kind == "given" and choice.kept_original == choice.why
    assert (above in choice.why) if above else ("%" not in choice.why)


@pytest.mark.parametrize(
    ("given", "leaf", "kind"),
    [(0.99, 2.0, "ring"), (0.97, 2.0, "given"), (0.97, 0.5, "leaf"), (1.0, 1.0, "ring")],
)
def test_where_no_near_order_may_be_kept_only_a_cheaper_one_is(given: float, leaf: float, kind: str) -> None:
    """By the map alone: an original order that is cheaper by 2 % than the best of the others; of equals the ring."""
    costs = {"given": 1.0, "leaf": 1.0, "ring": 1.0}
    searched = {"given": given, "leaf": leaf, "ring": 1.0}
    assert choose(costs, searched, {}, may_keep=False).kind == kind
