"""Masters moved while a job runs: what always holds, and what a change of the network leads to."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.plan.schedule.builders import build, proved
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.tune.fine import Network, blame_of, finetune
from netprobe.plan.tune.levels import Levels, against, pooled
from netprobe.plan.tune.masters import Floats, Masters, carried, even_masters, masters_of, printed
from netprobe.plan.tune.policy import Reading, Tuner
from netprobe.plan.tune.quick import _dealt, quicktune, reassigned, times
from tests.properties import LONG, examples


@st.composite
def masters(draw: st.DrawFn, most: int = 5) -> Masters:
    sizes = draw(st.lists(st.integers(1, most), min_size=1, max_size=most))
    ranks = list(range(sum(sizes)))
    chance = random.Random(draw(st.integers(0, 999)))
    chance.shuffle(ranks)
    ends = np.cumsum([0, *sizes]).tolist()
    groups = tuple(tuple(ranks[a:b]) for a, b in itertools.pairwise(ends))
    chunks = draw(st.integers(1, 60))
    return Masters(
        groups=groups,
        home=np.array([chance.randrange(len(groups)) for _ in range(chunks)]),
        local=np.array([[chance.choice(own) for own in groups] for _ in range(chunks)]),
    )


def rates_for(ranks: int, seed: int) -> Floats:
    return np.exp(np.random.default_rng(seed).normal(0, 1, ranks))


@examples(60)
@given(masters(), st.integers(0, 999), st.sampled_from([carried, printed]), st.booleans())
def test_quicktune_is_never_worse_and_within_the_bound_of_its_rule(
    given_masters: Masters, seed: int, work_of: Callable[..., object], between: bool
) -> None:
    """The list rule's bound inside each group: with the last role W is all of a group's work, p the largest role."""
    work = carried(given_masters.groups) if work_of is carried else printed(given_masters.groups)
    rates = rates_for(given_masters.ranks, seed)
    shares = list(rates_for(len(given_masters.groups), seed + 1)) if between else None
    made = quicktune(given_masters, work, rates, shares)
    before, after = (times(one, work, rates).max() for one in (given_masters, made))
    assert after <= before
    if made is given_masters:
        return
    own = times(made, work, rates)
    for members in map(list, made.groups):
        base = work.every[members] * made.chunks / rates[members]
        role = float((work.local + np.maximum(work.central, 0))[members].max())
        total = float(work.of(made)[members].sum())
        bound = (total + (len(members) - 1) * role) / float(rates[members].sum())
        assert own[members].max() <= max(bound, float(base.max())) * (1 + 1e-9)


@pytest.mark.parametrize("groups", [[[0, 1, 2]], [[0, 1], [2, 3]]])
def test_quicktune_is_near_the_best_of_all_assignments(groups: list[list[int]]) -> None:
    """Every assignment of four chunks; Graham's 4/3 with equal rates, twice the best with others."""
    chunks, parts = 4, [tuple(own) for own in groups]
    choices = [
        (home, own)
        for home in range(len(parts))
        for own in itertools.product(*(range(len(p)) for p in parts))
    ]
    work = carried(parts)
    for rates, most in ((np.ones(sum(map(len, parts))), 4 / 3), (rates_for(sum(map(len, parts)), 3), 2.0)):
        best, start = np.inf, None
        for chosen in itertools.combinations_with_replacement(choices, chunks):
            one = Masters(
                groups=tuple(parts),
                home=np.array([home for home, _ in chosen]),
                local=np.array([[p[i] for p, i in zip(parts, own)] for _, own in chosen]),
            )
            start = one if start is None else start
            best = min(best, float(times(one, work, rates).max()))
        assert start is not None
        assert times(quicktune(start, work, rates), work, rates).max() <= most * best * (1 + 1e-9)


@examples(60)
@given(masters(), st.integers(0, 999), st.integers(1, 64))
def test_finetune_ends_and_each_move_shortens_what_it_touches(
    given_masters: Masters, seed: int, most: int
) -> None:
    work = carried(given_masters.groups)
    rates = rates_for(given_masters.ranks, seed)
    network = Network(rates=rates, rtt_s=np.zeros(len(rates)), chunk_bytes=1.0)
    now, longest = given_masters, np.inf
    for _ in range(4000):
        load = work.of(now)
        moved = finetune(now, work, network, blame_of(load, rates, network.rtt_s, beta=0.2, gamma=1.0), most)
        if not moved.count:
            return
        assert moved.count <= most and 0 <= moved.globals_ <= moved.count
        seconds = times(moved.masters, work, rates)
        assert seconds.max() <= longest * (1 + 1e-9)
        assert (seconds - times(now, work, rates))[moved.worst] < 0
        now, longest = moved.masters, float(seconds.max())
    pytest.fail("Finetune does not end")


