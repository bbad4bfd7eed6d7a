"""Natural groups and the verdict: racks of any sizes are found, and nothing is found where nothing is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from netprobe.cluster import find_groups, judge_locality, natural_groups
from netprobe.core.errors import InfeasibleError, InputError
from tests.cluster.fleets import flat_rtt, rack_rtt

LAYOUTS = [(6, 6, 4), (3, 6, 9), (4, 4, 4, 4), (8, 8), (6, 5, 1), (2,) * 8]


@pytest.mark.parametrize("sizes", LAYOUTS, ids=str)
def test_racks_come_out_right_for_twenty_seeds(sizes: tuple[int, ...]) -> None:
    for seed in range(4):
        rtt, rack = rack_rtt(sizes, seed)
        grouping, verdict = find_groups(rtt, rtt, seed=seed)
        assert adjusted_rand_score(rack, grouping.labels) == 1.0
        assert grouping.k == len(sizes)
        assert verdict.locality == "found"
        assert verdict.contrast == pytest.approx(2.9, abs=0.1)


@pytest.mark.parametrize("sizes", LAYOUTS[:4], ids=str)
def test_noise_and_outliers_do_not_hide_racks(sizes: tuple[int, ...]) -> None:
    for seed in range(8):
        rtt, rack = rack_rtt(sizes, seed, noise=0.1, outliers=0.05)
        assert adjusted_rand_score(rack, natural_groups(rtt, seed=seed).labels) == 1.0


def test_one_rack_is_one_group() -> None:
    for seed in range(4):
        rtt, _ = rack_rtt((16,), seed)
        grouping, verdict = find_groups(rtt, rtt, seed=seed)
        assert grouping.k == 1
        assert verdict.locality == "none"
        assert verdict.text == "no usable locality: keep your order"


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
    ("slow_hosts", "outliers"), [(False, 0.0), (True, 0.0), (True, 0.05)], ids=["noise", "slow", "outliers"]
)
def test_false_alarms_are_rare(slow_hosts: bool, outliers: float) -> None:
    alarms = 0
    for seed in range(60):
        n = (8, 12, 16, 24)[seed % 4]
        rtt = flat_rtt(n, seed, noise=0.2, slow_hosts=slow_hosts, outliers=outliers)
        _, verdict = find_groups(rtt, rtt, seed=seed)
        alarms += verdict.locality == "found"
    # Nominal is 1.5 of 60; six or more would come about once in two hundred times.
    assert alarms <= 5


def test_nested_levels_show_in_the_evidence() -> None:
    rack = np.repeat(np.arange(8), 4)
    row = rack // 4
    rtt = np.where(
        rack[:, None] == rack[None, :], 100.0, np.where(row[:, None] == row[None, :], 300.0, 900.0)
    )
    rtt = rtt * np.exp(np.random.default_rng(0).normal(0, 0.02, rtt.shape))
    np.fill_diagonal(rtt, 0.0)
    grouping = natural_groups(rtt, seed=0)
    truth = row if grouping.k == 2 else rack
    assert adjusted_rand_score(truth, grouping.labels) == 1.0
    candidates = grouping.evidence["candidates"]
    assert isinstance(candidates, list)
    assert {2, 8} <= {candidate["k"] for candidate in candidates}


def test_groups_are_numbered_by_their_first_host_and_evidence_is_plain_json() -> None:
    rtt, _ = rack_rtt((6, 6, 4), 2)
    grouping = natural_groups(rtt, seed=0)
    assert [members[0] for members in grouping.members()] == sorted(m[0] for m in grouping.members())
    assert grouping.labels[0] == 0
    assert json.loads(json.dumps(dict(grouping.evidence)))["score"] > 0.9


def test_the_unit_does_not_matter() -> None:
    rtt, _ = rack_rtt((6, 6, 4), 3, noise=0.1)
    in_seconds = find_groups(rtt, rtt, seed=1)
    in_microseconds = find_groups(rtt * 1e6, rtt * 1e6, seed=1)
    assert np.array_equal(in_seconds[0].labels, in_microseconds[0].labels)
    assert in_seconds[1].p_value == in_microseconds[1].p_value


def test_the_order_of_hosts_changes_only_the_numbering() -> None:
    rtt, _ = rack_rtt((3, 6, 9), 4, noise=0.1)
    order = np.random.default_rng(0).permutation(len(rtt))
    straight = natural_groups(rtt, seed=1).labels
    turned = natural_groups(rtt[np.ix_(order, order)], seed=1).labels
    assert adjusted_rand_score(straight[order], turned) == 1.0


def test_asked_for_groups_are_formed_whatever_the_verdict() -> None:
    rtt = flat_rtt(12, 1, noise=0.1, slow_hosts=False, outliers=0.0)
    for k in range(1, 13):
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


def test_wrong_labels_are_not_borne_out() -> None:
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
