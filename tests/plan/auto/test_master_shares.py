"""Shares of masters: what no other shares do better, and known answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from netprobe.plan.auto.candidates import Candidate, two_level_candidates, with_shares
from netprobe.plan.auto.known import known_network
from netprobe.plan.auto.master_shares import MasterShares, master_shares
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.simulate import Job, simulate
from tests.maps import HOST_BYTES_PER_S, made_capacity, made_map
from tests.properties import examples

RATES = st.one_of(st.floats(1.0, 100.0), st.just(np.inf))


def fullest(
    groups: list[list[int]], hosts: list[float], uplinks: list[float], x: np.ndarray, w: np.ndarray
) -> float:
    """Seconds a byte of the fullest link with these shares, counted one by one."""
    crossing = len(groups) - 2
    loads = [0.0]
    for members, up, share in zip(groups, uplinks, x):
        loads.append((1 + crossing * share) / up)
        loads += [(1 + w[r] * (len(members) - 1 + crossing * share)) / hosts[r] for r in members]
    return max(loads)


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[list[int]], list[float], list[float]]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=5))
    ends = np.cumsum([0, *sizes]).tolist()
    groups = [list(range(a, b)) for a, b in itertools.pairwise(ends)]
    hosts = draw(st.lists(RATES, min_size=ends[-1], max_size=ends[-1]))
    return groups, hosts, draw(st.lists(RATES, min_size=len(sizes), max_size=len(sizes)))


@examples(60)
@given(networks(), st.integers(0, 1 << 20))
def test_no_other_shares_leave_the_fullest_link_less_full(
    drawn: tuple[list[list[int]], list[float], list[float]], seed: int
) -> None:
    groups, hosts, uplinks = drawn
    found = master_shares(groups, hosts, uplinks)
    x, w = np.array(found.groups), np.array(found.hosts)
    assert x.sum() == pytest.approx(1) and all(w[g].sum() == pytest.approx(1) for g in groups)
    assert (x >= 0).all() and (w >= 0).all()
    own = fullest(groups, hosts, uplinks, x, w)
    assert own <= found.time_s_per_byte * (1 + 1e-6) + 1e-12
    rng = np.random.default_rng(seed)
    for _ in range(50):
        # Others all over, and others near by.
        far = rng.random() < 0.5
        other = rng.dirichlet(np.ones(len(x))) if far else np.abs(x + rng.normal(0, 0.05, len(x)))
        inside = rng.random(len(w)) if far else np.abs(w + rng.normal(0, 0.05, len(w)))
        inside = np.maximum(inside, 1e-9)
        for g in groups:
            inside[g] /= inside[g].sum()
        assert fullest(groups, hosts, uplinks, other / other.sum(), inside) >= own * (1 - 1e-6)


@examples(40)
@given(st.lists(st.floats(1.0, 100.0), min_size=3, max_size=8))
def test_between_groups_it_is_the_optimum_of_the_linear_programme(uplinks: list[float]) -> None:
    """Hosts that never limit: least t with 1 + (G - 2) x_q <= t c_q and shares that sum to 1."""
    count = len(uplinks)
    found = master_shares([[q] for q in range(count)], [np.inf] * count, uplinks)
    bounds = np.hstack([(count - 2) * np.eye(count), -np.array(uplinks)[:, None]])
    best = linprog(
        [*[0.0] * count, 1.0], A_ub=bounds, b_ub=-np.ones(count), A_eq=[[*[1.0] * count, 0.0]], b_eq=[1.0]
    )
    assert found.time_s_per_byte == pytest.approx(best.fun, rel=1e-6)


def shares_of(groups: list[list[int]], found: MasterShares, chunks: int) -> np.ndarray:
    """The share of global masters of each group, in the schedule that is built with them."""
    schedule = two_level(groups, chunks, weights=found.hosts, group_weights=found.groups)
    every = schedule.expanded()
    start = np.array([b.start for b in schedule.blocks])[every.block]
    centre = dict(zip(every.block[every.step - start == 1], every.dst[every.step - start == 1]))
    group = {rank: q for q, members in enumerate(groups) for rank in members}
    return np.bincount([group[r] for r in centre.values()], minlength=len(groups)) / chunks


def test_known_answers_and_the_schedule_that_is_built_of_them() -> None:
    groups = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    # Equal links: in proportion to the sizes of groups.
    equal = master_shares(groups, [100.0] * 12, [10.0] * 3)
    assert np.allclose(equal.groups, 1 / 3) and np.allclose(equal.hosts, 1 / 4)
    assert equal.time_s_per_byte == pytest.approx((1 + 1 / 3) / 10)
    # Nothing known to limit: by the sizes of groups too.
    free = master_shares([[0, 1, 2], [3], [4, 5]], [np.inf] * 6, [np.inf] * 3)
    assert np.allclose(free.groups, [1 / 2, 1 / 6, 1 / 3]) and free.time_s_per_byte == 0
    # One uplink of half the rate: it has its fill with its own sums, and masters of the whole are elsewhere.
    half = master_shares(groups, [100.0] * 12, [5.0, 10.0, 10.0])
    assert np.allclose(half.groups, [0, 1 / 2, 1 / 2]) and half.time_s_per_byte == pytest.approx(1 / 5)
    assert np.allclose(shares_of(groups, half, 120), half.groups, atol=0.02)
    # One host of half the rate: 1 + w (3 + x) over 5 is at most over 10.
    slow = master_shares(groups, [5.0, *[10.0] * 11], [100.0] * 3)
    assert slow.hosts[0] == pytest.approx(0, abs=1e-6)
    # One group: flat aggregation, masters by what hosts carry.
    flat = master_shares([[0, 1]], [10.0, 10.0], [np.inf])
    assert flat.groups == (1.0,) and np.allclose(flat.hosts, 0.5)
    # With slack a host that its own sums fill still takes none, so its group takes no more than the other host can.
    filled = master_shares([[0], [1], [2, 3]], [15.0, 22.0, 15.0, 38.0], [np.inf] * 3, slack=0.05)
    assert filled.time_s_per_byte == pytest.approx(1 / 15)
    assert filled.groups[2] <= 38 * 1.05 / 15 - 2 + 1e-9 and filled.hosts[2:] == (0.0, 1.0)
    with pytest.raises(ValueError, match="not above 0"):
        master_shares(groups, [0.0] * 12, [1.0] * 3)


@given(networks())
def test_with_slack_the_fullest_link_is_that_much_fuller_at_most(
    network: tuple[list[list[int]], list[float], list[float]],
) -> None:
    groups, hosts, uplinks = network
    exact, near = (master_shares(groups, hosts, uplinks, slack) for slack in (0.0, 0.05))
    full = fullest(groups, hosts, uplinks, np.array(near.groups), np.array(near.hosts))
    assert near.time_s_per_byte == exact.time_s_per_byte
    assert full <= exact.time_s_per_byte * 1.05 * (1 + 1e-6)
    assert sum(near.groups) == pytest.approx(1.0)
    assert all(sum(near.hosts[rank] for rank in members) == pytest.approx(1.0) for members in groups)


def test_unequal_racks_are_not_slower_by_their_capacities_than_without() -> None:
    """Racks of 4 and 12 at 4:1: shares that fill all links equally take 38 % longer than those by size."""
    map_ = made_map([4, 12, 4, 12], seed=2)
    rates: dict[str, float | None] = {
        f"{kind}:{group.id}": len(group.hosts) / 4 * HOST_BYTES_PER_S
        for group in map_.groups
        for kind in ("up", "down")
    }
    capacity, hosts = made_capacity(map_, rates=rates), [host.name for host in map_.hosts]
    network = known_network(map_, hosts, capacity).network
    found = []
    for measured in (capacity, None):
        groups = with_shares("natural", [group.hosts for group in map_.groups], hosts, measured)
        own = Candidate(algorithm="2lha", order=tuple(hosts), groups=groups, chunk_bytes=1_600_000)
        job = Job(schedule=own.schedule(100_000_000), order=hosts, size_bytes=100_000_000)
        found.append(simulate(network, [job]).time_s)
    assert found[0] <= found[1] * 1.02


@pytest.mark.parametrize("read", [0.485, 0.5, 0.515])
def test_a_slow_hosts_group_gets_no_masters_by_an_error_of_a_reading(read: float) -> None:
    # One host at half the rate: its own sums fill it, so that its group would be waited for. That its rate is read 3 %
    # too low leaves the others of its group room to be masters, and they are not to be.
    groups = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    found = master_shares(groups, [read, *[1.0] * 15], [1.0] * 4, 0.05)
    assert found.groups == pytest.approx([0.0, 1 / 3, 1 / 3, 1 / 3], abs=1e-6)


def test_a_noisy_reading_of_a_slow_host_costs_a_schedule_little() -> None:
    map_ = made_map([4, 4, 4, 4])
    hosts = [host.name for host in map_.hosts]
    groups = [list(group.hosts) for group in map_.groups]
    slow: dict[str, float | None] = {f"{kind}:{hosts[0]}": HOST_BYTES_PER_S / 2 for kind in ("tx", "rx")}
    took = []
    true = made_capacity(map_, rates=slow)
    network = known_network(map_, hosts, true).network
    for error in (1.0, 0.97):
        rates: dict[str, float | None] = dict.fromkeys(slow, HOST_BYTES_PER_S / 2 * error)
        read = made_capacity(map_, rates=rates)
        shares = with_shares("read", groups, hosts, read).shares
        assert shares is not None
        schedule = two_level([[hosts.index(one) for one in group] for group in groups], 16,
                             weights=shares.hosts, group_weights=shares.groups)  # fmt: skip
        took.append(simulate(network, [Job(schedule=schedule, order=hosts, size_bytes=1_000_000)]).time_s)
    assert took[1] <= took[0] * 1.02


def test_both_shares_of_a_slow_hosts_group_are_tried() -> None:
    map_ = made_map([4, 4, 4, 4])
    hosts = [host.name for host in map_.hosts]
    racks = [list(group.hosts) for group in map_.groups]
    slow: dict[str, float | None] = {f"{kind}:{hosts[0]}": HOST_BYTES_PER_S * 0.485 for kind in ("tx", "rx")}
    groups = with_shares("natural", racks, hosts, made_capacity(map_, rates=slow))
    made = two_level_candidates(hosts, groups, 1_000_000, chunk_bytes=1 << 16)
    assert groups.shares is not None and groups.others is not None
    assert [one.groups.shares for one in made if one.groups] == [groups.shares, groups.others]
    assert min(groups.shares.groups) == 0 and min(groups.others.groups) > 0.2
    assert len({one.schedule(1_000_000) for one in made}) == 2 and len(set(made)) == 2
    assert ["no global masters in 1" in one.name for one in made] == [True, False]
    # Without a slow host there is nothing to choose.
    assert with_shares("natural", racks, hosts, made_capacity(map_)).others is None
