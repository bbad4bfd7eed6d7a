"""Choices on networks small enough to be worked out by hand."""

from __future__ import annotations

import itertools

import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.errors import InputError
from netprobe.plan.auto.candidates import (
    Candidate,
    Groups,
    flat_candidates,
    two_level_candidates,
    with_shares,
)
from netprobe.plan.auto.choice import LEAST_BYTES, MOST_BYTES, Chooser
from netprobe.plan.auto.known import known_network
from tests.maps import HOST_BYTES_PER_S, INSIDE_S, made_capacity, made_map

RATE, ALPHA_S = HOST_BYTES_PER_S, INSIDE_S / 2


def chooser(
    map_: Map, capacity: Capacity | None, *algorithms: str, grouped: bool = False, two_level: bool = False
) -> Chooser:
    hosts = [h.name for h in map_.hosts]
    orders = {"original": hosts}
    if grouped:
        orders["by group"] = [name for group in map_.groups for name in group.hosts]
    made: list[Candidate] = flat_candidates(dict.fromkeys(algorithms, orders))
    if two_level:
        groups: Groups = with_shares("natural", [g.hosts for g in map_.groups], hosts, capacity)
        made += two_level_candidates(hosts, groups, None, chunk_bytes=None)
    return Chooser(known=known_network(map_, hosts, capacity), candidates=made)


def test_on_one_switch_short_messages_double_and_long_ones_halve() -> None:
    """8 hosts: 3 (a + s) against 6 a + 7/4 s, a the latency and s the bytes over the rate: equal at s = 2.4 a."""
    map_ = made_map([8])
    found = chooser(map_, made_capacity(map_), "chunked-ring", "halving-doubling", "recursive-doubling")
    small, large = found.decide(1000), found.decide(10**8)
    assert (small.candidate.algorithm, small.reason) == ("recursive-doubling", "faster")
    assert (large.candidate.algorithm, large.reason) == ("halving-doubling", "close")
    assert found.time_s(small.candidate, 1000) == pytest.approx(3 * (ALPHA_S + 1000 / RATE))
    assert found.time_s(large.candidate, 10**8) == pytest.approx(6 * ALPHA_S + 1.75 * 10**8 / RATE)
    # The long ones' choice holds until another is 5 % faster: 3.15 (a + s) < 6 a + 7/4 s.
    low, high = found.ranges(large)
    edge = 2.85 / 1.4 * ALPHA_S * RATE
    assert low.candidate is not None and low.candidate.algorithm == "recursive-doubling"
    assert high.candidate is not None and high.candidate.algorithm == "halving-doubling"
    assert low.last_bytes + 1 == high.first_bytes and edge / 1.1 <= high.first_bytes <= edge * 1.1


def test_behind_narrow_uplinks_groups_win_over_random_orders() -> None:
    """4 racks of 4, 4:1, shuffled: a ring by group sends one flow over an uplink, a random one several."""
    map_ = made_map([4, 4, 4, 4], seed=1)
    capacity = made_capacity(map_, uplink=RATE)
    found = chooser(map_, capacity, "chunked-ring", "halving-doubling", grouped=True, two_level=True)
    decision = found.decide(10**8)
    assert decision.reason == "faster" and decision.baseline.order_name == "original"
    best = found.time_s(decision.candidate, 10**8)
    assert decision.candidate.algorithm == "2lha" or decision.candidate.order_name == "by group"
    # 30 (a + s / 16) of the ring by group: no schedule sends less than 30/16 s through a host.
    assert 30 / 16 <= best <= 30 / 16 * 1.02 * 1.02
    halving = next(
        c for c in found.candidates if c.algorithm == "halving-doubling" and c.order_name == "original"
    )
    assert found.time_s(halving, 10**8) > 2 * best
    rows = found.table(decision)
    assert rows[0].candidate is decision.candidate and rows[0].prediction is not None
    # A bound is at most what the candidate takes.
    for row in rows:
        if row.at_least_s is not None:
            assert row.at_least_s <= found.time_s(row.candidate, 10**8) * (1 + 1e-9)


