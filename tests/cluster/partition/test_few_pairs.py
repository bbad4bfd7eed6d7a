"""Groups of fleets of which few pairs were measured: right, or no answer."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.cluster import find_groups, find_outliers
from netprobe.cluster.distances.coverage import hidden_chance, unobserved_share
from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.embed.estimates.blocks import smooth
from netprobe.embed.prepare import prepare, winsorise

RACKS = np.repeat(np.arange(6), 10)


def measured(share: float, seed: int) -> NDArray[np.float64]:
    """(60, 60) RTTs of six racks, both directions of a random ``share`` of the pairs."""
    rng = np.random.default_rng(seed)
    near = RACKS[:, None] == RACKS[None, :]
    rtt_s = np.where(near, 100e-6, 300e-6) * rng.lognormal(0, 0.02, (60, 60))
    asked = np.triu(rng.random((60, 60)) < share, 1)
    order = rng.permutation(60)
    asked[np.minimum(order, np.roll(order, 1)), np.maximum(order, np.roll(order, 1))] = (
        True  # all hosts are in it
    )
    return np.where(asked | asked.T, rtt_s, np.nan)


def test_the_unobserved_share_counts_pairs_of_groups_that_never_met() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2])
    raw = np.full((6, 6), np.nan)
    raw[0, 3] = 1.0  # groups 0 and 1 met, in one direction; 2 met nobody
    assert unobserved_share(raw, labels) == pytest.approx((3 * 1 + 2 * 1) / (6 + 3 + 2))
    assert unobserved_share(raw, np.zeros(6, dtype=int)) == 0.0


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.4])
def test_few_pairs_give_the_racks_or_no_answer(share: float) -> None:
    found = 0
    for seed in range(4):
        raw = measured(share, seed)
        distance = smooth(winsorise(prepare(raw, larger_direction=False), factor=1.25))
        grouping, verdict = find_groups(distance, raw, seed=seed)
        if verdict.locality == "found":
            found += 1
            assert adjusted_rand_index(RACKS.tolist(), grouping.labels.tolist()) > 0.95
        else:
            assert grouping.k == 1
            assert verdict.locality == "cannot_tell" and "too few pairs" in verdict.text
    assert found >= 3 if share == 0.4 else found == 0


def test_no_locality_among_few_pairs_is_no_answer() -> None:
    """Of six hosts, three in a rack, eight pairs were measured and none of the rack's."""
    raw = 300e-6 * np.random.default_rng(1).lognormal(0, 0.01, (6, 6))
    rack = np.arange(6) < 3
    missing = (rack[:, None] & rack[None, :]) | (~rack[:, None] & ~rack[None, :])
    missing[0, 3] = missing[3, 0] = True
    verdict = find_groups(np.full((6, 6), 300e-6), np.where(missing, np.nan, raw), seed=0)[1]
    assert (verdict.locality, "too few pairs" in verdict.text) == ("cannot_tell", True)
    for n, share, found in ((6, 1.0, True), (64, 0.5, True), (16, 0.3, False), (1024, 0.1, True)):
        missing = np.triu(np.random.default_rng(2).random((n, n)) >= share, 1)
        size, chance = hidden_chance(np.where(missing | missing.T | np.eye(n, dtype=bool), np.nan, 1.0))
        assert size == max(3, round(n**0.5)) and (chance <= 0.025) == found


def test_no_link_is_slow_for_want_of_readings() -> None:
    """Of one end three near pairs and a far one were measured: the far one is as far as all are."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        racks = np.repeat(np.arange(4), 4)
        near = racks[:, None] == racks[None, :]
        rtt_s = np.where(near, 100e-6, 305e-6) * rng.lognormal(0, 0.01, (16, 16))
        asked = np.triu(rng.random((16, 16)) < 0.3, 1)
        asked |= asked.T
        asked[0] = asked[:, 0] = False
        asked[0, [1, 2, 3, 9]] = asked[[1, 2, 3, 9], 0] = True
        raw = np.where(asked, rtt_s, np.nan)
        for labels in (racks, np.zeros(16, dtype=np.int64)):
            assert not find_outliers(raw, labels).links
