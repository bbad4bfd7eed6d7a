"""Orders searched by time where uplinks are shared, on racks small enough to reckon."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.plan.costs import cost_model
from netprobe.plan.order import timed
from netprobe.plan.order.timed import OrderTimes, can_differ, fastest_order
from netprobe.plan.simulate.network import Network, network_of
from tests.maps import made_capacity, made_map

SIZE = 10**8


def racks(*sizes: int, at_least: bool = False, uplink: float = 1e8) -> Network:
    """Hosts of 100 MB/s shuffled over racks whose uplinks carry as much."""
    map_ = made_map(sizes, seed=3)
    ends = [f"{kind}:{group.id}" for kind in ("up", "down") for group in map_.groups]
    capacity = made_capacity(map_, uplink=uplink, at_least=ends if at_least else ())
    return network_of(capacity, [host.name for host in map_.hosts])


@pytest.mark.parametrize("algorithm", ["nccl-tree", "double-binary-tree", "binomial-tree"])
def test_a_tree_is_no_slower_than_random_orders(algorithm: str) -> None:
    net = racks(4, 4)
    times = OrderTimes(algorithm, net, SIZE)
    found = fastest_order(cost_model(algorithm), times, [range(8)])
    rng = np.random.default_rng(9)
    others = [times([0, *(1 + rng.permutation(7)).tolist()]) for _ in range(20)]
    assert found.order[0] == 0 and sorted(found.order) == list(range(8))
    assert found.time_s <= min(others) and found.time_s < 0.9 * float(np.mean(others))


def test_a_ring_crosses_each_uplink_once() -> None:
    """14 hops of an eighth, none of which shares what it passes: 1.75 s."""
    found = fastest_order(
        cost_model("chunked-ring"), OrderTimes("chunked-ring", racks(4, 4), SIZE), [range(8)]
    )
    assert found.time_s == pytest.approx(1.75)


def test_where_nothing_can_be_won_the_first_order_stays() -> None:
    one = racks(6)
    assert not can_differ(one) and can_differ(racks(3, 3))
    first = (0, 3, 1, 5, 4, 2)
    found = fastest_order(cost_model("nccl-tree"), OrderTimes("nccl-tree", one, SIZE), [first])
    assert found.order == first


def test_only_orders_that_are_allowed_are_taken() -> None:
    times = OrderTimes("chunked-ring", racks(2, 2), SIZE)
    found = fastest_order(cost_model("chunked-ring"), times, [range(4)], allowed=lambda _: False)
    assert found.order == (0, 1, 2, 3) and found.simulated == 1


def test_what_only_uplinks_of_unknown_capacity_gain_is_still_no_loss() -> None:
    """At the upper ends both orders are equal; it is faster as read, and slower at neither end."""
    net = racks(4, 4, at_least=True)
    times = OrderTimes("chunked-ring", net, SIZE)
    found = fastest_order(cost_model("chunked-ring"), times, [range(8)])
    assert times.surely_faster(found.order, range(8), 0.02)
    assert not times.surely_faster(range(8), found.order, 0.02)
    assert not times.surely_faster(found.order, found.order, 0.02)


def test_the_same_seed_gives_the_same_order() -> None:
    orders = {
        fastest_order(
            cost_model("binomial-tree"), OrderTimes("binomial-tree", racks(3, 3), SIZE), [range(6)]
        ).order
        for _ in range(2)
    }
    assert len(orders) == 1


def test_of_large_schedules_fewer_orders_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 transfers an order: of 180 in all, three are ranked and three moves are tried."""
    simulated = []
    for most in (180, 64_000):
        monkeypatch.setattr(timed, "MOST_TRANSFERS", most)
        times = OrderTimes("chunked-ring", racks(3, 3), SIZE)
        assert len(times.schedule.expanded()) == 60
        simulated.append(fastest_order(cost_model("chunked-ring"), times, [range(6)]).simulated)
    # The first order, its groups, three of the pool, three moves.
    assert simulated[0] <= 8 < 12 < simulated[1]


class GivenTimes(OrderTimes):
    """Seconds of two orders at the capacities as read, at most, and at least."""

    def __init__(self, network: Any, seconds: dict[tuple[Any, tuple[int, ...]], float]) -> None:
        self.network, self.seconds = network, seconds

    def __call__(self, order: Sequence[int], network: Any = None) -> float:
        return self.seconds[network, tuple(order)]


@pytest.mark.parametrize(
    ("certain", "read", "most", "least", "sure"),
    [
        (True, 0.9, 9.0, 9.0, True), (True, 0.99, 0.1, 0.1, False), (False, 0.9, 0.9, 0.9, True),
        (False, 0.9, 1.03, 0.9, False), (False, 0.9, 0.9, 1.03, False), (False, 0.9, 1.01, 1.01, True),
    ],
)  # fmt: skip
def test_an_order_is_surely_faster_where_it_is_no_slower_at_either_end(
    certain: bool, read: float, most: float, least: float, sure: bool
) -> None:
    network = SimpleNamespace(
        certain=certain, high="most", with_capacity=lambda end: end, slowest=lambda: "least", endless=np.array([False])
    )  # fmt: skip
    new, old = (0, 2, 1), (0, 1, 2)
    seconds: dict[tuple[Any, tuple[int, ...]], float] = {
        (None, new): read,
        ("most", new): most,
        ("least", new): least,
    }
    times = GivenTimes(network, seconds | {(end, old): 1.0 for end in (None, "most", "least")})
    assert times.surely_faster(new, old, 0.02) is sure
