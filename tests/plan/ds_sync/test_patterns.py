"""DS-Sync patterns: partitions that mix, with contended links in the smallest groups; the paper's values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.plan.ds_sync.consensus import (
    averaging,
    check_pattern,
    eigenvalue_of,
    joins_all,
    rho_of,
    steps_until_close,
)
from netprobe.plan.ds_sync.costs import (
    Rates,
    all_reduce_time_s,
    group_time_s,
    hierarchical_time_s,
    pattern_time_s,
)
from netprobe.plan.ds_sync.patterns import Iteration, make_pattern
from tests.properties import examples


def racks_of(sizes: list[int]) -> list[list[int]]:
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return [list(range(a, b)) for a, b in itertools.pairwise(ends)]


@examples(80)
@given(st.data())
def test_every_pattern_partitions_mixes_and_keeps_contention_small(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    racks = racks_of(sizes)
    slow = data.draw(st.sets(st.integers(0, len(sizes) - 1), max_size=len(sizes)))
    busy = data.draw(st.sets(st.integers(0, sum(sizes) - 1), max_size=2))
    pattern = make_pattern(racks, slow, busy)
    check_pattern(pattern, racks)
    assert rho_of(pattern, sum(sizes)) < 1 - 1e-9
    rack_of = {host: c for c, rack in enumerate(racks) for host in rack}
    for iteration in pattern:
        for group in iteration.groups:
            crossed = {rack_of[host] for host in group}
            if len(crossed) > 1 and slow & crossed and len(slow) < len(racks):
                assert len(group) == 2
            alone = {h for h in busy if len(racks[rack_of[h]]) > 1 and not busy >= set(racks[rack_of[h]])}
            if len(crossed) > 1:
                assert not alone & set(group)


@pytest.mark.parametrize("size", [3, 4, 5, 8])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_regular_racks_have_the_papers_rho(count: int, size: int) -> None:
    """((G - 2) / (G - 1))^G a period, whatever the number of racks."""
    pattern = make_pattern(racks_of([size] * count))
    assert len(pattern) == size
    assert eigenvalue_of(pattern, count * size) == pytest.approx(((size - 2) / (size - 1)) ** size)


def test_the_holes_of_the_paper() -> None:
    """Its racks of two, and a partner that never changes, do not mix: rho is 1."""
    racks = racks_of([2, 2, 2])
    paper = [
        Iteration(((t % 2, 2 + t % 2, 4 + t % 2), (1 - t % 2,), (3 - t % 2,), (5 - t % 2,)), ())
        for t in range(2)
    ]
    with pytest.raises(ValueError, match="rho is 1"):
        check_pattern(paper, racks)
    check_pattern(make_pattern(racks), racks)
    two = [Iteration(((0, 3), (1, 2), (4, 5)), ())]
    with pytest.raises(ValueError, match="2 hosts of rack 0 average across"):
        check_pattern([Iteration(((0, 2, 1), (3,), (4, 5)), ())], racks)
    with pytest.raises(ValueError, match="2 hosts of rack"):
        check_pattern(two, racks)
    with pytest.raises(ValueError, match="each host once"):
        check_pattern([Iteration(((0, 1),), ())], racks)


def test_more_contended_racks_than_partners_take_turns_and_all_contended_are_none() -> None:
    racks = racks_of([4, 4, 4])
    pattern = make_pattern(racks, contended_racks=[1, 2])
    crossed = [{host // 4 for host in group} for iteration in pattern for group in iteration.groups]
    met = {frozenset(one) for one in crossed if len(one) > 1}
    assert met == {frozenset({0, 1}), frozenset({0, 2})}
    assert make_pattern(racks, contended_racks=[0, 1, 2]) == make_pattern(racks)


def test_costs_by_table_2_corrected() -> None:
    racks = racks_of([4, 4])
    alpha, beta1, beta2, size = 1e-4, 1e-9, 4e-9, 10**8
    rates = Rates(
        alpha_s=np.full((8, 8), alpha),
        host=np.full(8, beta1),
        uplink=np.full(2, beta2),
        rack=np.repeat([0, 1], 4),
    )
    assert group_time_s([0, 4], rates, size) == pytest.approx(2 * alpha + size * beta2)
    assert group_time_s([1, 2, 3], rates, size) == pytest.approx(4 * alpha + 4 / 3 * size * beta1)
    assert pattern_time_s(make_pattern(racks), rates, size) == pytest.approx(2 * alpha + size * beta2)
    assert all_reduce_time_s(8, rates, size) == pytest.approx(14 * alpha + 14 / 8 * size * beta2)
    assert hierarchical_time_s(racks, rates, size) == pytest.approx(
        6 * alpha + 6 / 4 * size * beta1 + 2 * alpha + size * beta2
    )


def paper_times(sizes: list[int], contended: bool, weak: set[int]) -> tuple[float, float, float]:
    """All-reduce, hierarchical and DS-Sync on links of one byte a second, of which contention leaves half."""
    racks, count = racks_of(sizes), sum(sizes)
    rates = Rates(
        alpha_s=np.zeros((count, count)),
        host=np.array([2.0 if host in weak else 1.0 for host in range(count)]),
        uplink=np.full(len(sizes), 2.0 if contended else 1.0),
        rack=np.repeat(np.arange(len(sizes)), sizes),
    )
    pattern = make_pattern(racks, range(len(sizes)) if contended else (), weak)
    size = 840
    return (
        all_reduce_time_s(count, rates, size) / size,
        hierarchical_time_s(racks, rates, size) / size,
        pattern_time_s(pattern, rates, size) / size,
    )


def test_the_papers_three_scenarios() -> None:
    """Tables V, IV and III by table II corrected: 7/4, 3/2 + 1 and 4/3 of the buffer with nothing contended; its
    uplinks at half: 7/2, 3/2 + 2 and 2; and host 4 of racks of 5 and 3 at half: 7/2, 16/5 + 2 and 2."""
    assert paper_times([4, 4], False, set()) == pytest.approx((7 / 4, 5 / 2, 4 / 3))
    assert paper_times([4, 4], True, set()) == pytest.approx((7 / 2, 7 / 2, 2))
    assert paper_times([5, 3], True, {4}) == pytest.approx((7 / 2, 16 / 5 + 2, 2))


@examples(60)
@given(st.data())
def test_the_norm_is_a_singular_value_and_below_1_where_groups_connect_all(data: st.DataObject) -> None:
    hosts = data.draw(st.integers(1, 12))
    number = st.lists(st.integers(0, 3), min_size=hosts, max_size=hosts)
    pattern, rest = [], np.eye(hosts)
    for labels in data.draw(st.lists(number, min_size=1, max_size=4)):
        groups = tuple(tuple(h for h in range(hosts) if labels[h] == one) for one in sorted(set(labels)))
        pattern.append(Iteration(groups, ()))
        rest = averaging(groups, hosts) @ rest
    rho = rho_of(pattern, hosts)
    assert rho == pytest.approx(float(np.linalg.norm(rest - 1 / hosts, 2)), abs=1e-9)
    assert joins_all(pattern, hosts) == (rho < 1 - 1e-9)


def test_the_norm_of_many_hosts_is_that_of_a_singular_value() -> None:
    pattern = make_pattern(racks_of([9] * 8), [0, 3], [1, 20])
    rest = np.eye(72)
    for iteration in pattern:
        rest = averaging(iteration.groups, 72) @ rest
    assert rho_of(pattern, 72) == pytest.approx(float(np.linalg.norm(rest - 1 / 72, 2)), abs=1e-9)


def test_steps_are_whole_periods() -> None:
    assert (
        steps_until_close(0.0, 4) == 4 and steps_until_close(0.5, 3) == 30 and steps_until_close(1e-3, 7) == 7
    )


@pytest.mark.parametrize("racks", [[], [[]], [[0], []], [[0, 0]], [[1]]])
def test_racks_that_are_no_partition_are_refused(racks: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="each host once"):
        make_pattern(racks)
