"""2LHA of maps: every plan proves, for all groups, capacities and sizes; what is chosen, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.document import canonical_sha256
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import DocumentError, InputError
from netprobe.core.hosts import make_host
from netprobe.pipeline import files
from netprobe.pipeline.planning.groupings import groupings_of
from netprobe.pipeline.planning.plan_two_level import TwoLevelRequest, plan_two_level
from netprobe.plan import load_plan, proved_schedule
from tests.maps import made_capacity, made_map
from tests.properties import examples


@examples(25)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 2),
    st.sampled_from(["latency", "goodput", "capacity"]),
    st.tuples(st.floats(1e3, 1e9), st.floats(1e3, 1e9)),
    st.builds(
        TwoLevelRequest,
        size_bytes=st.integers(1, 5_000_000),
        grouping=st.sampled_from(["natural", "sqrt", "best"]),
        chunk_bytes=st.sampled_from([None, 1 << 16, 1 << 20]),
        channels=st.integers(1, 3),
    ),
    st.integers(0, 999),
)
def test_every_plan_proves(
    sizes: list[int],
    unplaced: int,
    what: str,
    rates: tuple[float, float],
    request: TwoLevelRequest,
    seed: int,
) -> None:
    (host, uplink), size = rates, request.size_bytes
    map_ = made_map(sizes, unplaced=unplaced, goodput=host if what == "goodput" else None, seed=seed)
    capacity = made_capacity(map_, host=host, uplink=uplink) if what == "capacity" else None
    plan = plan_two_level(map_, request, capacity=capacity).plan
    schedule, _, proof = proved_schedule(plan)
    assert schedule.name == "2lha" and proof.issue_order and plan.safe_under
    assert plan.order == [h.name for h in map_.hosts if h.name not in map_.unplaced]
    assert plan.left_out == map_.unplaced
    assert sorted(name for group in plan.groups for name in group) == sorted(plan.order)
    assert plan.predictions[0].bytes_on_wire == 2 * (len(plan.order) - 1) * size
    # Each host moves all of the buffer: no schedule of the lot is faster than its own link.
    if what != "latency" and len(plan.order) > 1:
        assert plan.predictions[0].time_s >= size / host * (1 - 1e-6)


def test_a_plan_is_read_back_and_its_figures_are_those_of_table_4_1(tmp_path: Path) -> None:
    map_ = made_map([4, 4, 4], seed=3)
    planned = plan_two_level(map_, TwoLevelRequest(size_bytes=12_000_000), capacity=made_capacity(map_))
    files.save(planned.plan, tmp_path / "plan.json")
    read = load_plan(tmp_path / "plan.json")
    assert isinstance(read, SchedulePlan) and canonical_sha256(read) == canonical_sha256(planned.plan)
    found = read.predictions[0]
    # 2(N - 1) S in all, 2(G - 1) S of it between groups; the fullest link is a host's: 1 + 1/4 (3 + 1/3).
    assert found.bytes_on_wire == 22 * 12_000_000 and found.bytes_across_groups == 4 * 12_000_000
    assert 0.12 * (1 + (3 + 1 / 3) / 4) <= found.time_s <= 0.12 * (1 + (3 + 1 / 3) / 4) * 1.15
    assert found.basis == "capacity" and found.low_s is None


def test_masters_stand_where_the_links_are_fast() -> None:
    """One rack's uplink has a fifth of the rate of the others: its own sums fill it."""
    map_ = made_map([4, 4, 4])
    slow = made_capacity(map_, host=1e9, uplink=1e8, rates={"up:g0": 2e7, "down:g0": 2e7})
    request = TwoLevelRequest(size_bytes=20_000_000, grouping="natural", chunk_bytes=1 << 16)
    by_rate = plan_two_level(map_, request, capacity=slow)
    assert by_rate.plan.predictions[0].time_s == pytest.approx(1.0, rel=0.05)
    assert by_rate.plan.predictions[0].busiest in ("up:g0", "down:g0")
    shares = by_rate.tried[0].candidate.groups
    assert shares is not None and shares.shares is not None
    assert np.allclose(shares.shares.groups, [0, 0.5, 0.5], atol=1e-6)


