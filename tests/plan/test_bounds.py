"""Lower bounds against what they stand for: how high they reach, by slow and obvious ways to find it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.bounds.forced import contradicts_a_ring
from netprobe.plan.bounds.matrices import least_that_holds
from netprobe.plan.bounds.onetree import held_karp
from netprobe.plan.bounds.rings import bottleneck_lower_bound, sum_bound, sum_lower_bound
from netprobe.plan.costs import LinkCost
from netprobe.plan.costs.bounds import exchange_bound, pairs_bound, tree_bound
from netprobe.plan.search.ring import ring_cost
from tests.properties import examples

Graph = NDArray[np.bool_]


def random_cost(size: int, seed: int, *, directed: bool) -> FloatMatrix:
    cost = np.random.default_rng(seed).uniform(1.0, 100.0, (size, size))
    if not directed:
        cost = np.triu(cost, 1) + np.triu(cost, 1).T
    np.fill_diagonal(cost, 0.0)
    return cost


def rings(size: int) -> list[tuple[int, ...]]:
    return [(0, *rest) for rest in itertools.permutations(range(1, size))]


def subtour_relaxation(cost: FloatMatrix) -> float:
    """The linear programme of Dantzig, Fulkerson and Johnson over arcs: what Held and Karp's bound converges to."""
    size = len(cost)
    arcs = [(a, b) for a in range(size) for b in range(size) if a != b]
    degrees = [[float(arc[end] == host) for arc in arcs] for end in (0, 1) for host in range(size)]
    cuts = [
        [-float(a in part and b not in part) for a, b in arcs]
        for count in range(2, size - 1)
        for part in itertools.combinations(range(size), count)
    ]
    found = linprog(
        [cost[arc] for arc in arcs], A_ub=cuts, b_ub=-np.ones(len(cuts)), A_eq=degrees,
        b_eq=np.ones(2 * size), bounds=(0, 1),
    )  # fmt: skip
    return float(found.fun)


@pytest.mark.parametrize("directed", [False, True])
def test_the_bound_of_a_sum_reaches_that_of_the_linear_programme(directed: bool) -> None:
    near = []
    for seed in range(6):
        cost = random_cost(7, seed, directed=directed)
        best = min(ring_cost(cost, ring) for ring in rings(7))
        relaxed = subtour_relaxation(cost)
        found = held_karp(cost, best)
        assert found.bound <= relaxed * (1 + 1e-9)
        near.append(found.bound / relaxed)
    # Steps converge to it: nearly, for the worst of them.
    assert min(near) > 0.985 and float(np.median(near)) > 0.999


def test_a_hierarchy_needs_no_steps() -> None:
    """By its first prices alone the bound is the sum of twice all branches, host 0's among them."""
    cost = np.array([[0, 1, 4, 4, 9], [1, 0, 4, 4, 9], [4, 4, 0, 2, 9], [4, 4, 2, 0, 9], [9, 9, 9, 9, 0.0]])
    assert held_karp(cost, 40.0, 1).bound == pytest.approx(1 + 4 + 2 + 9 + 9)
    found = held_karp(cost[np.ix_([4, 2, 0, 3, 1], [4, 2, 0, 3, 1])], 40.0, 100)
    assert found.bound == pytest.approx(25.0)


def test_a_1_tree_that_is_a_ring_is_the_best_ring() -> None:
    for directed, seed in itertools.product((False, True), range(8)):
        cost = random_cost(6, seed, directed=directed)
        prices = sorted((ring_cost(cost, ring), ring) for ring in rings(6))
        found = held_karp(cost, prices[0][0] * 1.3)
        if found.ring is not None:
            assert ring_cost(cost, found.ring) == pytest.approx(prices[0][0], rel=1e-9)
            assert found.ring[0] == 0 and sorted(found.ring) == list(range(6))


def test_hosts_and_directions_may_be_called_anything() -> None:
    cost = random_cost(9, 4, directed=True)
    upper = ring_cost(cost, range(9))
    bound = sum_lower_bound(cost, upper)
    assert sum_lower_bound(cost.T.copy(), upper) == pytest.approx(bound, rel=1e-4)
    order = [3, 1, 4, 0, 5, 8, 2, 6, 7]
    assert sum_lower_bound(cost[np.ix_(order, order)], upper) == pytest.approx(bound, rel=2e-3)
    assert bottleneck_lower_bound(cost.T) == bottleneck_lower_bound(cost)
    assert bottleneck_lower_bound(cost[np.ix_(order, order)]) == bottleneck_lower_bound(cost)


def test_the_bound_of_directed_costs_is_not_below_that_of_an_assignment() -> None:
    """Two circles of three that cost nothing to leave one way, and much to join."""
    cost = np.full((6, 6), 50.0)
    for a, b in ((0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)):
        cost[a, b] = 1.0
    np.fill_diagonal(cost, 0.0)
    best = min(ring_cost(cost, ring) for ring in rings(6))
    assert sum_lower_bound(cost, best, steps=0) >= 6.0
    assert sum_lower_bound(cost, best) == pytest.approx(best)
    # What a ring costs that was met already is no longer to be exceeded.
    assert sum_bound(cost, 3.0).bound == 3.0
    assert sum_lower_bound(np.zeros((1, 1)), 5.0) == 0.0
    three = random_cost(3, 1, directed=True)
    assert sum_lower_bound(three, 1e9) == min(ring_cost(three, ring) for ring in rings(3))
    two = random_cost(2, 1, directed=True)
    assert sum_lower_bound(two, 1e9) == ring_cost(two, (0, 1))