def test_blame_is_as_printed() -> None:
    load, rates, rtt = np.array([10.0, 20.0, 30.0]), np.array([10.0, 10.0, 30.0]), np.array([1.0, 0.0, 0.0])
    found = blame_of(load, rates, rtt, beta=0.5, gamma=2.0)
    assert found.time_s.tolist() == [2.0, 2.0, 1.0]
    assert found.blame == pytest.approx([0.5 * 0 + 2 * 1.2, 0.5 * 0.5 + 2 * 1.2, 0.5 + 2 * 0.6])
    assert found.worst == 1 and found.ratio == pytest.approx(2.65 / 1.7)


def test_a_global_master_moves_first_and_a_local_one_only_inside_its_group() -> None:
    groups = [[0, 1], [2, 3], [4, 5]]
    now = even_masters(groups, 12)
    work, rates = carried(now.groups), np.array([0.02, 1, 1, 1, 1, 1])
    network = Network(rates=rates, rtt_s=np.zeros(6), chunk_bytes=1.0)
    had = int(now.globals_of()[0])
    for step in range(20):
        blame = blame_of(work.of(now), rates, network.rtt_s, beta=0.2, gamma=1.0)
        if blame.worst != 0:
            break
        moved = finetune(now, work, network, blame, 1)
        if not moved.count:
            break
        assert moved.globals_ == (1 if step < had else 0)
        if not moved.globals_:
            chunk = int(moved.masters.moved_from(now)[0])
            assert moved.masters.local[chunk].tolist()[0] == 1
            assert (moved.masters.home == now.home).all()
        now = moved.masters
    assert now.globals_of()[0] == 0 and now.locals_of()[0] == 0


@examples(15)
@given(masters(), st.integers(1, 3))
def test_masters_are_read_back_from_their_schedule(given_masters: Masters, channels: int) -> None:
    by_lowest = sorted(range(len(given_masters.groups)), key=lambda g: min(given_masters.groups[g]))
    found = masters_of(given_masters.schedule(channels=channels))
    assert found is not None
    assert found.groups == tuple(tuple(sorted(given_masters.groups[g])) for g in by_lowest)
    assert (found.centre == given_masters.centre).all()
    assert (found.local == given_masters.local[:, by_lowest]).all()
    again = found.cut(given_masters.chunks * 3)
    own, ours = again.globals_of(), given_masters.globals_of() * 3
    assert abs(own - ours).max() <= 1 + 3 * (ours > 0).any()
    proved(again.schedule())


def test_what_hosts_carry_is_what_the_schedule_sends() -> None:
    groups = [[0, 1, 2], [3, 4], [5], [6, 7, 8, 9]]
    made = even_masters(groups, 40)
    every = made.schedule().expanded()
    for end in (every.src, every.dst):
        assert np.bincount(end, minlength=10).tolist() == carried(made.groups).of(made).tolist()


def test_schedules_without_masters_are_told_apart() -> None:
    assert masters_of(build("chunked-ring", 4)) is None
    assert masters_of(build("double-binary-tree", 4)) is None
    assert masters_of(hierarchical([[0, 1], [2, 3]])) is None
    assert masters_of(build("reduce-scatter", 4)) is None
    flat = masters_of(build("flat", 4, blocks=2))
    assert flat is not None and flat.groups == ((0, 1, 2, 3),) and flat.locals_of().tolist() == [2] * 4
    assert masters_of(two_level([[0, 1], [2, 3]], 4)) is not None


def test_masters_that_break_a_rule_cannot_be_written() -> None:
    home, local = np.array([0]), np.array([[0, 2]])
    Masters(groups=((0, 1), (2,)), home=home, local=local)
    for groups, other_home, other in (
        (((0, 1), (2,)), home, np.array([[2, 2]])),
        (((0, 1), (2,)), np.array([2]), local),
        (((0, 1), (1,)), home, local),
        (((0, 1), (2,)), home, np.array([[0]])),
    ):
        with pytest.raises(ValueError, match="master|groups"):
            Masters(groups=groups, home=other_home, local=other)


def test_as_few_pieces_as_possible_change_hands_and_evenly() -> None:
    held = np.resize(np.arange(4), 40)
    made = reassigned(held, [0, 1, 2, 3], [4, 12, 12, 12])
    assert np.bincount(made).tolist() == [4, 12, 12, 12]
    changed = np.flatnonzero(made != held)
    assert len(changed) == 6 and (held[changed] == 0).all()
    assert np.diff(changed).max() <= 8


