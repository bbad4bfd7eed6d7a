"""Hosts that leave the rounds, driven with made-up fleets: how many visits are waited for, and what is tried again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from netprobe.probe.records.samples import Samples
from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.chooser import FUTILE_ROUNDS, Results, Retrying, RoundRobin
from netprobe.probe.rounds.circle import Link
from netprobe.probe.rounds.leaving import LATE_VISITS, PARTNERS, Leaving
from tests.probe.conftest import visit

Answers = Callable[[Link, int], bool]
"""Whether a link gives a reading in a round."""


ONE = Samples.of_seconds(np.ones(1, dtype=np.uint32), [0.0], [1e-4])


@dataclass
class Fleet:
    """A scan without agents: rounds as the scheduler runs them."""

    hosts: int
    answers: Answers
    slow: frozenset[int] = frozenset()
    visits: list[VisitResult] = field(default_factory=list)
    rounds: int = 0
    dead_rounds: int = 0
    """Rounds that waited for a visit without a reading, or a late one."""
    patient_rounds: int = 0
    news: list[str] = field(default_factory=list)

    def scan(self, retries: int = 1) -> Fleet:
        leaving = Leaving([f"h{i}" for i in range(self.hosts)], late_s=0.7)
        chooser = Retrying(RoundRobin(), retries, leaving)
        while True:
            links = chooser.next_round(
                Results(hosts=self.hosts, alive=frozenset(range(self.hosts)), visits=self.visits)
            )
            self.news += leaving.news()
            if links is None:
                return self
            waited = False
            for link in links:
                why_not = None if chooser.patient else leaving.why_not(link)
                read = why_not is None and self.answers(link, self.rounds)
                late = read and not self.slow.isdisjoint((link.src, link.dst))
                waited |= why_not is None and (late or not read)
                self.visits.append(
                    VisitResult(
                        src=link.src, dst=link.dst, round=self.rounds, started_s=0.0, duration_s=2.0 if late else 0.1,
                        reason=None if read else why_not or "no answer", tried=why_not is None,
                        samples=ONE, stop=int(read),
                    )
                )  # fmt: skip
            self.rounds += 1
            self.dead_rounds += waited
            self.patient_rounds += chooser.patient

    def read(self) -> set[tuple[int, int]]:
        return {(v.src, v.dst) for v in self.visits if v.has_reading}

    def tried(self, host: int) -> int:
        return sum(v.tried and host in (v.src, v.dst) for v in self.visits)


def links_of(hosts: Sequence[int]) -> set[tuple[int, int]]:
    return {(a, b) for a in hosts for b in hosts if a != b}


@pytest.mark.parametrize(
    ("hosts", "share"),
    [
        *itertools.product([4, 5, 12, 13, 64], [0.0, 0.02, 0.1]),
        pytest.param(256, 0.1, marks=pytest.mark.slow),
    ],
)
def test_silent_hosts_hold_up_a_few_rounds_and_cost_their_own_cells_alone(hosts: int, share: float) -> None:
    silent = set(range(1, hosts, round(1 / share)) if share else [hosts // 2])
    fleet = Fleet(hosts, lambda link, _round: silent.isdisjoint((link.src, link.dst))).scan()
    assert fleet.read() == links_of([host for host in range(hosts) if host not in silent])
    # Rounds before: 2 (N - 1) with a dead visit, and as many again to retry; now three or so, and one trial.
    assert fleet.dead_rounds <= 3 * PARTNERS
    assert all(fleet.tried(host) <= 3 * PARTNERS for host in silent)
    assert sum("leaves the rounds" in text for text in fleet.news) == len(silent)


@pytest.mark.parametrize("hosts", [12, 64])
@pytest.mark.parametrize("probing", [True, False])
def test_a_firewall_for_one_direction_costs_that_direction(hosts: int, probing: bool) -> None:
    def answers(link: Link, _round: int) -> bool:
        return (link.src if probing else link.dst) != 3

    fleet = Fleet(hosts, answers).scan()
    everything = links_of(range(hosts))
    assert fleet.read() == {(a, b) for a, b in everything if (a if probing else b) != 3}
    assert fleet.dead_rounds <= 3 * PARTNERS


def test_a_host_that_goes_silent_in_the_middle_is_checked_with_a_partner_that_was_good_before() -> None:
    fleet = Fleet(24, lambda link, number: number < 20 or 5 not in (link.src, link.dst)).scan()
    assert fleet.dead_rounds <= 3 * PARTNERS
    assert fleet.read() >= links_of([host for host in range(24) if host != 5])


def test_a_host_whose_link_recovers_is_probed_in_the_end() -> None:
    fleet = Fleet(12, lambda link, number: number > 15 or 5 not in (link.src, link.dst)).scan()
    assert fleet.read() == links_of(range(12))
    assert any("is back" in text for text in fleet.news)


@pytest.mark.parametrize("hosts", [8, 24, 64])
def test_a_network_in_two_parts_leaves_nobody_out(hosts: int) -> None:
    half = hosts // 2
    fleet = Fleet(hosts, lambda link, _round: (link.src < half) == (link.dst < half)).scan()
    assert fleet.read() == links_of(range(half)) | links_of(range(half, hosts))
    assert fleet.patient_rounds <= FUTILE_ROUNDS + 1  # not one for each of the links across


def test_single_dead_links_make_nobody_leave_and_are_tried_again() -> None:
    dead = {Link(0, 5), Link(5, 0), Link(2, 7), Link(3, 9)}
    fleet = Fleet(12, lambda link, number: link not in dead or number >= 22).scan()
    assert fleet.read() == links_of(range(12)) and fleet.news == []


def test_where_nobody_answers_the_scan_ends_after_a_few_rounds() -> None:
    fleet = Fleet(64, lambda _link, _round: False).scan()
    assert fleet.dead_rounds <= PARTNERS + 1
    assert max(fleet.tried(host) for host in range(64)) <= PARTNERS + 1


def test_two_hosts_are_tried_in_both_directions() -> None:
    fleet = Fleet(2, lambda link, _round: link.src == 1).scan()
    assert fleet.read() == {(1, 0)}
    assert Fleet(2, lambda _link, _round: False).scan().tried(0) == 3


def test_slow_hosts_leave_and_keep_the_readings_they_gave() -> None:
    fleet = Fleet(12, lambda _link, _round: True, slow=frozenset({4})).scan()
    assert fleet.dead_rounds <= 2 * PARTNERS
    assert fleet.read() > links_of([host for host in range(12) if host != 4])
    (left,) = [text for text in fleet.news if "leaves the rounds" in text]
    assert left.startswith("h4 leaves") and "they took 2.0 s" in left


def test_a_suspect_of_an_earlier_measurement_leaves_after_one_bad_visit() -> None:
    leaving = Leaving(["a", "b", "c", "d", "e"], suspects={4})
    alive = frozenset(range(5))
    leaving.take_in([], alive)
    leaving.take_in([visit(0, 1, [1e-4]), visit(1, 2, [1e-4]), visit(2, 3, [1e-4]), visit(2, 4, [])], alive)
    assert leaving.hosts == {4}
    assert leaving.why_not(Link(0, 1)) is None
    assert "with c failed" in (leaving.why_not(Link(0, 4)) or "")


def test_visits_of_the_scan_that_this_one_continues_are_no_evidence() -> None:
    leaving = Leaving()
    alive = frozenset(range(6))
    earlier = [visit(0, 5, []), visit(1, 5, []), visit(2, 5, []), visit(0, 1, [1e-4]), visit(1, 2, [1e-4])]
    leaving.take_in(earlier, alive)
    assert leaving.hosts == frozenset()


def test_a_host_that_stops_and_goes_leaves_though_many_of_its_visits_are_good() -> None:
    leaving = Leaving(late_s=0.7)
    alive = frozenset(range(10))
    leaving.take_in([], alive)
    for turn in range(LATE_VISITS):
        assert leaving.hosts == frozenset()
        late = visit(0, 1 + turn, [1e-4], duration_s=3.0)
        good = [visit(0, 5 + turn, [1e-4]), *(visit(i, i + 1, [1e-4]) for i in range(1, 9))]
        leaving.take_in([*earlier_of(leaving), *good, late], alive)
    assert leaving.hosts == {0}
    assert leaving.trials(alive) == []  # it would be as slow again


def test_where_all_visits_are_late_nobody_leaves() -> None:
    leaving = Leaving(late_s=0.7)
    alive = frozenset(range(10))
    leaving.take_in([], alive)
    visits = [visit(0, 1, [1e-4])]
    visits += [visit(a, b, [1e-4], duration_s=2.0) for a in range(10) for b in range(10) if a != b]
    leaving.take_in(visits, alive)
    assert leaving.hosts == frozenset()


def earlier_of(leaving: Leaving) -> list[VisitResult]:
    """As many visits as it has seen: a list of visits grows."""
    return [visit(8, 9, [1e-4])] * leaving.seen
