"""Networks of maps: what is taken from which layer, and what is left open."""

from __future__ import annotations

import numpy as np
import pytest

from netprobe.core.errors import InputError
from netprobe.plan.auto.known import PACKET_BYTES, known_network
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


@pytest.mark.parametrize(
    ("rate", "says"), [(0.0, "the capacity of up:g1 is 0 bytes/s"), (None, "the capacity of up:g1 was not")]
)
def test_a_capacity_of_nothing_is_refused_by_name(rate: float | None, says: str) -> None:
    map_ = made_map([2, 2])
    with pytest.raises(InputError, match=says):
        known_network(map_, ["h0", "h1", "h2", "h3"], made_capacity(map_, rates={"up:g1": rate}))