def test_levels_ignore_noise_and_follow_what_lasts() -> None:
    rates = np.array([10.0, 11.0, 9.5, 4.0, np.nan])
    assert pooled(rates).tolist() == [10.0, 10.0, 10.0, 4.0, 10.0]
    assert pooled(np.full(2, np.nan)).tolist() == [1.0, 1.0]
    assert pooled(np.array([10.0, 11.9, 12.1, 8.4, 6.0])).tolist() == [10.0, 10.0, 12.1, 10.0, 6.0]


def test_readings_are_told_apart_from_what_becomes_of_most_hosts() -> None:
    usual = np.full(5, 10.0)
    recent = [np.array([7.0, 7.0, 13.0, 10.0, 0.0]), np.array([5.0, 6.5, 6.5, 5.0, np.nan])]
    found = against(recent, usual)
    assert (
        found[0, :4] == pytest.approx([7 / 8.5, 7 / 8.5, 13 / 8.5, 10 / 8.5]) and np.isnan(found[:, 4]).all()
    )
    assert found[1, :4] == pytest.approx([5 / 5.75, 6.5 / 5.75, 6.5 / 5.75, 5 / 5.75])
    assert np.isnan(against([np.full(5, np.nan)], usual)).all()


@pytest.mark.parametrize(
    ("windows", "kept"),
    [
        ([0.6, 0.78, 0.95], True),
        ([0.6, 0.62, 0.63], False),
        ([0.6, 0.75, 0.76], False),
        ([0.95, 0.9, 0.9], True),
    ],
)
def test_a_host_that_is_trusted_keeps_its_share_unless_it_sends_less_and_rises_no_more(
    windows: list[float], kept: bool
) -> None:
    def step(levels: Levels, *seen: float) -> list[str]:
        rows = [np.array([one, 1, 1, 1, 1, 1]) for one in seen]
        return [one.why for one in levels.step(rows)]

    even, little = np.full(6, 300.0), np.array([160.0, 328, 328, 328, 328, 328])
    levels = Levels(np.ones(6))
    levels.moved(even, anew=True)
    assert step(levels, 1, 1) == [] and step(levels, 0.4, 0.4) == ["sends"]
    levels.moved(little, anew=True)
    assert (
        step(levels, 0.35, 0.35) == []
        and step(levels, 0.36, 0.5) == []
        and step(levels, 0.5, 0.5) == ["sends"]
    )
    assert levels.now[0] == 1.0
    levels.moved(even, anew=True)
    found = step(levels, *windows[:2]) + step(levels, *windows[1:])
    assert (found == []) == kept and (levels.now[0] == 1.0) == kept


GROUPS = {"flat": [list(range(8))], "2lha": [list(range(4 * g, 4 * g + 4)) for g in range(4)]}


class Fleet:
    """Hosts whose slowest transfer is an iteration, read with noise."""

    def __init__(self, groups: list[list[int]], noise: float, seed: int = 1) -> None:
        self.masters = even_masters(groups, 320 if len(groups) == 1 else 160)
        self.work = carried(self.masters.groups)
        self.rates = np.full(self.masters.ranks, 1e7)
        self._noise, self._chance = noise, np.random.default_rng(seed)
        self.tuner = Tuner(self.masters, [f"h{i}" for i in range(self.masters.ranks)])

    def seconds(self, made: Masters | None = None) -> float:
        chosen = made or self.tuner.masters
        return float((self.work.of(chosen) * 4e6 / chosen.chunks / self.rates).max())

    def spread(self) -> float:
        load = self.work.of(self.tuner.masters)
        return float(load.max() / load.min())

    def step(self) -> str:
        count = len(self.rates)
        seen = self.rates * np.exp(self._chance.normal(0, self._noise, count))
        between = np.array([float(seen[list(own)].sum()) for own in self.masters.groups])
        seconds = self.seconds() * float(np.exp(self._chance.normal(0, self._noise)))
        reading = Reading(
            seconds=seconds, size_bytes=4e6, rates=seen, rtt_s=np.full(count, 2e-4), between=between
        )
        return self.tuner.step(reading).kind


@pytest.mark.parametrize("name", GROUPS)
def test_a_slowed_host_is_relieved_and_has_its_share_again_when_it_recovers(name: str) -> None:
    fleet = Fleet(GROUPS[name], 0.04)
    for _ in range(10):
        assert fleet.step() in ("wait", "keep")
    fleet.rates[0] *= 0.4
    untuned = fleet.seconds()
    for _ in range(15):
        fleet.step()
    assert untuned / fleet.seconds() > 1.7
    assert fleet.tuner.masters.locals_of()[0] <= 2
    fleet.rates[0] /= 0.4
    for _ in range(15):
        fleet.step()
    assert fleet.spread() < 1.05


@pytest.mark.parametrize("name", GROUPS)
def test_hosts_that_are_all_slower_change_nothing(name: str) -> None:
    fleet = Fleet(GROUPS[name], 0.04)
    for _ in range(5):
        fleet.step()
    fleet.rates *= 0.5
    assert {fleet.step() for _ in range(10)} <= {"wait", "keep"}


