"""Plans chosen by the simulator: each proves, and nothing is called a win that is not known to be one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import DocumentError, InputError
from netprobe.pipeline import files, plan_order
from netprobe.pipeline.planning.plan_auto import AutoRequest, advised_schedule, plan_auto
from netprobe.plan import load_plan, proved_schedule
from tests.maps import made_capacity, made_map
from tests.properties import examples


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far a search gets is looked at elsewhere."""
    monkeypatch.setattr("netprobe.pipeline.planning.plan_auto.STEPS_A_HOST", 20)


@examples(6)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3).filter(lambda sizes: sum(sizes) > 1),
    st.integers(0, 1),
    st.sampled_from(["latency", "goodput", "capacity"]),
    st.tuples(st.floats(1e4, 1e9), st.floats(1e4, 1e9)),
    st.integers(1, 3_000_000),
    st.integers(0, 999),
)
def test_every_plan_proves(
    sizes: list[int], unplaced: int, what: str, rates: tuple[float, float], size: int, seed: int
) -> None:
    map_ = made_map(sizes, unplaced=unplaced, goodput=rates[0] if what == "goodput" else None, seed=seed)
    capacity = made_capacity(map_, host=rates[0], uplink=rates[1]) if what == "capacity" else None
    planned = plan_auto(map_, AutoRequest(size_bytes=size, ranges=False), capacity=capacity)
    proved_schedule(planned.plan)
    assert planned.plan.left_out == map_.unplaced and planned.plan.advice
    if capacity is not None:
        found, base = planned.plan.predictions[0], planned.decision.baseline
        times = {one.candidate: one.prediction or one for one in planned.tried}
        assert found.time_s <= (times[base].time_s or 0) * (1 + 1e-9)


def test_behind_narrow_uplinks(tmp_path: Path) -> None:
    map_ = made_map([3, 3, 3], seed=1)
    planned = plan_auto(map_, AutoRequest(size_bytes=10**7), capacity=made_capacity(map_, uplink=1e8))
    assert planned.decision.reason == "faster" and "x as fast as" in (planned.plan.advice or "")
    chosen = planned.decision.candidate
    assert chosen.algorithm in ("2lha", "hierarchical") or chosen.order_name != "original"
    # The ranges join up, and that of the plan's size is the plan's.
    assert planned.ranges[0].first_bytes == 1000 and planned.ranges[-1].last_bytes == 10**9
    for one, after in zip(planned.ranges, planned.ranges[1:], strict=False):
        assert one.last_bytes + 1 == after.first_bytes
    at = next(r for r in planned.ranges if r.first_bytes <= 10**7 <= r.last_bytes)
    assert at.candidate is not None and at.candidate.label == chosen.label
    # Short messages take few steps.
    assert planned.ranges[0].candidate is not None
    assert planned.ranges[0].candidate.algorithm in ("flat", "recursive-doubling", "bcube", "nccl-tree")
    files.save(planned.plan, tmp_path / "plan.json")
    read = load_plan(tmp_path / "plan.json")
    assert isinstance(read, SchedulePlan) and read.advice == planned.plan.advice
    assert read.predictions[0].basis == "capacity"


def test_a_scan_is_advised_where_all_was_measured() -> None:
    map_ = made_map([2, 2, 2], seed=1)
    order = plan_order(map_)
    said = advised_schedule(map_, made_capacity(map_, uplink=5e7), order)
    assert said is not None and "x as fast as" in said.text and "for 100 MB by capacity" in said.text
    assert said.ratio is not None and f"{said.ratio:.2f}x as fast as {said.baseline}" in said.text
    assert advised_schedule(map_, made_capacity(map_, rates={"tx:h0": None}), order) is None


def test_more_connections_are_tried_where_one_carries_less_than_its_host() -> None:
    map_ = made_map([4], goodput=2.5e7)
    planned = plan_auto(map_, AutoRequest(size_bytes=10**7, ranges=False), capacity=made_capacity(map_))
    assert planned.plan.channels == 4 and planned.decision.reason == "faster"
    base = next(one.prediction for one in planned.tried if one.candidate == planned.decision.baseline)
    assert base is not None and base.time_s > 3 * planned.plan.predictions[0].time_s


def test_what_cannot_be_told_is_said() -> None:
    alone = plan_auto(made_map([2, 2]), AutoRequest(size_bytes=10**6))
    assert not alone.decides and alone.decision.reason == "cannot_tell" and alone.unknown
    assert "is not known" in (alone.plan.advice or "") and alone.plan.order == ["h0", "h1", "h2", "h3"]
    small = plan_auto(made_map([2, 2]), AutoRequest(size_bytes=1000, ranges=False))
    assert small.decides and small.plan.predictions[0].basis == "latency"


def test_what_does_not_fit_is_refused() -> None:
    map_ = made_map([2, 2])
    with pytest.raises(InputError, match="1 B to 1 GB can be planned"):
        plan_auto(map_, AutoRequest(size_bytes=2 * 10**9))
    with pytest.raises(InputError, match="two hosts at least"):
        plan_auto(made_map([1]))
    with pytest.raises(DocumentError, match="its hosts differ from those of the map"):
        plan_auto(map_, capacity=made_capacity(made_map([5])))
    with pytest.raises(InputError, match="the capacity of rx:h2 was not measured"):
        plan_auto(map_, capacity=made_capacity(map_, rates={"rx:h2": None}))
