"""What a scan will cost: arithmetic that agrees with the rounds, and a pace that stays below its rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InfeasibleError
from netprobe.probe.methods.base import Cost
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.rounds.circle import two_passes
from netprobe.probe.scan.estimate import (
    HEADER_BYTES,
    cut_short,
    estimate_phase,
    full_mesh,
    link_rate,
    pace_under,
    wire_bytes,
)


def cost_at(interval_s: float) -> Cost:
    return Stamp(ScanOptions(interval_s=interval_s)).cost()


@pytest.mark.parametrize("hosts", [1, 2, 3, 4, 7, 16, 33])
def test_the_extent_is_that_of_the_rounds(hosts: int) -> None:
    rounds = two_passes(range(hosts))
    extent = full_mesh(hosts)
    assert (extent.rounds, extent.links) == (len(rounds), sum(map(len, rounds)))


@pytest.mark.parametrize("at_once", [0, 1, 3, 8])
def test_split_rounds_are_counted_as_the_session_splits_them(at_once: int) -> None:
    rounds = two_passes(range(16))
    split = sum(-(-len(links) // (at_once or len(links))) for links in rounds)
    phase = estimate_phase("rtt", "stamp", cost_at(0.001), full_mesh(16), links_at_once=at_once)
    assert phase.rounds == split and phase.links == 240
    assert phase.links_at_once == (at_once or 8)
    # 100 probes, a warm-up and a flush, each with its reply: 92 bytes, UDP, IPv4 and Ethernet.
    assert phase.bytes == 240 * 2 * 102 * (92 + 8 + HEADER_BYTES)
    assert phase.seconds > split * 0.102


@given(
    rate=st.floats(1e3, 1e10),
    hosts=st.integers(1, 5000),
    interval_s=st.floats(5e-5, 1.0),
    at_once=st.integers(0, 64),
)
def test_a_pace_stays_below_its_rate_or_is_refused(
    rate: float, hosts: int, interval_s: float, at_once: int
) -> None:
    try:
        pace = pace_under(
            rate, [("rtt", cost_at(interval_s))], hosts=hosts, interval_s=interval_s, links_at_once=at_once
        )
    except InfeasibleError:
        assert link_rate(cost_at(1.0)) > rate * 0.999
        return
    assert pace.links_at_once >= 1 and pace.interval_s >= interval_s
    assert pace.links_at_once * link_rate(cost_at(pace.interval_s)) <= rate * 1.000001
    assert pace.links_at_once <= max(1, hosts // 2) and (not at_once or pace.links_at_once <= at_once)


def test_what_cannot_be_slowed_down_is_refused_with_what_it_needs() -> None:
    flow = Cost(seconds=0.5, bytes=62_500_000)
    costs = [("rtt", cost_at(0.001)), ("goodput", flow)]
    with pytest.raises(
        InfeasibleError, match="less than one link of goodput needs .* give 1.03 Gbit/s or more"
    ):
        pace_under(1.25e6, costs, hosts=8, interval_s=0.001)
    assert pace_under(2 * wire_bytes(flow) / 0.5, costs, hosts=8, interval_s=0.001).links_at_once == 2
    with pytest.raises(InfeasibleError, match="leave --interval out, or give a longer one"):
        pace_under(1e4, costs[:1], hosts=8, interval_s=0.001, stretch=False)


def test_a_phase_that_may_not_take_so_long_is_cut_short() -> None:
    whole = estimate_phase("rtt", "stamp", cost_at(0.001), full_mesh(16))
    assert cut_short(whole, whole.seconds) is whole
    half = cut_short(whole, whole.seconds / 2)
    assert (half.rounds, half.links, half.bytes) == (15, 120, whole.bytes / 2)
    assert cut_short(whole, -1.0).links == 0 and cut_short(whole, -1.0).seconds == 0
