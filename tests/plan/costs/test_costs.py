"""Cost models of collectives: their programs deliver, their costs agree however they are computed."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.plan.costs import (
    MODELS,
    BCube,
    ChunkedRing,
    CostModel,
    DoubleBinaryTree,
    HalvingDoubling,
    LinkCost,
    NcclTree,
    RecursiveDoubling,
    ReduceScatter,
    Ring,
    cost_model,
    latency_and_goodput,
    latency_only,
)
from netprobe.plan.costs.tree import both_trees
from netprobe.plan.schedule.builders import algorithm_of
from netprobe.plan.schedule.builders.exchange import bcube_radices
from netprobe.plan.search.ring import ring_cost
from tests.plan.fleets import rack_fleet
from tests.properties import examples

EVERY: list[CostModel] = [*MODELS.values(), BCube(2), BCube(3)]
models = st.sampled_from(EVERY)
sizes = st.integers(1, 40)
QUICK = examples(50)
each_model = pytest.mark.parametrize("model", EVERY, ids=lambda model: model.name)


def links(size: int, seed: int, *, goodput: bool = False, levels: int = 0) -> LinkCost:
    """Directed costs; ``levels`` makes ties."""
    rng = np.random.default_rng(seed)
    alpha: FloatMatrix = rng.gamma(2, 1e-4, (size, size))
    if levels:
        alpha = rng.integers(0, levels, (size, size)) * np.float64(1e-5)
    if not goodput:
        return LinkCost(alpha_s=alpha)
    return LinkCost(alpha_s=alpha, beta_s_per_byte=rng.gamma(3, 1e-10, (size, size)), size_bytes=1e6)


@st.composite
def priced(draw: st.DrawFn) -> tuple[CostModel, list[int], LinkCost]:
    size = draw(sizes)
    seed = draw(st.integers(0, 2**32 - 1))
    cost = links(size, seed, goodput=draw(st.booleans()), levels=draw(st.sampled_from([0, 3])))
    return draw(models), draw(st.permutations(range(size))), cost


@each_model
def test_what_is_priced_is_what_is_built(model: CostModel) -> None:
    algorithm = algorithm_of(model.name)
    assert algorithm.scatters == (model.collective == "reduce_scatter")
    for ranks in range(1, 41):
        assert model.program(ranks) == algorithm.rounds(ranks) and model.chunks(ranks) == algorithm.chunks(
            ranks
        )


@each_model
def test_every_round_is_an_exchange_that_hosts_can_make_at_once(model: CostModel) -> None:
    for ranks in range(1, 41):
        peers = 1
        if isinstance(model, BCube):
            peers = max(bcube_radices(ranks, model.base), default=2) - 1
        for transfers in model.rounds(ranks):
            sends = Counter(src for src, _, _ in transfers)
            receives = Counter(dst for _, dst, _ in transfers)
            # Two trees of two children each; in every other algorithm a rank has its peers of the round.
            limit = 4 if model.name.endswith("tree") else peers
            assert max(sends.values()) <= limit
            assert max(receives.values()) <= limit
            assert all(0 < share <= 1 for _, _, share in transfers)


@each_model
def test_an_all_reduce_sends_each_rank_what_it_must(model: CostModel) -> None:
    for ranks in (8, 16, 32):
        received = np.zeros(ranks)
        for transfers in model.rounds(ranks):
            for _, dst, share in transfers:
                received[dst] += share
        half = (ranks - 1) / ranks
        whole = half if model.collective == "reduce_scatter" else 2 * half
        assert received.mean() >= whole * (1 - 1e-12)
        if model.name in {"chunked-ring", "halving-doubling", "bcube", "bcube-2", "reduce-scatter"}:
            assert received == pytest.approx(np.full(ranks, whole))


def test_costs_by_hand() -> None:
    """A cost that names its link, so each sum shows which links it took."""
    size = 4
    hops = np.array([[10.0 * src + dst for dst in range(size)] for src in range(size)])
    cost = LinkCost(alpha_s=hops)
    order = range(size)
    assert Ring().cost(order, cost) == 1 + 12 + 23 + 30
    assert ChunkedRing().cost(order, cost) == 6 * 30
    # Round 0 pairs 0-1 and 2-3, round 1 pairs 0-2 and 1-3: the slower direction of the slower pair.
    assert HalvingDoubling().cost(order, cost) == 2 * (32 + 31)
    assert RecursiveDoubling().cost(order, cost) == 32 + 31
    assert ReduceScatter().cost(order, cost) == 32 + 31
    assert BCube(4).cost(order, cost) == 2 * 32
    # 1 over 0 and 2, 2 over 3; a rank lower: 0 over 3 and 1, 1 over 2.
    assert DoubleBinaryTree().parents(4) == ((1, -1, 1, 2), (-1, 0, 1, 0))
    assert DoubleBinaryTree().cost(order, cost) == max(21 + 32 + 12 + 23, 30 + 3, 10 + 21 + 1 + 12)
    # 0 over 2, 2 over 1 and 3; mirrored: 3 over 1, 1 over 2 and 0.
    assert NcclTree().parents(4) == ((-1, 2, 0, 2), (1, 3, 1, -1))
    assert NcclTree().cost(order, cost) == max(20 + 32 + 2 + 23, 13 + 21 + 31 + 12)


def test_sizes_halve_as_the_distance_doubles() -> None:
    """Only bytes cost here, and only between the halves of the ranks: far pairs exchange S/8 or S/2."""
    far = np.array([[float(src // 4 != dst // 4) for dst in range(8)] for src in range(8)])
    cost = LinkCost(alpha_s=np.zeros((8, 8)), beta_s_per_byte=far, size_bytes=8.0)
    assert HalvingDoubling().cost(range(8), cost) == 2 * 1.0
    assert HalvingDoubling(nearest_first=False).cost(range(8), cost) == 2 * 4.0
    assert ReduceScatter().cost(range(8), cost) == 4.0
    assert RecursiveDoubling().cost(range(8), cost) == 8.0
    assert bcube_radices(32, 4) == [4, 4, 2]
    assert BCube(4).cost(range(8), cost) == 2 * 1.0


def test_nccl_trees_are_those_nccl_draws() -> None:
    """The drawings in NCCL's source: 14 ranks, then the mirror of 12 and the shift of 13."""
    first = both_trees(NcclTree(), 14)[0]
    assert first.children[0] == (8,)
    assert [first.children[rank] for rank in (8, 4, 12, 2, 6, 10)] == [
        (4, 12),
        (2, 6),
        (10, 13),
        (1, 3),
        (5, 7),
        (9, 11),
    ]
    mirror = both_trees(NcclTree(), 12)[1]
    assert (mirror.root, mirror.children[11], mirror.children[3]) == (11, (3,), (1, 7))
    shift = both_trees(NcclTree(), 13)[1]
    assert (shift.root, shift.children[1], shift.children[9]) == (1, (9,), (0, 5))


