"""Goodput rounds: what they never do, and how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.rounds.chooser import Results
from netprobe.probe.rounds.circle import Link
from netprobe.probe.rounds.goodput_rounds import GoodputRounds


def drive(
    chooser: GoodputRounds, hosts: int, dead: Sequence[int] = (), dies: tuple[int, int] | None = None
) -> list[Sequence[Link]]:
    """All rounds, with hosts that are dead from the start and one that dies at a round."""
    rounds: list[Sequence[Link]] = []
    alive = frozenset(range(hosts)) - set(dead)
    while True:
        if dies is not None and len(rounds) == dies[0]:
            alive -= {dies[1]}
        links = chooser.next_round(Results(hosts=hosts, alive=alive, visits=[]))
        if links is None:
            return rounds
        rounds.append(links)
        assert len(rounds) < 10_000


def grouped(sizes: Sequence[int]) -> list[list[int]]:
    """Groups of these sizes; their hosts are interleaved, so that groups are not runs of numbers."""
    count = sum(sizes)
    order = sorted(range(count), key=lambda host: (host * 7919) % 104729)
    groups, start = [], 0
    for size in sizes:
        groups.append(order[start : start + size])
        start += size
    return groups


def check_rules(rounds: Sequence[Sequence[Link]], groups: Sequence[Sequence[int]]) -> None:
    group_of = {host: place for place, group in enumerate(groups) for host in group}
    for links in rounds:
        ends = Counter(end for link in links for end in (link.src, link.dst))
        assert max(ends.values()) == 1
        across = [link for link in links if group_of[link.src] != group_of[link.dst]]
        uplinks = Counter(group_of[end] for link in across for end in (link.src, link.dst))
        assert max(uplinks.values(), default=0) <= 1


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6).filter(lambda sizes: sum(sizes) > 1))
def test_every_link_is_tested_once_and_no_round_breaks_a_rule(sizes: list[int]) -> None:
    groups = grouped(sizes)
    hosts = sum(sizes)
    chooser = GoodputRounds(lambda _results: groups)
    rounds = drive(chooser, hosts)
    links = Counter(link for links in rounds for link in links)
    assert links == Counter(Link(a, b) for a in range(hosts) for b in range(hosts) if a != b)
    check_rules(rounds, groups)
    extent = chooser.extent()
    assert extent is not None and extent.links == hosts * (hosts - 1)
    assert extent.rounds <= len(rounds) <= 1.4 * extent.rounds + 6


@pytest.mark.parametrize(
    ("sizes", "rounds"),
    [
        ([4, 4, 4, 4], 96),  # each group's uplink is busy in every round: 2 x 4 x 12
        ([6, 6, 4], 168),  # three groups: one pair of them at a time, 2 x (36 + 24 + 24)
        ([8, 8], 128),
        ([16], 30),  # one group: the circle method's
        ([1] * 8, 14),
    ],
)
def test_the_number_of_rounds_is_near_the_least_possible(sizes: list[int], rounds: int) -> None:
    assert len(drive(GoodputRounds(lambda _results: grouped(sizes)), sum(sizes))) <= rounds


def test_a_sample_of_links_and_hosts_that_are_not_up() -> None:
    groups = grouped([3, 3])
    wanted = [Link(0, 1), Link(1, 0), Link(2, 5), Link(4, 4), Link(3, 9)]
    rounds = drive(GoodputRounds(lambda _results: groups, wanted), 6)
    assert sorted(link for links in rounds for link in links) == [Link(0, 1), Link(1, 0), Link(2, 5)]
    check_rules(rounds, groups)
    without = drive(GoodputRounds(lambda _results: groups), 6, dead=[2])
    assert not any(2 in (link.src, link.dst) for links in without for link in links)
    assert sum(map(len, without)) == 5 * 4


def test_the_links_of_a_host_that_dies_take_no_place_of_others() -> None:
    groups = grouped([4, 4])
    rounds = drive(GoodputRounds(lambda _results: groups), 8, dies=(3, groups[0][0]))
    assert sum(map(len, rounds)) == 8 * 7
    alive = [[k for k in links if groups[0][0] not in (k.src, k.dst)] for links in rounds]
    check_rules([links for links in alive[3:] if links], groups)
    # Three hosts against four need 24 rounds between the groups, and some had been done before.
    assert len(rounds) <= 32 - 3
