"""The simulator against closed forms, and rates against what max-min fairness means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate import Background, Job, Network, simulate
from netprobe.plan.simulate.fair import fair_rates
from netprobe.plan.simulate.simulate import joined, least_s

ALPHA, RATE, SIZE = 1e-4, 1e8, 16 * 6_250_000


def racks(hosts: int, rack: int) -> list[list[int]]:
    return [list(range(i, min(hosts, i + rack))) for i in range(0, hosts, rack)]


def network(groups: list[list[int]], uplink: float = np.inf, rate: float = RATE) -> Network:
    """Hosts of one rate behind uplinks of another; a latency of ALPHA everywhere."""
    count = sum(map(len, groups))
    group = np.empty(count, dtype=np.intp)
    for number, members in enumerate(groups):
        group[members] = number
    hosts = tuple(f"h{i}" for i in range(count))
    kinds = [f"{kind}:{host}" for kind in ("tx", "rx") for host in hosts]
    kinds += [f"{kind}:{g}" for kind in ("up", "down") for g in range(len(groups))]
    capacity = np.array([rate] * 2 * count + [uplink] * 2 * len(groups))
    passed = np.full((count, count, 4), -1, dtype=np.intp)
    passed[:, :, 0] = np.arange(count)[:, None]
    passed[:, :, 3] = count + np.arange(count)[None, :]
    across = group[:, None] != group[None, :]
    passed[:, :, 1] = np.where(across, 2 * count + group[:, None], -1)
    passed[:, :, 2] = np.where(across, 2 * count + len(groups) + group[None, :], -1)
    return Network(
        hosts=hosts, alpha_s=np.full((count, count), ALPHA), resources=tuple(kinds), capacity=capacity,
        passed=passed, stream=np.full((count, count), np.inf), low=capacity, high=capacity,
    )  # fmt: skip


def seconds(net: Network, schedule: Schedule, size: int = SIZE, **how: bool) -> float:
    job = Job(schedule=schedule, order=net.hosts, size_bytes=size, lockstep=how.pop("lockstep", False))
    return simulate(net, [job], **how).time_s  # type: ignore[arg-type]


def test_closed_forms_on_hosts_that_share_nothing() -> None:
    net, n, s = network(racks(16, 4)), 16, SIZE / RATE
    halving = sum(2 * (ALPHA + s / 2 ** (i + 1)) for i in range(4))
    for name, expected in (
        ("chunked-ring", 2 * (n - 1) * (ALPHA + s / n)),
        ("two-way-ring", 2 * (n - 1) * (ALPHA + s / n)),
        ("ring", 2 * (n - 1) * (ALPHA + s)),
        ("halving-doubling", halving),
        ("recursive-doubling", 4 * (ALPHA + s)),
        ("flat", 2 * (ALPHA + (n - 1) * s / n)),
    ):
        for lockstep in (False, True):
            assert seconds(net, build(name, n), lockstep=lockstep) == pytest.approx(expected, rel=1e-9)


def test_closed_forms_on_shared_uplinks() -> None:
    """4:1: a rack's uplink carries as much as one host. 2LHA with one chunk: each phase by hand."""
    net, s = network(racks(16, 4), uplink=RATE), SIZE / RATE
    # All but the innermost hops of flat aggregation cross: 4 hosts send 12 / 16 of the buffer each.
    assert seconds(net, build("flat", 16)) == pytest.approx(2 * (ALPHA + 4 * 12 / 16 * s), rel=1e-9)
    # One chunk: three members into the master's rx, three masters into the global one's, which then serves six.
    assert seconds(net, two_level(racks(16, 4), 1)) == pytest.approx(
        4 * ALPHA + (3 + 3 + 6 + 3) * s, rel=1e-9
    )
    # Ring in rack order: the uplinks carry one flow each.
    assert seconds(net, build("chunked-ring", 16)) == pytest.approx(30 * (ALPHA + s / 16), rel=1e-9)
    assert seconds(net, hierarchical(racks(16, 4))) == pytest.approx(
        2 * (ALPHA + 3 / 4 * s) + 2 * (ALPHA + 4 * 3 / 4 / 4 * s), rel=1e-9
    )


def test_a_background_flow_takes_its_share_and_a_release_waits() -> None:
    net = network([[0, 1, 2]])
    ring = build("ring", 2)
    pair = Job(schedule=ring, order=["h0", "h1"], size_bytes=SIZE)
    assert simulate(net, [pair]).time_s == pytest.approx(2 * (ALPHA + SIZE / RATE))
    shared = simulate(net, [pair], [Background("h0", "h2")]).time_s
    assert shared == pytest.approx(2 * ALPHA + 3 * SIZE / RATE)
    slow = simulate(net, [pair], [Background("h0", "h2", RATE / 4)]).time_s
    assert slow == pytest.approx(2 * ALPHA + (1 + 4 / 3) * SIZE / RATE)
    late = Job(schedule=ring, order=["h0", "h1"], size_bytes=SIZE, release_s=100.0)
    both = simulate(net, [pair, late])
    assert both.time_s == pytest.approx(100 + 2 * (ALPHA + SIZE / RATE))
    assert both.finish_s[0] == pytest.approx(2 * (ALPHA + SIZE / RATE))


