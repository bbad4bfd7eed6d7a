"""Order plans: built from hosts and costs, and checked against their map."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netprobe.core.document import canonical_sha256, dump
from netprobe.core.errors import DocumentError, InputError
from netprobe.core.hosts import Host
from netprobe.core.map import Grouping, Layers, Map, RttLayer, Verdict
from netprobe.core.plan import Objective, OrderPlan
from netprobe.core.scan import ScannedHost
from netprobe.plan import build_order_plan, one_way_cost_s, verify_against_map, verify_plan
from tests.plan.fleets import groups_of, named, rack_fleet


def plan_of(hosts: list[Host], shuffle: list[int], objective: Objective = "sum", **more: object) -> OrderPlan:
    cost, rack = rack_fleet((6, 6, 4), 2)
    return build_order_plan(
        [hosts[i] for i in shuffle],
        cost[np.ix_(shuffle, shuffle)],
        groups_of(hosts, rack),
        objective=objective,
        **more,  # type: ignore[arg-type]
    )


def as_ring(order: list[str]) -> list[str]:
    place = order.index("n1")
    return order[place:] + order[:place]


@settings(deadline=None, max_examples=10)
@given(st.randoms(use_true_random=False), st.sampled_from(["sum", "bottleneck"]))
def test_the_order_of_the_list_decides_only_the_root(rng: random.Random, objective: Objective) -> None:
    hosts = named(16)
    shuffle = list(range(16))
    plain = plan_of(hosts, shuffle, objective, iterations=60)
    rng.shuffle(shuffle)
    other = plan_of(hosts, shuffle, objective, iterations=60)
    assert other.order[0] == hosts[shuffle[0]].name
    assert as_ring(other.order) == as_ring(plain.order)
    assert (other.cost_s, other.lower_bound_s) == (plain.cost_s, plain.lower_bound_s)
    assert other.crossings == plain.crossings


def test_a_plan_says_what_it_gained() -> None:
    plan = plan_of(named(16), list(range(16)), seed=7)
    assert plan.crossings == 3
    assert plan.crossings_given is not None and plan.crossings_given > 3
    assert plan.lower_bound_s is not None
    assert plan.lower_bound_s <= plan.cost_s < plan.cost_given_s
    assert plan.seed == 7
    verify_plan(plan)
    again = plan_of(named(16), list(range(16)), seed=7)
    assert canonical_sha256(again) == canonical_sha256(plan)


def test_the_root_may_be_chosen() -> None:
    plain = plan_of(named(16), list(range(16)))
    chosen = plan_of(named(16), list(range(16)), root="n10")
    assert chosen.order[0] == "n10"
    assert as_ring(chosen.order) == as_ring(plain.order)


def test_one_and_two_hosts() -> None:
    one = build_order_plan(named(1), np.zeros((1, 1)))
    assert (one.order, one.cost_s, one.crossings) == (["n1"], 0.0, None)
    two = build_order_plan(named(2), np.full((2, 2), 1e-4))
    assert (two.order, two.cost_s) == (["n1", "n2"], 2e-4)
    verify_plan(one)
    verify_plan(two)


def test_hosts_without_a_reading_are_left_out() -> None:
    cost = np.full((4, 4), 1e-4)
    cost[0, :] = cost[:, 0] = np.nan
    plan = build_order_plan(named(4), cost, left_out=["n1"])
    assert plan.order == ["n2", "n3", "n4"]
    assert plan.left_out == ["n1"]
    with pytest.raises(InputError, match="root 'n1' has no reading"):
        build_order_plan(named(4), cost, left_out=["n1"], root="n1")
    with pytest.raises(InputError, match="no host is left"):
        build_order_plan(named(4), cost, left_out=["n1", "n2", "n3", "n4"])
    with pytest.raises(InputError, match="from n1 to n2 is missing"):
        build_order_plan(named(4), cost)


def test_impossible_requests_are_refused() -> None:
    cost = np.full((3, 3), 1e-4)
    with pytest.raises(InputError, match="root 'x' is none"):
        build_order_plan(named(3), cost, root="x")
    with pytest.raises(InputError, match="shape"):
        build_order_plan(named(4), cost)
    with pytest.raises(InputError, match="listed twice"):
        build_order_plan([*named(2), named(1)[0]], cost)
    with pytest.raises(InputError, match="'y' is to be left out"):
        build_order_plan(named(3), cost, left_out=["y"])
    cost[2, 1] = -1
    with pytest.raises(InputError, match="from n3 to n2 is -1"):
        build_order_plan(named(3), cost)


def made_map(scale: float = 1.0) -> Map:
    cost, rack = rack_fleet((6, 6, 4), 2)
    hosts = named(16)
    layer = RttLayer(
        distance_s=cost * 2 * scale,
        coordinates=[[0.0]] * 16,
        heights_s=[0.0] * 16,
        method="test",
    )
    return Map(
        schema="netprobe.map/1.0",
        hosts=[ScannedHost(name=host.name) for host in hosts],
        layers=Layers(rtt=layer),
        grouping=Grouping(method="test", k=3),
        groups=groups_of(hosts, rack),
        verdict=Verdict(locality="found", text="found"),
    )


def test_a_plan_is_checked_against_its_map() -> None:
    document = made_map()
    plan = build_order_plan(
        document.hosts, one_way_cost_s(document), document.groups, parents=[document.parent()]
    )
    assert all(type(host) is Host for host in plan.hosts)
    verify_against_map(plan, document)
    read_back = Map.model_validate(dump(document))
    verify_against_map(plan, read_back)
    twin = build_order_plan(
        read_back.hosts, one_way_cost_s(read_back), read_back.groups, parents=[read_back.parent()]
    )
    assert canonical_sha256(twin) == canonical_sha256(plan)
    with pytest.raises(DocumentError, match="another map"):
        verify_against_map(plan, made_map(2.0))
    free = plan.model_copy(update={"parents": []})
    with pytest.raises(DocumentError, match="cost_s is"):
        verify_against_map(free, made_map(2.0))
    with pytest.raises(DocumentError, match="crossings is 5"):
        verify_against_map(free.model_copy(update={"crossings": 5}), document)
    fewer = build_order_plan(named(3), np.full((3, 3), 1e-4))
    with pytest.raises(DocumentError, match="its hosts differ"):
        verify_against_map(fewer, document)
