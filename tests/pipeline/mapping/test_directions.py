"""Maps whose distances depend on the direction, and what orders cost on them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.document import (
    canonical_sha256,
    dump,
    load_document,
    parse_document,
    write_document,
)
from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError
from netprobe.pipeline import map_scan
from netprobe.pipeline.importing import ImportOptions, import_matrix
from netprobe.pipeline.mapping.findings import direction_lines
from netprobe.pipeline.planning.held_out import readings_of
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.plan import prove_against_map
from netprobe.plan.costs import cost_model
from netprobe.plan.costs.rough_times import rough_time_s
from netprobe.verify.predict import ByMap
from tests.documents import capacity_of, make_scan, rack_scan
from tests.plan.fleets import named, order_plan
from tests.properties import examples

NEW_KEYS = ("requires", "one_way", "one_direction", "one_direction_found")


def cycle(hosts: int, forward: float, other: float) -> FloatMatrix:
    """A ring that is ``forward`` from each host to the next and ``other`` everywhere else."""
    matrix = np.full((hosts, hosts), other)
    matrix[np.arange(hosts), (np.arange(hosts) + 1) % hosts] = forward
    np.fill_diagonal(matrix, 0.0)
    return matrix


def imported(
    folder: Path, matrix: FloatMatrix, unit: str, names: str = "abcdefghijklmnop"
) -> tuple[Scan, Map]:
    """From a table that has the hosts in reverse, as somebody may have it."""
    back = matrix[::-1, ::-1]
    rows = list(names[: len(matrix)][::-1])
    cells = [["" if np.isnan(value) else f"{value:.9g}" for value in row] for row in back]
    text = "\n".join([",".join(["host", *rows]), *(",".join([n, *r]) for n, r in zip(rows, cells))])
    (folder / "matrix.csv").write_text(text + "\n")
    scan = import_matrix(folder / "matrix.csv", options=ImportOptions(unit=unit))
    return scan, map_scan(scan)


def in_turn(order: list[str], first: str) -> str:
    place = order.index(first)
    return "".join([*order[place:], *order[:place]])


def predicted(plan: OrderPlan, map_: Map, *orders: str) -> list[float]:
    place = {host.name: at for at, host in enumerate(plan.hosts)}
    costs = ByMap(plan, map_, plan.algorithm).costs([[place[name] for name in order] for order in orders])
    return [float(cost) for cost in costs]


@pytest.mark.parametrize("unit", ["us", "Gbit/s"])
def test_a_cycle_that_is_fast_one_way_is_ordered_that_way(tmp_path: Path, unit: str) -> None:
    """The hosts a b c d: 40 us a round, or 10 Gbit/s a hop; in reverse 200 us, or 2 Gbit/s."""
    matrix = cycle(4, 10.0, 50.0 if unit == "us" else 2.0)
    scan, map_ = imported(tmp_path, matrix, unit)
    assert map_.schema_ == "netprobe.map/1.1" and map_.requires == ["directed"] and map_.is_directed
    assert map_.outliers is not None and map_.outliers.asymmetric_found == 4
    assert {link.src + link.dst for link in map_.outliers.asymmetric} in ({"ba", "cb", "dc", "ad"},)
    round_s = 40e-6 if unit == "us" else 4 * 1e6 / (10e9 / 8)
    expected = matrix[::-1, ::-1] * 1e-6 if unit == "us" else 1.0 / (matrix[::-1, ::-1] * 1e9 / 8 + np.eye(4))
    off = ~np.eye(4, dtype=bool)
    assert map_.distance[off] == pytest.approx(expected[off], rel=1e-8), "each link has its own reading"
    plan = plan_order(map_, scan=scan)
    assert in_turn(plan.order, "a") == "abcd" and plan.kept_given is None
    assert plan.cost_s == pytest.approx(round_s, rel=1e-8) == plan.lower_bound_s
    assert plan.cost_given_s == pytest.approx(5 * round_s, rel=1e-8)
    assert predicted(plan, map_, "abcd", "dcba") == pytest.approx([round_s, 5 * round_s], rel=1e-8)
    assert plan.held_out is not None and plan.held_out.folds == 0
    assert plan.held_out.text.startswith("cannot tell: ")
    prove_against_map(plan, map_)
    largest = plan_order(map_, PlanRequest(objective="bottleneck"), scan=scan)
    assert in_turn(largest.order, "a") == "abcd"
    assert largest.cost_s == pytest.approx(round_s / 4, rel=1e-8) == largest.lower_bound_s
    assert any("differs by direction" in line for line in direction_lines(map_))


@given(st.integers(3, 8), st.floats(1.5, 20.0), st.booleans(), st.integers(0, 99))
@examples(15)
def test_reversing_the_costs_of_a_directed_cycle_reverses_the_order(
    hosts: int, ratio: float, reverse: bool, seed: int
) -> None:
    order = np.random.default_rng(seed).permutation(hosts)
    cost = cycle(hosts, 1e-5, ratio * 1e-5)[np.ix_(order, order)]
    forward = order_plan(named(hosts), cost, iterations=30)
    back = order_plan(named(hosts), cost.T.copy(), iterations=30)
    if hosts > 2:
        assert back.order == [forward.order[0], *forward.order[:0:-1]]
    assert forward.cost_s == back.cost_s == pytest.approx(hosts * 1e-5)
    assert forward.lower_bound_s == pytest.approx(hosts * 1e-5) == back.lower_bound_s


@pytest.mark.parametrize("hosts", [3, 5, 8, 12])
def test_a_transposed_table_makes_a_transposed_map_and_a_reversed_order(tmp_path: Path, hosts: int) -> None:
    rng = np.random.default_rng(hosts)
    matrix = cycle(hosts, 1.0, 6.0) * rng.uniform(1.0, 1.02, (hosts, hosts))
    scan, map_ = imported(tmp_path, matrix, "ms")
    other_scan, other = imported(tmp_path, matrix.T, "ms")
    assert map_.is_directed and np.array_equal(map_.distance, other.distance.T)
    first, second = plan_order(map_, scan=scan), plan_order(other, scan=other_scan)
    assert in_turn(first.order, "a") == in_turn(second.order[::-1], "a") == "abcdefghijkl"[:hosts]
    assert first.cost_s == pytest.approx(second.cost_s, rel=1e-8)


def test_most_pairs_that_differ_are_no_noise_even_where_none_agrees(tmp_path: Path) -> None:
    """Every pair is 1.3 to 4 times slower one way, and hosts form no groups: the map decides, and says so."""
    rng = np.random.default_rng(2)
    base = rng.uniform(10.0, 12.0, (9, 9))
    base = (base + base.T) / 2
    slower = np.where(np.triu(rng.random((9, 9)) < 0.5, 1), rng.uniform(2.0, 4.0, (9, 9)), 1.0)
    matrix = base * np.where(np.tril(np.ones((9, 9)), -1) > 0, np.where(slower.T > 1, 1.0, 3.0), slower)
    np.fill_diagonal(matrix, 0.0)
    scan, map_ = imported(tmp_path, matrix, "ms")
    rtt = map_.layers.rtt
    assert map_.verdict.locality == "none" and rtt is not None and rtt.one_way
    assert map_.distance == pytest.approx(matrix[::-1, ::-1] * 1e-3, rel=1e-8)
    plan = plan_order(map_, scan=scan)
    assert plan.kept_given is None and plan.cost_s < plan.cost_given_s / 1.3
    assert "no reading was held out" in (plan.advice or "")


def test_few_links_that_differ_keep_both_readings_and_the_others_are_round_trips(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    at = rng.uniform(0, 1, (12, 2))
    matrix = 20.0 + 80.0 * np.linalg.norm(at[:, None] - at[None, :], axis=2)
    matrix = matrix * np.exp(rng.normal(0.0, 0.02, (12, 12)))
    np.fill_diagonal(matrix, 0.0)
    matrix[2, 7] *= 4.0
    scan, map_ = imported(tmp_path, matrix, "ms")
    rtt = map_.layers.rtt
    assert rtt is not None and rtt.one_way is None and map_.requires == ["directed"]
    place = {host.name: at for at, host in enumerate(map_.hosts)}
    c, h = place["c"], place["h"]
    assert map_.distance[c, h] == pytest.approx(matrix[2, 7] * 1e-3)
    assert map_.distance[h, c] == pytest.approx(matrix[7, 2] * 1e-3)
    differs = ~np.isclose(map_.distance, map_.distance.T)
    assert [tuple(pair) for pair in np.argwhere(np.triu(differs))] == [(min(c, h), max(c, h))]
    readings = readings_of(map_, scan)
    assert len(readings.folds) == 2 and readings.pairs == 65, "the one pair has no second reading"
    for fold in readings.folds:
        assert fold.unseen.alpha_s[c, h] == pytest.approx(matrix[2, 7] * 1e-3 / 2)
        assert fold.unseen.alpha_s[h, c] == pytest.approx(matrix[7, 2] * 1e-3 / 2)
    plan = plan_order(map_, scan=scan)
    prove_against_map(plan, map_)
    assert ("c", "h") not in set(zip(plan.order, [*plan.order[1:], plan.order[0]]))


def test_a_link_that_rests_on_one_direction_is_marked(tmp_path: Path) -> None:
    matrix = cycle(6, 10.0, 50.0)
    matrix[1, 4] = np.nan
    _, map_ = imported(tmp_path, matrix, "us")
    rtt = map_.layers.rtt
    assert rtt is not None and rtt.one_direction == [["b", "e"]] and rtt.one_direction_found == 1
    place = {host.name: at for at, host in enumerate(map_.hosts)}
    b, e = place["b"], place["e"]
    assert map_.distance[b, e] == map_.distance[e, b] == pytest.approx(50e-6)
    assert any("b to e" in line for line in direction_lines(map_))


def test_round_trips_of_our_own_probes_have_one_distance_a_pair() -> None:
    """A round trip is the same from both ends; where its readings differ one of them was disturbed."""
    map_ = map_scan(make_scan(np.where(np.eye(4) > 0, np.nan, cycle(4, 1e-5, 5e-5)), visits=False))
    assert not map_.is_directed and np.array_equal(map_.distance, map_.distance.T)


def test_a_map_without_direction_is_written_as_before(tmp_path: Path) -> None:
    scan, _ = rack_scan([4, 4], seed=1)
    map_ = map_scan(scan)
    data = dump(map_)
    assert data["schema"] == "netprobe.map/1.0"
    assert not [key for key in NEW_KEYS if key in data or key in data["layers"]["rtt"]]
    assert direction_lines(map_) == []
    # The same for an import whose directions differ by noise alone.
    rng = np.random.default_rng(1)
    _, other = imported(tmp_path, 10.0 * np.exp(rng.normal(0, 0.3, (8, 8))) * (1 - np.eye(8)), "ms")
    assert dump(other)["schema"] == "netprobe.map/1.0" and not other.is_directed


def test_a_directed_map_is_read_back_and_what_is_not_known_is_refused(tmp_path: Path) -> None:
    _, map_ = imported(tmp_path, cycle(4, 10.0, 50.0), "us")
    write_document(map_, tmp_path / "map.json")
    again = load_document(Map, tmp_path / "map.json")
    assert canonical_sha256(again) == canonical_sha256(map_)
    data = json.loads((tmp_path / "map.json").read_text())
    with pytest.raises(DocumentError, match="requires 'curved'"):
        parse_document(Map, {**data, "requires": ["directed", "curved"]}, source="map.json")
    without = {key: value for key, value in data.items() if key != "requires"}
    with pytest.raises(DocumentError, match="not symmetric"):
        parse_document(Map, without, source="map.json")


def test_capacities_are_priced_by_direction() -> None:
    """Two groups of two; the first one's uplink carries an eighth upwards, and the whole downwards."""
    scan, _ = rack_scan([4, 4], seed=1, shuffle=False)
    map_ = map_scan(scan)
    assert len(map_.groups) == 2
    capacity = capacity_of(map_)
    slow = f"up:{map_.groups[0].id}"
    resources = [r.model_copy(update={"bytes_per_s": 1e6}) if r.id == slow else r for r in capacity.resources]
    capacity = capacity.model_copy(update={"resources": resources})
    tree = cost_model("nccl-tree")
    near, far = ([*map_.groups[a].hosts[:2], *map_.groups[b].hosts[:2]] for a, b in ((0, 1), (1, 0)))
    for order in (near, far):
        loads: dict[str, float] = {}
        by_host = {name: group.id for group in map_.groups for name in group.hosts}
        total = 0.0
        for transfers in tree.rounds(4):
            loads = {}
            for src, dst, share in transfers:
                s, d = order[src], order[dst]
                crossing = by_host[s] != by_host[d]
                for id_ in (f"tx:{s}", f"rx:{d}", *((f"up:{by_host[s]}", f"down:{by_host[d]}") * crossing)):
                    loads[id_] = loads.get(id_, 0.0) + share
            total += max((load / (1e6 if id_ == slow else 8e6) for id_, load in loads.items()), default=0.0)
        assert rough_time_s(tree, order, capacity, 10**6) == pytest.approx(total * 1e6)
