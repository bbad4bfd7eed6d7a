"""The ring solver: invariants, optimality on a few hosts, racks, and bounds."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import Objective
from netprobe.core.errors import InputError
from netprobe.core.numeric.compiled import compiled_kernels
from netprobe.plan import crossings, ring_cost, solve_ring
from netprobe.plan.bounds.forced import contradicts_a_ring
from netprobe.plan.bounds.onetree import held_karp
from netprobe.plan.bounds.rings import bottleneck_lower_bound, sum_lower_bound
from netprobe.plan.search import improve_ring, ring_list
from netprobe.plan.search.construct import neighbours, padded, whole_units
from netprobe.plan.search.exact import MAX_EXACT_HOSTS
from tests.plan.fleets import rack_fleet
from tests.properties import examples

OBJECTIVES: tuple[Objective, ...] = ("sum", "bottleneck")
objectives = st.sampled_from(OBJECTIVES)
NO_DEADLINE = examples(25)


def random_cost(size: int, seed: int, directed: bool, levels: int = 0) -> FloatMatrix:
    rng = np.random.default_rng(seed)
    cost = (
        rng.integers(1, levels + 1, (size, size)) * 1e-4 if levels else rng.uniform(1e-5, 1e-3, (size, size))
    )
    if not directed:
        cost = np.triu(cost, 1) + np.triu(cost, 1).T
    np.fill_diagonal(cost, 0.0)
    return np.asarray(cost, dtype=np.float64)


costs = st.builds(
    random_cost,
    size=st.one_of(st.integers(1, 9), st.integers(MAX_EXACT_HOSTS + 1, MAX_EXACT_HOSTS + 5)),
    seed=st.integers(0, 10_000),
    directed=st.booleans(),
    levels=st.sampled_from([0, 0, 1, 2, 5]),
)
small = st.builds(
    random_cost,
    size=st.integers(3, 6),
    seed=st.integers(0, 10_000),
    directed=st.booleans(),
    levels=st.sampled_from([0, 0, 3]),
)


@pytest.mark.slow
@NO_DEADLINE
@given(costs, objectives, st.integers(0, 5), st.randoms(use_true_random=False))
def test_a_ring_is_a_permutation_never_worse_than_the_given_order(
    cost: FloatMatrix, objective: Objective, seed: int, rng: random.Random
) -> None:
    start = list(range(len(cost)))
    rng.shuffle(start)
    ring = solve_ring(cost, objective=objective, seed=seed, start=start, iterations=50)
    assert sorted(ring.order) == list(range(len(cost)))
    assert ring.order[0] == start[0]
    assert ring.cost_s == ring_cost(cost, ring.order, objective)
    assert ring.cost_given_s == ring_cost(cost, start, objective)
    assert ring.cost_s <= ring.cost_given_s
    assert ring.lower_bound_s <= ring.cost_s
    assert ring == solve_ring(cost, objective=objective, seed=seed, start=start, iterations=50)


@NO_DEADLINE
@given(small, objectives)
def test_few_hosts_get_the_best_ring_there_is(cost: FloatMatrix, objective: Objective) -> None:
    rings = [(0, *rest) for rest in itertools.permutations(range(1, len(cost)))]
    ranks = [(ring_cost(cost, ring, "bottleneck"), ring_cost(cost, ring)) for ring in rings]
    best = min(ranks) if objective == "bottleneck" else (min(total for _, total in ranks),)
    ring = solve_ring(cost, objective=objective)
    assert ring.proven
    assert ring.cost_s == pytest.approx(best[0], rel=1e-9)
    assert ring_cost(cost, ring.order) == pytest.approx(best[-1], rel=1e-9)


@NO_DEADLINE
@given(small)
def test_bounds_never_exceed_the_best_ring(cost: FloatMatrix) -> None:
    best = solve_ring(cost).cost_s
    assert sum_lower_bound(cost, ring_cost(cost, range(len(cost)))) <= best * (1 + 1e-12)
    assert bottleneck_lower_bound(cost) <= solve_ring(cost, objective="bottleneck").cost_s
    if len(cost) > 3:
        # However far off the ring is that the steps aim at.
        for aim in (1.0, 1.5, 20.0):
            found = held_karp(cost, best * aim, 120)
            assert found.bound <= best * (1 + 1e-12)
            if found.ring is not None:
                assert sorted(found.ring) == list(range(len(cost)))
                assert ring_cost(cost, found.ring) >= best * (1 - 1e-12)


def test_needed_hops_contradict_a_ring_only_where_there_is_none() -> None:
    rng = np.random.default_rng(5)
    rings = [np.array((0, *rest)) for rest in itertools.permutations(range(1, 7)) if rest[0] < rest[-1]]
    decided = 0
    for _ in range(150):
        upper = np.triu(rng.random((7, 7)) < rng.uniform(0.35, 0.7), 1)
        graph = upper | upper.T
        holds = any(graph[ring, np.roll(ring, -1)].all() for ring in rings)
        contradiction = contradicts_a_ring(graph)
        assert not (holds and contradiction)
        decided += contradiction
    assert decided > 30


def test_needed_hops_raise_the_bound_of_the_largest_hop() -> None:
    """Host 0 is joined by short hops to three hosts that need it: 2-connected, and no ring."""
    short = [(0, 1), (0, 2), (0, 3), (4, 1), (4, 2), (4, 3)]
    cost = np.full((5, 5), 9e-4)
    for a, b in short:
        cost[a, b] = cost[b, a] = 1e-4
    assert bottleneck_lower_bound(cost) == 9e-4
    assert solve_ring(cost, objective="bottleneck").cost_s == 9e-4


@pytest.mark.slow
@NO_DEADLINE
@given(costs, objectives, st.sampled_from([1e3, 1e6, 1024.0, 0.125]))
def test_the_unit_decides_nothing(cost: FloatMatrix, objective: Objective, scale: float) -> None:
    one = solve_ring(cost, objective=objective, iterations=50)
    other = solve_ring(cost * scale, objective=objective, iterations=50)
    assert other.order == one.order
    assert other.cost_s == pytest.approx(one.cost_s * scale, rel=1e-12)


@pytest.mark.parametrize("directed", [False, True])
def test_the_search_keeps_its_books(directed: bool) -> None:
    """The running total and the places agree with the ring after every kick, repair and restoration."""
    cost = whole_units(random_cost(40, 3, directed))
    both = padded(neighbours(cost) + neighbours(cost.T.copy()))
    ring = ring_list.start(cost, (both[:40], both[40:]), list(range(40)), 1, as_lists=True)
    once = ring_list.start(cost, (both[:40], both[40:]), list(range(40)), 1, as_lists=True)
    first = ring.state[ring_list.TOTAL]
    improve_ring.improve_all(ring)
    for _ in range(60):
        improve_ring.search(ring, 5, -1)
        order, place = ring.ring[:40], ring.ring[40:80]
        assert ring.state[ring_list.TOTAL] == cost[order, np.roll(order, -1)].sum()
        assert sorted(order) == list(range(40))
        assert [order[at] for at in place] == list(range(40))
    assert ring.state[ring_list.TOTAL] < first
    improve_ring.improve_all(once)
    improve_ring.search(once, 300, -1)
    assert once.ring == ring.ring


@pytest.mark.slow
def test_compiled_and_plain_give_the_same_ring() -> None:
    """The one test that compiles: both objectives and both kinds of costs in one process, from numba's cache or not."""
    if compiled_kernels(improve_ring) is None:
        pytest.skip("numba cannot be used here: the compiled kernels are not there to compare")
    for directed, objective in itertools.product((False, True), OBJECTIVES):
        cost, _ = rack_fleet((9, 20, 13, 8), 4, noise=0.2, directed=directed)
        rings = [
            solve_ring(cost, objective=objective, seed=3, iterations=200, compiled=compiled)
            for compiled in (True, False)
        ]
        assert rings[0] == rings[1]


