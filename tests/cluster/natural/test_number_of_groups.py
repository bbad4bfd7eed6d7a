"""Natural groups and the verdict: racks of any sizes are found, and nothing is found where nothing is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from netprobe.cluster import compare_methods, find_groups, find_outliers, judge_locality, natural_groups
from netprobe.cluster.records import numbered_by_first_member
from netprobe.core.errors import InfeasibleError, InputError
from netprobe.embed import denoise
from tests.cluster.fleets import flat_rtt, rack_rtt
from tests.properties import examples

LAYOUTS = [(6, 6, 4), (3, 6, 9), (4, 4, 4, 4), (8, 8), (6, 5, 1), (2,) * 8]


@pytest.mark.parametrize("sizes", LAYOUTS, ids=str)
def test_racks_come_out_right_for_any_seed(sizes: tuple[int, ...]) -> None:
    for seed in range(2):
        rtt, rack = rack_rtt(sizes, seed)
        grouping, verdict = find_groups(rtt, rtt, seed=seed)
        assert adjusted_rand_score(rack, grouping.labels) == 1.0
        assert grouping.k == len(sizes)
        assert verdict.locality == "found"
        assert verdict.contrast == pytest.approx(2.9, abs=0.1)


@pytest.mark.parametrize("sizes", LAYOUTS[:4], ids=str)
def test_noise_and_outliers_do_not_hide_racks(sizes: tuple[int, ...]) -> None:
    for seed in range(3):
        rtt, rack = rack_rtt(sizes, seed, noise=0.1, outliers=0.05)
        assert adjusted_rand_score(rack, natural_groups(rtt, seed=seed).labels) == 1.0


def test_one_rack_is_one_group() -> None:
    for seed in range(4):
        rtt, _ = rack_rtt((16,), seed)
        grouping, verdict = find_groups(rtt, rtt, seed=seed)
        assert grouping.k == 1
        assert verdict.locality == "none"
        assert verdict.text == "no usable locality: these hosts form no groups"


def test_a_host_slow_towards_everybody_stays_in_its_rack() -> None:
    rtt, rack = rack_rtt((6, 6, 4), 5)
    rtt[3, :] += 200e-6
    rtt[:, 3] += 200e-6
    grouping, verdict = find_groups(rtt, rtt, seed=0)
    assert adjusted_rand_score(rack, grouping.labels) == 1.0
    assert verdict.locality == "found"
    excess = grouping.evidence["excess"]
    assert isinstance(excess, list)
    assert int(np.argmax(excess)) == 3


@pytest.mark.parametrize(
    ("slow_hosts", "outliers"), [(False, 0.0), (True, 0.05)], ids=["noise", "slow hosts and outliers"]
)
def test_false_alarms_are_rare(slow_hosts: bool, outliers: float) -> None:
    alarms = 0
    for seed in range(16):
        n = (8, 12, 16, 24)[seed % 4]
        rtt = flat_rtt(n, seed, noise=0.2, slow_hosts=slow_hosts, outliers=outliers)
        _, verdict = find_groups(rtt, rtt, seed=seed)
        alarms += verdict.locality == "found"
    # Nominal is 0.4 of 16; four or more would come about once in a thousand times. bench/verdict.py has 400.
    assert alarms <= 3


def test_nested_racks_and_rows_are_both_found_and_the_racks_are_the_groups() -> None:
    rack = np.repeat(np.arange(8), 4)
    row = rack // 4
    rtt = np.where(
        rack[:, None] == rack[None, :], 100.0, np.where(row[:, None] == row[None, :], 200.0, 400.0)
    )
    rtt = rtt * np.exp(np.random.default_rng(0).normal(0, 0.1, rtt.shape))
    np.fill_diagonal(rtt, 0.0)
    grouping, verdict = find_groups(rtt, rtt, seed=0)
    assert adjusted_rand_score(rack, grouping.labels) == 1.0
    assert verdict.text.startswith("locality found: 8 groups")
    levels = grouping.evidence["levels"]
    assert isinstance(levels, list)
    assert [level["k"] for level in levels] == [8, 2]
    assert levels[1]["of_groups"] == [0, 0, 0, 0, 1, 1, 1, 1]
    stability = grouping.evidence["stability"]
    assert isinstance(stability, dict) and stability["least"] > 0.9


@pytest.mark.parametrize("excess_us", [100.0, 500.0, 2000.0, 20_000.0])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (6, 6)])
def test_a_sick_host_hides_no_racks_and_stays_in_its_own(sizes: tuple[int, ...], excess_us: float) -> None:
    rtt, rack = rack_rtt(sizes, 3)
    rtt[5, :] += excess_us * 1e-6
    rtt[:, 5] += excess_us * 1e-6
    rtt *= np.exp(np.random.default_rng(0).normal(0, 0.002, rtt.shape))
    np.fill_diagonal(rtt, 0.0)
    grouping, verdict = find_groups(rtt, rtt, seed=0)
    assert verdict.locality == "found"
    assert adjusted_rand_score(rack, grouping.labels) == 1.0
    found = find_outliers(rtt, grouping.labels)
    (slow,) = found.hosts
    assert found.links == ()
    assert slow.host == 5
    assert slow.excess == pytest.approx(excess_us * 1e-6, rel=0.2)
    assert (slow.slower, slow.links) == (11, 11)


def test_a_host_ten_times_slower_stays_in_its_rack() -> None:
    rtt, rack = rack_rtt((6, 6, 4), 2)
    rtt[5, :] *= 10
    rtt[:, 5] *= 10
    grouping, verdict = find_groups(rtt, rtt, seed=0)
    assert verdict.locality == "found"
    assert adjusted_rand_score(rack, grouping.labels) == 1.0
    assert [slow.host for slow in find_outliers(rtt, grouping.labels).hosts] == [5]


def test_a_sick_host_of_no_clear_rack_stands_alone() -> None:
    rtt, rack = rack_rtt((6, 6), 3)
    rtt[5, :] = rtt[:, 5] = np.random.default_rng(1).uniform(2e-3, 4e-3, 12)
    grouping, verdict = find_groups(rtt, rtt, seed=0)
    assert verdict.locality == "found"
    assert grouping.k == 3 and (grouping.labels == grouping.labels[5]).sum() == 1
    others = np.arange(12) != 5
    assert adjusted_rand_score(np.array(rack)[others], grouping.labels[others]) == 1.0


@pytest.mark.parametrize("same_rack", [True, False])
def test_one_pair_at_no_distance_is_no_structure(same_rack: bool) -> None:
    rtt, rack = rack_rtt((6, 6, 4), 1)
    one = 0
    other = next(i for i in range(1, 16) if (rack[i] == rack[one]) == same_rack)
    rtt[one, other] = rtt[other, one] = 1e-9
    grouping, verdict = find_groups(rtt, rtt, seed=0)
    assert verdict.locality == "found"
    assert adjusted_rand_score(rack, grouping.labels) == 1.0


def test_islands_can_be_neither_separated_nor_joined() -> None:
    rtt, rack = rack_rtt((8, 8), 1)
    apart = np.array(rack)[:, None] != np.array(rack)[None, :]
    rtt[apart] = np.nan
    _, verdict = find_groups(np.nan_to_num(rtt, nan=3e-4), rtt, seed=0)
    assert verdict.locality == "cannot_tell"
    assert "too few pairs" in verdict.text
    judged = judge_locality(rtt, np.array(rack), seed=0)
    assert judged.locality == "cannot_tell"
    assert "joins 2 sets of hosts" in judged.text


@pytest.mark.parametrize(("racks", "seed"), [(8, 0), (8, 3), (16, 0), (16, 1)])
def test_racks_of_two_with_missing_pairs_come_out_as_far_as_they_were_measured(racks: int, seed: int) -> None:
    rtt, rack = rack_rtt((2,) * racks, seed, missing=0.3, noise=0.05)
    grouping, verdict = find_groups(denoise(rtt), rtt, seed=0)
    same = np.array(rack)[:, None] == np.array(rack)[None, :]
    together = grouping.labels[:, None] == grouping.labels[None, :]
    # A handful of near pairs could be chance, and says so.
    assert verdict.locality in (("found",) if racks == 16 else ("found", "cannot_tell"))
    assert np.array_equal((same & ~np.isnan(rtt)), (together & ~np.isnan(rtt)))


def test_two_groups_at_a_contrast_of_1_3_are_found_under_heavy_noise() -> None:
    """24 hosts: bench/verdict.py has all sizes and more fleets."""
    found, agreements = 0, []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        group = rng.permutation(np.arange(24) % 2)
        height = rng.gamma(2.0, 0.5, 24)
        rtt = np.where(group[:, None] == group[None, :], 15.0, 19.5) + height[:, None] + height[None, :]
        rtt = rtt * np.exp(rng.normal(0.0, 0.246, rtt.shape))
        rtt = np.where(rng.random(rtt.shape) < 0.05, rtt * (1 + rng.pareto(1.5, rtt.shape)), rtt)
        np.fill_diagonal(rtt, 0.0)
        grouping, verdict = find_groups(denoise(rtt), rtt, seed=seed)
        found += verdict.locality == "found"
        agreements.append(adjusted_rand_score(group, grouping.labels))
    assert found >= 9
    assert np.median(agreements) > 0.7


def test_groups_are_numbered_by_their_first_host_and_evidence_is_plain_json() -> None:
    rtt, _ = rack_rtt((6, 6, 4), 2)
    grouping = natural_groups(rtt, seed=0)
    assert [members[0] for members in grouping.members()] == sorted(m[0] for m in grouping.members())
    assert grouping.labels[0] == 0
    assert json.loads(json.dumps(dict(grouping.evidence)))["score"] > 0.9


@examples(4)
@given(st.sampled_from([(3, 6, 9), (2,) * 8, (7, 5), (12,)]), st.integers(0, 10**6), st.floats(-9, 9))
@example((3, 6, 9), 789, 0.0)  # what a rack of nine splits into was decided by the order of the hosts
def test_neither_the_unit_nor_the_order_of_hosts_matters_and_a_seed_repeats(
    sizes: tuple[int, ...], seed: int, power: float
) -> None:
    rtt, _ = rack_rtt(sizes, seed, noise=0.1, outliers=0.03)
    order = np.random.default_rng(seed).permutation(len(rtt))
    first, verdict = find_groups(rtt, rtt, seed=1)
    again, same = find_groups(rtt * 2.0**-7, rtt * 2.0**-7, seed=1)
    scaled, in_unit = find_groups(rtt * 10.0**power, rtt * 10.0**power, seed=1)
    turned, in_order = find_groups(rtt[np.ix_(order, order)], rtt[np.ix_(order, order)], seed=1)
    assert first.labels.tobytes() == again.labels.tobytes()
    assert json.dumps(dict(first.evidence)) == json.dumps(dict(again.evidence))
    assert verdict == same == in_order
    assert np.array_equal(first.labels, scaled.labels)
    assert (verdict.locality, verdict.p_value) == (in_unit.locality, in_unit.p_value)
    assert np.array_equal(numbered_by_first_member(first.labels[order]), turned.labels)
    assert json.dumps(dict(turned.put_back(order).evidence)) == json.dumps(dict(first.evidence))


def test_auto_gives_natural_groups_or_even_ones_and_the_two_are_compared() -> None:
    rtt, _ = rack_rtt((6, 6, 4), 3)
    grouping, _ = find_groups(rtt, rtt, method="auto", seed=0)
    assert grouping.method == "natural"
    natural, sqrt = compare_methods(rtt, rtt, grouping, elasticity=1.0, seed=0)
    assert (natural["k"], natural["smallest"], natural["largest"]) == (3, 4, 6)
    assert (sqrt["k"], sqrt["smallest"], sqrt["largest"]) == (4, 4, 4)
    flat = flat_rtt(16, 0, noise=0.1, slow_hosts=False, outliers=0.0)
    grouping, verdict = find_groups(flat, flat, method="auto", seed=0)
    assert (grouping.method, grouping.k, verdict.locality) == ("sqrt", 4, "none")


@pytest.mark.parametrize("n", [3, 4, 9])
def test_hosts_without_any_reading_cannot_tell(n: int) -> None:
    rtt = np.full((n, n), 1e-4)
    rtt[1, :] = rtt[:, 1] = np.nan
    grouping, verdict = find_groups(np.nan_to_num(rtt, nan=1e-4), rtt, seed=0)
    assert (grouping.k, verdict.locality) == (1, "cannot_tell")
    nothing = np.full((n, n), np.nan)
    assert find_groups(np.ones((n, n)), nothing, seed=0)[1].locality == "cannot_tell"


def test_asked_for_groups_are_formed_whatever_the_verdict() -> None:
    rtt = flat_rtt(12, 1, noise=0.1, slow_hosts=False, outliers=0.0)
    for k in (1, 2, 5, 11, 12):
        grouping, verdict = find_groups(rtt, rtt, k=k, seed=0)
        assert sorted(set(grouping.labels.tolist())) == list(range(k))
        assert verdict.locality != "found"
    with pytest.raises(InfeasibleError, match="give 1 to 12"):
        find_groups(rtt, rtt, k=13, seed=0)


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_hosts_cannot_tell(n: int) -> None:
    grouping, verdict = find_groups(np.ones((n, n)), np.ones((n, n)), seed=0)
    assert (grouping.k, verdict.locality) == (1, "cannot_tell")


def test_a_handful_of_hosts_cannot_tell_however_clear_it_looks() -> None:
    for sizes in [(2, 1), (2, 2), (3, 2)]:
        rtt, rack = rack_rtt(sizes, 0)
        _, verdict = find_groups(rtt, rtt, seed=0)
        assert verdict.locality == "cannot_tell"
        assert judge_locality(rtt, np.array(rack), seed=0).locality == "cannot_tell"


@pytest.mark.parametrize("n", [3, 5, 16])
@pytest.mark.parametrize("value", [0.0, 1e-4])
def test_equal_distances_are_one_group(n: int, value: float) -> None:
    flat = np.full((n, n), value)
    grouping, verdict = find_groups(flat, flat, seed=0)
    assert (grouping.k, verdict.locality) == (1, "none")


def test_hosts_on_one_board_are_at_no_distance_and_still_group() -> None:
    rack = np.repeat([0, 1, 2], 4)
    rtt = np.where(rack[:, None] == rack[None, :], 0.0, 3e-4)
    grouping, verdict = find_groups(rtt, rtt, seed=0)
    assert adjusted_rand_score(rack, grouping.labels) == 1.0
    assert (verdict.locality, verdict.contrast) == ("found", None)


def test_wrong_labels_are_not_supported() -> None:
    rtt, _ = rack_rtt((6, 6, 4), 6)
    at_random = np.arange(16) % 3
    assert judge_locality(rtt, at_random, seed=0).locality == "none"


def test_bad_matrices_are_refused() -> None:
    with pytest.raises(InputError, match="square"):
        natural_groups(np.ones((2, 3)), seed=0)
    with pytest.raises(InputError, match="not negative"):
        natural_groups(np.array([[0.0, -1.0], [1.0, 0.0]]), seed=0)
    with pytest.raises(InputError, match="labels"):
        judge_locality(np.ones((3, 3)), np.zeros(4, dtype=int), seed=0)
    with pytest.raises(InputError, match="not one of"):
        find_groups(np.ones((3, 3)), np.ones((3, 3)), method="best", seed=0)  # type: ignore[arg-type]
