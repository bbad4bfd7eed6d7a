"""When probes leave: half an interval to one and a half after the one before, whatever held the sender up."""

from __future__ import annotations

import itertools

import pytest

from netprobe.probe.agent import pacing
from netprobe.probe.agent.pacing import Pacer


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000_007

    def monotonic_ns(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pacing, "time", made)
    return made


def gaps(pacer: Pacer, clock: Clock, count: int, late: int = 0) -> list[int]:
    found = []
    for _ in range(count):
        before = pacer.due
        clock.now = pacer.due + late
        pacer.advance()
        found.append(pacer.due - before)
    return found


def test_spacing_is_uniform_between_half_and_one_and_a_half_intervals(clock: Clock) -> None:
    pacer = Pacer(1000, 7)
    assert pacer.due == clock.now
    found = gaps(pacer, clock, 20_000)
    assert min(found) == 500 and max(found) == 1499
    assert sum(found) / len(found) == pytest.approx(1000, abs=8)
    for part in range(10):  # a tenth of them in each tenth
        inside = sum(500 + 100 * part <= gap < 600 + 100 * part for gap in found)
        assert inside == pytest.approx(2000, abs=180)
    # One gap says nothing of the next.
    pairs = sum((a - 1000) * (b - 1000) for a, b in itertools.pairwise(found)) / len(found)
    assert abs(pairs) < 3000


def test_a_sender_that_is_late_loses_no_more_than_an_interval(clock: Clock) -> None:
    """Late by less than an interval it catches up; after a stall it goes on from there, without a burst."""
    pacer = Pacer(1000, 3)
    assert 500 <= gaps(pacer, clock, 1, late=999)[0] < 1500
    assert 500 <= gaps(pacer, clock, 1, late=1000)[0] < 1500
    for stall in (1001, 50_000):
        before = pacer.due
        (gap,) = gaps(pacer, clock, 1, late=stall)
        assert stall - 1000 + 500 <= gap < stall - 1000 + 1500
        assert pacer.due > before
    due = [pacer.due]
    for _ in range(3):
        pacer.advance()
        due.append(pacer.due)
    assert all(later - earlier >= 500 for earlier, later in itertools.pairwise(due))


def test_series_of_other_numbers_are_not_in_step(clock: Clock) -> None:
    one, other, again = Pacer(1000, 1), Pacer(1000, 2), Pacer(1000, 1)
    courses = [gaps(pacer, Clock(), 30) for pacer in (one, other)]
    clock.now = 1_000_000_007
    assert courses[0] != courses[1]
    assert gaps(again, clock, 30) != courses[1]
    assert Pacer(1, 0).random != 0