def test_without_numba_the_plain_search_runs_and_a_compiled_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("netprobe.plan.search.ring.numba_is_installed", lambda: False)
    monkeypatch.setattr("netprobe.plan.search.ring.compiled_kernels", lambda module: None)
    cost, rack = rack_fleet([8] * 6, 5)
    assert crossings(solve_ring(cost, iterations=200).order, rack) == 6
    with pytest.raises(InputError, match="'fast'"):
        solve_ring(cost, compiled=True)


def test_a_search_whose_time_is_up_says_how_far_it_came() -> None:
    cost, _ = rack_fleet((9, 11), 2, noise=0.3, directed=True)
    assert len(cost) > MAX_EXACT_HOSTS
    stopped = solve_ring(cost, time_s=0.0)
    assert stopped.iterations == 0
    assert sorted(stopped.order) == list(range(20))
    patient = solve_ring(cost, iterations=150, time_s=1e6)
    assert patient == solve_ring(cost, iterations=150)


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_search_agrees_with_the_proof(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(6):
        cost = random_cost(9, seed, directed=seed % 2 == 1)
        proven = solve_ring(cost, objective=objective)
        with monkeypatch.context() as patch:
            patch.setattr("netprobe.plan.search.ring.MAX_EXACT_HOSTS", 2)
            found = solve_ring(cost, objective=objective, iterations=400)
        assert found.cost_s == pytest.approx(proven.cost_s, rel=1e-9)
        assert found.lower_bound_s <= proven.cost_s * (1 + 1e-12)


def test_trivial_rings() -> None:
    assert solve_ring(np.zeros((1, 1))).cost_s == 0.0
    two = solve_ring(np.array([[0.0, 1.0], [3.0, 0.0]]))
    assert (two.order, two.cost_s, two.proven) == ((0, 1), 4.0, True)
    assert solve_ring(np.array([[0.0, 1.0], [3.0, 0.0]]), objective="bottleneck").cost_s == 3.0
    directed = np.array([[0.0, 9.0, 1.0], [1.0, 0.0, 9.0], [9.0, 1.0, 0.0]])
    assert solve_ring(directed).order == (0, 2, 1)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("size", [5, MAX_EXACT_HOSTS + 2])
def test_a_flat_network_keeps_the_given_order(objective: Objective, size: int) -> None:
    start = list(reversed(range(size)))
    ring = solve_ring(np.full((size, size), 1e-4), objective=objective, start=start)
    assert list(ring.order) == start


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("sizes", [(7, 7, 5), (3, 7, 10), (5, 5, 5, 5)])
def test_racks_are_crossed_no_more_often_than_needed(sizes: tuple[int, ...], objective: Objective) -> None:
    for seed in range(4):
        cost, rack = rack_fleet(sizes, seed, directed=seed % 4 == 3)
        ring = solve_ring(cost, objective=objective, seed=seed, iterations=300)
        if objective == "sum":
            assert crossings(ring.order, rack) == len(sizes)
            assert ring.cost_s <= ring.lower_bound_s * 1.08
        else:
            assert crossings(ring.order, rack) <= 2 * len(sizes)
            assert ring.cost_s == pytest.approx(ring.lower_bound_s, rel=0.05)


def hierarchy(sizes: Sequence[int], level_s: Sequence[float]) -> FloatMatrix:
    """Each host in groups of ``sizes``, nested; a pair costs the level of the smallest group that holds both."""
    place = np.random.default_rng(len(sizes)).permutation(int(np.prod(sizes)))
    cost = np.full((len(place), len(place)), level_s[-1])
    for depth in range(len(sizes) - 1, 0, -1):
        group = place // int(np.prod(sizes[:depth]))
        cost[group[:, None] == group[None, :]] = level_s[depth - 1]
    np.fill_diagonal(cost, 0.0)
    return cost


def test_a_hierarchy_without_noise_is_proven_at_once() -> None:
    """All ties: steps from nothing left a tenth of the cost open, and the ring is the best one."""
    for sizes in ((5, 4), (4, 3, 4), (8, 2, 2, 2)):
        cost = hierarchy(sizes, (5e-5, 1.5e-4, 3e-4, 6e-4)[: len(sizes)])
        ring = solve_ring(cost, iterations=200)
        assert ring.proven and ring.lower_bound_s == pytest.approx(ring.cost_s, rel=1e-9)
        assert held_karp(cost, 2 * ring.cost_s, 50).bound == pytest.approx(ring.cost_s, rel=1e-9)


@pytest.mark.slow
def test_racks_of_many_hosts() -> None:
    cost, rack = rack_fleet([8] * 10, 5, noise=0.1)
    ring = solve_ring(cost, iterations=1000)
    assert crossings(ring.order, rack) == 10
    assert ring.cost_s <= ring.lower_bound_s * 1.04


@pytest.mark.slow
def test_a_plane_is_ringed_near_the_bound() -> None:
    points = np.random.default_rng(2).random((64, 2))
    cost = np.hypot(*(points[:, None] - points[None, :]).transpose(2, 0, 1))
    assert (
        solve_ring(cost, iterations=1000).cost_s <= sum_lower_bound(cost, ring_cost(cost, range(64))) * 1.03
    )


def test_the_root_turns_the_ring_and_changes_nothing_else() -> None:
    cost, _ = rack_fleet((7, 7, 5), 1)
    plain = solve_ring(cost, iterations=100).order
    for root in (0, 3, 18):
        order = solve_ring(cost, root=root, iterations=100).order
        assert order[0] == root
        turn = plain.index(root)
        assert order == plain[turn:] + plain[:turn]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1e-6])
