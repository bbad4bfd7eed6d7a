"""What an order takes on measured capacities: the same figure from every command, and right by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import write_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import DocumentError
from netprobe.pipeline.planning.plan_auto import AutoRequest, plan_auto
from netprobe.pipeline.planning.plan_order import (
    LEFT_OPEN,
    PlanRequest,
    plan_order,
    shared_intervals_s,
    shared_times_s,
)
from netprobe.pipeline.planning.plan_two_level import known_with
from netprobe.pipeline.planning.predicting import by_capacity, map_next_to
from netprobe.pipeline.verifying import verify_schedule as schedules
from netprobe.pipeline.verifying.verify_case import Baseline, Case
from netprobe.pipeline.verifying.verify_schedule import Measured, verify_schedule
from netprobe.plan.auto.candidates import Candidate
from netprobe.plan.auto.predicting import time_of
from netprobe.probe.records.result import HostOutcome
from netprobe.report.verify import verify_text
from netprobe.verify.comparison import Repetition
from netprobe.verify.run import VerifyOptions, VerifyOutcome
from tests.maps import ACROSS_S, INSIDE_S, made_capacity, made_map

SIZE, RATE = 8_000_000, 1e8
ALGORITHMS = ("ring", "halving-doubling", "recursive-doubling", "bcube", "double-binary-tree", "nccl-tree")


@pytest.fixture(scope="module")
def fleet() -> tuple[Map, Capacity]:
    """Two racks of four, as fast an uplink as a host; hosts by rack."""
    map_ = made_map([4, 4])
    return map_, made_capacity(map_, host=RATE, uplink=RATE)


@pytest.fixture(scope="module")
def auto(fleet: tuple[Map, Capacity]) -> SchedulePlan:
    """What `plan_auto` chooses of orders that were not searched."""
    return plan_auto(fleet[0], AutoRequest(size_bytes=SIZE, ranges=False, orders={}), capacity=fleet[1]).plan


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fleet: every run takes half a second."""

    def run(
        hosts: Any,
        algorithm: str,
        arrange: Any,
        _launcher: Any,
        _options: Any,
        verify: VerifyOptions,
        **_: Any,
    ) -> VerifyOutcome:
        outcome = VerifyOutcome(
            hosts=[HostOutcome(host=host, status="ok") for host in hosts],
            contenders=arrange(range(len(hosts)), verify.size_bytes),
        )
        outcome.record.comparison += [Repetition(order=order, seconds=0.5) for order in (1, 0, 0, 1, 1, 0)]
        return outcome

    monkeypatch.setattr(schedules, "run_verify", run)


def planned(map_: Map, algorithm: str, capacity: Capacity | None = None) -> OrderPlan:
    return plan_order(map_, PlanRequest(algorithm=algorithm, held_out=False), capacity=capacity)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_command_says_the_same_of_an_order(
    algorithm: str, fleet: tuple[Map, Capacity], auto: SchedulePlan, ran: None
) -> None:
    """``plan order``, ``verify`` of an order, ``verify`` of a schedule against it, and ``plan auto``."""
    map_, capacity = fleet
    plan = planned(map_, algorithm).model_copy(update={"size_bytes": SIZE})
    names = [host.name for host in plan.hosts]
    runs = "chunked-ring" if algorithm == "ring" else algorithm
    by_plan = shared_times_s([plan], capacity, map_)[0]

    case = Case(plan, Baseline(), by_capacity(plan, capacity, algorithm, SIZE, map_), algorithm, 0, 0)
    by_verify = case.contenders(names, range(len(names))).proposed

    candidate = Candidate(algorithm=runs, order=tuple(plan.order))
    by_auto = time_of(known_with(map_, names, capacity), candidate, SIZE)

    document = verify_schedule(
        auto,
        runs,
        launcher=None,  # type: ignore[arg-type]
        measured=Measured(capacity=capacity, map_=map_),
        verify=VerifyOptions(size_bytes=SIZE),
    )
    mine, against = document.orders
    assert mine.predicted_s == pytest.approx(auto.predictions[0].time_s, rel=1e-8)
    given = plan.model_copy(update={"order": names})
    assert against.predicted_s == pytest.approx(shared_times_s([given], capacity, map_)[0], rel=1e-8)
    assert by_plan == by_auto == by_verify.predicted_s
    assert by_verify.predicted_between_s == (by_plan, by_plan)


