"""Parts of planning by their values: what folds are made of, which groups there are, what is contended."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.document import write_document
from netprobe.core.documents.schedule_plan import Prediction
from netprobe.core.errors import DocumentError, InputError
from netprobe.core.units import seconds_text
from netprobe.pipeline import map_scan
from netprobe.pipeline.planning import held_out, plan_auto, plan_ds_sync, plan_two_level
from netprobe.pipeline.planning.groupings import groupings_named, groupings_of, sqrt_grouping
from netprobe.pipeline.planning.held_out import RAW_SHARE, _Slow, readings_in_folder, readings_of
from netprobe.pipeline.planning.plan_ds_sync import DsSyncRequest
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.pipeline.planning.predicting import by_capacity, has_all_rates, predictor
from tests.documents import make_scan, rack_rtt
from tests.maps import made_capacity, made_map

NAN = float("nan")


def table(*rows: list[float]) -> Any:
    return np.array(rows, dtype=float)


def test_a_half_is_one_reading_of_each_pair_for_both_directions() -> None:
    part = table([NAN, 1, 2], [3, NAN, NAN], [5, 6, NAN])
    mask = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=bool)
    half = held_out._half(part, mask)
    assert np.array_equal(half, table([0, 1, 5], [1, 0, NAN], [5, NAN, 0]), equal_nan=True)
    assert not held_out._alone(half)
    assert held_out._alone(table([0, NAN], [NAN, 0])) and not held_out._alone(table([0, 1], [1, 0]))


def test_a_tenth_of_the_readings_is_mixed_in_at_the_scale_of_the_distances() -> None:
    distance, raw = (
        table([0, 2, 4], [2, 0, 6], [4, 6, 0]),
        10 * table([NAN, 3, 4], [3, NAN, NAN], [4, NAN, NAN]),
    )
    # Of the pairs with a reading the distances' mean is 3, and the readings' 35.
    mixed = held_out._mixed(distance, raw)
    assert mixed[0, 1] == pytest.approx((2 + RAW_SHARE * 30 * 3 / 35) / (1 + RAW_SHARE))
    assert mixed[0, 2] == pytest.approx((4 + RAW_SHARE * 40 * 3 / 35) / (1 + RAW_SHARE))
    assert mixed[1, 2] == 6 and mixed[0, 0] == 0
    nothing = held_out._mixed(distance, np.full((3, 3), NAN))
    assert np.array_equal(nothing, distance) and nothing is not distance
    assert np.array_equal(held_out._mixed(distance, np.zeros((3, 3))), distance)


def test_the_lower_reading_counts_unless_the_pair_has_directions_or_it_is_goodput() -> None:
    raw = table([NAN, 1, NAN], [3, NAN, 7], [5, 2, NAN])
    directed = np.zeros((3, 3), dtype=bool)
    directed[1, 2] = directed[2, 1] = True
    found = held_out._cells("rtt", raw, directed)
    assert (found[0, 1], found[1, 0], found[0, 2], found[2, 0]) == (1, 1, 5, 5)
    assert (found[1, 2], found[2, 1]) == (7, 2)
    found = held_out._cells("beta", raw, directed)
    assert (found[0, 1], found[1, 0], found[0, 2], found[2, 0]) == (1, 3, 5, 5)


@pytest.mark.parametrize(
    ("equal", "step", "same"),
    [(0, 0.0, 0), (2, 0.0, 0), (3, 0.0, 3), (45, 0.0, 45), (3, 0.9, 0), (20, 0.9, 20)],
)
def test_one_number_for_both_directions_is_told_from_chance(equal: int, step: float, same: int) -> None:
    """Of 45 pairs a twentieth is 2.25. On a grid whose least step is the usual difference half may be equal."""
    part = np.zeros((10, 10))
    first, second = np.triu_indices(10, 1)
    part[first, second] = 10.0
    part[second, first] = 11.0 if step else 10.0 + np.linspace(0.001, 2.0, 45)
    part[second[:equal], first[:equal]] = 10.0
    twice = ~np.eye(10, dtype=bool)
    expected = same if step == 0.0 else (0 if equal <= 45 // 2 else equal)
    assert held_out._one_number(part, twice) == expected
    pairs, why = held_out._two_readings(part, np.zeros((10, 10), dtype=bool))
    assert (pairs, bool(why)) == ((0, True) if expected else (45, False))


def test_two_readings_are_counted_and_lacking_ones_and_directions_are_reasons() -> None:
    rng = np.random.default_rng(0)
    part = rng.uniform(1.0, 2.0, (10, 10))
    none = np.zeros((10, 10), dtype=bool)
    assert held_out._two_readings(part, none) == (45, "")
    for count, enough in ((2, True), (3, False)):  # a twentieth of 45 is 2.25
        holed, directed = part.copy(), none.copy()
        for at in range(count):
            holed[at, at + 1] = NAN
            directed[at, at + 1] = directed[at + 1, at] = True
        for given in ((holed, none), (part, directed)):
            pairs, why = held_out._two_readings(*given)
            assert pairs == 45 - count and (why == "") == enough
        assert f"{count} of 45 pairs" in held_out._two_readings(part, directed)[1] or enough
    noise = held_out._noise(table([NAN, 1, 2], [4, NAN, 0], [2, 9, NAN]), [0, 1, 2])
    assert noise == pytest.approx((0.0, np.log(4.0)))  # a reading of 0 has no logarithm
    assert held_out._noise(table([NAN, 1, 2], [4, NAN, 0], [2, 9, NAN]), [1, 0]) == pytest.approx(
        (np.log(4.0),)
    )


def slow_table(both: int, once: int) -> tuple[Any, Any]:
    distance = np.ones((12, 12)) - np.eye(12)
    raw = 2.0 * distance
    for number in range(both):
        raw[number, number + 1] = raw[number + 1, number] = 6.0
    for number in range(once):
        raw[number, number + 3] = 8.0
    return distance, raw


@pytest.mark.parametrize(
    ("both", "once", "repeats"), [(2, 4, True), (2, 5, False), (0, 3, False), (1, 0, True), (0, 0, False)]
)
def test_slow_readings_repeat_where_half_of_them_are_of_pairs_slow_twice(
    both: int, once: int, repeats: bool
) -> None:
    distance, raw = slow_table(both, once)
    found = _Slow.of(distance, raw)
    assert found.repeats == repeats
    # Readings are usually twice the distance, and without noise slow from 1.3 times that.
    assert [found.usual, found.limit] == pytest.approx([2.0, 2.6])
    full = found.full(distance, distance, raw)
    raised = np.argwhere(np.triu(full > distance)).tolist()
    assert raised == [[number, number + 1] for number in range(both)]
    assert all(full[i, j] == pytest.approx(3.0) for i, j in raised)  # 6 over the usual 2
    assert np.array_equal(found.full(9.0 * distance, distance, raw), 9.0 * distance)


def test_nothing_is_slow_for_a_distance_that_is_not_known() -> None:
    distance, raw = slow_table(2, 0)
    found = _Slow.of(distance, raw)
    for at in ((0, 1), (1, 0)):
        distance[at] = 0.0
    for at in ((1, 2), (2, 1)):
        raw[at] = NAN
    assert np.array_equal(found.full(distance, distance, raw), distance)


def test_what_is_slow_is_beyond_four_times_the_noise() -> None:
    rng = np.random.default_rng(0)
    distance = np.ones((40, 40)) - np.eye(40)
    raw = distance * np.exp(rng.normal(0.0, 0.2, (40, 40)))
    found = _Slow.of(distance, raw)
    # Minima of two normal readings are 0.545 deviations below the mean in the median.
    assert np.log(found.usual) == pytest.approx(-0.2 * 0.5449, abs=0.02)
    assert np.log(found.limit / found.usual) == pytest.approx(4.0 * 0.2, rel=0.1)
    nothing = _Slow.of(distance, np.full((40, 40), NAN))
    assert (nothing.usual, nothing.limit, nothing.repeats) == (1.0, np.inf, False)
    assert nothing.full(distance, distance, raw) is distance


def test_places_are_put_back() -> None:
    matrix = np.arange(9.0).reshape(3, 3)
    order = [2, 0, 1]
    turned = matrix[np.ix_(order, order)]
    assert np.array_equal(held_out._unordered(turned, order), matrix)
    whole = held_out._placed(matrix[:2, :2], [2, 0], 3)
    assert (whole[2, 2], whole[2, 0], whole[0, 2], whole[0, 0]) == (0, 1, 3, 4) and np.isnan(whole[1]).all()


def test_scans_near_a_map_are_looked_at_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "MOST_SCANS", 6)
    here = tmp_path / "maps"
    scan = make_scan(rack_rtt([2, 2], seed=0), visits=False)
    places = [
        here / "scan.json",
        here / "a.json",
        here / "b.json",
        tmp_path / "scan.json",
        here / "sub" / "scan.json",
    ]
    for path in places:
        path.parent.mkdir(exist_ok=True, parents=True)
        write_document(scan, path)
    write_document(map_scan(scan), here / "map.json")
    (here / "sub" / "other.json").write_bytes((here / "a.json").read_bytes())
    assert held_out._scans_near(here) == places
    for number in range(3):
        (here / f"c{number:02}.json").write_bytes((here / "a.json").read_bytes())
    assert held_out._scans_near(here) == [*places[:3], *(here / f"c{number:02}.json" for number in range(3))]


def test_the_scan_has_to_be_the_maps_own(tmp_path: Path) -> None:
    own, other = (make_scan(rack_rtt([3, 3], seed=seed), visits=False) for seed in (0, 1))
    map_ = map_scan(own)
    write_document(other, tmp_path / "scan.json")
    readings = readings_in_folder(tmp_path / "map.json", map_, None)
    assert readings.folds == () and readings.text.startswith("not known: ") and readings.search is None
    with pytest.raises(DocumentError):
        readings_in_folder(tmp_path / "map.json", map_, tmp_path / "scan.json")
    with pytest.raises(DocumentError):
        plan_order(map_, scan=other)
    write_document(own, tmp_path / "x.json")
    for named in (None, tmp_path / "x.json"):
        found = readings_in_folder(tmp_path / "map.json", map_, named, seed=3)
        assert len(found.folds) == 2
        assert np.array_equal(
            found.folds[0].unseen.alpha_s, readings_of(map_, own, seed=3).folds[0].unseen.alpha_s
        )
        assert readings_in_folder(tmp_path / "map.json", map_, named, held_out=False).folds == ()


def test_an_order_begins_where_it_is_asked_to_and_keeps_the_hosts_it_is_given() -> None:
    map_ = made_map([4, 4], seed=2)
    turned = list(reversed(map_.hosts))
    plan = plan_order(map_, PlanRequest(hosts=turned, held_out=False))
    assert plan.order[0] == turned[0].name and [host.name for host in plan.hosts] == [
        host.name for host in turned
    ]
    assert plan_order(map_, PlanRequest(root="h5", held_out=False)).order[0] == "h5"
    distance = np.asarray(map_.distance) / 2
    given = [int(host.name[1:]) for host in turned]
    found = [int(name[1:]) for name in plan.order]
    for order, cost in ((given, plan.cost_given_s), (found, plan.cost_s)):
        around = sum(distance[one, other] for one, other in zip(order, [*order[1:], order[0]], strict=True))
        assert cost == pytest.approx(around)
    # Two racks of four: no ring crosses less often than twice.
    assert plan.cost_s == pytest.approx((6 * 100e-6 + 2 * 300e-6) / 2)
    with pytest.raises(DocumentError):
        plan_order(map_, PlanRequest(hosts=turned[1:]))


def test_groups_of_the_square_root_are_made_of_the_hosts_that_are_asked_for() -> None:
    map_ = made_map([3, 3, 3], unplaced=1, seed=1)
    hosts = [host.name for host in map_.hosts if host.name not in map_.unplaced]
    racks = {frozenset(group.hosts) for group in map_.groups}
    assert {frozenset(group) for group in sqrt_grouping(map_, hosts).groups} == racks
    some = hosts[::-1][:6]
    named = groupings_named(map_, some, "sqrt")[0]
    assert sorted(itertools.chain(*named.groups)) == sorted(some)
    assert all(list(group) == [name for name in some if name in group] for group in named.groups)  # as given
    assert [one.name for one in groupings_of(made_map([2, 1]), ["h0", "h1", "h2"])] == ["natural"]
    both = groupings_of(made_map([2, 2]), ["h0", "h1", "h2", "h3"])
    assert [one.name for one in both] == ["natural"]  # the balanced ones are the same


def test_tiers_above_the_groups_are_named_from_the_inside_out() -> None:
    map_ = made_map([2, 2, 2, 2], rows=[0, 0, 1, 1])
    hosts = [host.name for host in map_.hosts]
    (nested,) = groupings_named(map_, hosts, "nested")
    assert (nested.name, nested.groups) == ("nested", (tuple(hosts[:4]), tuple(hosts[4:])))
    assert groupings_named(map_, hosts, "best") == groupings_of(map_, hosts)
    assert groupings_named(map_, hosts[:4], "natural")[0].groups == (("h0", "h1"), ("h2", "h3"))
    with pytest.raises(InputError):  # of one row there is no tier above
        groupings_named(map_, hosts[:4], "nested")


@pytest.mark.parametrize(
    ("rates", "at_least", "groups", "hosts"),
    [
        ({}, (), [], []),
        ({"tx:h1": 6.9e7}, (), [], ["h1"]), ({"tx:h1": 7.1e7}, (), [], []), ({"rx:h4": 1e7}, (), [], ["h4"]),
        ({"up:g1": 6.9e7}, (), ["g1"], []), ({"down:g2": 1e7, "up:g2": 1e7}, (), ["g2"], []),
        ({"tx:h1": 1e7}, ("tx:h1",), [], []), ({"up:g1": None}, (), [], []),
    ],
)  # fmt: skip
def test_what_carries_less_than_seven_tenths_of_its_like_is_contended(
    rates: dict[str, float | None], at_least: tuple[str, ...], groups: list[str], hosts: list[str]
) -> None:
    map_ = made_map([2, 2, 2])
    capacity = made_capacity(map_, rates=rates, at_least=at_least)
    ids, names = {group.id for group in map_.groups}, {host.name for host in map_.hosts}
    assert plan_ds_sync._by_capacity(capacity, ids, names) == (groups, hosts)
    # Of two there is no usual one.
    assert plan_ds_sync._by_capacity(capacity, {"g1", "g2"}, set()) == ([], [])


def test_a_pattern_has_the_times_of_its_rates() -> None:
    map_ = made_map([2, 2, 2])
    bare = plan_ds_sync.plan_ds_sync(
        map_, DsSyncRequest(contended=["host:h3", "group:g1", "group:g1"], seed=4)
    )
    assert (bare.contended_groups, bare.contended_hosts, bare.seed) == (["g1"], ["h3"], 4)
    assert (
        bare.predicted_s is None
        and bare.contended_share is None
        and bare.racks == [["h0", "h1"], ["h2", "h3"], ["h4", "h5"]]
    )
    assert bare.rho_per_iteration == pytest.approx(bare.rho ** (1 / bare.pattern_length))
    capacity = made_capacity(map_, host=2e7, rates={"rx:h0": 1e7, "up:g1": 5e6})
    plan = plan_ds_sync.plan_ds_sync(map_, DsSyncRequest(size_bytes=10**7), capacity=capacity)
    assert plan.contended_share == 0.7 and (plan.contended_groups, plan.contended_hosts) == (["g1"], ["h0"])
    assert [parent.schema_.split("/")[0] for parent in plan.parents] == ["netprobe.map", "netprobe.capacity"]
    rates = plan_ds_sync._rates(map_, [f"h{i}" for i in range(6)], [[0, 1], [2, 3], [4, 5]], capacity)
    assert rates is not None
    assert rates.host == pytest.approx([1e-7, *[5e-8] * 5]) and rates.rack.tolist() == [0, 0, 1, 1, 2, 2]
    assert rates.uplink == pytest.approx([1e-8, 2e-7, 1e-8])
    # A ring sends 2 (N - 1) / N of the buffer over each link: the slowest is the uplink of g1, at 5 MB/s.
    assert plan.all_reduce_s == pytest.approx(2 * 5 / 6 * 10**7 / 5e6, rel=0.01)
    assert plan.predicted_s is not None and plan.hierarchical_s is not None
    for each in (plan.predicted_s, plan.all_reduce_s, plan.hierarchical_s):
        assert seconds_text(each) in (plan.advice or "")
    with pytest.raises(InputError):
        plan_ds_sync.plan_ds_sync(made_map([1]), DsSyncRequest())
    for word in ("group:h1", "host:g1", "rack:g1", "g1", "host:h6"):
        with pytest.raises(InputError):
            plan_ds_sync.plan_ds_sync(map_, DsSyncRequest(contended=[word]))
    one = plan_ds_sync.plan_ds_sync(made_map([4]), DsSyncRequest())
    assert one.pattern_length == 1 and "gains nothing" in (one.advice or "")


def network(host: float, stream: float, basis: str = "capacity", size: int = 4) -> Any:
    rates = np.full((size, size), stream)
    np.fill_diagonal(rates, np.nan)
    net = SimpleNamespace(
        hosts=list(range(size)), stream=rates, capacity=np.array([host] * 2 * size + [1.0] * 9)
    )
    return SimpleNamespace(network=net, basis=basis)


@pytest.mark.parametrize(
    ("host", "stream", "channels"),
    [(1e8, 1e8, (1,)), (1e8, 0.95e8, (1,)), (1e8, 0.8e8, (1, 2)), (1e8, 2.5e7, (1, 4)), (1e8, 1e6, (1, 8)),
     (np.inf, 1e6, (1,)), (1e8, np.inf, (1,)), (1e8, np.nan, (1,))],
)  # fmt: skip
def test_as_many_connections_as_fill_a_host(host: float, stream: float, channels: tuple[int, ...]) -> None:
    assert plan_auto._channels(network(host, stream)) == channels
    assert plan_auto._channels(network(host, stream, basis="goodput")) == (1,)


def test_connections_are_counted_by_the_usual_host_and_the_usual_connection() -> None:
    """One fast host and one fast connection among slow ones are no reason for more, or for fewer."""
    known = network(1e8, 2.5e7)
    known.network.capacity[3] = 1e10
    known.network.stream[0, 1] = 1e10
    assert plan_auto._channels(known) == (1, 4)


def predicted(time_s: float, **fields: Any) -> Prediction:
    values: dict[str, Any] = {
        "size_bytes": 10,
        "time_s": time_s,
        "basis": "capacity",
        "steps": 6,
        "bytes_on_wire": 9,
    }
    return Prediction(**(values | fields))


def test_the_difference_is_bytes_steps_and_what_is_full() -> None:
    base = predicted(2.0, bytes_across_groups=3_000_000, busiest="up:g1", utilisation=0.5)
    own = predicted(1.0, bytes_across_groups=1_000_000, steps=4, busiest="tx:h0")

    def numbers(text: str) -> list[str]:
        return re.findall(r"\d[\d.]*(?: MB| s\b|%)?", text.replace("g1", "").replace("h0", ""))

    assert numbers(plan_auto._difference(own, base)) == ["1 MB", "3 MB", "4", "6", "50%"]
    assert plan_auto._difference(base, base) == ""
    assert numbers(plan_auto._difference(base, own)) == ["0%"]
    assert "what h0 sends" in plan_auto._difference(base, own)
    assert plan_two_level.range_text(own) == ""
    assert numbers(plan_two_level.range_text(predicted(1.0, low_s=1.0))) == ["1.00 s"]
    assert numbers(plan_two_level.range_text(predicted(1.0, low_s=1.0, high_s=2.0))) == ["1.00 s", "2.00 s"]


def test_predictions_need_all_rates_and_the_plans_hosts() -> None:
    map_ = made_map([2, 2], unplaced=1)
    plan = plan_order(map_, PlanRequest(held_out=False))
    capacity = made_capacity(map_)
    assert has_all_rates(map_, capacity)
    assert has_all_rates(map_, made_capacity(map_, rates={"tx:h4": None}))  # it has no place
    assert not has_all_rates(map_, made_capacity(map_, rates={"tx:h0": None}))
    assert predictor(plan, None, None, "ring", 10) is None
    with pytest.raises(DocumentError):
        by_capacity(plan, made_capacity(made_map([2, 2])), "ring", 10)
    by_rate, by_map = (
        predictor(plan, map_, capacity, "ring", 8 * 10**7),
        predictor(plan, map_, None, "ring", 8 * 10**7),
    )
    assert by_rate is not None and by_map is not None and type(by_rate) is not type(by_map)
    ring = [0, 1, 2, 3]
    # 2 (N - 1) / N of 80 MB at 100 MB/s, and six hops of latency.
    assert float(by_rate.costs([ring])[0]) == pytest.approx(1.2, rel=0.01)
    assert float(by_map.costs([ring])[0]) == pytest.approx((2 * 100e-6 + 2 * 300e-6) / 2)
