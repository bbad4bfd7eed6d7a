"""What is contended, by times; which host each rank is on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError, WrongWorldError
from netprobe.core.hosts import Host
from netprobe.plan.ds_sync.consensus import Groups
from netprobe.plan.ds_sync.patterns import make_pattern
from netprobe.runtime.ds_sync.costs import Contention, contention, pattern_for
from netprobe.runtime.ds_sync.world import ranks_of_hosts
from netprobe.runtime.world import Report
from tests.runtime.ds_sync.worlds import plan_of

NONE = Contention(frozenset(), frozenset())
RACKS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def times(
    pattern: Sequence[Groups],
    racks: list[list[int]],
    slow_hosts: Sequence[int] = (),
    slow_racks: Sequence[int] = (),
    factor: float = 2.0,
) -> FloatMatrix:
    """Seconds by table II; every host but the last of a group has waited for it."""
    rack_of = {host: c for c, rack in enumerate(racks) for host in rack}
    table = np.full((len(pattern), len(rack_of)), np.nan)
    for row, one in zip(table, pattern):
        for group in one.groups:
            crossing = len({rack_of[h] for h in group}) > 1
            slow = set(group) & set(slow_hosts) or (
                crossing and {rack_of[h] for h in group} & set(slow_racks)
            )
            seconds = 2 * (len(group) - 1) / len(group) * (factor if slow else 1.0)
            row[list(group)] = seconds + 0.5
            row[group[-1]] = seconds
    return table


@pytest.mark.parametrize("slow", [0, 5, 11])
def test_a_contended_host_is_found_in_whatever_group(slow: int) -> None:
    pattern = make_pattern(RACKS) * 3
    now = contention(pattern, times(pattern, RACKS, [slow]), RACKS, NONE)
    assert now == Contention(frozenset(), frozenset({slow}))
    assert not any(slow in one.leaders for one in pattern_for(RACKS, now))


def test_nothing_is_contended_where_all_take_the_same() -> None:
    pattern = make_pattern(RACKS) * 3
    assert contention(pattern, times(pattern, RACKS), RACKS, NONE) == NONE
    assert contention(pattern, times(pattern, RACKS, [3], factor=1.3), RACKS, NONE) == NONE


def test_an_uplink_stays_contended_until_it_has_recovered() -> None:
    before = Contention(frozenset({1}), frozenset())
    racks = [*RACKS, [12, 13, 14, 15]]
    pattern = pattern_for(racks, before) * 3
    for factor, racks_now in ((2.0, {1}), (1.35, {1}), (1.0, set())):
        now = contention(pattern, times(pattern, racks, (), [1], factor), racks, before)
        assert now.racks == racks_now


def test_what_was_not_seen_is_as_it_was() -> None:
    before = Contention(frozenset({1}), frozenset({4}))
    assert contention([], np.empty((0, 12)), RACKS, before) == before


def said(*names: str) -> list[Report]:
    return [Report(names=(name,), addresses=()) for name in names]


def test_hosts_are_found_by_any_of_their_names() -> None:
    plan = plan_of([2, 1])
    hosts = [
        Host(name="h0", launcher_name="node0"),
        Host(name="h1", address="10.0.0.7"),
        Host(name="h2"),
    ]
    plan = plan.model_copy(update={"hosts": hosts})
    assert ranks_of_hosts(plan, said("h2.cluster.internal", "NODE0", "10.0.0.7")) == [1, 2, 0]


def test_every_rank_out_of_place_is_named() -> None:
    with pytest.raises(WrongWorldError) as caught:
        ranks_of_hosts(plan_of([2, 2]), said("h0", "h0", "x", "h3"))
    assert isinstance(caught.value, InputError)
    assert caught.value.ranks == (1, 2)
    assert caught.value.missing == ("h1", "h2")
