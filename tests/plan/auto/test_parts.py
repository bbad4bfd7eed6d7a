"""Parts of the automatic choice against sums by hand: networks, masters, predictions, ranges of many hosts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.plan.auto.candidates import (
    CHUNK_BYTES,
    MOST_CHUNKS_TUNED,
    Candidate,
    coarse,
    distinct,
    flat_candidates,
    two_level_candidates,
    with_shares,
)
from netprobe.plan.auto.choice import GRID, LEAST_BYTES, MOST_BYTES, Chooser
from netprobe.plan.auto.known import KnownNetwork, known_network, network_by
from netprobe.plan.auto.predicting import (
    BOUND,
    FEW_TRANSFERS,
    Interval,
    bound_s,
    has_rough,
    interval_of,
    latency_of,
    prediction_of,
    rough_s,
    run_of,
    time_of,
)
from netprobe.plan.schedule.schedule import REDUCE
from netprobe.plan.simulate.network import network_of
from tests.maps import made_capacity, made_map

HOSTS = [f"h{i}" for i in range(5)]


def goodputs(rates: np.ndarray[Any, Any]) -> Any:
    """A map of racks of 2, 2 and 1 whose connections carry ``rates`` [src, dst]."""
    map_ = made_map([2, 2, 1], goodput=1.0)
    assert map_.layers.beta is not None
    beta = np.where(np.isfinite(rates), 1.0 / rates, np.nan)
    np.fill_diagonal(beta, 0.0)
    layer = map_.layers.beta.model_copy(update={"distance_s_per_byte": beta})
    return map_.model_copy(update={"layers": map_.layers.model_copy(update={"beta": layer})})


def test_goodput_alone_says_what_hosts_and_uplinks_carry_at_least() -> None:
    rates = np.random.default_rng(3).uniform(1e6, 9e6, (5, 5))
    known = known_network(goodputs(rates), HOSTS)
    net = known.network
    at = {name: i for i, name in enumerate(net.resources)}
    off = np.where(np.eye(5, dtype=bool), 0.0, rates)
    for i in range(5):
        assert net.capacity[at[f"tx:h{i}"]] == net.low[at[f"tx:h{i}"]] == pytest.approx(off[i].max())
        assert net.capacity[at[f"rx:h{i}"]] == net.low[at[f"rx:h{i}"]] == pytest.approx(off[:, i].max())
    for g, inside in (("g0", [0, 1]), ("g1", [2, 3])):
        outside = [i for i in range(5) if i not in inside]
        assert net.low[at[f"up:{g}"]] == pytest.approx(rates[np.ix_(inside, outside)].max())
        assert net.low[at[f"down:{g}"]] == pytest.approx(rates[np.ix_(outside, inside)].max())
        assert np.isinf(net.capacity[[at[f"up:{g}"], at[f"down:{g}"]]]).all()
    assert np.isinf(net.high).all() and net.group_of == ("g0", "g0", "g1", "g1", "g2")
    assert net.stream[~np.eye(5, dtype=bool)] == pytest.approx(rates[~np.eye(5, dtype=bool)])
    for src, dst in np.ndindex(5, 5):
        own = [f"tx:h{src}"]
        if net.group_of[src] != net.group_of[dst]:
            own += [f"up:{net.group_of[src]}"] * (src < 4) + [f"down:{net.group_of[dst]}"] * (dst < 4)
        if src != dst:
            assert [net.resources[r] for r in net.passed[src, dst] if r >= 0] == [*own, f"rx:h{dst}"]
    # Where no connection across was measured, an uplink may carry any number, or nothing.
    holes = rates.copy()
    holes[:2, 2:] = holes[2:, :2] = np.nan
    least = known_network(goodputs(holes), HOSTS).network
    assert (least.low[[at["up:g0"], at["down:g0"]]] == 0).all() and least.low[at["up:g1"]] > 0
    assert np.isinf(least.capacity[at["up:g0"]]) and np.isinf(least.high[at["up:g0"]])
    assert np.isinf(least.stream[0, 2])


def test_a_transfer_passes_what_it_leaves_and_what_it_enters_and_capacities_keep_their_ends() -> None:
    map_ = made_map([2, 2])
    capacity = made_capacity(map_, uplink=5e7, at_least=["up:g0"])
    changed = []
    for one in capacity.resources:
        if one.id == "down:g1":
            one = one.model_copy(update={"low_bytes_per_s": 4e7, "high_bytes_per_s": 8e7})
        if one.id == "tx:h1":
            # Ends that do not hold the value itself; and far from the others, so that it is not pooled.
            one = one.model_copy(
                update={"bytes_per_s": 3e7, "low_bytes_per_s": 3.5e7, "high_bytes_per_s": 2e7}
            )
        changed.append(one)
    capacity = capacity.model_copy(update={"resources": changed})
    names = ["h2", "h1", "h3", "h0"]
    net = network_of(capacity, names)
    at = {name: i for i, name in enumerate(net.resources)}
    ends = {name: (net.low[i], net.capacity[i], net.high[i]) for name, i in at.items()}
    assert ends["up:g0"] == (5e7, 5e7, np.inf) and ends["down:g1"] == (4e7, 5e7, 8e7)
    assert ends["tx:h1"] == (3e7, 3e7, 3e7) and ends["rx:h0"] == (1e8, 1e8, 1e8)
    passed = [[{net.resources[r] for r in net.passed[s, d] if r >= 0} for d in range(4)] for s in range(4)]
    assert passed[1][0] == {"tx:h1", "up:g0", "down:g1", "rx:h2"} and passed[0][2] == {"tx:h2", "rx:h3"}
    assert passed[0][3] == {"tx:h2", "up:g1", "down:g0", "rx:h0"}
    # Of hosts of one group no uplink is passed.
    assert {r.split(":")[0] for r in network_of(capacity, ["h0", "h1"]).resources} == {"tx", "rx"}
    assert network_by(capacity, names).alpha_s.max() == 0.0
    assert network_by(capacity, names, map_).alpha_s[0, 1] == pytest.approx(150e-6)


def test_masters_have_the_shares_that_links_leave_them() -> None:
    """A host that can take no more than its own result adds up nothing; without capacities all have equal shares."""
    map_ = made_map([2, 2])
    order, racks = ["h0", "h1", "h2", "h3"], [["h0", "h1"], ["h2", "h3"]]
    capacity = made_capacity(map_, uplink=1e12, rates={"rx:h3": 4e7, "tx:h3": 9e7})
    sums = {}
    for known in (capacity, None):
        groups = with_shares("natural", racks, order, known)
        assert (groups.shares is None) == (known is None) and groups.ranks == ((0, 1), (2, 3))
        one = Candidate(algorithm="2lha", order=tuple(order), groups=groups, chunk_bytes=1000)
        every = one.schedule(100_000).expanded()
        sums[known is None] = np.bincount(every.dst[every.op == REDUCE], minlength=4).tolist()
        if groups.shares is not None:
            assert groups.shares.hosts == pytest.approx((0.5, 0.5, 1.0, 0.0), abs=1e-6)
            assert groups.shares.time_s_per_byte == pytest.approx(1 / 4e7)
    assert sums[False][3] == 0 < sums[False][2] and sums[True][2] == sums[True][3] > 0
    # The uplink of a part of a group counts with its share of the hosts.
    whole = made_map([4, 1])
    five = [f"h{i}" for i in range(5)]
    slow = made_capacity(whole, uplink=4e7)
    halves = with_shares("x", [["h0", "h1"], ["h2", "h3"], ["h4"]], five, slow)
    assert halves.shares is not None
    # Of half of the uplink a group of two sends and receives the buffer: 2e7 carry one byte in 50 ns at the least.
    assert halves.shares.time_s_per_byte >= 1 / 2e7 * (1 - 1e-9)


def test_candidates_are_cut_into_the_sizes_that_are_worth_trying() -> None:
    order = ["h0", "h1", "h2", "h3"]
    groups = with_shares("natural", [order[:2], order[2:]], order, None)
    given = two_level_candidates(order, groups, 10**6, chunk_bytes=777)
    assert [one.chunk_bytes for one in given] == [777]
    sizes = [CHUNK_BYTES << (2 * i) for i in range(4)]
    assert [one.chunk_bytes for one in two_level_candidates(order, groups, None, chunk_bytes=None)] == [
        *sizes,
        None,
    ]
    small = two_level_candidates(order, groups, sizes[1], chunk_bytes=None)
    assert [one.chunk_bytes for one in small] == [sizes[0], None]
    large = two_level_candidates(order, groups, sizes[0] * (MOST_CHUNKS_TUNED + 1), chunk_bytes=None)
    assert [one.chunk_bytes for one in large] == [*sizes[1:], None]
    assert [one.pieces(sizes[0]) for one in large] == [1, 1, 1, 4]
    # Without a size: a chunk a host, or two or three of 16 to 64 KiB each, 128 in all at most.
    assert [large[-1].pieces(size << 10) for size in (0, 127, 128, 191, 192, 768)] == [4, 4, 8, 8, 12, 12]
    assert large[-1].pieces((768 << 10) + 1) == 4
    many = replace(large[-1], order=tuple(f"h{i}" for i in range(50)))
    assert many.pieces(8 << 20) == 100 and replace(many, order=many.order * 3).pieces(24 << 20) == 150
    assert replace(large[-1], channels=16).pieces(0) == 16
    flat = flat_candidates({"flat": {"a": order, "b": order}, "nccl-tree": {"a": order}}, channels=(1, 3))
    assert [(one.algorithm, one.order_name, one.channels, one.chunk_bytes) for one in flat] == [
        ("flat", "a", 1, None), ("flat", "a", 3, None),
        *(("nccl-tree", "a", count, chunk) for count in (1, 3) for chunk in (None, 4 * CHUNK_BYTES, 16 * CHUNK_BYTES)),
    ]  # fmt: skip
    assert flat[1].pieces(10**6) == 3 and flat[0].transfers(10**6) == 8


def uncertain() -> tuple[KnownNetwork, Candidate]:
    """Two racks whose uplinks carry between half and twice of what was read, which every ring crosses."""
    map_ = made_map([2, 2])
    capacity = made_capacity(map_, uplink=2e7)
    ends = [
        one.model_copy(update={"low_bytes_per_s": 1e7, "high_bytes_per_s": 4e7}) if ":g" in one.id else one
        for one in capacity.resources
    ]
    known = known_network(map_, HOSTS[:4], capacity.model_copy(update={"resources": ends}))
    return known, Candidate(algorithm="chunked-ring", order=tuple(HOSTS[:4]))


def test_a_prediction_says_its_ends_what_is_busiest_and_what_goes_where() -> None:
    known, ring = uncertain()
    # Over each uplink six quarters of 40 MB at 20 MB/s, one after the other; the ends are half and twice of that.
    said = prediction_of(known, ring, 40_000_000)
    assert said.time_s == pytest.approx(6 * 0.5, rel=1e-3)
    assert (said.low_s, said.high_s) == pytest.approx((6 * 0.25, 6 * 1.0), rel=1e-3)
    assert said.basis == "capacity" and said.steps == 6 and said.bytes_on_wire == 4 * 6 * 10_000_000
    # Of four hops two cross.
    assert said.bytes_across_groups == 2 * 6 * 10_000_000
    assert said.busiest is not None and said.busiest.split(":")[1] in ("g0", "g1")
    assert said.utilisation == pytest.approx(1.0, abs=0.01)
    one_group = known_network(made_map([4]), HOSTS[:4], made_capacity(made_map([4])))
    plain = prediction_of(one_group, ring, 1000)
    assert (plain.low_s, plain.high_s, plain.bytes_across_groups) == (None, None, None)
    bare = prediction_of(known_network(made_map([2, 2]), HOSTS[:4]), ring, 1000)
    assert (bare.basis, bare.busiest, bare.utilisation) == ("latency", None, None)
    given = prediction_of(
        known, ring, 40_000_000, run_of(known, ring, 4), Interval(time_s=1.0, low_s=0.5, high_s=3.0)
    )
    assert (given.time_s, given.low_s, given.high_s) == (1.0, 0.5, 3.0)
    assert given.utilisation == pytest.approx(run_of(known, ring, 4).busiest[1])  # type: ignore[index]
    latency = known_network(made_map([2, 2]), HOSTS[:4])
    open_ = interval_of(latency, ring, 10**6)
    assert open_.high_s is None and open_.low_s == open_.time_s


def test_candidates_are_predicted_with_uneven_shares_where_the_network_is_uneven() -> None:
    map_ = made_map([4, 4])
    order = tuple(host.name for host in map_.hosts)
    even = known_network(map_, order, made_capacity(map_, uplink=1e7))
    known = replace(even, network=replace(even.network, unevenness=0.7))
    size = 40_000_000
    ring = Candidate(algorithm="chunked-ring", order=order)
    exchange = Candidate(algorithm="flat", order=order)
    assert time_of(known, ring, size) == time_of(even, ring, size)
    assert time_of(known, exchange, size) > 1.05 * time_of(even, exchange, size)
    for one in (ring, exchange):
        interval, said = interval_of(known, one, size), prediction_of(known, one, size)
        assert interval.time_s == said.time_s == time_of(known, one, size)
        assert interval.low_s <= interval.time_s <= (interval.high_s or 0.0)
    chooser = Chooser(known=known, candidates=[ring, exchange])
    assert chooser.time_s(exchange, size) == time_of(known, exchange, size)
    assert chooser.interval(exchange, size) == interval_of(known, exchange, size)


def test_bounds_and_rough_times_lie_where_they_should() -> None:
    known, _ = uncertain()
    order = tuple(HOSTS[:4])
    groups = with_shares("natural", [order[:2], order[2:]], order, None)
    size = 8_000_000
    for one in (
        Candidate(algorithm="chunked-ring", order=order),
        Candidate(algorithm="2lha", order=order, groups=groups, chunk_bytes=size // 100),
        Candidate(algorithm="hierarchical", order=order, groups=groups, channels=2),
    ):
        exact = run_of(known, one, size).time_s
        latency = latency_of(known, one, size)
        least = bound_s(known, one, size, latency)
        assert 0 < latency < least / BOUND <= exact * (1 + 1e-9)
        assert bound_s(known, one, size, 100.0) == pytest.approx(97.0)
        rough = rough_s(known, one, size, least)
        assert rough == pytest.approx(exact, rel=0.05)
        assert has_rough(one, size) == (one.algorithm == "2lha")
        assert has_rough(one, size) or rough == exact
        interval = interval_of(known, one, size, exact, least)
        assert interval.low_s < interval.time_s == exact < (interval.high_s or 0.0)
        # Ends are by the ratio to a rough run of the same kind: one that is off by a tenth takes them with it.
        other = interval_of(known, one, size, exact, least, 1.1 * rough)
        assert other.high_s == pytest.approx((interval.high_s or 0.0) / 1.1, rel=1e-6)
    few = Candidate(algorithm="2lha", order=order, groups=groups, chunk_bytes=size // 64)
    assert few.transfers(size) == FEW_TRANSFERS and not has_rough(few, size)
    assert not has_rough(
        Candidate(algorithm="2lha", order=order, groups=groups, chunk_bytes=size // 250), size
    )


class Timed(Chooser):
    """Times by a rule; counts the sizes that were asked for."""

    def time_s(self, candidate: Candidate, size_bytes: int) -> float:
        self.known.asked.add(size_bytes)  # type: ignore[attr-defined]
        return 1e-3 + 1e-8 * size_bytes if candidate.algorithm == "chunked-ring" else 2e-3 + 5e-9 * size_bytes

    def bound_s(self, candidate: Candidate, size_bytes: int) -> float:
        return 0.9 * self.time_s(candidate, size_bytes)

    def interval(self, candidate: Candidate, size_bytes: int) -> Interval:
        time_s = self.time_s(candidate, size_bytes)
        return Interval(time_s=time_s, low_s=time_s, high_s=time_s)


def test_many_hosts_are_looked_at_at_half_as_many_sizes_and_the_change_within_a_half() -> None:
    assert GRID[0] == LEAST_BYTES and GRID[-1] == MOST_BYTES
    assert np.diff(np.log10(GRID)) == pytest.approx([0.5] * 12, abs=1e-3)
    asked = {}
    for hosts in (64, 65):
        names = tuple(f"h{i}" for i in range(hosts))
        known: Any = SimpleNamespace(
            network=SimpleNamespace(certain=True, hosts=names), decides=lambda _size: True, asked=set()
        )
        made = Timed(
            known=known,
            candidates=[Candidate(algorithm=name, order=names) for name in ("chunked-ring", "bcube")],
        )
        ranges = made.ranges(made.decide(10**6))
        assert [one.candidate and one.candidate.algorithm for one in ranges] == ["chunked-ring", "bcube"]
        # The other is a fiftieth faster from 1.02 (2 ms + 5 ns s) = 1 ms + 10 ns s on, at 212 kB.
        edge = 1.04e-3 / 4.9e-9
        within = 1.1 if hosts == 64 else 1.5
        assert edge / within < ranges[1].first_bytes <= edge
        assert hosts == 64 or ranges[1].first_bytes < edge / 1.1
        asked[hosts] = len(known.asked)
        wide = Candidate(algorithm="2lha", order=names, chunk_bytes=1000)
        # 512 and 128 pieces; of more than 64 hosts fewer, and never fewer than hosts.
        most = 512 if hosts == 64 else 512 * 64 // 65
        assert distinct([wide], most * 1000) == [wide] and distinct([wide], most * 1000 + 1) == []
        fine, rough = wide, Candidate(algorithm="2lha", order=names, chunk_bytes=10**9)
        limit = 128 if hosts == 64 else 128 * 64 // 65
        assert coarse([fine, rough], limit * 1000) == [fine, rough]
        assert coarse([fine, rough], limit * 1000 + 1) == [rough]
    assert asked[65] < asked[64]
