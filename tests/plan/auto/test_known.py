"""Networks of maps: what is taken from which layer, and what is left open."""

from __future__ import annotations

import numpy as np
import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.schedule_plan import PACKET_BYTES
from netprobe.core.errors import InputError
from netprobe.plan.auto.candidates import Candidate
from netprobe.plan.auto.known import known_network
from netprobe.plan.auto.predicting import Interval, interval_of, prediction_of
from netprobe.plan.order.timed import OrderTimes
from netprobe.plan.schedule.builders import build
from netprobe.plan.simulate import Job
from netprobe.plan.simulate.simulate import interval_s
from tests.maps import ACROSS_S, INSIDE_S, made_capacity, made_map


def test_latencies_alone_have_no_rate_and_decide_up_to_a_packet() -> None:
    map_ = made_map([2, 2])
    known = known_network(map_, ["h0", "h1", "h2", "h3"])
    assert known.basis == "latency" and not known.network.resources
    assert known.network.alpha_s[0, 1] == INSIDE_S / 2 and known.network.alpha_s[0, 2] == ACROSS_S / 2
    assert known.decides(PACKET_BYTES) and not known.decides(PACKET_BYTES + 1)
    assert known.unknown and "how long bytes take" in known.unknown[0]


def test_goodput_leaves_open_what_uplinks_carry() -> None:
    map_ = made_map([2, 2, 1], goodput=1e7)
    known = known_network(map_, [f"h{i}" for i in range(5)])
    net = known.network
    assert known.basis == "latency and goodput" and "uplinks" in known.unknown[0]
    rate = dict(zip(net.resources, zip(net.low, net.capacity, net.high)))
    assert rate["tx:h0"] == (1e7, 1e7, np.inf)
    # One connection at least, any number at most; a group of one host has none of its own.
    assert rate["up:g0"] == (1e7, np.inf, np.inf) and "up:g2" not in rate
    passed = [net.resources[r] for r in net.passed[0, 2] if r >= 0]
    assert passed == ["tx:h0", "up:g0", "down:g1", "rx:h2"]
    assert [net.resources[r] for r in net.passed[0, 1] if r >= 0] == ["tx:h0", "rx:h1"]


def test_capacities_are_used_with_what_a_connection_carries() -> None:
    map_ = made_map([2, 2], goodput=1e7)
    known = known_network(map_, ["h3", "h0", "h2", "h1"], made_capacity(map_))
    assert known.basis == "capacity" and known.network.certain and not known.unknown
    assert known.network.stream[0, 1] == pytest.approx(1e7) and known.network.hosts[0] == "h3"


def with_ends(map_: Map, **ends: tuple[float | None, float | None]) -> Capacity:
    """Capacities of which some, by id with _ for the colon, have other ends of their interval."""
    read = made_capacity(map_)
    new = {id_.replace("_", ":"): found for id_, found in ends.items()}
    return read.model_copy(
        update={
            "resources": [
                one.model_copy(
                    update=dict(zip(("low_bytes_per_s", "high_bytes_per_s"), new[one.id]))
                    if one.id in new
                    else {}
                )
                for one in read.resources
            ]
        }
    )


def test_what_may_carry_nothing_bounds_no_time_and_is_said() -> None:
    map_ = made_map([2, 2])
    hosts = ["h0", "h1", "h2", "h3"]
    known = known_network(map_, hosts, with_ends(map_, up_g1=(0.0, 1e8), down_g1=(0.0, 1e8)))
    assert not known.network.certain
    assert "up:g1" in known.unknown[0] and "down:g1" in known.unknown[0]
    ring = Candidate(algorithm="chunked-ring", order=tuple(hosts))
    found = interval_of(known, ring, 10**7)
    assert found.high_s is None and found.low_s <= found.time_s
    assert not found.surely_below(Interval(time_s=1e9, low_s=1e9, high_s=1e9))
    said = prediction_of(known, ring, 10**7)
    assert said.low_s is not None and said.high_s is None
    # Among hosts behind the other uplink nothing passes it.
    inside = interval_of(known, Candidate(algorithm="chunked-ring", order=("h0", "h1")), 10**7)
    assert inside.high_s is not None
    assert interval_s(known.network, Job(schedule=build("ring", 4), order=hosts, size_bytes=10**7))[2] is None


def test_an_order_is_not_surely_faster_over_what_may_carry_nothing() -> None:
    map_ = made_map([2, 2])
    by_rack, mixed = (0, 1, 2, 3), (0, 2, 1, 3)
    # h3 sends one buffer in both orders; h1, as rank 1, two in the first and one in the second.
    for host, sure in (("h3", True), ("h1", False)):
        capacity = with_ends(map_, **{f"tx_{host}": (0.0, 1e8)})
        known = known_network(map_, ["h0", "h1", "h2", "h3"], capacity)
        times = OrderTimes("binomial-tree", known.network, 10**7)
        assert times(by_rack) < times(mixed) / 1.1
        assert times.surely_faster(by_rack, mixed, 0.02) is sure


def test_goodput_that_crosses_nowhere_leaves_uplinks_open() -> None:
    map_ = made_map([2, 2], goodput=1e7)
    beta = map_.layers.beta
    assert beta is not None
    unread = np.array(beta.distance_s_per_byte)
    unread[:2, 2:] = unread[2:, :2] = np.nan
    layers = map_.layers.model_copy(update={"beta": beta.model_copy(update={"distance_s_per_byte": unread})})
    known = known_network(map_.model_copy(update={"layers": layers}), ["h0", "h1", "h2", "h3"])
    assert not known.network.certain and any("up:g0" in text for text in known.unknown)
    found = interval_of(known, Candidate(algorithm="ring", order=("h0", "h1", "h2", "h3")), 10**6)
    assert found.high_s is None


@pytest.mark.parametrize(
    ("rate", "says"), [(0.0, "the capacity of up:g1 is 0 bytes/s"), (None, "the capacity of up:g1 was not")]
)
def test_a_capacity_of_nothing_is_refused_by_name(rate: float | None, says: str) -> None:
    map_ = made_map([2, 2])
    with pytest.raises(InputError, match=says):
        known_network(map_, ["h0", "h1", "h2", "h3"], made_capacity(map_, rates={"up:g1": rate}))
