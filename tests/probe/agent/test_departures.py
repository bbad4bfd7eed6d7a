"""Probes that a network delivers twice, late or not at all: no reading is made of two packets' stamps."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.agent.stamp import departures, packet
from netprobe.probe.agent.stamp.departures import WINDOW, Departures
from netprobe.probe.agent.stamp.packet import Reply
from netprobe.probe.agent.stamp.readings import SeriesReadings

US = 1000
START, AHEAD = 10**12, 3 * 86_400 * 10**9
SPACING, HELD = 100 * US, 40 * US
WARM_UP, OTHER = b"warm-up1", b"warm-up2"


class Copy(NamedTuple):
    """A packet that arrives: ``there`` ns after it left, and the copies of its reply so long after that left."""

    there: int
    back: tuple[int, ...]


def run(count: int, network: dict[int, list[Copy]], *, kernel: bool = True) -> SeriesReadings:
    """A series whose probe n arrives as ``network[n]`` says (else once, 50 us either way), flush included."""
    readings, reflector = SeriesReadings(count, 10**9), Departures()
    events: list[tuple[int, int, str, Any]] = []
    number = 0

    def later(at: int, kind: str, what: Any) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (at, number, kind, what))

    for seq in range(count + 2):
        leaves = START + seq * SPACING
        readings.sent(seq, leaves - 5 * US, leaves - 5 * US)
        readings.left(seq, leaves)
        for copy in network.get(seq, [Copy(50 * US, (50 * US,))]):
            later(leaves + copy.there, "probe", (seq, copy))
    while events:
        now, _number, kind, what = heapq.heappop(events)
        if kind == "probe":
            seq, copy = what
            previous, session = reflector.arrived("sender", seq, WARM_UP)
            departs = now + HELD
            if session is not None:
                departures.leaves(session, seq, departs + AHEAD - 3 * US)
                if kernel:
                    departures.left(session, seq, departs + AHEAD)
            reply = Reply(
                seq, now + AHEAD, True, departs + AHEAD - 3 * US,
                previous[0], previous[1], previous[2] == packet.METHOD_SOFTWARE,
            )  # fmt: skip
            for back in copy.back:
                later(departs + back, "reply", reply)
        else:
            readings.answered(what, now, now + 30 * US, now + 30 * US)
    return readings


@pytest.mark.parametrize("late", [1, 30 * US, 60 * US, 250 * US, 2_000 * US])
@pytest.mark.parametrize("kernel", [True, False])
def test_a_copy_of_a_probe_changes_no_reading(late: int, kernel: bool) -> None:
    twice = {seq: [Copy(50 * US, (50 * US,)), Copy(50 * US + late, (50 * US,))] for seq in (3, 4, 7)}
    for network in ({}, twice):
        readings = run(10, network, kernel=kernel)
        level, samples, rejected = readings.result(START)
        assert (level, rejected, readings.duplicates) == (
            "kernel" if kernel else "kernel_rx",
            0,
            len(network),
        )
        assert [seq for seq, _sent, _rtt in samples] == list(range(1, 11))
        wanted = 100 * US if kernel else 100 * US + 5 * US + 3 * US
        assert {rtt for _seq, _sent, rtt in samples} == {wanted}


def test_a_probe_whose_copy_alone_is_answered_has_no_reading_and_is_not_lost() -> None:
    readings = run(10, {5: [Copy(50 * US, ()), Copy(80 * US, (50 * US,))]})
    assert (readings.received, readings.duplicates) == (10, 0)
    # The answer that was lost would have shown when that to probe 4 left.
    assert [seq for seq, _sent, _rtt in readings.result(START)[1]] == [1, 2, 3, 6, 7, 8, 9, 10]


def test_a_reply_that_is_overtaken_by_that_to_the_copy_is_not_mixed_with_it() -> None:
    readings = run(10, {5: [Copy(50 * US, (500 * US,)), Copy(80 * US, (50 * US,))]})
    assert {rtt for _seq, _sent, rtt in readings.result(START)[1]} == {100 * US}
    assert (readings.received, readings.duplicates) == (10, 1)


def test_probes_that_overtake_each_other_have_their_readings() -> None:
    readings = run(10, {4: [Copy(50 * US + 2 * SPACING + US, (50 * US,))]})
    samples = {seq: rtt for seq, _sent, rtt in readings.result(START)[1]}
    assert samples == {seq: 100 * US if seq != 4 else 301 * US for seq in range(1, 11)}


def delays(most: int) -> st.SearchStrategy[int]:
    return st.integers(1, most)


@given(
    st.dictionaries(
        st.integers(0, 21),
        st.lists(
            st.builds(Copy, delays(500 * US), st.lists(delays(500 * US), max_size=3).map(tuple)), max_size=3
        ),
    )
)
def test_whatever_arrives_in_whatever_order_a_reading_is_one_packets_way(
    network: dict[int, list[Copy]],
) -> None:
    readings = run(20, network)
    level, samples, rejected = readings.result(START)
    assert rejected == 0
    for seq, _sent, rtt in samples:
        first, *_ = sorted(network.get(seq, [Copy(50 * US, (50 * US,))]), key=lambda copy: copy.there)
        over = 0 if level == "kernel" else 8 * US  # T1 and T3 of user space
        assert rtt - over in {first.there + back for back in first.back}
    assert len(samples) <= readings.received <= 20


def test_a_new_series_from_the_same_port_and_number_begins_anew() -> None:
    reflector = Departures()
    for seq in range(4):
        _previous, session = reflector.arrived("a", seq, WARM_UP)
        assert session is not None
        departures.leaves(session, seq, 7)
    assert reflector.arrived("a", 0, WARM_UP) == ((0, 0, 0), None)  # a copy of the warm-up
    assert reflector.arrived("a", 3, b"") == ((3, 7, packet.METHOD_USER), None)
    previous, session = reflector.arrived("a", 0, OTHER)
    assert previous == (0, 0, 0) and session is not None
    assert reflector.arrived("a", 1, b"")[1] is session


def test_numbers_far_apart_take_no_room_and_old_ones_count_as_copies() -> None:
    reflector = Departures()
    _previous, session = reflector.arrived("a", 5, b"")
    assert session is not None
    for seq, is_copy in ((2**32 - 1, False), (2**32 - 1 - WINDOW, True), (2**32 - WINDOW, False), (5, True)):
        assert (reflector.arrived("a", seq, b"")[1] is None) == is_copy
    assert session.seen.bit_length() <= WINDOW


def test_many_senders_cost_the_oldest_ones_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "MAX_SENDERS", 8)
    reflector = Departures()
    for sender in range(100):
        reflector.arrived(sender, 1, b"")
        assert len(reflector.sessions) <= 8 and sender in reflector.sessions
        assert sender == 0 or sender - 1 in reflector.sessions