def test_a_new_order_is_not_taken_for_nothing() -> None:
    map_ = made_map([4, 4], seed=3)
    capacity = made_capacity(map_, uplink=1e12)
    decision = chooser(map_, capacity, "chunked-ring", "halving-doubling", grouped=True).decide(10**8)
    assert decision.candidate.order_name == "original" and decision.reason == "close"


def test_capacities_that_are_lower_bounds_make_no_winner() -> None:
    """The uplinks carry at least what was measured: if far more, the random order is as good."""
    map_ = made_map([4, 4, 4, 4], seed=1)
    ends = [f"{kind}:{group.id}" for kind in ("up", "down") for group in map_.groups]
    sure = chooser(map_, made_capacity(map_), "chunked-ring", "halving-doubling", grouped=True).decide(10**8)
    assert sure.reason == "faster"
    found = chooser(
        map_, made_capacity(map_, at_least=ends), "chunked-ring", "halving-doubling", grouped=True
    )
    open_ = found.decide(10**8)
    assert open_.reason == "cannot_tell" and open_.candidate == open_.baseline != open_.likely
    assert found.interval(open_.baseline, 10**8).low_s < found.time_s(open_.likely, 10**8) * 1.01


def test_latencies_alone_decide_up_to_a_packet() -> None:
    map_ = made_map([4, 4], seed=2)
    found = chooser(map_, None, "chunked-ring", "halving-doubling", "recursive-doubling", grouped=True)
    assert found.decide(1000).candidate.algorithm == "recursive-doubling"
    large = found.decide(10**6)
    assert large.reason == "cannot_tell" and large.candidate.order_name == "original"
    ranges = found.ranges(large)
    assert [one.last_bytes for one in ranges] == [1448, 10**9] and ranges[1].candidate is None


def test_a_choice_needs_something_to_be_held_against() -> None:
    map_ = made_map([4])
    with pytest.raises(InputError, match="is among the candidates"):
        chooser(map_, None, "recursive-doubling")


def test_sizes_that_would_take_too_long_are_said_to_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netprobe.plan.auto.choice.MOST_SIMULATED", 0)
    map_ = made_map([2, 2], seed=1)
    found = chooser(map_, made_capacity(map_), "chunked-ring", "halving-doubling", "recursive-doubling")
    decision = found.decide(10**6)
    ranges = found.ranges(decision)
    assert ranges[0].first_bytes == LEAST_BYTES and ranges[-1].last_bytes == MOST_BYTES
    assert all(one.last_bytes + 1 == two.first_bytes for one, two in itertools.pairwise(ranges))
    assert [one.reason for one in (ranges[0], ranges[-1])] == ["left_out", "left_out"]
    assert ranges[0].candidate is None and ranges[-1].candidate is None
    inner = next(one for one in ranges if one.first_bytes <= 10**6 <= one.last_bytes)
    assert inner.candidate == decision.candidate and found.simulated > 0


@pytest.mark.parametrize(
    ("own_s", "surely", "kept"),
    [(1.01, True, True), (1.03, True, False), (1.04, False, True), (1.06, False, False), (1.5, False, False)],
)
def test_an_order_is_kept_that_may_be_as_good_and_is_expected_to_be_nearly(
    own_s: float, surely: bool, kept: bool
) -> None:
    order = ("a", "b", "c")
    new = Candidate(algorithm="chunked-ring", order=order, order_name="found")
    own = Candidate(algorithm="flat", order=order)
    times = {new: 1.0, own: own_s}

    class Told(Chooser):
        """Times and what is sure are given."""

        def __init__(self) -> None:
            pass

        def time_s(self, candidate: Candidate, _: int) -> float:
            return times[candidate]

        def surely(self, *_: object) -> bool:
            return surely

    assert Told()._without_new_order([new, own], own, 1000) == (own if kept else new)
    assert Told()._without_new_order([new], own, 1000) == new
