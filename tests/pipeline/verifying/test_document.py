"""The document of a run that was made up: what it says beside its figures."""

from __future__ import annotations

import pytest

from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.pipeline.verifying.verify_case import Baseline, Case
from netprobe.pipeline.verifying.verify_document import build_verify
from netprobe.probe.records.result import HostOutcome
from netprobe.verify.comparison import ComparisonOptions, Repetition
from netprobe.verify.run import VerifyOptions, VerifyOutcome
from tests.maps import made_map


@pytest.mark.parametrize(
    ("pairs", "baseline_s", "fits_time", "needed"),
    [
        (2, (0.5, 0.9), True, "180s"),
        (5, (0.5, 0.9), True, "72s"),
        (6, (0.5, 0.9), True, None),
        (2, (0.5, 0.9), False, None),  # the size was given
        (4, (0.9, 0.9), True, None),  # and the speed-up is known
    ],
)
def test_fewer_than_six_runs_with_a_buffer_that_was_chosen_are_a_warning(
    pairs: int, baseline_s: tuple[float, float], fits_time: bool, needed: str | None
) -> None:
    plan = plan_order(made_map([2, 2]), PlanRequest(held_out=False))
    options = VerifyOptions(fits_time=fits_time, comparison=ComparisonOptions(time_s=60.0))
    case = Case(plan, Baseline(), None, plan.algorithm, 0, 0)
    contenders = case.contenders([host.name for host in plan.hosts], range(4))
    hosts = [HostOutcome(host=host, status="ok") for host in plan.hosts]
    outcome = VerifyOutcome(hosts=hosts, contenders=contenders)
    for pair in range(pairs):
        outcome.record.comparison += [
            Repetition(order=1, seconds=baseline_s[pair % 2]),
            Repetition(order=0, seconds=0.5),
        ]
    said = [text for text in build_verify(case, [], outcome, options, "ring").warnings if "of each" in text]
    if needed is None:
        assert said == []
    else:
        assert len(said) == 1 and said[0].startswith(f"{pairs} runs of each order") and needed in said[0]
