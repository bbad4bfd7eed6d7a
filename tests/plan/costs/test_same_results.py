"""The same links give the same costs and bounds on every machine and from version to version.

That no order goes below a bound leaves open how near the bound is. Who makes one tighter writes down here what it is
then. Costs are whole numbers of a formula.
"""

from __future__ import annotations

import numpy as np
import pytest

from netprobe.plan.costs import MODELS, BCube, CostModel, LinkCost
from netprobe.plan.costs.rough_times import RoughTimes
from netprobe.plan.simulate.network import network_of
from tests.maps import made_map
from tests.plan.auto.test_same_results import uneven
from tests.plan.search.test_same_results import town

EVERY: dict[str, CostModel] = {**MODELS, "bcube-3": BCube(3)}


def links(size: int, *, bytes_: bool) -> LinkCost:
    beta = town(size, directed=True).T.copy() if bytes_ else None
    return LinkCost(alpha_s=town(size, directed=True), beta_s_per_byte=beta, size_bytes=3.0)


def figures(name: str) -> list[float]:
    """The bound, and the cost of an order, for 7 hosts with times a byte, for 8 and 12 without, and for 1 and 2."""
    model, found = EVERY[name], []
    for size, bytes_ in ((1, False), (2, True), (7, True), (8, True), (12, False), (13, True)):
        cost = links(size, bytes_=bytes_)
        order = [at * 5 % size for at in range(size)]
        found += [model.lower_bound(cost), model.cost(order, cost)]
    return found


EXPECTED: dict[str, list[float]] = {
    "ring": [
        0.0,
        0.0,
        7132.0,
        7132.0,
        17802.99999975355,
        29444.0,
        14346.99999977422,
        20808.0,
        5814.151116805238,
        8404.0,
        23246.454266148376,
        41596.0,
    ],
    "chunked-ring": [
        0.0,
        0.0,
        4494.0,
        4494.0,
        17100.0,
        23309.14285714286,
        13186.25,
        19509.0,
        17666.0,
        22924.0,
        24797.53846153846,
        45716.30769230769,
    ],
    "halving-doubling": [
        0.0,
        0.0,
        4494.0,
        4494.0,
        6454.5,
        18501.0,
        7153.75,
        9344.75,
        4104.0,
        10386.0,
        4897.25,
        26119.0,
    ],
    "halving-doubling-farthest-first": [
        0.0,
        0.0,
        4494.0,
        4494.0,
        6454.5,
        18084.0,
        7153.75,
        9551.75,
        4104.0,
        10386.0,
        4897.25,
        23916.25,
    ],
    "recursive-doubling": [
        0.0,
        0.0,
        3639.0,
        3639.0,
        7083.0,
        17891.0,
        8845.0,
        10196.0,
        2358.0,
        6188.0,
        6383.0,
        25987.0,
    ],
    "reduce-scatter": [
        0.0,
        0.0,
        2247.0,
        2247.0,
        3441.0,
        11135.428571428572,
        3576.875,
        4775.875,
        2358.0,
        6188.0,
        2485.076923076923,
        14063.461538461539,
    ],
    "bcube": [
        0.0,
        0.0,
        4494.0,
        4494.0,
        4722.285714285714,
        4722.285714285714,
        4580.25,
        6040.75,
        4058.0,
        5512.0,
        4468.0,
        4468.0,
    ],
    "double-binary-tree": [
        0.0,
        0.0,
        4457.499999995543,
        4457.5,
        6142.499999993857,
        12452.5,
        4287.499999995713,
        13500.0,
        2027.999999997972,
        6215.0,
        5554.999999994445,
        18487.5,
    ],
    "nccl-tree": [
        0.0,
        0.0,
        4457.499999995543,
        4457.5,
        6142.499999993857,
        16745.0,
        4287.499999995713,
        13055.0,
        2027.999999997972,
        7719.0,
        5554.999999994445,
        23750.0,
    ],
    "binomial-tree": [
        0.0,
        0.0,
        6986.0,
        7132.0,
        7760.0,
        23058.0,
        5434.0,
        18758.0,
        2050.0,
        6816.0,
        5354.0,
        29727.0,
    ],
    "bcube-3": [
        0.0,
        0.0,
        4494.0,
        4494.0,
        4722.285714285714,
        4722.285714285714,
        3226.0,
        3226.0,
        4058.0,
        6166.0,
        4468.0,
        4468.0,
    ],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_bounds_and_costs(name: str) -> None:
    assert figures(name) == pytest.approx(EXPECTED[name], rel=1e-9)


def test_all_models_are_written_down() -> None:
    assert set(EXPECTED) == set(EVERY)


def rough(name: str) -> list[float]:
    """Rough times of an order and of a walk from it, where rates all differ."""
    map_ = made_map([3, 4, 2], seed=2)
    hosts = [host.name for host in map_.hosts]
    times = RoughTimes(EVERY[name], network_of(uneven(map_, 5, 0.0), hosts))
    rng = np.random.default_rng(7)
    orders = np.array([rng.permutation(9) for _ in range(4)])
    found = times.times_s(orders, 10**6).tolist()
    walk = times.start(orders[0].tolist(), 10**6)
    for step in range(30):
        a, b = sorted(rng.choice(9, 2, replace=False).tolist())
        cost = walk.swap(a, b) if step % 2 else walk.move(a, a + 1, b)
        if cost <= walk.cost * 1.02:
            walk.accept()
            assert walk.cost == cost == pytest.approx(times.times_s(np.array([walk.order]), 10**6)[0])
    return [*found, walk.cost]


ROUGH: dict[str, list[float]] = {
    "chunked-ring": [
        0.035555555555555556,
        0.05333333333333333,
        0.05333333333333333,
        0.05333333333333333,
        0.035555555555555556,
    ],
    "halving-doubling": [
        0.05753357753357754,
        0.08083333333333333,
        0.08083333333333334,
        0.06464285714285714,
        0.052142857142857144,
    ],
    "bcube": [0.04, 0.04, 0.04, 0.04, 0.04],
    "nccl-tree": [
        0.09303571428571428,
        0.09928571428571428,
        0.08962662337662339,
        0.07748015873015873,
        0.07726190476190477,
    ],
}


@pytest.mark.parametrize("name", ROUGH)
def test_rough_times(name: str) -> None:
    assert rough(name) == pytest.approx(ROUGH[name], rel=1e-9)
