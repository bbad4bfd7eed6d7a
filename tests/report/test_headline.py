"""The sentence at the end: what to do, by how much it helps, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from netprobe.core.documents.capacity import Capacity, Oversubscription
from netprobe.core.documents.document import load_document
from netprobe.core.documents.ds_sync_plan import DsSyncPlan
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.verify import Verify
from netprobe.report.headline import (
    auto_headline,
    capacity_headline,
    chain_headline,
    ds_sync_headline,
    headline,
    in_words,
    is_wide,
)
from netprobe.report.verify import order_table, verify_text

GOLDEN = Path(__file__).parents[1] / "golden"


def run_of(verdict: str, ratio: float, low: float, high: float) -> Verify:
    """A run with this result."""
    verify = load_document(Verify, GOLDEN / "verify-1.0.json")
    changes = {"verdict": verdict, "ratio": ratio, "low": low, "high": high}
    return verify.model_copy(update={"comparison": verify.comparison.model_copy(update=changes)})


@pytest.mark.parametrize(
    ("verify", "starts"),
    [
        (run_of("faster", 3.1, 2.9, 3.3), "Use this order: 3.1x faster (2.90 to 3.30), measured"),
        (
            run_of("faster", 2.0, 1.2, 2.9),
            "Use this order: 2.0x faster (1.20 to 2.90), measured, but not yet proved",
        ),
        (run_of("slower", 0.5, 0.45, 0.55), "Do not use this order: 2.0x slower"),
        (run_of("same", 1.0, 0.99, 1.01), "Either will do"),
        (run_of("cannot_tell", 1.1, 0.9, 1.3), "No difference is proved"),
    ],
)
def test_a_run_decides(verify: Verify, starts: str) -> None:
    assert headline(None, None, verify).startswith(starts)


def test_without_a_run_the_plan_says_what_the_map_or_held_out_readings_say() -> None:
    plan = load_document(OrderPlan, GOLDEN / "plan-1.1.json").model_copy(
        update={"cost_s": 1.0, "cost_given_s": 2.5, "held_out": None, "kept_given": None}
    )
    assert headline(None, plan) == "Use this order: 2.5x less by the map, not yet measured"
    either = plan.model_copy(update={"advice": "either will do: both cost the same; it was found first"})
    assert headline(None, either).startswith("Either order will do")
    kept = plan.model_copy(update={"kept_given": "as good"})
    assert headline(None, kept).startswith("Keep your order")


def test_a_schedule_is_said_to_be_worth_it_or_not() -> None:
    assert auto_headline("a", "b", 3.14, decides=True).startswith(
        "Use this plan: 3.1x as fast as b, predicted"
    )
    assert auto_headline("a", "b", None, decides=True).startswith("Keep a")
    said = auto_headline("a", "b", None, decides=False)
    assert "is not known" in said and said.endswith("a is what libraries run")


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ((1.0, 3.0, 2.0), "2.0x faster than a hierarchical all-reduce, predicted"),
        ((1.0, 3.0, 4.0), "3.0x faster than a ring all-reduce group by group, predicted"),
        ((1.0, 3.0, 2.0), "a thousandth in 88 iterations, 88.0 s of exchanges"),
        ((1.0, 3.0, 0.9), "Do not use DS-Sync here: a hierarchical all-reduce is as fast"),
        ((None, None, None), "is not known"),
    ],
)
def test_ds_sync_is_held_against_the_best_all_reduce(times: tuple[float | None, ...], says: str) -> None:
    values: dict[str, Any] = dict(zip(("predicted_s", "all_reduce_s", "hierarchical_s"), times))
    values["iterations_to_a_thousandth"] = 88
    plan = DsSyncPlan.model_construct(pattern_length=3, _fields_set=None, **values)
    assert says in ds_sync_headline(plan)
    alone = DsSyncPlan.model_construct(pattern_length=1, _fields_set=None, **values)
    assert "gains nothing" in ds_sync_headline(alone)


@pytest.mark.parametrize(
    ("ratios", "says"),
    [
        (
            [(0.9, 0.8), (3.96, 3.5)],
            "The uplink of g1 is a bottleneck: its hosts can send 4.0x what it carries",
        ),
        ([(1.4, 0.9)], "though it may be none"),
        ([(0.9, 0.8), (1.0, 0.9)], "No uplink is a bottleneck"),
        ([(0.9, 0.8), (None, None)], "as far as is known (1 of 2 not)"),
        ([(None, None)], "cannot be told"),
    ],
)
def test_the_worst_uplink_is_named(ratios: list[tuple[float | None, float | None]], says: str) -> None:
    found = [
        Oversubscription(group=f"g{i}", ratio=ratio, low=low, high=None, text="")
        for i, (ratio, low) in enumerate(ratios)
    ]
    assert says in capacity_headline(Capacity.model_construct(oversubscription=found))


@pytest.mark.parametrize(("low", "high", "wide"), [(0.76, 1.24, False), (0.74, 1.1, True), (0.9, 1.26, True)])
def test_an_interval_of_more_than_a_quarter_is_no_proof(low: float, high: float, wide: bool) -> None:
    assert is_wide(run_of("faster", 1.0, low, high)) is wide


def test_the_original_order_is_called_so_and_not_by_the_word_of_documents() -> None:
    assert [in_words(name) for name in ("given", "random", "ring, given", "orders.txt", "given.txt")] == [
        "the original order",
        "random orders",
        "ring in the original order",
        "orders.txt",
        "given.txt",
    ]
    verify = run_of("faster", 3.1, 2.9, 3.3)
    assert "speed-up against the original order: 3.10x" in verify_text(verify)
    assert list(order_table(verify).columns[0].cells)[:2] == ["proposed", "original"]


@dataclass(frozen=True)
class _Advised:
    ratio: float | None
    label: str = "2lha in the original order"
    baseline: str = "chunked-ring in the original order"


def test_a_scan_ends_with_the_larger_gain_and_what_it_rests_on() -> None:
    plan = load_document(OrderPlan, GOLDEN / "plan-1.1.json").model_copy(
        update={"cost_s": 1.0, "cost_given_s": 1.6, "held_out": None, "kept_given": None}
    )
    order = "Use this order: 1.6x less by the map, not yet measured"
    assert chain_headline(None, plan, None, None) == order
    for less in (None, 1.0, 1.5):
        assert chain_headline(None, plan, None, _Advised(less)) == order
    said = chain_headline(None, plan, None, _Advised(3.24))
    assert said.startswith(
        "Use 2lha in the original order for an all-reduce run by netprobe: 3.2x as fast as"
    )
    assert "by the measured capacities, predicted (netprobe plan auto writes it)" in said
    assert said.endswith(f"For a job's own collectives: {order}")
    # What ran on the wire is the gain of the order then.
    assert "3.2x as fast" not in chain_headline(None, plan, run_of("faster", 3.5, 3.4, 3.6), _Advised(3.24))
