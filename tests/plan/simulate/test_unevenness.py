"""Connections that share unevenly: weighted rates, what they cost a schedule, and how uneven a network was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netprobe.core.documents.capacity import Capacity, CapacityTest, LimitedBy, Resource
from netprobe.core.documents.capacity import TestedFlow as Flow
from netprobe.core.documents.map import Group
from netprobe.core.documents.scan import ScannedHost
from netprobe.plan.schedule.builders import build
from netprobe.plan.simulate import Job, Network, simulate
from netprobe.plan.simulate.fair import fair_rates
from netprobe.plan.simulate.network import network_of, unevenness_of
from netprobe.plan.simulate.simulate import interval_s, predicted_s, uneven_shares
from tests.plan.simulate.test_simulate import RATE, network, racks

SIZE = 80_000_000


def shared(unevenness: float = 0.5) -> Network:
    """Eight hosts in two racks whose uplinks carry what one host does."""
    return replace(network(racks(8, 4), uplink=RATE), unevenness=unevenness)


def job(name: str) -> Job:
    return Job(schedule=build(name, 8), order=[f"h{i}" for i in range(8)], size_bytes=SIZE)


def test_flows_that_share_get_what_their_weights_say() -> None:
    both = np.zeros((2, 1), dtype=np.intp)
    rates = fair_rates(both, np.array([10.0]), np.full(2, np.inf), np.array([1.0, 3.0]))
    assert rates == pytest.approx([2.5, 7.5])
    # What a flow cannot take is left to the other, and a resource of its own gives a flow nothing to share.
    rates = fair_rates(both, np.array([10.0]), np.array([np.inf, 4.0]), np.array([1.0, 3.0]))
    assert rates == pytest.approx([6.0, 4.0])
    alone = fair_rates(
        np.array([[0], [1]], dtype=np.intp), np.array([10.0, 8.0]), np.full(2, np.inf), np.array([9.0, 0.1])
    )
    assert alone == pytest.approx([10.0, 8.0])


def test_weighted_rates_are_those_of_as_many_flows_as_the_weight_says() -> None:
    drawn = np.random.default_rng(4)
    for _ in range(30):
        passed = drawn.integers(-1, 5, (6, 3))
        weight, capacity = drawn.integers(1, 4, 6), drawn.uniform(1, 9, 5)
        most = np.where(drawn.random(6) < 0.5, np.inf, drawn.uniform(0.5, 4, 6))
        apart = np.repeat(np.arange(6), weight)
        single = fair_rates(passed[apart], capacity, (most / weight)[apart])
        own = fair_rates(passed, capacity, most, weight.astype(float))
        summed = np.bincount(apart, np.where(np.isinf(single), 0.0, single), minlength=6)
        assert np.where(np.isinf(own), 0.0, own) == pytest.approx(summed)


def test_uneven_shares_cost_nothing_where_nothing_is_shared_and_time_where_all_wait_for_each_other() -> None:
    net = shared()
    ring = uneven_shares(net, job("chunked-ring"))
    assert (ring.median, ring.most) == (1.0, 1.0)
    exchange = uneven_shares(net, job("halving-doubling"))
    assert 1.02 < exchange.median < 1.6
    assert exchange.median <= exchange.most
    assert uneven_shares(net, job("halving-doubling")) == exchange
    slight = uneven_shares(shared(0.05), job("halving-doubling"))
    assert slight.median < exchange.median


def test_even_sharing_changes_no_time() -> None:
    net, exchange = shared(0.0), job("halving-doubling")
    even = simulate(net, [exchange]).time_s
    assert simulate(net, [exchange], draw=3).time_s == even == predicted_s(net, exchange)
    assert interval_s(net, exchange) == (even, None, None)


def test_predictions_and_their_intervals_have_uneven_shares_in_them() -> None:
    net, exchange = shared(), job("halving-doubling")
    even, shares = simulate(net, [exchange]).time_s, uneven_shares(net, exchange)
    time_s, low, high = interval_s(net, exchange)
    assert time_s == pytest.approx(even * shares.median) == predicted_s(net, exchange)
    # Messages that are over long before a test of the capacity is may still share evenly.
    assert low == pytest.approx(even) and high == pytest.approx(even * shares.most)
    wide = replace(net, high=net.capacity * 2, low=net.capacity / 2)
    _, low, high = interval_s(wide, exchange)
    assert low is not None and high is not None and low < 0.6 * even and high > even * shares.most


def measured(rates: list[float], limited_by: LimitedBy, streams: int = 1) -> Capacity:
    """Two racks of two; the flows of the one test of an uplink had ``rates``."""
    names = ["a", "b", "c", "d"]
    kinds = [("host_tx", "tx"), ("host_rx", "rx")]
    made = [
        Resource(id=f"{word}:{name}", kind=kind, bytes_per_s=1e8, limited_by="itself", shared_by=[name])
        for kind, word in kinds for name in names
    ]  # fmt: skip
    made += [
        Resource(
            id=f"{word}:{group}", kind=f"group_{word}", bytes_per_s=1e8, limited_by=limited_by, shared_by=hosts,
            tests=[0],
        )
        for group, hosts in (("g0", ["a", "b"]), ("g1", ["c", "d"])) for word in ("up", "down")
    ]  # fmt: skip
    flows = [
        Flow(src=src, dst=dst, streams=streams, bytes_per_s=rate)
        for (src, dst), rate in zip((("a", "c"), ("b", "d"), ("a", "d")), rates)
    ]
    return Capacity(
        status="ok",
        hosts=[ScannedHost(name=name, address=f"10.0.0.{at}") for at, name in enumerate(names, 1)],
        groups=[Group(id="g0", hosts=["a", "b"], leader="a"), Group(id="g1", hosts=["c", "d"], leader="c")],
        resources=made, oversubscription=[], duration_s=1.0,
        tests=[CapacityTest(kind="up", group="g0", started_s=0.0, duration_s=1.0, flows=flows)],
    )  # fmt: skip


def test_unevenness_is_the_spread_of_flows_that_an_uplink_limited() -> None:
    rates = [1e7 * np.exp(0.5), 1e7 * np.exp(-0.5)]
    assert unevenness_of(measured(rates, "itself")) == pytest.approx(0.5 * np.sqrt(2))
    assert unevenness_of(measured([2e7, 2e7, 2e7], "itself")) == pytest.approx(0.0)
    # Flows of several connections each average over them.
    assert unevenness_of(measured([1e7 * np.exp(0.1), 1e7 * np.exp(-0.1)], "itself", 4)) == pytest.approx(
        0.2 * np.sqrt(2)
    )
    # Where hosts were the limit their rates differ, and nothing was shared; what carried nothing says nothing.
    assert unevenness_of(measured(rates, "hosts")) == 0.0
    assert unevenness_of(measured([1e7, 0.0], "itself")) == 0.0
    assert unevenness_of(measured([1e7, 1.0], "itself")) == 1.0


def test_a_measured_network_is_as_uneven_as_its_tests() -> None:
    capacity = measured([1e7 * np.exp(0.3), 1e7 * np.exp(-0.3)], "itself")
    net = network_of(capacity, ["a", "b", "c", "d"])
    assert net.unevenness == pytest.approx(0.3 * np.sqrt(2))
    assert net.with_capacity(net.low).unevenness == net.unevenness