def test_an_impossible_cost_is_refused(bad: float) -> None:
    cost = np.full((4, 4), 1e-4)
    cost[1, 2] = bad
    with pytest.raises(InputError, match="host 1 to host 2"):
        solve_ring(cost)


def test_impossible_requests_are_refused() -> None:
    cost = np.full((4, 4), 1e-4)
    with pytest.raises(InputError, match="one row and one column"):
        solve_ring(cost[:3])
    with pytest.raises(InputError, match="one row and one column"):
        solve_ring(np.zeros((0, 0)))
    with pytest.raises(InputError, match="each of the 4 hosts once"):
        solve_ring(cost, start=[0, 1, 2, 2])
    with pytest.raises(InputError, match="root 4"):
        solve_ring(cost, root=4)


def test_the_largest_cost_is_2_to_the_40th_units_up_to_1024_hosts_and_half_as_many_above() -> None:
    """Sums of N hops, penalties of N largest costs included, stay below 2^61: 2^(40 + 2 * 10) with a bit to spare."""
    for hosts, bits in ((2, 40), (1024, 40), (1025, 39)):
        cost = np.ones((hosts, hosts))
        cost[0, 1] = 3.0
        units = whole_units(cost)
        assert units[0, 1] == 1 << bits and units[1, 0] == round((1 << bits) / 3) and units[0, 0] == 0
