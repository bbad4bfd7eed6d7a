"""Which flows run together, and what capacities their rates show: made-up networks with known answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.probe.capacity.estimate import Estimates, Reading, estimate
from netprobe.probe.capacity.experiments import Experiment, experiments, extent_of_tests, most_flows
from netprobe.probe.capacity.run import CapacityOptions
from tests.properties import examples

Groups = list[list[int]]
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=5)


def grouped(sizes: Sequence[int]) -> Groups:
    ends = np.cumsum([0, *sizes]).tolist()
    return [list(range(a, b)) for a, b in itertools.pairwise(ends)]


@given(SIZES, st.integers(0, 5))
def test_flows_share_only_what_a_test_means_them_to_share(sizes: list[int], at_once: int) -> None:
    groups = grouped(sizes)
    of = {host: i for i, members in enumerate(groups) for host in members}
    plan = experiments(groups, at_once=at_once)
    for one in plan:
        ends = [host for flow in one.flows for host in flow]
        if one.kind == "hosts":
            assert len(set(ends)) == len(ends)
            assert all(of[src] == of[dst] for src, dst in one.flows)
            assert len(one.flows) <= (at_once or len(ends))
        else:
            near = 0 if one.kind == "up" else 1
            assert {of[flow[near]] for flow in one.flows} == {one.group}
            assert all(of[flow[1 - near]] != one.group for flow in one.flows)
    for members in groups:
        for host in members if len(members) > 1 else ():
            for end in (0, 1):
                peers = {
                    flow[1 - end]
                    for one in plan
                    if one.kind == "hosts"
                    for flow in one.flows
                    if flow[end] == host
                }
                assert len(peers) >= min(2, len(members) - 1)
    wanted = {(kind, group) for kind in ("up", "down") for group in range(len(groups)) if len(groups) > 1}
    assert {(one.kind, one.group) for one in plan if one.kind != "hosts"} == wanted


@given(SIZES, st.integers(1, 3), st.integers(0, 5))
def test_what_the_tests_will_be_is_counted_without_making_them(
    sizes: list[int], repeats: int, at_once: int
) -> None:
    plan = experiments(grouped(sizes), repeats=repeats, at_once=at_once)
    extent = extent_of_tests(sizes, repeats=repeats, at_once=at_once)
    assert (extent.rounds, extent.links) == (len(plan), sum(len(one.flows) for one in plan))
    assert most_flows(sizes, at_once=at_once) == max((len(one.flows) for one in plan), default=0)


def fair(
    groups: Groups,
    tx: Sequence[float],
    rx: Sequence[float],
    up: Sequence[float],
    down: Sequence[float],
    rows: Sequence[tuple[set[int], float]] = (),
    taken: float = 0.0,
) -> Callable[[Experiment], list[float]]:
    """Max-min fair rates of flows over these capacities (progressive filling).

    ``rows`` are sets of groups under one uplink, and its rate either way; ``taken`` is what somebody else sends through
    the uplink of group 0.
    """
    of = {host: i for i, members in enumerate(groups) for host in members}

    def rates(one: Experiment) -> list[float]:
        users: dict[tuple[str, int], list[int]] = {}
        for i, (src, dst) in enumerate(one.flows):
            passed = [("tx", src), ("rx", dst)]
            if of[src] != of[dst]:
                passed += [("up", of[src]), ("down", of[dst])]
            for row, (inside, _rate) in enumerate(rows):
                if (of[src] in inside) != (of[dst] in inside):
                    passed.append(("row up" if of[src] in inside else "row down", row))
            for resource in passed:
                users.setdefault(resource, []).append(i)
        through = [rate for _inside, rate in rows]
        free = [up[0] - taken, *up[1:]]
        capacity = {"tx": tx, "rx": rx, "up": free, "down": down, "row up": through, "row down": through}
        left = {resource: capacity[resource[0]][resource[1]] for resource in users}
        result = [0.0] * len(one.flows)
        going = set(range(len(one.flows)))
        while going:
            share, tight = min((left[r] / len(going & set(u)), r) for r, u in users.items() if going & set(u))
            for i in list(going):
                result[i] += share
                for resource, own in users.items():
                    if i in own:
                        left[resource] -= share
            going -= set(users[tight])
        return result

    return rates


def measured(
    groups: Groups,
    rates: Callable[[Experiment], list[float]],
    seed: int = 0,
    outer: Sequence[Sequence[int]] = (),
) -> Estimates:
    rng = np.random.default_rng(seed)
    readings = [
        Reading(
            experiment=one,
            rates=tuple(rate * (1 + 0.01 * rng.standard_normal(10)) for rate in rates(one)),
            cpu_bound=(False,) * len(one.flows),
        )
        for one in experiments(groups, outer)
    ]
    return estimate(groups, readings, outer)


@examples(40)
@given(
    st.lists(st.integers(3, 7), min_size=3, max_size=5),
    st.floats(1.5, 8),
    st.integers(0, 1000),
)
def test_uplinks_that_are_oversubscribed_are_read_within_a_tenth(
    sizes: list[int], oversubscribed: float, seed: int
) -> None:
    groups = grouped(sizes)
    hosts = [1e8] * sum(sizes)
    # Ways in are not narrower than the ways out of the others, as in a fat tree of equal racks.
    up = [len(members) * 1e8 / oversubscribed for members in groups]
    down = [max(up)] * len(groups)
    found = measured(groups, fair(groups, hosts, hosts, up, down), seed)
    for group, members in enumerate(groups):
        one = found.up[group]
        assert one.value == pytest.approx(up[group], rel=0.1)
        assert one.limited_by in ("itself", "one_of")
        assert one.low is not None and one.high is not None
        for host in members:
            assert found.tx[host].value == pytest.approx(1e8, rel=0.03)
            assert found.tx[host].limited_by == "itself"


def test_an_uplink_that_is_not_full_is_only_known_to_carry_at_least_that() -> None:
    groups = grouped([4, 4, 4])
    found = measured(groups, fair(groups, [1e8] * 12, [1e8] * 12, [1e9] * 3, [1e9] * 3))
    for one in (*found.up.values(), *found.down.values()):
        assert one.limited_by == "hosts"
        assert one.value == pytest.approx(4e8, rel=0.03)
        assert one.high is None


def test_two_groups_cannot_tell_one_way_out_from_the_others_way_in() -> None:
    groups = grouped([4, 4])
    found = measured(groups, fair(groups, [1e8] * 8, [1e8] * 8, [1e8, 2e8], [2e8, 1e8]))
    assert found.up[0].value == pytest.approx(1e8, rel=0.05)
    assert found.up[0].one_of == ("down:1",)
    assert found.down[0].value == pytest.approx(2e8, rel=0.05)
    assert found.down[0].one_of == ("up:1",)


ROWS = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
"""Nine racks of four hosts of 100, three to a row; a rack's uplink takes 200."""


