"""Annealing, the leaf order and polishing: what holds for any costs, any number of hosts, with numba and without."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.plan.costs import MODELS, LinkCost, cost_model, latency_only
from netprobe.plan.order.annealed import on_a_grid
from netprobe.plan.order.strategies import strategy_of
from netprobe.plan.order.strategy import Effort, SearchCosts
from netprobe.plan.search.anneal import anneal, drawn_moves
from netprobe.plan.search.anneal_kernels import EXCHANGE, kernels, run_rounds, run_trees
from netprobe.plan.search.leaves import interleaved, leaf_order
from netprobe.plan.search.polish import polish
from tests.plan.fleets import rack_fleet
from tests.properties import examples

ANNEALED = [name for name in MODELS if name not in ("ring", "chunked-ring")]
names = st.sampled_from(ANNEALED)


def random_links(size: int, seed: int, *, sized: bool) -> LinkCost:
    rng = np.random.default_rng(seed)
    beta: FloatMatrix | None = rng.random((size, size)) if sized else None
    return LinkCost(alpha_s=rng.random((size, size)), beta_s_per_byte=beta, size_bytes=2.5 if sized else 0.0)


@examples(12)
@given(st.integers(3, 300), st.integers(0, 2**32))
def test_every_move_drawn_is_possible_and_leaves_rank_0_alone(size: int, seed: int) -> None:
    for kind, a, b, c in drawn_moves(np.random.default_rng(seed), size, 300).tolist():
        if kind == EXCHANGE:
            assert 1 <= a < a + c <= b < b + c <= size
        else:
            assert 1 <= a < b <= size and 1 <= c <= size - (b - a)


@examples(15)
@given(names, st.integers(1, 40), st.integers(0, 1000), st.booleans(), st.booleans())
def test_a_run_never_ends_above_its_start_and_prices_as_the_model_does(
    name: str, size: int, seed: int, sized: bool, maximize: bool
) -> None:
    model, link = cost_model(name), random_links(size, seed, sized=sized)
    start = np.random.default_rng(seed).permutation(size).tolist()
    found = anneal(model, link, start, steps=60, seed=seed, maximize=maximize, compiled=False)
    assert sorted(found.order) == list(range(size)) and found.order[0] == start[0]
    assert found.cost == model.cost(found.order, link)
    sign = -1 if maximize else 1
    assert sign * found.cost <= sign * model.cost(start, link)
    assert found == anneal(model, link, start, steps=60, seed=seed, maximize=maximize, compiled=False)


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("name", ["halving-doubling", "reduce-scatter", "bcube", "nccl-tree"])
def test_the_loops_for_numba_take_the_same_way(
    name: str, sized: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very functions that numba compiles, run by Python, so that this holds where numba is not installed."""
    from netprobe.plan.search import anneal as module
    from netprobe.plan.search.anneal_kernels import Kernels

    model = cost_model(name)
    for size in (3, 6, 13, 16):
        link = random_links(size, size, sized=sized)
        plain = anneal(model, link, range(size), steps=150, seed=1, compiled=False)
        with monkeypatch.context() as patched:
            patched.setattr(module, "kernels", lambda: Kernels(run_rounds, run_trees))
            assert anneal(model, link, range(size), steps=150, seed=1, compiled=True) == plain


@pytest.mark.slow
@pytest.mark.skipif(kernels() is None, reason="numba is not installed: pip install 'netprobe-fleet[fast]'")
@pytest.mark.parametrize("name", ["halving-doubling", "double-binary-tree"])
def test_numba_changes_no_bit(name: str) -> None:
    model = cost_model(name)
    for size, sized in ((24, True), (64, False)):
        link = random_links(size, size, sized=sized)
        plain = anneal(model, link, range(size), steps=1500, seed=2, compiled=False)
        assert anneal(model, link, range(size), steps=1500, seed=2, compiled=True) == plain