def test_the_critical_path_and_the_busiest_resource_are_named() -> None:
    net = network(racks(4, 2), uplink=RATE / 2)
    done = simulate(
        net, [Job(schedule=build("chunked-ring", 4), order=net.hosts, size_bytes=SIZE)], timeline=True
    )
    assert done.busiest is not None and done.busiest[0].startswith(("up:", "down:"))
    assert done.busiest[1] == pytest.approx(1.0, rel=0.01)
    assert done.critical_path[-1].startswith(f"{done.time_s:.6g} s: ") and len(done.critical_path) >= 12
    assert sum((b - a) for a, b, _ in done.timeline) <= done.time_s * (1 + 1e-9)
    carried = sum((b - a) * use for a, b, use in done.timeline) / done.time_s
    assert np.allclose(carried, done.utilisation)


@pytest.mark.parametrize("uplink", [np.inf, 2 * RATE, RATE / 2])
@pytest.mark.slow
@pytest.mark.parametrize("chunks", [200, 1200])
def test_joined_blocks_and_merged_events_are_within_three_percent(uplink: float, chunks: int) -> None:
    net, schedule = network(racks(16, 4), uplink), two_level(racks(16, 4), chunks)
    assert joined(schedule, 3000).chunks <= 100 < len(joined(schedule).blocks)
    assert seconds(net, schedule, exact=False) == pytest.approx(seconds(net, schedule, exact=True), rel=0.03)


@given(st.data())
def test_rates_are_max_min_fair(data: st.DataObject) -> None:
    """Nothing is over its capacity, and each flow is at its own limit or has a full resource where none is faster."""
    count = data.draw(st.integers(1, 5))
    capacity = np.array(
        data.draw(st.lists(st.sampled_from([1.0, 2.0, 3.0, 0.5]), min_size=count, max_size=count))
    )
    rows = st.lists(st.integers(-1, count - 1), min_size=2, max_size=2, unique=True)
    passed = np.array(data.draw(st.lists(rows, min_size=1, max_size=8)), dtype=np.intp)
    most = np.array([data.draw(st.sampled_from([0.3, 1.0, np.inf])) for _ in passed])
    rates = fair_rates(passed, capacity, most)
    assert (rates <= most).all() and (rates > 0).all()
    load = np.zeros(count)
    fastest = np.zeros(count)
    for rate, row in zip(rates, passed, strict=True):
        for resource in row[row >= 0]:
            load[resource] += rate
            fastest[resource] = max(fastest[resource], rate)
    assert (load <= capacity * (1 + 1e-9)).all()
    for rate, row, limit in zip(rates, passed, most, strict=True):
        used = row[row >= 0]
        full = load[used] >= capacity[used] * (1 - 1e-9)
        assert rate == limit or (full & (rate >= fastest[used] * (1 - 1e-9))).any()


@given(st.integers(2, 9), st.sampled_from(["chunked-ring", "halving-doubling", "bcube", "nccl-tree", "flat"]))
def test_no_schedule_is_faster_than_its_fullest_resource(ranks: int, name: str) -> None:
    net = network(racks(ranks, 3), uplink=RATE)
    job = Job(schedule=build(name, ranks), order=net.hosts, size_bytes=SIZE)
    done = simulate(net, [job])
    assert done.time_s >= least_s(net, job) and max(done.utilisation) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["ring", "flat", "nccl-tree"])
def test_without_bytes_and_latencies_it_takes_no_time(name: str) -> None:
    """All messages leave and arrive at once, as on a map of goodput alone, where latencies count as 0."""
    plain = replace(network(racks(4, 4)), alpha_s=np.zeros((4, 4)))
    assert seconds(plain, build(name, 4), 0) == 0.0


def test_what_cannot_be_simulated_is_refused() -> None:
    net = network([[0, 1]])
    ring = build("ring", 2)
    for job, text in (
        (Job(schedule=ring, order=["h0", "h9"], size_bytes=1), "host 'h9' is not one of"),
        (Job(schedule=ring, order=["h0"], size_bytes=1), "an order of 1 hosts for 2 ranks"),
        (Job(schedule=ring, order=["h0", "h1"], size_bytes=-1), "-1 bytes"),
    ):
        with pytest.raises(InputError, match=text):
            simulate(net, [job])
    with pytest.raises(InputError, match="nothing to simulate"):
        simulate(net, [])
    with pytest.raises(InputError, match="capacity is missing or not above 0"):
        net.with_capacity(np.zeros(len(net.resources)))


@pytest.mark.parametrize("wrong", [np.inf, np.nan, -1e-6])
def test_one_latency_that_is_none_is_refused_and_a_host_has_none_to_itself(wrong: float) -> None:
    net = network(racks(4, 4))
    alpha_s = net.alpha_s.copy()
    alpha_s[2, 2] = wrong
    assert replace(net, alpha_s=alpha_s).index(net.hosts[2]) == 2
    alpha_s[0, 3] = wrong
    with pytest.raises(InputError, match="latency"):
        replace(net, alpha_s=alpha_s)


@pytest.mark.parametrize("wrong", [0.0, np.nan, -1.0])
def test_one_capacity_that_is_none_is_refused(wrong: float) -> None:
    net = network(racks(4, 4))
    for name in ("capacity", "stream"):
        values = getattr(net, name).copy()
        values[(0, 3) if name == "stream" else 1] = wrong
        with pytest.raises(InputError, match="capacity"):
            replace(net, **{name: values})


def test_one_host_alone_waits_for_nobody_in_lockstep_too() -> None:
    net = network([[0, 1]])
    job = Job(schedule=build("ring", 1), order=["h1"], size_bytes=SIZE, lockstep=True, release_s=2.0)
    done = simulate(net, [job])
    assert done.time_s == 0.0 and done.finish_s == (2.0,)
