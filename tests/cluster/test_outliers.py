"""What stands out is named, and a fleet where nothing does names nothing."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_two_sick_hosts_are_named_the_worse_first_in_any_unit_and_with_holes() -> None:
    rtt, rack = rack_rtt((8, 8), 1, noise=0.02, missing=0.2)
    for host, excess in ((3, 1e-3), (12, 4e-3)):
        rtt[host, :] += excess
        rtt[:, host] += excess
    for unit in (1.0, 1e6):
        found = find_outliers(rtt * unit, np.array(rack)).hosts
        assert [slow.host for slow in found] == [12, 3]
        assert found[0].excess == pytest.approx(4e-3 * unit, rel=0.2)


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