@examples(15)
@given(st.integers(1, 60), st.integers(0, 1000), st.data())
def test_leaves_are_an_order_with_the_root_first_and_groups_together(
    size: int, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    rack = rng.integers(0, 4, size)
    cost = np.where(rack[:, None] == rack[None, :], 1.0, 9.0)
    first = data.draw(st.integers(0, size - 1))
    order = leaf_order(cost, first)
    assert sorted(order) == list(range(size)) and order[0] == first
    racks = rack[order]
    assert int((racks[1:] != racks[:-1]).sum()) == len(set(racks.tolist())) - 1
    out = interleaved(order)
    assert sorted(out) == list(range(size))
    assert out[0] == first


def test_interleaved_ranks_are_far_apart_where_leaves_are_near() -> None:
    assert interleaved(range(8)) == [0, 4, 2, 6, 1, 5, 3, 7]
    cost, _ = rack_fleet((4, 4), 1, noise=0.0)
    # Racks side by side cost halving by the farthest first more than interleaved racks, once bytes are priced.
    link = LinkCost(alpha_s=cost * 0.0, beta_s_per_byte=cost, size_bytes=1.0)
    model = cost_model("reduce-scatter")
    leaf = leaf_order(cost, 0)
    assert model.cost(interleaved(leaf), link) < model.cost(leaf, link)
    assert strategy_of("reduce-scatter").leaf(link, 0).order == tuple(interleaved(leaf))


@examples(12)
@given(st.sampled_from(list(MODELS)), st.integers(1, 40), st.integers(0, 1000), st.booleans())
def test_candidates_hold_for_any_number_of_hosts(name: str, size: int, seed: int, sized: bool) -> None:
    strategy, link = strategy_of(name), random_links(size, seed, sized=sized)
    rng = np.random.default_rng(seed)
    order = strategy.with_root(rng.permutation(size).tolist(), int(rng.integers(size)))
    effort = Effort(seed=seed, iterations=40)
    leaf = strategy.leaf(link, order[0])
    searched = strategy.search(SearchCosts(denoised=link, search=link), order, leaf.order, effort)
    worst = strategy.worst(link, order, effort)
    for found in (leaf.order, searched.order, tuple(worst)):
        assert sorted(found) == list(range(size)) and found[0] == order[0]
    original_cost = strategy.price(order, link)
    bound = strategy.lower_bound(link)
    assert bound * (1 - 1e-9) <= strategy.price(searched.order, link) <= original_cost * (1 + 1e-9)
    # Within so few kicks the search may find no more expensive ring; annealing starts from the original order.
    if name != "ring":
        assert strategy.price(worst, link) >= original_cost * (1 - 1e-9)


def whole_links(size: int, seed: int, *, most: int, sized: bool) -> LinkCost:
    """Links that cost whole numbers of a unit up to ``most``, as files of few digits have them."""
    rng = np.random.default_rng(seed)
    alpha, beta = rng.integers(0, most + 1, (2, size, size)).astype(np.float64)
    return LinkCost(alpha_s=alpha, beta_s_per_byte=beta if sized else None, size_bytes=2.5 if sized else 0.0)


def in_unit(link: LinkCost, scale: float) -> LinkCost:
    """The same costs in another unit."""
    beta = link.beta_s_per_byte
    return LinkCost(
        alpha_s=link.alpha_s * scale,
        beta_s_per_byte=None if beta is None else beta * scale,
        size_bytes=link.size_bytes,
    )


# Times 2.5, as halves: below 2^25, as `on_a_grid` asks.
MOST_WHOLE = 2**25 // 5 - 1
UNITS = st.one_of(st.sampled_from([1e-9, 1e-6, 1e-3, 7.0, 1e6]), st.floats(1e-9, 1e9))


@given(st.integers(2, 40), st.integers(0, 2**32), st.integers(1, MOST_WHOLE), UNITS, st.booleans())
def test_the_grid_is_the_same_in_every_unit(
    size: int, seed: int, most: int, scale: float, sized: bool
) -> None:
    link = whole_links(size, seed, most=most, sized=sized)
    one, other = on_a_grid(link), on_a_grid(in_unit(link, scale))
    assert np.array_equal(one.matrix(0.0), other.matrix(0.0)) and np.array_equal(one.matrix(), other.matrix())


@pytest.mark.parametrize("most", [MOST_WHOLE, 4_194_304, 1_000_000, 3 * 2**20, 2**20 + 1])
def test_no_cost_near_half_a_step_is_rounded_another_way_in_another_unit(most: int) -> None:
    """The whole numbers that lie nearest to half a step of the grid, for largest costs that bring them near."""
    steps = np.arange(0, 2**24, 2**24 // 3000, dtype=np.float64)
    nearest = np.unique(np.rint((steps + 0.5) * most / 2**24))
    nearest = np.append(nearest[nearest <= most], most)
    size = int(np.ceil(np.sqrt(len(nearest)))) + 1
    alpha = np.zeros((size, size))
    alpha[~np.eye(size, dtype=bool)] = np.resize(nearest, size * (size - 1))
    link = LinkCost(alpha_s=alpha)
    for scale in (1e-9, 1e-6, 1e-3, 1 / 3, 7.0, 1e6, 0.1):
        assert np.array_equal(on_a_grid(link).alpha_s, on_a_grid(in_unit(link, scale)).alpha_s)


def test_costs_of_many_digits_that_a_finer_grid_rounded_two_ways() -> None:
    for size, scale in itertools.product(range(3, 25), (1e-9, 1e-3, 7.0, 1e6)):
        link = random_links(size, size, sized=False)
        assert np.array_equal(on_a_grid(link).alpha_s, on_a_grid(in_unit(link, scale)).alpha_s), (size, scale)


@given(st.integers(2, 40), st.integers(0, 2**32), st.integers(-60, 60), st.booleans())
def test_a_power_of_two_as_unit_changes_no_cost(size: int, seed: int, power: int, sized: bool) -> None:
    link = random_links(size, seed, sized=sized)
    one, other = on_a_grid(link), on_a_grid(in_unit(link, 2.0**power))
    assert np.array_equal(one.matrix(0.0), other.matrix(0.0)) and np.array_equal(one.matrix(), other.matrix())


@examples(8)
@given(names, st.integers(3, 24), st.integers(0, 2**32), st.integers(1, MOST_WHOLE), UNITS, st.booleans())
def test_the_unit_decides_nothing(
    name: str, size: int, seed: int, most: int, scale: float, sized: bool
) -> None:
    link = whole_links(size, seed, most=most, sized=sized)
    other = in_unit(link, scale)
    strategy, original = strategy_of(name), list(range(size))
    first, second = (
        strategy.search(
            SearchCosts(denoised=costs, search=costs), original, original, Effort(seed=3, iterations=50)
        )
        for costs in (link, other)
    )
    assert first == second


@pytest.mark.parametrize("name", list(MODELS))
def test_equal_costs_keep_the_original_order(name: str) -> None:
    strategy, link = strategy_of(name), latency_only(np.full((12, 12), 1e-4))
    order = [3, 1, 4, 0, 5, 9, 2, 6, 8, 7, 11, 10]
    leaf = strategy.leaf(link, order[0])
    costs = SearchCosts(denoised=link, search=link)
    assert strategy.search(costs, order, leaf.order, Effort(iterations=50)).order == tuple(order)


@pytest.mark.parametrize("name", ["halving-doubling", "bcube", "double-binary-tree"])
def test_polishing_proves_the_best_order_of_six_hosts(name: str) -> None:
    pytest.importorskip("ortools")
    from itertools import permutations

    model, link = cost_model(name), random_links(6, 4, sized=name == "bcube")
    found = polish(model, link, range(6), seconds=60.0)
    least = min(model.cost([0, *rest], link) for rest in permutations(range(1, 6)))
    assert found.proven and found.order[0] == 0
    assert model.cost(found.order, link) == pytest.approx(least, rel=1e-5)


def test_what_cannot_be_polished_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    link = random_links(40, 1, sized=False)
    with pytest.raises(InputError, match="32 at most"):
        polish(cost_model("bcube"), link, range(40), seconds=1.0)
    with pytest.raises(InputError, match="above 0"):
        polish(cost_model("bcube"), link, range(40), seconds=0.0)
    monkeypatch.setattr("netprobe.plan.search.polish.find_spec", lambda _name: None)
    with pytest.raises(InputError, match="OR-tools, which is not installed"):
        polish(cost_model("bcube"), random_links(4, 1, sized=False), range(4), seconds=1.0)