def test_a_binary_tree_of_middles_is_balanced_for_any_number_of_ranks() -> None:
    for ranks in range(1, 200):
        for tree in both_trees(DoubleBinaryTree(), ranks):
            assert tree.height == ranks.bit_length() - 1
            assert max(len(children) for children in tree.children) <= 2
        # A rank that is a leaf of both trees never helps: fewer than half of all are.
    leaves = [{r for r, c in enumerate(t.children) if not c} for t in both_trees(NcclTree(), 64)]
    assert not leaves[0] & leaves[1]


@QUICK
@given(priced(), st.integers(0, 2**32 - 1))
def test_many_orders_at_once_cost_what_each_costs(
    case: tuple[CostModel, list[int], LinkCost], seed: int
) -> None:
    model, order, cost = case
    rng = np.random.default_rng(seed)
    orders = np.array([order, *(rng.permutation(len(order)) for _ in range(4))])
    assert model.costs(orders, cost).tolist() == [model.cost(one, cost) for one in orders.tolist()]


@QUICK
@given(priced())
def test_a_model_costs_what_its_rounds_say(case: tuple[CostModel, list[int], LinkCost]) -> None:
    model, order, cost = case
    if isinstance(model, Ring):
        matrix = cost.matrix()
        assert model.cost(order, cost) == ring_cost(matrix, order)
        return
    total = 0.0
    for transfers in model.rounds(len(order)):
        total += max(cost.matrix(share)[order[src], order[dst]] for src, dst, share in transfers)
    if model.name.endswith("tree"):
        # Rounds wait for each other, ways do not.
        assert model.cost(order, cost) <= total * (1 + 1e-12)
    else:
        assert model.cost(order, cost) == pytest.approx(total, rel=1e-12)


