"""A collective's time where hosts share uplinks, against sums done by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netprobe.core.documents.capacity import Capacity, Resource
from netprobe.core.documents.document import load_document
from netprobe.core.errors import InputError
from netprobe.plan.costs import cost_model
from netprobe.plan.costs.shared_links import SharedLinks, shared_time_s, worst_uplink_crossings
from netprobe.plan.simulate.network import pooled_rates

GROUPS = [["a", "b"], ["c", "d"]]


def resource(kind: str, name: str, rate: float | None) -> Resource:
    return Resource(id=f"{kind}:{name}", kind=kind, bytes_per_s=rate, shared_by=[])


def test_crossings_of_the_worst_uplink_are_counted_round_the_ring() -> None:
    assert worst_uplink_crossings(["a", "b", "c", "d"], GROUPS) == 1
    assert worst_uplink_crossings(["a", "c", "b", "d"], GROUPS) == 2
    assert worst_uplink_crossings(["b", "c", "d", "a"], GROUPS) == 1
    assert worst_uplink_crossings(["a", "b"], [["a", "b"]]) == 0


def test_rates_that_no_test_tells_apart_are_one() -> None:
    rates = pooled_rates(
        [resource("up", str(i), rate) for i, rate in enumerate((100.0, 101.0, 98.0, 50.0, None))]
    )
    assert rates == {"up:0": 99.0, "up:1": 99.0, "up:2": 99.0, "up:3": 50.0}
    assert pooled_rates([resource("up", "0", None)]) == {}


def test_a_round_takes_as_long_as_its_fullest_resource() -> None:
    """Two racks of three, every resource of nearly one rate."""
    capacity = load_document(Capacity, Path(__file__).parents[2] / "golden" / "capacity-1.0.json")
    first, second = (group.hosts for group in capacity.groups)
    near, far = [*first, *second], [name for pair in zip(first, second, strict=True) for name in pair]
    size = 6 << 20
    hop_s = size / 6 / 23.92e6
    ring, doubling = cost_model("chunked-ring"), cost_model("recursive-doubling")
    assert shared_time_s(ring, near, capacity, size) == pytest.approx(10 * hop_s, rel=0.01)
    assert shared_time_s(ring, far, capacity, size) == pytest.approx(30 * hop_s, rel=0.01)
    assert shared_time_s(doubling, near, capacity, size) < shared_time_s(doubling, far, capacity, size)
    with pytest.raises(InputError, match="'x' is in no group"):
        shared_time_s(ring, ["x", *near], capacity, size)
    without = capacity.model_copy(update={"resources": capacity.resources[:-1]})
    with pytest.raises(InputError, match="the capacity of down:g2 was not measured"):
        shared_time_s(ring, far, without, size)


def test_many_orders_are_priced_as_each_by_itself() -> None:
    """Also where they are more than are priced at once, and of some of the hosts."""
    capacity = load_document(Capacity, Path(__file__).parents[2] / "golden" / "capacity-1.0.json")
    names = [name for group in capacity.groups for name in group.hosts]
    rng = np.random.default_rng(0)
    for algorithm in ("chunked-ring", "halving-doubling", "nccl-tree", "bcube"):
        model = cost_model(algorithm)
        orders = np.stack([rng.permutation(len(names))[:5] for _ in range(20)])
        times = SharedLinks(model, names, capacity).times_s(orders, 1 << 20)
        alone = [shared_time_s(model, [names[host] for host in order], capacity, 1 << 20) for order in orders]
        assert times == pytest.approx(alone)
        assert algorithm != "chunked-ring" or len(set(times.round(6))) > 1