def rules(graph: Graph) -> bool:
    """Whether the rules of needed edges contradict each other, by going through all of them until nothing changes."""
    size = len(graph)
    left = {frozenset(pair) for pair in itertools.combinations(range(size), 2) if graph[pair]}
    needed: set[frozenset[int]] = set()
    changed = True
    while changed:
        changed = False
        for host in range(size):
            own = {edge for edge in left if host in edge}
            must = {edge for edge in needed if host in edge}
            if len(own) < 2 or len(must) > 2:
                return True
            if len(own) == 2 and not own <= needed:
                needed |= own
                changed = True
            if len(must) == 2 and own != must:
                left -= own - must
                changed = True
        # Ends of paths of needed edges, and circles of them.
        for start in range(size):
            path, at = [start], start
            while True:
                following = [o for e in needed if at in e for o in e - {at} if len(path) < 2 or o != path[-2]]
                if not following or (len(path) == 1 and len(following) > 1):
                    break
                at = following[0]
                if at in path:  # not where it began: a host of three needed edges
                    return at != start or len(path) < size
                path.append(at)
            closing = frozenset((path[0], path[-1]))
            if 2 < len(path) < size and closing in left:
                if closing in needed:
                    return True
                left.discard(closing)
                changed = True
    return False


@examples(60)
@given(st.integers(3, 8), st.integers(0, 10**6), st.floats(0.25, 0.8))
def test_needed_hops_are_followed_as_far_as_the_rules_go(size: int, seed: int, share: float) -> None:
    upper = np.triu(np.random.default_rng(seed).random((size, size)) < share, 1)
    graph = upper | upper.T
    # A circle of needed edges that leaves hosts out is a contradiction, whichever rule meets it first.
    assert contradicts_a_ring(graph) == rules(graph)


@pytest.mark.parametrize(
    ("size", "edges"),
    [(6, [(0, 1), (0, 3), (1, 2), (1, 3), (1, 5), (2, 4), (2, 5), (4, 5)]),
     (7, [(0, 1), (0, 2), (0, 4), (1, 2), (1, 4), (2, 3), (2, 4), (2, 5), (3, 5), (3, 6), (5, 6)])],
)  # fmt: skip
def test_a_hop_that_is_taken_away_is_gone_for_both_of_its_hosts(
    size: int, edges: list[tuple[int, int]]
) -> None:
    """Graphs without a ring, which is seen only where each end knows that the hop is gone."""
    graph = np.zeros((size, size), dtype=bool)
    for one, other in edges:
        graph[one, other] = graph[other, one] = True
    assert rules(graph) and contradicts_a_ring(graph)


def test_a_ring_itself_and_a_ring_with_a_tail() -> None:
    for size in (3, 4, 7):
        graph = np.zeros((size, size), dtype=bool)
        for host in range(size):
            graph[host, (host + 1) % size] = graph[(host + 1) % size, host] = True
        assert not contradicts_a_ring(graph) and not contradicts_a_ring(graph | np.eye(size, dtype=bool))
        cost = np.where(graph, 1.0, 5.0)
        np.fill_diagonal(cost, 0.0)
        assert bottleneck_lower_bound(cost) == 1.0
        cost[0, 1] = cost[1, 0] = 3.0
        assert bottleneck_lower_bound(cost) == 3.0


def strongly_connected(allowed: Graph) -> bool:
    size = len(allowed)
    reach = np.linalg.matrix_power(allowed.astype(float) + np.eye(size), size) > 0
    return bool(reach.all())


def without_any_host_connected(either: Graph) -> bool:
    size = len(either)
    keeps = [[host for host in range(size) if host != gone] for gone in range(size)]
    return all(strongly_connected(either[np.ix_(keep, keep)]) for keep in keeps)


@examples(60)
@given(st.integers(2, 7), st.integers(0, 10**6), st.booleans(), st.sampled_from([3, 100]))
def test_the_largest_hops_bound_is_the_least_threshold_that_may_hold_a_ring(
    size: int, seed: int, directed: bool, levels: int
) -> None:
    cost = np.random.default_rng(seed).integers(1, levels + 1, (size, size)).astype(float)
    if not directed:
        cost = np.maximum(cost, cost.T)

    def may(threshold: float) -> bool:
        allowed = (cost <= threshold) & ~np.eye(size, dtype=bool)
        either = allowed | allowed.T
        if not (allowed.any(axis=0).all() and allowed.any(axis=1).all() and strongly_connected(allowed)):
            return False
        return size < 3 or (without_any_host_connected(either) and not rules(either))

    off = cost[~np.eye(size, dtype=bool)]
    assert bottleneck_lower_bound(cost) == min(value for value in off if may(value))