@QUICK
@given(priced(), st.integers(0, 2**32 - 1))
def test_neighbours_cost_to_the_bit_what_the_whole_order_costs(
    case: tuple[CostModel, list[int], LinkCost], seed: int
) -> None:
    model, order, cost = case
    size = len(order)
    rng = random.Random(seed)
    here = model.start(order, cost)
    assert here.cost == model.cost(order, cost)
    now = list(order)
    for _ in range(12):
        after = list(now)
        kind = rng.choice(["swap", "move", "exchange"])
        if kind == "swap" or size < 2:
            a, b = rng.randrange(size), rng.randrange(size)
            after[a], after[b] = after[b], after[a]
            got = here.swap(a, b)
        elif kind == "move":
            first = rng.randrange(size)
            last = rng.randint(first + 1, size)
            to = rng.randint(0, size - (last - first))
            rest = now[:first] + now[last:]
            after = rest[:to] + now[first:last] + rest[to:]
            got = here.move(first, last, to)
        else:
            length = rng.randint(1, size // 2)
            a = rng.randint(0, size - 2 * length)
            b = rng.randint(a + length, size - length)
            after[a : a + length], after[b : b + length] = now[b : b + length], now[a : a + length]
            got = here.exchange(b, a, length)
        assert got == model.cost(after, cost)
        assert here.order == tuple(now) and here.cost == model.cost(now, cost)
        if rng.random() < 0.6:
            here.accept()
            now = after
            assert here.order == tuple(now) and here.cost == got


@QUICK
@given(priced(), st.integers(0, 2**32 - 1))
def test_names_of_hosts_do_not_matter(case: tuple[CostModel, list[int], LinkCost], seed: int) -> None:
    model, order, cost = case
    called = random.Random(seed).sample(range(len(order)), len(order))
    renamed = [called.index(host) for host in order]
    assert model.cost(renamed, cost.permuted(called)) == model.cost(order, cost)


@each_model
def test_equal_costs_make_all_orders_equal(model: CostModel) -> None:
    for size in (1, 2, 7, 16):
        cost = LinkCost(
            alpha_s=np.full((size, size), 3e-5), beta_s_per_byte=np.full((size, size), 1e-9), size_bytes=1e5
        )
        rng = np.random.default_rng(size)
        prices = model.costs([rng.permutation(size).tolist() for _ in range(20)], cost)
        assert len(set(prices.tolist())) == 1
        assert (prices[0] == 0) == (size == 1)
        assert model.lower_bound(cost) <= prices[0] * (1 + 1e-12)


@examples(40)
@given(models, st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0, 3]))
def test_no_order_costs_less_than_the_bound(
    model: CostModel, size: int, seed: int, goodput: bool, levels: int
) -> None:
    cost = links(size, seed, goodput=goodput, levels=levels)
    best = model.costs(list(itertools.permutations(range(size))), cost).min()
    assert model.lower_bound(cost) <= best * (1 + 1e-12)


@pytest.mark.parametrize("racks", [[8] * 2, [5, 6, 9]])
@each_model
def test_no_rack_order_costs_less_than_the_bound(model: CostModel, racks: list[int]) -> None:
    matrix, rack = rack_fleet(racks, 3, directed=True)
    cost = LinkCost(alpha_s=matrix, beta_s_per_byte=matrix * 1e-5, size_bytes=1e6)
    order = sorted(range(len(rack)), key=lambda host: rack[host])
    bound = model.lower_bound(cost)
    assert 0 < bound <= model.cost(order, cost)


def test_the_bound_of_trees_keeps_links_that_cost_nothing() -> None:
    """Hosts 0 to 3 in a line of free links, every other link dear: a star would pay, and no tree need to."""
    dear = np.ones((4, 4))
    for host in range(3):
        dear[host, host + 1] = dear[host + 1, host] = 0.0
    for model in (DoubleBinaryTree(), NcclTree()):
        assert model.lower_bound(LinkCost(alpha_s=dear)) == 0.0