def in_rows(row_rate: float, rack_rate: float = 2e8) -> Estimates:
    groups, n = grouped([4] * 9), 36
    rows = [(set(row), row_rate) for row in ROWS]
    rates = fair(groups, [1e8] * n, [1e8] * n, [rack_rate] * 9, [rack_rate] * 9, rows)
    return measured(groups, rates, outer=ROWS)


@pytest.mark.parametrize("row_rate", [1.5e8, 3e8, 5e8])
def test_uplinks_of_racks_below_a_slower_one_of_their_row_are_each_read_apart(row_rate: float) -> None:
    found = in_rows(row_rate)
    for into in (found.up, found.down):
        for rack in range(9):
            assert into[rack].value == pytest.approx(2e8, rel=0.05)
            assert into[rack].limited_by in ("itself", "one_of")
        for row in (9, 10, 11):
            one = into[row]
            assert one.value == pytest.approx(row_rate, rel=0.05) and one.limited_by in ("itself", "one_of")
            assert one.low is not None and one.high is not None and one.low <= row_rate * 1.02
            assert one.high >= row_rate * 0.98


def test_an_uplink_of_a_row_that_its_racks_do_not_fill_is_a_least() -> None:
    found = in_rows(1e9)
    assert {found.up[row].limited_by for row in (9, 10, 11)} == {"hosts"}
    assert all(found.up[row].high is None and (found.up[row].value or 0) < 1e9 for row in (9, 10, 11))