def test_the_least_that_holds_is_found_from_any_floor() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    for first, low in itertools.product(values, (-np.inf, 0.0, 1.0, 2.0, 3.0, 8.0)):
        asked: list[float] = []

        def holds(value: float, first: float = first, asked: list[float] = asked) -> bool:
            asked.append(value)
            return value >= first

        wanted = min(value for value in values if value >= max(first, low))
        assert least_that_holds(values, holds, low=low) == wanted
        assert all(value >= low for value in asked)


def most_pairs(allowed: Graph) -> int:
    """The most arcs of which no two leave or enter one host: each host in turn, others make room where they can."""
    sender: dict[int, int] = {}

    def sends(host: int, seen: set[int]) -> bool:
        for to in set(np.flatnonzero(allowed[host]).tolist()) - seen:
            seen.add(to)
            if to not in sender or sends(sender[to], seen):
                sender[to] = host
                return True
        return False

    return sum(sends(host, set()) for host in range(len(allowed)))


@examples(12)
@given(st.integers(2, 6), st.integers(0, 10**6))
def test_pairs_that_no_one_shares_are_bound_by_the_best_matching(size: int, seed: int) -> None:
    link = LinkCost(
        alpha_s=random_cost(size, seed, directed=True),
        beta_s_per_byte=random_cost(size, seed + 1, directed=True),
        size_bytes=3.0,
    )
    off = ~np.eye(size, dtype=bool)
    for pairs, share in itertools.product(range(1, size + 1), (0.25, 1.0)):
        cost = link.matrix(share)
        wanted = min(v for v in cost[off] if most_pairs((cost <= v) & off) >= pairs)
        assert pairs_bound(link, pairs, share) == wanted


def rounds_by_rule(cost: FloatMatrix, radices: list[int], members: int) -> float:
    """Of each k the least threshold that lets ``members`` hosts have the neighbours, components and partners."""
    size = len(cost)
    slower = np.maximum(cost, cost.T)
    off = ~np.eye(size, dtype=bool)
    total = 0.0
    floor = 0.0
    for k in range(1, len(radices) + 1):
        products = [math.prod(chosen) for chosen in itertools.combinations(radices, k)]
        block, degree = math.gcd(*products), sum(r - 1 for r in sorted(radices)[:k])

        def holds(value: float, k: int = k, block: int = block, degree: int = degree) -> bool:
            allowed = (slower <= value) & off
            parts = {tuple(row) for row in np.linalg.matrix_power(allowed + np.eye(size), size) > 0}
            blocks = sum(sum(part) // block for part in parts) * block
            degrees = int((allowed.sum(axis=1) >= degree).sum())
            return blocks >= members and degrees >= members and (k > 1 or most_pairs(allowed) >= members)

        floor = max(floor, min(v for v in slower[off] if holds(v)))
        total += floor
    return total


@examples(10)
@given(
    st.sampled_from([(4, [2, 2]), (5, [2, 2]), (6, [3, 2]), (6, [2, 2]), (4, [4]), (3, [2])]),
    st.integers(0, 10**6),
)
def test_rounds_of_an_exchange_are_bound_by_what_they_need(case: tuple[int, list[int]], seed: int) -> None:
    size, radices = case
    alpha = random_cost(size, seed, directed=True)
    link = LinkCost(alpha_s=alpha)
    members = math.prod(radices)
    one = exchange_bound(link, radices, [0.5] * len(radices))
    assert one == pytest.approx(rounds_by_rule(alpha, radices, members))
    beta = random_cost(size, seed + 1, directed=True)
    sized = LinkCost(alpha_s=alpha, beta_s_per_byte=beta, size_bytes=2.0)
    shares = [0.5 ** (i + 1) for i in range(len(radices))]
    together = rounds_by_rule(sized.matrix(shares[-1]), radices, members)
    each = sum(
        rounds_by_rule(sized.matrix(share), [radix], members)
        for radix, share in zip(radices, shares, strict=True)
    )
    assert exchange_bound(sized, radices, shares) == pytest.approx(max(together, each))


def test_no_rounds_cost_nothing() -> None:
    assert exchange_bound(LinkCost(alpha_s=np.zeros((1, 1))), [], []) == 0.0


@examples(12)
@given(st.integers(2, 6), st.integers(0, 10**6), st.integers(1, 3))
def test_a_tree_is_bound_by_its_farthest_host_there_and_back_or_its_depth(
    size: int, seed: int, depth: int
) -> None:
    cost = random_cost(size, seed, directed=True)
    ways = cost.copy()
    for _ in range(size):
        for a, b, c in itertools.product(range(size), repeat=3):
            ways[a, c] = min(ways[a, c], ways[a, b] + ways[b, c])
    least = min(cost[a, b] for a in range(size) for b in range(size) if a != b)
    best = min(max(ways[root]) + max(ways[:, root]) for root in range(size))
    found = tree_bound(LinkCost(alpha_s=cost), depth, 0.5)
    assert found == pytest.approx(max(best, 2 * depth * least), rel=1e-9)
    assert tree_bound(LinkCost(alpha_s=np.zeros((1, 1))), depth, 0.5) == 0.0
