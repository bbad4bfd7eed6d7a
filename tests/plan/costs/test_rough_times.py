"""A collective's time where hosts share uplinks, against sums done by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.capacity import Capacity, Resource
from netprobe.core.documents.document import load_document
from netprobe.core.errors import InputError
from netprobe.plan.costs import MODELS, cost_model
from netprobe.plan.costs.rough_times import RoughTimes, rough_time_s, worst_uplink_crossings
from netprobe.plan.schedule.builders import build, proved
from netprobe.plan.schedule.builders.tree import binomial_rounds
from netprobe.plan.simulate import Job, simulate
from netprobe.plan.simulate.network import network_of, pooled_rates
from tests.maps import made_capacity, made_map
from tests.properties import examples

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
    assert rough_time_s(ring, near, capacity, size) == pytest.approx(10 * hop_s, rel=0.01)
    assert rough_time_s(ring, far, capacity, size) == pytest.approx(30 * hop_s, rel=0.01)
    assert rough_time_s(doubling, near, capacity, size) < rough_time_s(doubling, far, capacity, size)
    with pytest.raises(InputError, match="'x' is in no group"):
        rough_time_s(ring, ["x", *near], capacity, size)
    without = capacity.model_copy(update={"resources": capacity.resources[:-1]})
    with pytest.raises(InputError, match="the capacity of down:g2 was not measured"):
        rough_time_s(ring, far, without, size)


def nested() -> Capacity:
    """Four racks of two in two rows; hosts and racks carry 8 units, rows 1."""
    map_ = made_map([2, 2, 2, 2], rows=[0, 0, 1, 1])
    capacity = made_capacity(map_, host=8e6, uplink=8e6)
    rows = [("0", ["h0", "h1", "h2", "h3"]), ("1", ["h4", "h5", "h6", "h7"])]
    outer = [
        Resource(
            id=f"{kind}:netprobe-1-{number}",
            kind=f"group_{kind}",
            bytes_per_s=1e6,
            low_bytes_per_s=1e6,
            high_bytes_per_s=1e6,
            limited_by="itself",
            shared_by=hosts,
        )
        for number, hosts in rows
        for kind in ("up", "down")
    ]
    return capacity.model_copy(update={"resources": [*capacity.resources, *outer]})


def test_uplinks_of_outer_tiers_count() -> None:
    """Recursive doubling by rows crosses them in one of three rounds, four hosts at once; every other host in all."""
    capacity, model = nested(), cost_model("recursive-doubling")
    by_row = [f"h{i}" for i in range(8)]
    assert rough_time_s(model, by_row, capacity, 10**6) == pytest.approx(1 / 8 + 2 / 8 + 4)
    job = Job(schedule=build("recursive-doubling", 8), order=by_row, size_bytes=10**6)
    simulated = simulate(network_of(capacity, by_row), [job]).time_s
    assert rough_time_s(model, by_row, capacity, 10**6) == pytest.approx(simulated)
    across = [by_row[i] for i in (0, 4, 1, 5, 2, 6, 3, 7)]
    assert rough_time_s(model, across, capacity, 10**6) == pytest.approx(4 + 1 / 8 + 2 / 8)


@examples(40)
@given(st.sampled_from(sorted(MODELS)), st.integers(2, 8), st.integers(0, 1 << 20))
def test_a_neighbour_is_priced_as_the_whole_order(name: str, ranks: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rough = RoughTimes(cost_model(name), network_of(nested(), [f"h{i}" for i in range(8)]))
    evaluation = rough.start(rng.permutation(8)[:ranks].tolist(), 10**6)
    for _ in range(6):
        before = evaluation.cost
        priced = evaluation.swap(*rng.integers(0, ranks, 2).tolist())
        assert evaluation.cost == before
        if rng.random() < 0.7:
            evaluation.accept()
            whole = rough.times_s(np.array([evaluation.order]), 10**6)[0]
            assert priced == evaluation.cost == pytest.approx(whole)


def test_many_orders_are_priced_as_each_by_itself() -> None:
    """Also where they are more than are priced at once, and of some of the hosts."""
    capacity = load_document(Capacity, Path(__file__).parents[2] / "golden" / "capacity-1.0.json")
    names = [name for group in capacity.groups for name in group.hosts]
    rng = np.random.default_rng(0)
    for algorithm in ("chunked-ring", "halving-doubling", "nccl-tree", "bcube"):
        model = cost_model(algorithm)
        orders = np.stack([rng.permutation(len(names))[:5] for _ in range(20)])
        times = RoughTimes(model, network_of(capacity, names)).times_s(orders, 1 << 20)
        alone = [rough_time_s(model, [names[host] for host in order], capacity, 1 << 20) for order in orders]
        assert times == pytest.approx(alone)
        assert algorithm != "chunked-ring" or len(set(times.round(6))) > 1


def test_open_mpis_tree_reduces_by_lowest_bits_and_broadcasts_by_highest() -> None:
    """Six ranks, as the comments and code of coll_base_topo.c have them."""
    sent = [[(t.src, t.dst) for t in transfers] for transfers in binomial_rounds(6)]
    assert sent[:3] == [[(1, 0), (3, 2), (5, 4)], [(2, 0)], [(4, 0)]]
    assert sent[3:] == [[(0, 1)], [(0, 2), (1, 3)], [(0, 4), (1, 5)]]
    assert binomial_rounds(1) == []
    for ranks in (1, 2, 5, 8, 13):
        proved(build("binomial-tree", ranks, 2, 4))
