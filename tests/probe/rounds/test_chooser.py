"""Choosers, driven with made-up results."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.chooser import Chooser, Extent, Results, Retrying, RoundRobin, disjoint_rounds
from netprobe.probe.rounds.circle import Link
from tests.probe.conftest import visit


def results(hosts: int, alive: Sequence[int], visits: int = 0) -> Results:
    return Results(hosts=hosts, alive=frozenset(alive), visits=[visit(0, 1, [1e-4])] * visits)


def drain(chooser: Chooser, of: Results) -> list[Sequence[Link]]:
    rounds = []
    while (links := chooser.next_round(of)) is not None:
        rounds.append(links)
    return rounds


def test_round_robin_visits_each_link_once_in_two_passes() -> None:
    chooser = RoundRobin()
    assert chooser.extent() is None
    rounds = drain(chooser, results(6, range(6)))
    assert len(rounds) == 10
    assert len({link for links in rounds for link in links}) == 30
    assert chooser.extent() == Extent(rounds=10, links=30)
    assert chooser.next_round(results(6, range(6))) is None


def test_round_robin_leaves_out_hosts_that_never_came_up() -> None:
    rounds = drain(RoundRobin(), results(5, [0, 2, 4]))
    links = {link for links in rounds for link in links}
    assert links == {Link(a, b) for a in (0, 2, 4) for b in (0, 2, 4) if a != b}


def test_round_robin_keeps_its_plan_when_a_host_dies_later() -> None:
    chooser = RoundRobin()
    assert chooser.next_round(results(4, range(4))) is not None
    assert len(drain(chooser, results(4, [0, 1]))) == 5


def test_round_robin_of_one_host_has_nothing_to_do() -> None:
    assert RoundRobin().next_round(results(3, [1])) is None


def _results(*visits: VisitResult, alive: Iterable[int] = range(4)) -> Results:
    return Results(hosts=4, alive=frozenset(alive), visits=visits)


def test_links_without_a_reading_are_tried_again_at_the_end_in_disjoint_rounds() -> None:
    chooser = Retrying(RoundRobin(), retries=2)
    seen: list[VisitResult] = []
    failing = {Link(0, 1), Link(0, 2), Link(2, 3), Link(1, 3)}
    rounds = []
    while (links := chooser.next_round(_results(*seen, alive={0, 1, 2}))) is not None:
        rounds.append(links)
        seen += [visit(link.src, link.dst, [] if link in failing else [1e-4]) for link in links]
    planned, again = rounds[:6], rounds[6:]
    assert sorted(link for links in planned for link in links) == sorted(
        Link(a, b) for a, b in itertools.permutations(range(3), 2)
    )
    assert sorted(link for links in again for link in links) == sorted([Link(0, 1), Link(0, 2)] * 2)
    assert all(
        len({end for link in links for end in (link.src, link.dst)}) == 2 * len(links) for links in again
    )


def test_a_link_that_gets_its_reading_is_not_tried_again() -> None:
    chooser = Retrying(RoundRobin(), retries=3)
    seen: list[VisitResult] = []
    tries: Counter[Link] = Counter()
    while (links := chooser.next_round(_results(*seen, alive={0, 1}))) is not None:
        for link in links:
            tries[link] += 1
            seen.append(visit(link.src, link.dst, [1e-4] if tries[link] == 2 or link.src else []))
    assert tries == {Link(0, 1): 2, Link(1, 0): 1}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda ends: ends[0] != ends[1])))
def test_disjoint_rounds_hold_every_link_once_and_no_host_twice(ends: list[tuple[int, int]]) -> None:
    links = [Link(*pair) for pair in ends]
    rounds = disjoint_rounds(links)
    assert sorted(link for one in rounds for link in one) == sorted(links)
    for one in rounds:
        assert len({end for link in one for end in (link.src, link.dst)}) == 2 * len(one)