def test_a_rack_that_is_alone_in_its_row_is_one_of_its_and_the_rows() -> None:
    """Its flows have nowhere to go but through the row's uplink, which has the same hosts: no test tells them apart."""
    groups, outer = grouped([4, 4, 4, 4]), [[0, 1, 2]]
    rows = [({0, 1, 2}, 1.5e8)]
    rates = fair(groups, [1e8] * 16, [1e8] * 16, [2e8] * 4, [2e8] * 4, rows)
    found = measured(groups, rates, outer=outer)
    for rack in (0, 1, 2):
        assert found.up[rack].value == pytest.approx(2e8, rel=0.05)
    assert found.up[4].value == pytest.approx(1.5e8, rel=0.05)
    # All that reaches the lone rack comes out of the row.
    assert found.down[3].value == pytest.approx(1.5e8, rel=0.05)
    assert found.down[3].limited_by == "one_of" and "up:4" in found.down[3].one_of


@given(SIZES, st.integers(1, 3))
def test_flows_of_a_tier_do_not_pass_the_one_above(sizes: list[int], repeats: int) -> None:
    groups = grouped(sizes * 2)
    outer = [list(range(len(sizes))), list(range(len(sizes), 2 * len(sizes)))] if len(sizes) > 1 else []
    of = {host: i for i, members in enumerate(groups) for host in members}
    plan = experiments(groups, outer, repeats=repeats)
    for one in plan:
        if one.group is not None and one.group < len(groups) and outer:
            row = next(row for row in outer if one.group in row)
            assert {of[host] for flow in one.flows for host in flow} <= set(row)
    extent = extent_of_tests(sizes * 2, outer, repeats=repeats)
    assert (extent.rounds, extent.links) == (len(plan), sum(len(one.flows) for one in plan))


def test_an_uplink_with_somebody_elses_traffic_does_not_exclude_what_the_others_carry() -> None:
    groups = grouped([4, 4, 4, 4])
    rates = fair(groups, [1e8] * 16, [1e8] * 16, [2e8] * 4, [2e8] * 4, taken=5e7)
    found = measured(groups, rates)
    assert found.up[0].value == pytest.approx(1.5e8, rel=0.05)
    assert found.up[0].high is not None and found.up[0].high >= 1.95e8
    assert found.up[0].below_others == pytest.approx(2e8, rel=0.05)
    assert all(found.up[rack].below_others is None for rack in (1, 2, 3))


def test_a_slow_host_is_read_itself_and_makes_no_peer_slow() -> None:
    groups = grouped([5, 5, 5])
    tx, rx = [1e8] * 15, [1e8] * 15
    tx[3], rx[7] = 2e7, 3e7
    found = measured(groups, fair(groups, tx, rx, [2.5e8] * 3, [2.5e8] * 3))
    assert {h: round((one.value or 0) / 1e7) for h, one in found.tx.items()} == {
        h: 2 if h == 3 else 10 for h in range(15)
    }
    assert {h: round((one.value or 0) / 1e7) for h, one in found.rx.items()} == {
        h: 3 if h == 7 else 10 for h in range(15)
    }


def test_a_flow_that_failed_or_was_bound_by_a_processor_is_not_taken_for_the_network() -> None:
    groups = [[0, 1, 2]]
    slices = np.full(10, 1e9)
    readings = [
        Reading(experiment=one, rates=(slices,) * len(one.flows), cpu_bound=(True,) * len(one.flows))
        for one in experiments(groups)
    ]
    found = estimate(groups, readings)
    assert {one.limited_by for one in found.tx.values()} == {"cpu"}
    assert {one.high for one in found.tx.values()} == {None}
    failed = [Reading(experiment=r.experiment, rates=(None,), cpu_bound=(False,)) for r in readings]
    assert {one.reason for one in estimate(groups, failed).rx.values()} == {"no flow of it gave a reading"}


@pytest.mark.parametrize(
    "fault", [{"seconds": 0.1}, {"seconds": float("nan")}, {"streams": 0}, {"repeats": 0}, {"at_once": -1}]
)
def test_options_that_cannot_be_are_refused(fault: dict[str, float]) -> None:
    with pytest.raises(InputError, match="are allowed"):
        CapacityOptions(**fault)  # type: ignore[arg-type]
