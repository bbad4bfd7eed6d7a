"""Faults, background flows and routers, as packets meet them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from netprobe.lab import Lab, LabHost, parse_spec, set_value, temporary
from tests.lab.conftest import by_rack

pytestmark = [pytest.mark.lab, pytest.mark.quiet]

Pairs = Sequence[tuple[LabHost, LabHost]]
Rtt = Callable[[Pairs, int], list[list[float]]]
Arrivals = Callable[[LabHost, LabHost, int], int]
MBIT_BYTES = 1e6 / 8

SPEC = """
name: faulty
racks: [3, 3]
faults:
- {host: rack0/0, loss: 30%}
- {src: rack0/1, dst: rack1/1, drop: true}
- {link: [rack0/1, rack1/2], delay: 1ms}
- {host: rack1/0, down: true}
- {host: rack0/2, jitter: 400us}
"""


@pytest.fixture(scope="module")
def faulty() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=11) as lab:
        yield lab


@pytest.fixture(scope="module")
def racks_of(faulty: Lab) -> list[list[LabHost]]:
    return by_rack(faulty)


def test_a_lossy_host_loses_both_ways_and_others_do_not(
    racks_of: list[list[LabHost]], arrivals: Arrivals
) -> None:
    (lossy, fine, _), (_, far, _) = racks_of
    # 30 % of 600: 180, with a standard deviation of 11.
    assert 110 < 600 - arrivals(lossy, fine, 600) < 250
    assert 110 < 600 - arrivals(far, lossy, 600) < 250
    assert arrivals(far, fine, 300) == 300


def test_a_black_hole_is_one_way_and_a_dead_host_is_silent(
    racks_of: list[list[LabHost]], arrivals: Arrivals
) -> None:
    (_, a, other), (dead, b, _) = racks_of
    assert arrivals(a, b, 50) == 0
    assert arrivals(b, a, 50) == 50
    assert arrivals(dead, other, 50) == arrivals(other, dead, 50) == 0


def test_extra_delay_is_added_on_its_link_alone_and_in_the_truth(
    faulty: Lab, racks_of: list[list[LabHost]], measure_rtt_s: Rtt
) -> None:
    (_, a, _), (_, b, slow) = racks_of
    readings, other = measure_rtt_s([(slow, a), (slow, b)], 60)
    # The least of them: a busy machine adds to readings, and takes nothing away.
    assert 2.3e-3 - 1e-6 <= min(readings) <= 3e-3
    assert 100e-6 - 1e-6 <= min(other) <= 1e-3
    truth = faulty.truth()
    at = {host.name: index for index, host in enumerate(truth.hosts)}
    assert truth.rtt_s[at[a.name], at[slow.name]] == pytest.approx(2.3e-3)
    assert truth.rtt_s[at[b.name], at[slow.name]] == pytest.approx(100e-6)
    assert [fault.host for fault in truth.faults if fault.is_black_hole and fault.host] == [
        racks_of[1][0].name
    ]


def test_jitter_spreads_round_trips(racks_of: list[list[LabHost]], measure_rtt_s: Rtt) -> None:
    (_, fine, jittery), _ = racks_of
    (readings,) = measure_rtt_s([(fine, jittery)], 150)
    ordered = sorted(readings)
    # Of two draws from 0 to 400 us: their sum is 400 us in the mean, and seldom near either end. A busy machine
    # adds to it.
    assert 100e-6 - 1e-6 <= ordered[0] <= 500e-6
    assert ordered[75] - 100e-6 >= 300e-6
    assert ordered[-15] - ordered[15] >= 250e-6


def test_several_paths_are_told_apart_by_ports_and_one_flow_keeps_its_path(
    small_lab: Lab, racks: list[list[LabHost]], measure_rtt_s: Rtt
) -> None:
    pair = (racks[0][0], racks[1][0])
    set_value(small_lab, f"{pair[0].name}:{pair[1].name}", "paths", "0us,5ms")
    try:
        least = [min(readings) for readings in measure_rtt_s([pair] * 12, 12)]
    finally:
        set_value(small_lab, "all", "faults", "none")
    # Each direction chooses: 0.3, 5.3 or 10.3 ms, and 12 ports are all the same once in 4^11.
    steps = [(rtt_s - 300e-6) / 5e-3 for rtt_s in least]
    assert all(abs(step - round(step)) < 0.3 and round(step) in (0, 1, 2) for step in steps)
    assert len({round(step) for step in steps}) >= 2
    (after,) = measure_rtt_s([pair], 20)
    assert min(after) < 3e-3


def test_faults_come_and_go_while_the_lab_runs(
    small_lab: Lab, racks: list[list[LabHost]], arrivals: Arrivals
) -> None:
    a, b = racks[0][0], racks[1][0]
    for what, key, on, off in (
        (a.name, "down", "true", "false"),
        (f"{a.name}>{b.name}", "drop", "true", "false"),
        ("rack0:rack1", "loss", "100%", "0%"),
        ("rack0/0", "loss", "100%", "0%"),
    ):
        set_value(small_lab, what, key, on)
        assert arrivals(a, b, 20) == 0, what
        set_value(small_lab, what, key, off)
        assert arrivals(a, b, 20) == 20, what


def test_background_flows_take_room_on_links(
    small_lab: Lab,
    racks: list[list[LabHost]],
    measure_goodput: Callable[[Pairs], list[float]],
    measure_rtt_s: Rtt,
) -> None:
    a, b = racks[0][0], racks[1][0]
    busy, spare = racks[0][1], racks[1][1]
    try:
        set_value(small_lab, "rack0", "uplink_rate", "100Mbit/s")
        set_value(small_lab, f"{busy.name}>{spare.name}", "background", "60Mbit/s")
        before, started = small_lab.stats(), time.monotonic()
        (goodput,) = measure_goodput([(a, b)])
        after, seconds = small_lab.stats(), time.monotonic() - started
        # What the flow of 60 leaves of 100, which it does not yield; less on a busy machine.
        assert 0 < goodput < 60 * MBIT_BYTES
        made = sum(after[key] - before[key] for key in ("background_sent", "background_dropped"))
        # The switch never hurries, but for a moment in which it stood still.
        assert 0.3 * 60 * MBIT_BYTES < made * 1514 / seconds < 1.4 * 60 * MBIT_BYTES
        (inside,) = measure_rtt_s([(racks[1][0], racks[1][1])], 60)
        # No other link notices: the least reading, since the machine may be busy.
        assert min(inside) < 300e-6
    finally:
        set_value(small_lab, "all", "background", "none")
        set_value(small_lab, "all", "uplink_rate", "unlimited")
    time.sleep(0.05)
    before = small_lab.stats()
    time.sleep(0.05)
    assert small_lab.stats()["background_sent"] == before["background_sent"]


def test_routers_between_racks_answer_and_say_what_fits(
    routers_between: Callable[[LabHost, LabHost, int], list[float]],
) -> None:
    text = "{name: routed, racks: [2, 2], routers: true, faults: [{racks: [0, 1], mtu: 1400}]}"
    with temporary(parse_spec(text), seed=2) as lab:
        (a, near), (b, _) = by_rack(lab)
        assert routers_between(a, b, 1450) == [2, 3, 0, 1400]
        assert routers_between(b, a, 1300) == [3, 2, 0, 1500]
        assert routers_between(a, near, 1450) == [0, 1500]
