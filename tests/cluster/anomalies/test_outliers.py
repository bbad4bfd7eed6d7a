"""What stands out is named, and a fleet where nothing does names nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.cluster import find_outliers, ids_like
from tests.cluster.fleets import flat_rtt, rack_rtt


def test_slow_links_and_asymmetric_ones_are_named_with_their_effect() -> None:
    rtt, rack = rack_rtt((6, 6, 4), 0, noise=0.05)
    rtt[2, 9] *= 4
    rtt[9, 2] *= 4
    rtt[7, 11] *= 3
    found = find_outliers(rtt, np.array(rack))
    assert [(link.first, link.second) for link in found.links] == [(2, 9)]
    assert found.links[0].ratio == pytest.approx(4.0, rel=0.2)
    assert [(link.src, link.dst) for link in found.asymmetric] == [(7, 11)]
    assert found.asymmetric[0].ratio == pytest.approx(3.0, rel=0.2)
    assert found.hosts == ()


@pytest.mark.parametrize("seed", range(10))
def test_where_nothing_stands_out_nothing_is_named(seed: int) -> None:
    rtt, rack = rack_rtt((6, 5, 3, 1), seed, noise=0.1)
    found = find_outliers(rtt, np.array(rack))
    assert (found.hosts, found.links, found.asymmetric) == ((), (), ())
    flat = flat_rtt(16, seed, noise=0.1, slow_hosts=False, outliers=0.0)
    assert find_outliers(flat, np.zeros(16, dtype=np.int64)).hosts == ()


@pytest.mark.parametrize("hosts", range(4, 13))
def test_in_a_directed_cycle_no_link_is_slow_and_both_ways_slow_is_named(hosts: int) -> None:
    rtt = np.full((hosts, hosts), 50.0)
    rtt[np.arange(hosts), (np.arange(hosts) + 1) % hosts] = 10.0
    labels = np.zeros(hosts, dtype=np.int64)
    found = find_outliers(rtt, labels)
    assert (found.hosts, found.links) == ((), ())
    assert len(found.asymmetric) == hosts
    one_way = rtt.copy()
    one_way[0, 2] = 400.0
    assert find_outliers(one_way, labels).links == ()
    assert (0, 2) in [(link.src, link.dst) for link in find_outliers(one_way, labels).asymmetric]
    if hosts >= 6:
        rtt[0, 2] = rtt[2, 0] = 250.0
        found = find_outliers(rtt, labels)
        assert [(link.first, link.second) for link in found.links] == [(0, 2)]
        assert found.links[0].ratio == pytest.approx(5.0)


def test_a_slow_host_of_one_way_times_is_named_in_any_unit() -> None:
    rtt = np.full((10, 10), 50.0)
    rtt[np.arange(10), (np.arange(10) + 1) % 10] = 20.0
    rtt[4] *= 3
    rtt[:, 4] *= 3
    for unit in (1.0, 1e-6):
        found = find_outliers(rtt * unit, np.zeros(10, dtype=np.int64))
        assert [slow.host for slow in found.hosts] == [4]
        assert found.hosts[0].ratio == pytest.approx(3.0)
        assert found.links == ()


def test_two_sick_hosts_are_named_the_worse_first_in_any_unit_and_with_holes() -> None:
    rtt, rack = rack_rtt((8, 8), 1, noise=0.02, missing=0.2)
    for host, excess in ((3, 1e-3), (12, 4e-3)):
        rtt[host, :] += excess
        rtt[:, host] += excess
    for unit in (1.0, 1e6):
        found = find_outliers(rtt * unit, np.array(rack)).hosts
        assert [slow.host for slow in found] == [12, 3]
        assert found[0].excess == pytest.approx(4e-3 * unit, rel=0.2)


def two_rows(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Seconds between 64 hosts in 8 racks of 2 rows (0.1, 1 and 8 ms, 5 % noise), and the racks."""
    rack = np.repeat(np.arange(8), 8)
    near, row = rack[:, None] == rack, rack[:, None] // 4 == rack // 4
    base = np.where(near, 1e-4, np.where(row, 1e-3, 8e-3))
    return base * np.exp(np.random.default_rng(seed).normal(0.0, 0.05, base.shape)), rack


@pytest.mark.parametrize("seed", range(5))
def test_a_delay_that_most_links_are_too_long_to_show_is_named_by_the_near_ones(seed: int) -> None:
    rtt, rack = two_rows(seed)
    assert find_outliers(rtt, rack).hosts == ()
    rtt[5, :] += 1e-3
    rtt[:, 5] += 1e-3
    found = find_outliers(rtt, rack)
    assert [slow.host for slow in found.hosts] == [5] and found.links == ()
    assert found.hosts[0].excess == pytest.approx(1e-3, rel=0.2)
    assert found.hosts[0].ratio < 1.25  # of the median link, which is between rows


def test_a_host_of_another_rack_is_no_slow_one() -> None:
    rtt, rack = two_rows(0)
    rack[5] = 1  # one of the first rack that was taken for one of the second
    assert find_outliers(rtt, rack).hosts == ()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_hosts_or_no_readings_name_nothing(n: int) -> None:
    assert find_outliers(np.ones((n, n)), np.zeros(n, dtype=np.int64)).hosts == ()
    nothing = np.full((n + 3, n + 3), np.nan)
    assert find_outliers(nothing, np.zeros(n + 3, dtype=np.int64)).links == ()


def test_group_ids_follow_the_hosts_and_are_never_passed_on_to_strangers() -> None:
    earlier = {"g1": ["a", "b", "c"], "g2": ["d", "e"], "g7": ["f"]}
    assert ids_like([["d", "e", "x"], ["a", "b"], ["f"]], earlier) == ["g2", "g1", "g7"]
    # g1 has split: the larger part keeps the id. New hosts get a new number.
    assert ids_like([["c"], ["a", "b"], ["n"], ["m"]], earlier) == ["g8", "g1", "g9", "g10"]
    # Two have merged.
    assert ids_like([["a", "b", "c", "d", "e"]], earlier) == ["g1"]
    assert ids_like([["a"], ["b"]], {}) == ["g1", "g2"]
