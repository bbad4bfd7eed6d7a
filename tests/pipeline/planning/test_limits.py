"""Both sides of the limits that planning decides by."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.document import write_document
from netprobe.core.documents.map import DIRECTED, Map
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError, InputError
from netprobe.pipeline import map_scan
from netprobe.pipeline.planning import groupings, predicting
from netprobe.pipeline.planning import plan_order as module
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.pipeline.planning.plan_two_level import placed_order
from netprobe.pipeline.planning.predicting import capacity_beside, check_own_map, what_capacities_lack
from netprobe.plan.order.strategy import CLOSE
from tests.documents import make_scan, rack_rtt
from tests.maps import made_capacity, made_map


@pytest.mark.parametrize("ratio", [1.0, 1 + 0.9 * CLOSE, 1 + 1.1 * CLOSE, 1.5, 4.0])
def test_a_gain_by_direction_is_one_beyond_what_counts_as_close(ratio: float) -> None:
    """A ring whose one way round costs so many times the other: as fast as the faster ones both ways are alike."""
    map_ = made_map([4])
    assert map_.layers.rtt is not None
    cost = np.full((4, 4), 9e-3)
    for host in range(4):
        cost[host, (host + 1) % 4], cost[host, (host + 3) % 4] = 1e-4 * ratio, 1e-4
    np.fill_diagonal(cost, 0.0)
    layer = map_.layers.rtt.model_copy(update={"distance_s": cost})
    layers = map_.layers.model_copy(update={"rtt": layer})
    directed = map_.model_copy(update={"layers": layers, "requires": [DIRECTED]})
    found = plan_order(map_, PlanRequest(held_out=False)).model_copy(
        update={"order": ["h0", "h3", "h2", "h1"], "cost_given_s": 2e-4 * ratio, "cost_s": 2e-4}
    )
    assert module._Problem.of(directed, PlanRequest()).gains_by_direction(found) == (ratio > 1 + CLOSE)


def test_a_plan_belongs_to_its_own_map_and_to_its_hosts() -> None:
    map_, alike, other = made_map([2, 2], seed=1), made_map([2, 2], seed=2), made_map([2, 3], seed=1)
    plan = plan_order(map_, PlanRequest(held_out=False))
    bare = plan.model_copy(update={"parents": []})
    check_own_map(plan, map_)
    check_own_map(bare, map_)
    alike = alike.model_copy(update={"seed": (map_.seed or 0) + 1})
    assert alike.parent().sha256 != map_.parent().sha256
    check_own_map(bare, alike)  # nothing says that it is another
    for given, of in ((plan, alike), (plan, other), (bare, other)):
        with pytest.raises(DocumentError):
            check_own_map(given, of)


class Asked(Exception):
    """What followed is not run."""


def test_readings_are_asked_for_as_the_plan_is(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = make_scan(rack_rtt([3, 3], seed=0), visits=False)
    asked: list[dict[str, Any]] = []

    def readings(_map: Map, of: Scan, **options: Any) -> None:
        asked.append(options)
        assert of is scan
        raise Asked

    monkeypatch.setattr(module, "readings_of", readings)
    monkeypatch.setattr(module._Problem, "of", lambda *_given: None)
    map_ = map_scan(scan)
    for request in (PlanRequest(size_bytes=1000, held_out=True, seed=7), PlanRequest()):
        with pytest.raises(Asked):
            plan_order(map_, request, scan=scan)
    assert asked == [
        {"size_bytes": 1000, "held_out": True, "seed": 7}, {"size_bytes": None, "held_out": None, "seed": 0}
    ]  # fmt: skip


def test_capacities_beside_a_map_are_its_own(tmp_path: Path) -> None:
    map_, other = made_map([2, 2], seed=1), made_map([2, 2], seed=2)
    plan = plan_order(map_, PlanRequest(held_out=False))
    assert capacity_beside(map_, tmp_path) is None
    own, stranger = (
        made_capacity(map_).model_copy(update={"parents": [one.parent()]}) for one in (map_, other)
    )
    assert map_.parent().sha256 != other.parent().sha256
    nobody = made_capacity(map_)
    short = made_capacity(map_, rates={"tx:h0": None}).model_copy(update={"parents": [map_.parent()]})
    for capacity, found in ((stranger, False), (nobody, False), (short, False), (own, True)):
        write_document(capacity, tmp_path / "capacity.json")
        assert (capacity_beside(map_, tmp_path) is not None) == found
        assert (capacity_beside(plan, tmp_path) is not None) == found
        why = what_capacities_lack(map_, tmp_path)
        assert (why is not None and "tx:h0" in why) == (capacity is short)
        assert capacity_beside(plan.model_copy(update={"parents": []}), tmp_path) is None


@pytest.mark.parametrize("name", ["best", "sqrt"])
def test_groups_of_chance_are_those_of_the_seed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    map_ = made_map([3, 3, 3], seed=1)
    hosts = [host.name for host in map_.hosts]
    seeds: list[int] = []

    def made(_map: Map, _hosts: list[str], *, seed: int = 0) -> groupings.Grouping:
        seeds.append(seed)
        return groupings.Grouping(name="sqrt", groups=(tuple(hosts),))

    monkeypatch.setattr(groupings, "sqrt_grouping", made)
    groupings.groupings_named(map_, hosts, name, seed=9)
    assert seeds == [9]


def test_an_interval_that_nothing_bounds_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [(1.0, None), (2.0, 3.0)]
    predicted = SimpleNamespace(interval=lambda order: ends[order[0]])
    monkeypatch.setattr(module, "_predicted", lambda *_given: (predicted, [[0], [1]]))
    map_ = made_map([2, 2], seed=1)
    assert module.shared_intervals_s([], made_capacity(map_), map_) == [(1.0, math.inf), (2.0, 3.0)]


def test_hosts_without_a_place_get_no_rank_and_one_at_least_needs_a_place() -> None:
    map_ = made_map([2, 1], unplaced=2)
    hosts, order = placed_order(map_, None)
    assert [host.name for host in hosts] == ["h0", "h1", "h2", "h3", "h4"] and order == ["h0", "h1", "h2"]
    given, order = placed_order(map_, list(map_.hosts)[::-1])
    assert given[0].name == "h4" and order == ["h2", "h1", "h0"]
    lost = map_.model_copy(update={"unplaced": [host.name for host in map_.hosts]})
    with pytest.raises(InputError):
        placed_order(lost, None)


def test_predictions_are_of_one_connection_unless_more_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    map_ = made_map([2, 2])
    capacity, plan = made_capacity(map_), plan_order(map_, PlanRequest(held_out=False))
    monkeypatch.setattr(predicting, "ByCapacity", lambda *asked: asked)
    found: Any = [
        predicting.by_capacity(plan, capacity, "ring", 7),
        predicting.by_capacity(plan, capacity, "bcube", 7, map_, 3),
        predicting.predictor(plan, map_, capacity, "ring", 8),
        predicting.predictor(plan, None, capacity, "ring", 8, 2),
    ]
    # What is called a ring is run in chunks.
    assert [asked[2:] for asked in found] == [
        ("chunked-ring", 7, None, 1), ("bcube", 7, map_, 3), ("chunked-ring", 8, map_, 1),
        ("chunked-ring", 8, None, 2),
    ]  # fmt: skip
    assert predicting.predictor(plan, None, None, "ring", 8) is None


@pytest.mark.parametrize(
    ("ends", "open_"),
    [([(1, 2), (2, 3)], True), ([(2, 3), (1, 2)], True), ([(1, 2), (2.1, 3)], False), ([(2.1, 3), (1, 2)], False)],
)  # fmt: skip
def test_intervals_that_touch_leave_open_which_is_faster(
    ends: list[tuple[float, float]], open_: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    map_ = made_map([2])
    monkeypatch.setattr(module, "shared_intervals_s", lambda _plans, _capacity, _map: ends)
    assert module._left_open([], made_capacity(map_), map_) == (module.LEFT_OPEN if open_ else "")
