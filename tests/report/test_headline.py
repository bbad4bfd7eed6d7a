"""The sentence at the end: what to do, by how much it helps, and how sure that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from netprobe.core.documents.document import load_document
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.verify import Verify
from netprobe.report.headline import headline, is_wide

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
    kept = plan.model_copy(update={"kept_given": "as good"})
    assert headline(None, kept).startswith("Keep your order")


@pytest.mark.parametrize(("low", "high", "wide"), [(0.76, 1.24, False), (0.74, 1.1, True), (0.9, 1.26, True)])
def test_an_interval_of_more_than_a_quarter_is_no_proof(low: float, high: float, wide: bool) -> None:
    assert is_wide(run_of("faster", 1.0, low, high)) is wide
