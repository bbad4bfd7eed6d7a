"""The same costs and seed give the same ring, order and bound on every machine and from version to version.

What a search finds hangs on every constant and every tie of it. Who changes a search on purpose writes down here what
it finds then, and in CHANGELOG.md that plans of the same seed are others. The costs are whole numbers of a formula.
"""

from __future__ import annotations

import numpy as np
import pytest

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import Objective
from netprobe.plan import solve_ring
from netprobe.plan.bounds.onetree import held_karp
from netprobe.plan.costs import LinkCost, cost_model
from netprobe.plan.search.anneal import anneal


def town(size: int, *, directed: bool) -> FloatMatrix:
    """Ways along streets between places at random, and some more."""
    rng = np.random.default_rng(size)
    place = rng.integers(0, 1000, (size, 2))
    cost = np.abs(place[:, None] - place[None]).sum(axis=2) + rng.integers(1, 200, (size, size))
    if not directed:
        cost = np.triu(cost, 1) + np.triu(cost, 1).T
    np.fill_diagonal(cost, 0)
    return np.asarray(cost, dtype=np.float64)


def checksum(order: tuple[int, ...]) -> int:
    return sum(rank * host for rank, host in enumerate(order))


@pytest.mark.parametrize(
    ("directed", "objective", "cost", "kicks", "bound", "order"),
    [
        (False, "sum", 7990, 1280, 7989.999999893515, 8709),
        (False, "bottleneck", 437, 800, 437.0, 8709),
        (True, "sum", 7941, 512, 7918.558675322187, 7173),
        (True, "bottleneck", 386, 320, 386.0, 7113),
    ],
)
def test_rings(directed: bool, objective: Objective, cost: int, kicks: int, bound: float, order: int) -> None:
    found = solve_ring(town(32, directed=directed), objective=objective, seed=3, compiled=False)
    assert (found.cost_s, found.iterations, checksum(found.order)) == (cost, kicks, order)
    assert found.lower_bound_s == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize(
    ("directed", "steps", "bound"),
    [
        (False, 100, 7866.462473026674),
        (False, 300, 7881.999999913476),
        (True, 100, 7318.041968063944),
        (True, 300, 7488.734493875514),
    ],
)
def test_bounds_after_some_steps(directed: bool, steps: int, bound: float) -> None:
    cost = town(28, directed=directed)
    given = float(cost[range(28), [*range(1, 28), 0]].sum())
    assert held_karp(cost, 0.4 * given, steps).bound == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "least", "order", "most", "worst"),
    [
        ("halving-doubling", 10592.5, 1042, 19801.75, 980),
        ("reduce-scatter", 5315.25, 1065, 9921.875, 954),
        ("bcube", 6505.5, 887, 9093.0, 957),
        ("nccl-tree", 10849.0, 1008, 26104.0, 988),
        ("double-binary-tree", 8794.0, 991, 25662.0, 835),
        ("recursive-doubling", 10970.0, 1066, 20097.0, 841),
    ],
)
def test_annealed_orders(name: str, least: float, order: int, most: float, worst: int) -> None:
    link = LinkCost(alpha_s=town(16, directed=True), beta_s_per_byte=town(16, directed=False), size_bytes=2.0)
    for maximize, cost, total in ((False, least, order), (True, most, worst)):
        found = anneal(
            cost_model(name), link, range(16), steps=500, seed=5, maximize=maximize, compiled=False
        )
        assert found.cost == pytest.approx(cost, rel=1e-12) and checksum(found.order) == total
