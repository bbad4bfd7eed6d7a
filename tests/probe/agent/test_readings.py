"""Round-trip times out of stamps, with clocks that differ, step, and stamps that are missing."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.agent.stamp.packet import Reply
from netprobe.probe.agent.stamp.readings import SeriesReadings

DAY = 86_400 * 10**9
US = 1000
START = 10**12


class Link(NamedTuple):
    """The true RTT, how far the reflector's clock is ahead, and how long the reflector takes to reply (ns)."""

    offset: int = 3 * DAY
    rtt: int = 100 * US
    held: int = 40 * US


def run(
    count: int,
    link: Link = Link(),  # noqa: B008
    *,
    kernel: bool = True,
    reflector_kernel: bool = True,
    step_sender_at: int | None = None,
    step: int = -2 * 10**9,
    lose: frozenset[int] = frozenset(),
    repeat: frozenset[int] = frozenset(),
) -> SeriesReadings:
    """A series over ``link``."""
    offset, rtt, held = link
    readings = SeriesReadings(count, 10**9)
    stepped = 0
    last = (0, 0, False)
    for seq in range(count + 2):
        leaves = START + seq * 1000 * US
        readings.sent(seq, leaves + stepped - 5 * US, leaves - 5 * US)
        if kernel:
            readings.left(seq, leaves + stepped)
        if seq == step_sender_at:
            stepped += step
        arrives = leaves + rtt // 2 + offset
        departs = arrives + held
        if seq in lose:
            continue
        reply = Reply(seq, arrives, reflector_kernel, departs - 3 * US, last[0], last[1], last[2])
        last = (seq, departs, reflector_kernel)
        back = leaves + rtt + held
        for _ in range(2 if seq in repeat else 1):
            readings.answered(
                reply, back + stepped if kernel else 0, back + stepped + 30 * US, back + 30 * US
            )
    return readings


def test_full_stamps_give_the_true_rtt_whatever_the_clocks_say() -> None:
    level, samples, rejected = run(20).result(START)
    assert (level, rejected) == ("kernel", 0)
    assert [seq for seq, _, _ in samples] == list(range(1, 21))
    assert {rtt for _, _, rtt in samples} == {100 * US}
    assert samples[0][1] == 1000 * US - 5 * US


def test_without_transmit_stamps_of_the_reflector_the_level_says_so() -> None:
    level, samples, _ = run(20, reflector_kernel=False).result(START)
    assert level == "user" and len(samples) == 20
    level, samples, _ = run(20, kernel=False).result(START)
    assert level == "user" and all(rtt >= 100 * US for _, _, rtt in samples)


def test_all_samples_of_a_series_have_one_level() -> None:
    readings = run(20)
    for seq in (3, 4):
        readings.trips[seq].t1_kernel = 0
    level, samples, _ = readings.result(START)
    assert level == "kernel" and [s for s, _, _ in samples] == [1, 2, *range(5, 21)]
    for seq in range(5, 15):
        readings.trips[seq].t1_kernel = 0
    level, samples, _ = readings.result(START)
    assert level == "kernel_rx" and len(samples) == 20


def test_a_clock_step_costs_one_reading_and_moves_no_other() -> None:
    for step in (-2 * 10**9, 2 * 10**9, -150 * US, 10**6):
        level, samples, rejected = run(20, step_sender_at=7, step=step).result(START)
        assert (level, rejected, len(samples)) == ("kernel", 1, 19), step
        assert {rtt for _, _, rtt in samples} == {100 * US}


def test_the_first_arrival_is_dropped_by_order_of_arrival_not_by_value() -> None:
    readings = run(3)
    assert readings.received == 3  # the warm-up is not a probe of the series
    readings = run(3, lose=frozenset({0}))
    _, samples, _ = readings.result(START)
    assert [seq for seq, _, _ in samples] == [2, 3]
    assert readings.received == 3


def test_duplicates_are_counted_and_change_nothing() -> None:
    readings = run(10, repeat=frozenset({2, 3, 9}))
    assert (readings.received, readings.duplicates) == (10, 3)
    assert len(readings.result(START)[1]) == 10


@pytest.mark.parametrize("late", [0, 30 * US, 500 * US])
def test_of_two_departures_that_are_told_of_one_probe_the_first_counts(late: int) -> None:
    """As a far end tells that answers a probe twice, and knows only of its last answer."""
    readings, last = SeriesReadings(10, 10**9), (0, 0, False)
    for seq in range(12):
        leaves = START + seq * 1000 * US
        readings.sent(seq, leaves - 5 * US, leaves - 5 * US)
        readings.left(seq, leaves)
        for after in (0, late) if seq == 5 else (0,):
            arrives = leaves + 50 * US + 3 * DAY + after
            departs = arrives + 40 * US
            reply = Reply(seq, arrives, True, departs - 3 * US, *last)
            last = (seq, departs, True)
            back = departs - 3 * DAY + 50 * US
            readings.answered(reply, back, back + 30 * US, back + 30 * US)
    assert readings.duplicates == 1
    assert [rtt for _seq, _sent, rtt in readings.result(START)[1]] == [100 * US] * 10


def test_losses_are_losses_and_cost_the_stamp_before_them() -> None:
    readings = run(10, lose=frozenset({5}))
    assert readings.received == 9
    # The reply to 6 reports the departure of 4's, the one before it.
    assert [s for s, _, _ in readings.result(START)[1]] == [1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_a_reply_after_the_time_out_is_lost() -> None:
    readings = SeriesReadings(1, 10**6)
    readings.sent(1, START, START)
    late = START + 2 * 10**6
    for stamp in (0, late, START - 5):  # no stamp, a late one, and one of a clock that stepped back
        readings.answered(Reply(1, 1, True, 2, 0, 0, False), stamp, late, late)
    assert readings.received == 0


def test_a_reply_that_waited_in_the_queue_is_judged_by_its_stamp() -> None:
    readings = SeriesReadings(1, 10**6)
    readings.sent(1, START, START)
    readings.answered(Reply(1, 1, True, 2, 0, 0, False), START + 300 * US, START + 10**7, START + 10**7)
    assert readings.received == 1
    assert readings.longest_ns == 300 * US


def test_a_reply_to_nothing_is_ignored() -> None:
    readings = SeriesReadings(1, 10**9)
    readings.answered(Reply(9, 1, True, 2, 0, 0, False), 3, 4, 5)
    assert readings.received == 0 and readings.result(0) == (None, [], 0)


@given(
    st.integers(-10 * DAY, 10 * DAY), st.integers(1 * US, 10**8), st.integers(0, 10**8), st.integers(1, 30)
)
def test_the_rtt_depends_on_no_clock_and_no_delay_at_the_reflector(
    offset: int, rtt: int, held: int, count: int
) -> None:
    level, samples, rejected = run(count, Link(offset, rtt, held)).result(START)
    assert (level, rejected) == ("kernel", 0)
    assert {value for _, _, value in samples} == {rtt}
