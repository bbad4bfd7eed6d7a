"""Choosers, driven with made-up results."""

from __future__ import annotations

from collections.abc import Sequence

from netprobe.probe.chooser import Chooser, Extent, Results, RoundRobin
from netprobe.probe.rounds import Link

from .conftest import visit


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
