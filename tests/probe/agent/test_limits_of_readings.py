"""On which side of its limit a reading is kept, rejected or lost."""

from __future__ import annotations

import pytest

from netprobe.probe.agent.round_trips import SLACK_NS, RoundTrips
from netprobe.probe.agent.stamp.packet import Reply
from netprobe.probe.agent.stamp.readings import MONOTONIC_SLACK_NS, SeriesReadings, p10_ranks

T, M = 1_700_000_000_000_000_000, 5_000_000_000
"""Time of day of the sender, and its monotonic clock; the reflector's clock is elsewhere."""
THERE = 42_000_000_000


def reply(
    seq: int, t2: int = THERE, t3: int = THERE, *, kernel: bool = True, before: tuple[int, int] = (0, 0)
) -> Reply:
    return Reply(seq, t2, kernel, t3, before[0], before[1], kernel)


def series(
    *, left: int | None = 0, took: int = 1000, held: int = 10, t4: int = 1000, timeout: int = 10**6
) -> SeriesReadings:
    """A warm-up, probe 1, and a flush that tells when the reply to probe 1 left; ns from probe 1's own times."""
    readings = SeriesReadings(1, timeout)
    readings.sent(0, T - 9000, M - 9000)
    readings.answered(reply(0), T - 8000, T - 8000, M - 8000)
    readings.sent(1, T, M)
    if left is not None:
        readings.left(1, T + left)
    readings.answered(reply(1, THERE, THERE + held), T + t4, T + t4, M + took)
    readings.sent(2, T + 5000, M + 5000)
    readings.answered(reply(2, before=(1, THERE + held)), T + 6000, T + 6000, M + 6000)
    return readings


def samples(readings: SeriesReadings) -> tuple[str | None, list[int], int]:
    level, found, rejected = readings.result(M - 100)
    assert all(sent_at == 100 for _, sent_at, _ in found)
    return level, [rtt for *_, rtt in found], rejected


@pytest.mark.parametrize(
    ("changes", "rtt"),
    [
        ({}, 990),
        ({"left": 300}, 690),
        ({"held": 0}, 1000),
        ({"held": -1}, None),
        ({"held": 999}, 1),
        ({"held": 1000}, None),
        # The clock of the day may be ahead of the monotonic one by no more than it can be slewed.
        ({"t4": 1000 + MONOTONIC_SLACK_NS}, 990 + MONOTONIC_SLACK_NS),
        ({"t4": 1001 + MONOTONIC_SLACK_NS}, None),
    ],
)
def test_a_reading_that_cannot_be_is_rejected(changes: dict[str, int], rtt: int | None) -> None:
    assert samples(series(**changes)) == ("kernel", [] if rtt is None else [rtt], int(rtt is None))


def test_without_the_stamp_of_leaving_it_is_that_of_user_space() -> None:
    """T1 by user space, T3 as the reply itself has it; a stamp from before the probe is another packet's."""
    assert samples(series(left=None)) == ("kernel_rx", [990], 0)
    assert samples(series(left=-1)) == ("kernel_rx", [990], 0)
    assert samples(series(left=1)) == ("kernel", [989], 0)


@pytest.mark.parametrize(
    ("took", "t4", "lost"),
    [
        (5000, 0, False), (5001, 0, True),
        # It may have waited in the queue: its stamp of receipt counts, if that is between the two.
        (5001, 5000, False), (9000, 5001, True), (9000, 9000, True), (5001, -3, True), (4000, 9000, False),
    ],
)  # fmt: skip
def test_a_reply_is_late_by_its_stamp_or_by_when_it_was_taken_up(took: int, t4: int, lost: bool) -> None:
    readings = SeriesReadings(1, 5000)
    readings.sent(1, T, M)
    readings.answered(reply(1), T + t4 if t4 else 0, T + took, M + took)
    assert readings.is_answered(1) is not lost and readings.received == (not lost)
    assert readings.longest_ns == (0 if lost else t4 if 0 < t4 < took else took)


def test_the_level_is_the_best_that_half_of_the_readings_have() -> None:
    for stamped, level, count in ((2, "kernel", 2), (1, "kernel_rx", 4)):
        readings = SeriesReadings(4, 10**6)
        readings.sent(0, T - 9000, M - 9000)
        readings.answered(reply(0), T - 8000, T - 8000, M - 8000)
        for seq in range(1, 6):
            at = 10_000 * seq
            readings.sent(seq, T + at, M + at)
            if seq <= stamped:
                readings.left(seq, T + at + 1)
            before = (seq - 1, THERE + 10) if seq > 1 else (0, 0)
            answer = reply(seq, THERE, THERE + 10, before=before)
            readings.answered(answer, T + at + 1000, T + at + 1000, M + at + 1000)
        found, kept, rejected = readings.result(M)
        assert (found, len(kept), rejected, readings.received) == (level, count, 0, 4)


def test_ranks_around_the_tenth_percentile() -> None:
    """The tenth of so many, 1.96 deviations of a binomial of p = 0.1 aside, outwards."""
    assert [p10_ranks(count) for count in (25, 36, 100, 200, 1000)] == [
        (1, 7), (1, 9), (4, 17), (11, 30), (81, 120)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "rx", "level", "rtts"),
    [
        ((900, 910), (950, 960), "kernel", [900, 910]),
        ((900, 0), (950, 960), "kernel", [900]),
        ((0, 0), (950, 0), "kernel_rx", [950]),
        ((0, 0), (0, 0), "user", [1000, 1000]),
        ((1000 + SLACK_NS, 1001 + SLACK_NS), (0, 0), "kernel", [1000 + SLACK_NS]),
        ((1, -5), (0, 0), "kernel", [1]),
    ],
)
def test_round_trips_by_their_sender_alone(
    kernel: tuple[int, int], rx: tuple[int, int], level: str, rtts: list[int]
) -> None:
    trips = RoundTrips(2, 5000)
    trips.sent(0, 100)
    assert trips.answered(0, 600)
    for seq in (1, 2):
        trips.sent(seq, 1000 * seq)
        assert trips.answered(seq, 1000 * seq + 1000)
        trips.by_kernel(seq, kernel[seq - 1])
        trips.by_kernel(seq, rx[seq - 1], "kernel_rx")
    found, kept, rejected = trips.result(400)
    assert (found, [rtt for *_, rtt in kept]) == (level, rtts)
    assert [sent_at for _, sent_at, _ in kept] == [1000 * seq - 400 for seq, *_ in kept]
    having = {"kernel": kernel, "kernel_rx": rx, "user": (1, 1)}[level]
    assert rejected == sum(value != 0 for value in having) - len(rtts)
    assert (trips.sent_count, trips.received, trips.longest_ns) == (2, 2, 1000)


def test_an_answer_of_a_sender_alone_is_late_by_what_is_known_best() -> None:
    for took, better, answered in (
        (5000, 0, True),
        (5001, 0, False),
        (5001, 5000, True),
        (5001, 5001, False),
    ):
        trips = RoundTrips(1, 5000)
        trips.sent(1, 100)
        assert trips.answered(1, 100 + took, better) is answered
        assert trips.answered(1, 100 + took, better) is False and trips.duplicates == answered
    assert trips.answered(7, 100) is False
