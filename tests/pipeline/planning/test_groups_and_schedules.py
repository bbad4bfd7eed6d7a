"""Which groups and which schedule a plan ends with, by given times, and what is tried for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.core.documents.document import write_document
from netprobe.core.documents.schedule_plan import Prediction
from netprobe.core.errors import DocumentError, InputError
from netprobe.core.units import seconds_text as t
from netprobe.pipeline.planning import plan_auto as auto
from netprobe.pipeline.planning import plan_two_level as two_level
from netprobe.pipeline.planning.groupings import Grouping
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.pipeline.planning.plan_two_level import (
    TwoLevelRequest,
    placed_order,
    plan_two_level,
    range_text,
)
from netprobe.pipeline.planning.predicting import check_own_map, map_next_to
from netprobe.plan.auto.candidates import Candidate, Groups
from netprobe.plan.auto.choice import Decision
from netprobe.plan.auto.known import known_network
from netprobe.plan.auto.predicting import Interval, Read, Tried
from tests.maps import made_capacity, made_map

MAP = made_map([4, 4], seed=2)
CAPACITY = made_capacity(MAP)
FREE = PlanRequest(held_out=False)


def prediction(
    time_s: float, low: float | None = None, high: float | None = None, **fields: Any
) -> Prediction:
    return Prediction(size_bytes=1000, time_s=time_s, low_s=low, high_s=high, basis="capacity",
                      bytes_on_wire=10, steps=fields.pop("steps", 4), **fields)  # fmt: skip


def tried(
    name: str, time_s: float, low: float | None = None, high: float | None = None, at: int = 0
) -> Tried:
    groups = Groups(name=name, ranks=((0, at + 1), (2, 3)))
    one = Candidate(
        algorithm="2lha", order=("a", "b", "c", "d"), groups=groups, chunk_bytes=int(1000 * time_s)
    )
    return Tried(candidate=one, prediction=prediction(time_s, low, high))


def read_of(_known: object, one: Tried, _size: int) -> Read:
    """As drawn, without a network."""
    found = one.prediction
    assert found is not None
    low, high = (found.time_s, found.time_s) if found.low_s is None else (found.low_s, found.high_s)
    return Read(
        candidate=one.candidate,
        interval=Interval(time_s=found.time_s, low_s=low, high_s=high),
        at_least_s=0.0,
    )


def test_groups_are_the_maps_own_unless_others_are_surely_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_level, "_read", read_of)
    known: Any = SimpleNamespace(decides=lambda size: size < 2000, network=None)
    request = TwoLevelRequest(size_bytes=1000)
    own, coarse = tried("natural", 3.0), tried("natural", 2.0)
    other = tried("sqrt", 1.0, at=1)
    assert two_level._chosen(known, [own, coarse], request) == (coarse, "")
    chosen, why = two_level._chosen(known, [own, coarse, other], request)
    assert chosen is other and why == f"sqrt groups are the best of those tried (natural {t(2.0)})"
    vague = tried("sqrt", 1.0, 0.5, 2.0, at=1)
    chosen, why = two_level._chosen(known, [own, coarse, vague], request)
    assert chosen is coarse and f"sqrt groups may be faster ({t(1.0)} against {t(2.0)})" in why
    sure = tried("sqrt", 1.0, 0.5, 1.99, at=1)
    assert two_level._chosen(known, [own, coarse, sure], request)[0] is sure
    slower = tried("sqrt", 2.5, at=1)
    assert two_level._chosen(known, [own, coarse, slower], request) == (
        coarse, f"natural groups are the best of those tried (sqrt {t(2.5)})",
    )  # fmt: skip
    chosen, why = two_level._chosen(known, [own, coarse, other], replace(request, size_bytes=2000))
    assert chosen is coarse and why.startswith("which groups are best is not known")
    open_ = tried("sqrt", 1.0, 0.5, None, at=1)
    assert two_level._chosen(known, [own, coarse, open_], request)[0] is coarse
    assert (
        range_text(prediction(1.0)) == ""
        and range_text(prediction(1.0, 0.5, 2.0)) == f" ({t(0.5)} to {t(2.0)})"
    )
    assert range_text(prediction(1.0, 0.5, None)) == f" ({t(0.5)} to unknown)"


def test_every_grouping_is_tried_with_every_chunk_or_the_fastest_where_intervals_cost() -> None:
    map_ = made_map([2, 2])
    order = [host.name for host in map_.hosts]
    groupings = [
        Grouping("natural", (("h0", "h1"), ("h2", "h3"))),
        Grouping("sqrt", (("h0", "h2"), ("h1", "h3"))),
    ]
    request = TwoLevelRequest(size_bytes=1_000_000)
    capacity = made_capacity(map_)
    known = known_network(map_, order, capacity)
    made = two_level._tried(known, groupings, order, capacity, request)
    assert len(made) == 6 and [one.candidate.chunk_bytes for one in made[:3]] == [65536, 262144, None]
    ends = ["up:g0"]
    vague = made_capacity(map_, at_least=ends)
    few = two_level._tried(known_network(map_, order, vague), groupings, order, vague, request)
    assert len(few) == 2
    for one, own in zip(few, (made[:3], made[3:]), strict=True):
        assert one.prediction is not None
        assert one.prediction.time_s == pytest.approx(
            min(two.prediction.time_s for two in own if two.prediction)
        )
    bare = two_level._tried(known_network(map_, order), groupings, order, None, request)
    assert [one.candidate.chunk_bytes for one in bare] == [65536, 65536]
    named = two_level._tried(
        known, groupings[:1], order, capacity, replace(request, chunk_bytes=500_000, channels=2)
    )
    assert [(one.candidate.chunk_bytes, one.candidate.channels) for one in named] == [(500_000, 2)]
    for wrong in (replace(request, size_bytes=0), replace(request, chunk_bytes=0)):
        with pytest.raises(InputError):
            plan_two_level(map_, wrong)
    hosts, placed = placed_order(made_map([2, 1], unplaced=1), None)
    assert [host.name for host in hosts] == ["h0", "h1", "h2", "h3"] and placed == ["h0", "h1", "h2"]


def test_a_two_level_plan_says_what_it_takes_and_where_a_level_is_missing() -> None:
    known: Any = SimpleNamespace(decides=lambda size: size < 2000, basis="capacity")
    request = TwoLevelRequest(size_bytes=1000)
    said = two_level._advice(known, tried("natural", 2.0, 1.0, 4.0), "why", request)
    assert said == f"1 kB take {t(2.0)} by capacity ({t(1.0)} to {t(4.0)}); why"
    one = Tried(candidate=replace(tried("x", 2.0).candidate, groups=Groups(name="x", ranks=((0, 1, 2),)), _built={}),
                prediction=prediction(2.0))  # fmt: skip
    assert two_level._advice(known, one, "", request).startswith(
        "one group of 3 hosts: without a second level"
    )
    single = replace(
        one, candidate=replace(one.candidate, groups=Groups(name="x", ranks=((0,), (1,))), _built={})
    )
    assert two_level._advice(known, single, "", request).startswith("every group is one host: 2LHA is flat")
    assert "what 2 kB take is not known" in two_level._advice(
        known, one, "", replace(request, size_bytes=2000)
    )


def decision(reason: str, chosen: Candidate, base: Candidate, likely: Candidate) -> Decision:
    return Decision(size_bytes=1000, candidate=chosen, baseline=base, likely=likely, reason=reason)  # type: ignore[arg-type]


def test_a_choice_says_against_what_and_what_makes_the_difference() -> None:
    known: Any = SimpleNamespace(decides=lambda size: size == 1000, basis="capacity")
    order = ("a", "b")
    base, own = (Candidate(algorithm=name, order=order) for name in ("chunked-ring", "bcube"))
    slow = prediction(3.0, bytes_across_groups=50, steps=6, busiest="up:g0", utilisation=0.75)
    fast = prediction(2.0, 1.0, 2.5, bytes_across_groups=20, steps=4, busiest="tx:a", utilisation=0.5)
    rows = [Tried(candidate=own, prediction=fast), Tried(candidate=base, prediction=slow)]
    said = auto._reason(known, decision("faster", own, base, own), rows)
    both = f"{t(2.0)} for 1 kB by capacity ({t(1.0)} to {t(2.5)}), 1.50x as fast as {base.label} ({t(3.0)})"
    more = "20 B between groups instead of 50 B, 4 steps instead of 6"
    busy = "the other's busiest resource is up:g0 (the uplink out of g0), 75% of its time"
    assert said == f"{own.label}: {both}: {more}, {busy}"
    assert (
        auto._difference(slow, fast)
        == ": the other's busiest resource is tx:a (what a sends), 50% of its time"
    )
    assert auto._difference(slow, slow) == ""
    close = auto._reason(known, decision("close", base, base, own), rows)
    assert (
        close == f"{base.label} is kept: {t(3.0)} for 1 kB by capacity, and nothing is more than 2 % faster"
    )
    maybe = auto._reason(known, decision("cannot_tell", base, base, own), rows)
    assert f"{own.label} may be faster ({t(2.0)} ({t(1.0)} to {t(2.5)}))" in maybe
    nearly = [rows[1], Tried(candidate=own, prediction=prediction(2.95))]
    assert "whether another is faster is left open" in auto._reason(
        known, decision("cannot_tell", base, base, own), nearly
    )
    assert "whether another is faster is left open" in auto._reason(
        known, decision("cannot_tell", base, base, base), rows
    )
    unknown: Any = SimpleNamespace(decides=lambda _size: False, basis="latency")
    assert "the map knows latencies alone" in auto._reason(
        unknown, decision("cannot_tell", base, base, base), []
    )


def test_a_scan_is_advised_up_to_64_hosts_and_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def planned(map_: Any, request: Any, *, capacity: Any) -> Any:
        asked.append((map_, request, capacity))
        decision = SimpleNamespace(
            candidate=SimpleNamespace(label="one"), baseline=SimpleNamespace(label="two")
        )
        return SimpleNamespace(plan=SimpleNamespace(advice="said"), decision=decision, ratio=2.0)

    monkeypatch.setattr(auto, "plan_auto", planned)

    def found(count: int) -> Any:
        return SimpleNamespace(order=[f"h{i}" for i in range(count)], hosts=["hosts"])

    said = [auto.advised_schedule(MAP, CAPACITY, found(n), seed=3) for n in (1, 2, 64, 65)]
    assert [None if one is None else one.text for one in said] == [
        None,
        "said",
        "said",
        None,
    ]
    map_, request, capacity = asked[0]
    assert map_ is MAP and capacity is CAPACITY and request.seed == 3 and not request.ranges
    assert request.orders == {"found": ["h0", "h1"]} and request.hosts == ["hosts"]

    def refused(*_given: Any, **_options: Any) -> Any:
        raise InputError("no")

    monkeypatch.setattr(auto, "plan_auto", refused)
    assert auto.advised_schedule(MAP, CAPACITY, found(3)) is None


def test_every_algorithm_is_tried_in_the_orders_that_suit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    map_ = made_map([2, 2], seed=1)
    hosts, order = placed_order(map_, None)
    known = known_network(map_, order, made_capacity(map_))
    asked: list[PlanRequest] = []

    def found(_map: Any, request: PlanRequest) -> Any:
        asked.append(request)
        return SimpleNamespace(order=order[::-1])

    monkeypatch.setattr(auto, "plan_order", found)
    request = auto.AutoRequest(seed=4, size_bytes=777)
    made = auto._candidates(map_, hosts, order, known, made_capacity(map_), request)
    assert {one.algorithm: one.iterations for one in asked} == {
        one.algorithm: None if one.algorithm in ("ring", "chunked-ring") else 300 * 4 for one in asked
    }
    assert {one.seed for one in asked} == {4} and {one.size_bytes for one in asked} == {None}
    by_group = [name for group in map_.groups for name in group.hosts]
    ways = {one.order for one in made if one.algorithm == "two-way-ring"}
    assert ways >= {tuple(order), tuple(order[::-1])} and tuple(by_group) in {one.order for one in made}
    assert not any(one.algorithm == "reduce-scatter" for one in made)
    grouped = [one for one in made if one.groups is not None]
    assert {one.algorithm for one in grouped} == {"2lha", "hierarchical"} and all(
        one.order == tuple(order) for one in grouped
    )
    asked.clear()
    given = auto._candidates(map_, hosts, order, known, None, replace(request, orders={"mine": order[::-1]}))
    assert not asked and {one.order_name for one in given if one.groups is None} >= {"original", "mine"}
    one_group = made_map([4])
    flat = auto._candidates(
        one_group, *placed_order(one_group, None), known_network(one_group, order), None, request
    )
    assert not any(one.groups is not None and one.groups.name == "natural" for one in flat)
    sized = made_map([2, 2], goodput=1e7)
    asked.clear()
    auto._candidates(sized, *placed_order(sized, None), known_network(sized, order), None, request)
    assert {one.size_bytes for one in asked} == {777}


def test_the_map_of_a_plan_is_known_by_its_hash(tmp_path: Path) -> None:
    plan = plan_order(MAP, FREE)
    check_own_map(plan, MAP)
    other = made_map([4, 4], seed=3)
    with pytest.raises(DocumentError):
        check_own_map(plan, other)
    with pytest.raises(DocumentError):
        check_own_map(plan, made_map([4, 3], seed=2))
    assert map_next_to(plan, tmp_path) is None
    write_document(other, tmp_path / "map.json")
    assert map_next_to(plan, tmp_path) is None
    (tmp_path / "map.json").write_text("{")
    assert map_next_to(plan, tmp_path) is None
    (tmp_path / "map.json").unlink()
    write_document(MAP, tmp_path / "map.json")
    beside = map_next_to(plan, tmp_path)
    assert beside is not None and beside.parent() == MAP.parent()
    assert map_next_to(plan.model_copy(update={"parents": []}), tmp_path) is None