def test_the_bound_of_halving_doubling_sees_racks_that_hold_no_whole_block() -> None:
    """Racks of 8 let three rounds stay inside; racks of 6 and 10 let only the matching and one more."""
    for racks, inside in (([8, 8], 3), ([6, 10], 1)):
        matrix, rack = rack_fleet(racks, 1, noise=0.0)
        bound = HalvingDoubling().lower_bound(LinkCost(alpha_s=matrix))
        assert bound == pytest.approx(2 * (inside * 50e-6 + (4 - inside) * 150e-6))
        order = sorted(range(16), key=lambda host: rack[host])
        assert HalvingDoubling().cost(order, LinkCost(alpha_s=matrix)) == pytest.approx(bound)


def test_the_order_that_suits_one_algorithm_spoils_another() -> None:
    """Racks of consecutive ranks keep a ring's hops and the largest exchanges of halving-doubling inside; a
    reduce-scatter sends most to the farthest rank, and needs the racks interleaved."""
    matrix, rack = rack_fleet([16] * 4, 5)
    cost = LinkCost(alpha_s=matrix, beta_s_per_byte=matrix * 1e-5, size_bytes=1e8)
    together = sorted(range(64), key=lambda host: rack[host])
    apart = [together[16 * (rank % 4) + rank // 4] for rank in range(64)]
    ratio = {}
    for model in EVERY:
        low, high = model.costs([together, apart], cost)
        ratio[model.name] = high / low
    assert ratio["ring"] > 2
    assert ratio["halving-doubling"] > 1.5
    assert ratio["bcube"] > 1.5
    assert ratio["reduce-scatter"] < 1 / 1.5
    assert ratio["halving-doubling-farthest-first"] < 1 / 1.5


def test_link_costs_are_half_a_round_trip_and_the_bytes() -> None:
    rtt = np.array([[np.nan, 2e-4], [4e-4, np.nan]])
    cost = latency_and_goodput(rtt, np.array([[np.nan, 1e9], [5e8, np.nan]]), 1e6)
    assert cost.matrix(0.5).tolist() == [[0.0, 1e-4 + 0.5e-3], [2e-4 + 1e-3, 0.0]]
    assert latency_only(rtt).matrix(0.5).tolist() == [[0.0, 1e-4], [2e-4, 0.0]]
    assert math.isclose(Ring().cost([1, 0], cost), 1e-4 + 1e-3 + 2e-4 + 2e-3)


SQUARE: FloatMatrix = np.ones((3, 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinkCost(alpha_s=np.ones((2, 3))), r"shape \(2, 3\)"),
        (lambda: latency_only(np.full((3, 3), np.nan)), "from host 0 to host 1 is nan"),
        (lambda: latency_only(-SQUARE), "at least 0"),
        (lambda: LinkCost(alpha_s=SQUARE, beta_s_per_byte=np.ones((2, 2)), size_bytes=1), "3 hosts"),
        (lambda: LinkCost(alpha_s=SQUARE, beta_s_per_byte=SQUARE), "must be above 0"),
        (lambda: latency_and_goodput(SQUARE, 0 * SQUARE, 1), "goodput from host 0 to host 1 is 0"),
        (lambda: BCube(1), "at least 2"),
        (lambda: cost_model("star"), "known are ring, chunked-ring"),
        (lambda: Ring().cost([0, 1, 3], latency_only(SQUARE)), "not one of the 3"),
        (lambda: Ring().cost([0, -1], latency_only(SQUARE)), "not one of the 3"),
        (lambda: Ring().cost([0, 1, 1], latency_only(SQUARE)), "twice"),
        (lambda: Ring().costs([[0, 1], [0]], latency_only(SQUARE)), "different lengths"),
        (lambda: NcclTree().costs([0.5, 1.5], latency_only(SQUARE)), "list of host numbers"),  # type: ignore[list-item]
        (lambda: Ring().start([0, 1, 2], latency_only(SQUARE)).move(0, 2, 2), "no block"),
        (lambda: Ring().start([0, 1, 2], latency_only(SQUARE)).swap(0, 3), "overlap or leave"),
        (lambda: Ring().start([0, 1, 2], latency_only(SQUARE)).accept(), "no neighbour"),
    ],
)
def test_bad_input_is_one_clear_line(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()