@pytest.mark.parametrize("name", GROUPS)
def test_ten_thousand_quiet_iterations_change_nothing(name: str) -> None:
    fleet = Fleet(GROUPS[name], 0.05, seed=2)
    assert {fleet.step() for _ in range(10_000 if LONG else 1000)} <= {"wait", "keep"}


def test_a_verdict_says_who_and_why() -> None:
    fleet = Fleet(GROUPS["flat"], 0.0)
    for _ in range(4):
        fleet.step()
    fleet.rates[3] *= 0.4
    fleet.step()
    count = len(fleet.rates)
    reading = Reading(
        seconds=1.0, size_bytes=4e6, rates=fleet.rates, rtt_s=np.zeros(count), between=np.array([1.0])
    )
    verdict = fleet.tuner.step(reading)
    assert verdict.kind == "quick" and "h3 40 -> 0" in verdict.text


def test_masters_with_which_everything_takes_longer_are_taken_back() -> None:
    """What hosts seem to send may mislead: what counts is how long the collectives take."""
    fleet = Fleet(GROUPS["2lha"], 0.0)
    before = fleet.tuner.masters
    kinds = []
    for step in range(12):
        rates = fleet.rates.copy()
        rates[0] *= 0.4 if step > 3 else 1.0
        harmed = fleet.tuner.masters is not before
        between = np.array([float(rates[list(own)].sum()) for own in before.groups])
        seconds = 1.5 if harmed else 1.0
        verdict = fleet.tuner.step(
            Reading(seconds=seconds, size_bytes=4e6, rates=rates, rtt_s=np.zeros(16), between=between)
        )
        kinds.append(verdict.kind)
    assert [kind for kind in kinds if kind in ("quick", "fine", "back")] == ["quick", "back"]
    assert fleet.tuner.masters is before


def test_masters_that_were_not_to_blame_come_again_after_they_were_taken_back() -> None:
    """The machine becomes busy just when masters move, and stays so with the masters before."""
    fleet = Fleet(GROUPS["2lha"], 0.0)
    before = fleet.tuner.masters
    kinds = []
    for step in range(14):
        rates = fleet.rates.copy()
        rates[0] *= 0.4 if step > 3 else 1.0
        between = np.array([float(rates[list(own)].sum()) for own in before.groups])
        seconds = 1.5 if step > 5 else 1.0
        verdict = fleet.tuner.step(
            Reading(seconds=seconds, size_bytes=4e6, rates=rates, rtt_s=np.zeros(16), between=between)
        )
        kinds.append(verdict.kind)
    assert [kind for kind in kinds if kind in ("quick", "back")] == ["quick", "back", "quick"]
    assert fleet.tuner.masters.locals_of()[0] == 0


def test_a_host_seen_half_recovered_has_its_share_in_the_end() -> None:
    """The window in which it recovered is half slow, half quick: what is seen first is not where it stays."""
    fleet = Fleet(GROUPS["flat"], 0.02)
    for _ in range(4):
        fleet.step()
    fleet.rates[0] *= 0.4
    for _ in range(5):
        fleet.step()
    assert fleet.spread() > 1.5
    for share in (1.5, 1.9, 2.5):
        fleet.rates[0] = 0.4e7 * share
        fleet.step()
    for _ in range(12):
        fleet.step()
    assert fleet.spread() < 1.05


def test_a_host_at_the_border_does_not_come_and_go() -> None:
    """Its rate is the one at which a host is a sixth slower than others: no more than two changes in 300 windows."""
    for share in (0.75, 0.8, 0.85):
        fleet = Fleet(GROUPS["flat"], 0.02)
        for _ in range(4):
            fleet.step()
        fleet.rates[0] *= share
        kinds = [fleet.step() for _ in range(300)]
        assert kinds.count("quick") <= 2


def test_the_kind_with_the_largest_role_is_dealt_first_each_to_who_is_done_first() -> None:
    """Roles of 5 and 0 come before two of 3, though their least is less: 5 or 6, and then 8 or 9, both for host 0."""
    roles, rates = (np.array([5.0, 0.0]), np.array([3.0, 3.0])), np.ones(2)
    assert _dealt(np.array([0.0, 6.0]), roles, (1, 1), rates) == ([1, 0], [1, 0])
    # Of two that are done at once the first; and one more goes to who is done first with it: 11 or 9.
    assert _dealt(np.array([0.0, 5.0]), roles, (1, 1), rates) == ([1, 0], [1, 0])
    assert _dealt(np.array([0.0, 6.0]), roles, (1, 2), rates) == ([1, 0], [1, 1])