def test_times_of_orders_are_those_of_closed_forms(fleet: tuple[Map, Capacity]) -> None:
    """8 hosts in 2 racks of 4, uplinks of a host's rate: latency and bytes by hand."""
    map_, capacity = fleet
    s, near, far = SIZE / RATE, INSIDE_S / 2, ACROSS_S / 2
    by_rack = [f"h{i}" for i in range(8)]
    spread = [f"h{i}" for i in (0, 4, 1, 5, 2, 6, 3, 7)]
    for algorithm, order, latency, expected in (
        # One hop crosses each uplink: an eighth of the buffer in each of 14 steps.
        ("ring", by_rack, None, 14 * s / 8),
        # Every hop crosses: four flows share each uplink.
        ("ring", spread, 14 * far, 14 * 4 * s / 8),
        # Near first: halves and quarters inside the rack, eighths across it, by four flows; and back.
        ("halving-doubling", by_rack, 4 * near + 2 * far, 2 * s * (1 / 2 + 1 / 4 + 4 / 8)),
        # Three whole buffers, the last across by four flows.
        ("recursive-doubling", by_rack, 2 * near + far, s * (1 + 1 + 4)),
    ):
        plan = planned(map_, algorithm).model_copy(update={"order": order})
        places = [[int(name[1:]) for name in order]]
        bare = by_capacity(plan, capacity, algorithm, SIZE)
        assert not bare.has_latency
        assert bare.costs(places)[0] == pytest.approx(expected, rel=1e-9)
        whole = by_capacity(plan, capacity, algorithm, SIZE, map_)
        assert whole.has_latency and whole.costs(places)[0] > bare.costs(places)[0]
        if latency is not None:
            assert whole.costs(places)[0] == pytest.approx(expected + latency, rel=1e-9)


def test_what_a_resource_carries_at_least_makes_an_interval_and_no_win() -> None:
    """Shuffled racks of which everything is only known to carry so much: the order may gain, or not."""
    map_ = made_map([4, 4], seed=3)
    ids = [one.id for one in made_capacity(map_).resources]
    sure, least = made_capacity(map_), made_capacity(map_, at_least=ids)
    plan = planned(map_, "ring")
    given = plan.model_copy(update={"order": [host.name for host in plan.hosts]})
    assert plan.order != given.order
    took, original = shared_times_s([plan, given], sure, map_)
    assert shared_intervals_s([plan, given], sure, map_) == [(took, took), (original, original)]
    (_, high), (original_low, original_high) = shared_intervals_s([plan, given], least, map_)
    assert high == took < original_high == original and original_low < high
    for capacity, is_open in ((sure, False), (least, True)):
        advice = planned(map_, "ring", capacity).advice or ""
        assert (LEFT_OPEN in advice) is is_open


def test_verify_of_a_schedule_knows_the_latencies_of_the_map_that_its_plan_names(
    fleet: tuple[Map, Capacity], auto: SchedulePlan, ran: None, tmp_path: Path
) -> None:
    map_, capacity = fleet

    def verified(map_: Map | None) -> Verify:
        return verify_schedule(
            auto,
            launcher=None,  # type: ignore[arg-type]
            measured=Measured(capacity=capacity, map_=map_),
            verify=VerifyOptions(size_bytes=1000),
        )

    without, whole = verified(None), verified(map_)
    for document, latency in ((without, False), (whole, True)):
        by = {"capacity": True, "size_bytes": 1000, "latency": latency}
        assert document.parameters["predicted_by"] == by
        assert ("latency is not in it" in verify_text(document)) is not latency
    # A kilobyte is latency: 14 hops round a ring of 8.
    ring = whole.orders[1]
    assert ring.algorithm == "chunked-ring" and ring.predicted_s is not None
    assert ring.predicted_s > 14 * INSIDE_S / 2 > (without.orders[1].predicted_s or 1)
    assert ring.predicted_low_s == ring.predicted_high_s == ring.predicted_s
    assert map_.parent() in whole.parents

    assert map_next_to(auto, tmp_path) is None
    write_document(map_, tmp_path / "map.json")
    assert map_next_to(auto, tmp_path) is not None
    other = made_map([4, 4], seed=5)
    write_document(other, tmp_path / "map.json")
    assert map_next_to(auto, tmp_path) is None
    with pytest.raises(DocumentError, match="another map"):
        verified(other)
    (tmp_path / "map.json").write_text("{")
    assert map_next_to(auto, tmp_path) is None
