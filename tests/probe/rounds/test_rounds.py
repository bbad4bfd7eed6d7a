"""The circle method."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.rounds.circle import Link, Rounds, one_pass, two_passes

host_lists = st.lists(st.integers(0, 500), min_size=0, max_size=41, unique=True)


@given(host_lists)
def test_each_pair_meets_exactly_once_a_pass(hosts: list[int]) -> None:
    met = Counter(frozenset((link.src, link.dst)) for links in one_pass(hosts) for link in links)
    assert set(met.values()) <= {1}
    assert len(met) == len(hosts) * (len(hosts) - 1) // 2


@given(host_lists)
def test_no_host_is_twice_in_a_round(hosts: list[int]) -> None:
    for links in one_pass(hosts):
        ends = [end for link in links for end in (link.src, link.dst)]
        assert len(ends) == len(set(ends))
        assert set(ends) <= set(hosts)


@given(host_lists)
def test_rounds_are_as_few_as_can_be(hosts: list[int]) -> None:
    count = len(hosts)
    rounds = one_pass(hosts)
    assert len(rounds) == (0 if count < 2 else count if count % 2 else count - 1)
    assert all(len(links) == count // 2 for links in rounds)


@given(host_lists)
def test_second_pass_exchanges_the_ends_a_whole_pass_later(hosts: list[int]) -> None:
    rounds = two_passes(hosts)
    half = len(rounds) // 2
    for early, late in zip(rounds[:half], rounds[half:], strict=True):
        assert [Link(link.dst, link.src) for link in early] == late


@given(st.integers(2, 40))
def test_hosts_probe_about_as_often_as_they_are_probed(count: int) -> None:
    first = Counter(link.src for links in one_pass(range(count)) for link in links)
    assert all(abs(2 * first[h] - (count - 1)) <= count // 2 + 1 for h in range(count))


def test_two_hosts_meet_in_both_directions() -> None:
    assert list(two_passes([3, 9])) == [[Link(3, 9)], [Link(9, 3)]]


@given(host_lists, st.integers(1, 2), st.data())
def test_a_round_is_the_same_whichever_was_looked_at_before(
    hosts: list[int], passes: int, data: st.DataObject
) -> None:
    rounds = Rounds(hosts, passes=passes)
    assert rounds.links == sum(map(len, rounds))
    assert rounds[-3:] == list(rounds)[-3:]
    if rounds:
        index = data.draw(st.integers(-len(rounds), len(rounds) - 1))
        assert rounds[index] == list(rounds)[index]
        assert rounds.ends(index).tolist() == [[link.src, link.dst] for link in rounds[index]]
    with pytest.raises(IndexError, match=f"of {len(rounds)}"):
        rounds[len(rounds)]


@pytest.mark.slow
def test_the_rounds_of_4096_hosts_take_the_memory_of_one() -> None:
    tracemalloc.start()
    rounds = two_passes(range(4096))
    met = np.zeros((4096, 4096), dtype=np.uint8)
    for index in range(len(rounds)):
        ends = rounds.ends(index)
        met[ends[:, 0], ends[:, 1]] += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - met.nbytes < 1 << 20
    np.fill_diagonal(met, 1)
    assert met.min() == met.max() == 1