def test_groupings_are_the_maps_balanced_ones_and_outer_tiers() -> None:
    map_ = made_map([2, 2, 2, 2, 1], rows=[0, 0, 1, 1, 1], seed=4)
    hosts = [h.name for h in map_.hosts]
    found = {one.name: one.groups for one in groupings_of(map_, hosts)}
    assert [len(g) for g in found["natural"]] != [len(g) for g in found["nested"]]
    assert sorted(map(len, found["natural"])) == [1, 2, 2, 2, 2]
    assert sorted(map(len, found["nested"])) == [4, 5]
    assert sorted(map(len, found["sqrt"])) == [3, 3, 3]
    for groups in found.values():
        assert sorted(n for g in groups for n in g) == sorted(hosts)
    flat = made_map([3, 3])
    with pytest.raises(InputError, match="not nested"):
        plan_two_level(flat, TwoLevelRequest(grouping="nested"))
    with pytest.raises(InputError, match="is not one of natural, sqrt, nested, best"):
        plan_two_level(flat, TwoLevelRequest(grouping="auto"))


def test_best_takes_other_groups_where_the_simulator_is_sure() -> None:
    """Rows of two racks whose uplinks are full: rows as groups send half as much between them."""
    map_ = made_map([2, 2, 2, 2], rows=[0, 0, 1, 1])
    capacity = made_capacity(map_, host=1e9, uplink=1e8)
    planned = plan_two_level(map_, TwoLevelRequest(size_bytes=10_000_000), capacity=capacity)
    times: dict[str, float] = {}
    for one in planned.tried:
        assert one.prediction is not None and one.candidate.groups is not None
        name = one.candidate.groups.name
        times[name] = min(times.get(name, np.inf), one.prediction.time_s)
    assert set(times) == {"natural", "sqrt", "nested"} or set(times) == {"natural", "nested"}
    assert planned.plan.grouping == min(times, key=times.__getitem__)
    assert planned.plan.predictions[0].time_s == min(times.values())


def test_without_rates_it_says_what_cannot_be_told_and_keeps_the_maps_groups() -> None:
    map_ = made_map([2, 2, 2, 2, 1], rows=[0, 0, 1, 1, 1])
    planned = plan_two_level(map_, TwoLevelRequest(size_bytes=3_000_000))
    assert not planned.decides and planned.plan.grouping == "natural" and planned.unknown
    assert "is not known" in (planned.plan.advice or "")
    small = plan_two_level(map_, TwoLevelRequest(size_bytes=1000))
    assert small.decides and small.plan.predictions[0].basis == "latency"
    # Goodput knows nothing of uplinks: other groups are not a sure gain.
    goodput = made_map([2, 2, 2, 2, 1], rows=[0, 0, 1, 1, 1], goodput=1e8)
    by_goodput = plan_two_level(goodput, TwoLevelRequest(size_bytes=2_000_000))
    assert by_goodput.plan.grouping == "natural" and by_goodput.plan.predictions[0].low_s is not None


def test_one_group_and_groups_of_one_are_flat_aggregation() -> None:
    for sizes in ([4], [1, 1, 1], [1]):
        plan = plan_two_level(made_map(sizes), TwoLevelRequest(grouping="natural", size_bytes=10**6)).plan
        assert "flat aggregation" in (plan.advice or "")


def test_what_does_not_fit_is_refused() -> None:
    map_ = made_map([2, 2])
    with pytest.raises(DocumentError, match="its hosts differ from those of the map"):
        plan_two_level(map_, capacity=made_capacity(made_map([2, 3])))
    with pytest.raises(DocumentError, match="its hosts differ from those of the hosts file"):
        plan_two_level(map_, TwoLevelRequest(hosts=[make_host("h0")]))
    with pytest.raises(InputError, match="1 B at least is needed"):
        plan_two_level(map_, TwoLevelRequest(size_bytes=0))
    with pytest.raises(InputError, match="more than a schedule holds: give --chunk"):
        plan_two_level(map_, TwoLevelRequest(size_bytes=10**12, chunk_bytes=1000))
    with pytest.raises(InputError, match="down:g0"):
        plan_two_level(map_, capacity=made_capacity(map_, rates={"down:g0": 0.0}))


def test_ranks_keep_the_original_order() -> None:
    map_ = made_map([2, 2, 1], seed=1)
    hosts = [make_host(name) for name in ("h4", "h2", "h0", "h1", "h3")]
    plan = plan_two_level(map_, TwoLevelRequest(hosts=hosts, size_bytes=1_000_000)).plan
    assert plan.order == ["h4", "h2", "h0", "h1", "h3"]
