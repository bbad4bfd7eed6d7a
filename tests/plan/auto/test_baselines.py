"""The groups that 2LHA is compared with."""

from __future__ import annotations

import pytest

from netprobe.core.errors import InputError
from netprobe.plan.auto.baselines import balanced_random_groups, truth_guided_groups

HOSTS = [f"h{i}" for i in range(11)]


def test_random_groups_are_balanced_and_of_their_seed() -> None:
    groups = balanced_random_groups(HOSTS, 3, seed=5)
    assert sorted(map(len, groups)) == [3, 4, 4] and sorted([h for g in groups for h in g]) == sorted(HOSTS)
    assert groups == balanced_random_groups(HOSTS, 3, seed=5) != balanced_random_groups(HOSTS, 3, seed=6)
    for k in (0, 12):
        with pytest.raises(InputError, match="1 to 11 are possible"):
            balanced_random_groups(HOSTS, k)


def test_truth_guided_groups_are_the_racks_and_every_host_needs_one() -> None:
    racks = {host: f"r{i % 2}" for i, host in enumerate(HOSTS)}
    assert truth_guided_groups(HOSTS, racks) == [HOSTS[::2], HOSTS[1::2]]
    with pytest.raises(InputError, match="no rack for host 'h3'"):
        truth_guided_groups(HOSTS, {host: rack for host, rack in racks.items() if host != "h3"})
