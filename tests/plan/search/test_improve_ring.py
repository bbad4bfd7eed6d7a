"""The moves of the ring search, each against every ring that it could make, tried one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.plan.search import improve_ring, ring_list
from netprobe.plan.search.construct import padded
from netprobe.plan.search.ring_list import HIGH, KICKS, LOW, RANDOM, SUMMED, TOTAL, WAITING, Ring
from tests.properties import examples

Units = NDArray[np.int64]
MOVES: tuple[Callable[[Ring, int], bool], ...] = (
    improve_ring.two_opt_after,
    improve_ring.two_opt_before,
    improve_ring.move_segment,
    improve_ring.exchange_after,
)


def made_costs(size: int, seed: int, *, directed: bool, most: int = 1000) -> Units:
    cost = np.random.default_rng(seed).integers(1, most, (size, size))
    if not directed:
        cost = np.triu(cost, 1) + np.triu(cost, 1).T
    np.fill_diagonal(cost, 0)
    return cost


def made_ring(cost: Units, seed: int) -> Ring:
    """A random ring on which every other host is worth trying behind and before each."""
    size = len(cost)

    def others(matrix: Units) -> list[list[int]]:
        rows = [np.argsort(row, kind="stable").tolist() for row in matrix]
        return [[host for host in row if host != at] for at, row in enumerate(rows)]

    both = padded(others(cost) + others(cost.T))
    order = np.random.default_rng(seed).permutation(size).tolist()
    return ring_list.start(cost, (both[:size], both[size:]), order, seed, as_lists=True)


def order_of(ring: Ring) -> list[int]:
    return [int(host) for host in ring.ring[: ring.state[ring_list.SIZE]]]


def total(cost: Units, order: list[int]) -> int:
    return int(cost[order, np.roll(order, -1)].sum())


def check_books(ring: Ring, cost: Units) -> None:
    """The total, the places, and what is to be saved agree with the order."""
    order, size = order_of(ring), len(cost)
    assert sorted(order) == list(range(size))
    assert ring.state[TOTAL] == total(cost, order)
    assert [order[place] for place in ring.ring[size : 2 * size]] == list(range(size))
    saved = list(ring.ring[2 * size : 3 * size])
    saved[ring.state[LOW] : ring.state[HIGH]] = order[ring.state[LOW] : ring.state[HIGH]]
    assert saved == order


rings = given(st.integers(8, 13), st.integers(0, 10**6), st.booleans(), st.sampled_from([4, 1000]))


@examples(40)
@rings
def test_a_move_improves_the_ring_by_what_it_says_or_leaves_it_alone(
    size: int, seed: int, directed: bool, most: int
) -> None:
    cost = made_costs(size, seed, directed=directed, most=most)
    for move, host in itertools.product(MOVES, range(0, size, 3)):
        ring = made_ring(cost, seed)
        before = order_of(ring)
        made = move(ring, host)
        check_books(ring, cost)
        after = order_of(ring)
        if not made:
            assert after == before
            continue
        assert total(cost, after) < total(cost, before)
        # Both ends of every hop that came or went wait to be looked at.
        hops, were = ({*zip(o, np.roll(o, -1).tolist(), strict=True)} for o in (after, before))
        undirected = {frozenset(hop) for hop in hops} ^ {frozenset(hop) for hop in were}
        queue = ring.ring[4 * size : 4 * size + ring.state[WAITING]]
        assert set().union(*undirected) <= set(queue)
        assert [bool(waits) for waits in ring.ring[5 * size : 6 * size]] == [h in queue for h in range(size)]


def reversals(order: list[int]) -> Iterator[tuple[int, int, list[int]]]:
    """Places (first, last) of a segment, and the ring with it turned round."""
    for low, high in itertools.combinations(range(1, len(order)), 2):
        yield low, high, [*order[:low], *order[low : high + 1][::-1], *order[high + 1 :]]


def exchanges(order: list[int]) -> Iterator[list[int]]:
    """Two neighbouring segments change places."""
    for i, j, k in itertools.combinations(range(len(order) + 1), 3):
        yield [*order[:i], *order[j:k], *order[i:j], *order[k:]]


def test_where_no_host_has_a_move_no_ring_of_the_neighbourhood_costs_less() -> None:
    """2-opt and segment exchanges have every partner among the near hosts, so none that improves is missed."""
    for seed, directed in itertools.product(range(12), (False, True)):
        cost = made_costs(11, seed, directed=directed)
        ring = made_ring(cost, seed)
        before = -1
        while before != ring.state[TOTAL]:
            before = ring.state[TOTAL]
            improve_ring.improve_all(ring)
            assert ring.state[WAITING] == 0
        order = order_of(ring)
        assert not any(move(ring, host) for move in MOVES for host in order)
        assert min(total(cost, other) for other in exchanges(order)) >= before
        for low, high, other in reversals(order):
            ends = order[low - 1], order[low], order[high], order[(high + 1) % 11]
            a, s, x, y = ends
            cheaper = cost[a, x] + cost[s, y] < cost[a, s] + cost[x, y]
            if cheaper and (not directed or high < 10):
                assert total(cost, other) >= before


def test_a_segment_turned_round_finds_its_place_beside_a_near_host() -> None:
    """Or-opt, where one of the two new hops costs less than taking the segment out saves."""
    for seed, directed in itertools.product(range(12), (False, True)):
        cost = made_costs(10, seed, directed=directed)
        ring = made_ring(cost, seed)
        order = order_of(ring)
        found = {host for host in order if improve_ring.move_segment(made_ring(cost, seed), host)}
        wanted = set()
        for low, length in itertools.product(range(10), (1, 2, 3)):
            high = low + length - 1
            if high >= 10:
                continue
            segment, rest = order[low : high + 1], [*order[:low], *order[high + 1 :]]
            p, q = order[low - 1], order[(high + 1) % 10]
            gain = cost[p, segment[0]] + cost[segment[-1], q] - cost[p, q]
            for at, turned in itertools.product(range(len(rest)), (False, True)):
                y, x = rest[at - 1], rest[at]
                if (y, x) == (p, q):
                    continue
                own = segment[::-1] if turned else segment
                plain = cost[y, own[0]] + cost[own[-1], x] - cost[y, x] - gain
                other = [*rest[:at], *own, *rest[at:]]
                if plain < 0 and total(cost, other) < total(cost, order):
                    wanted |= {own[-1]} if cost[own[-1], x] < gain else set()
                    wanted |= {own[0]} if cost[y, own[0]] < gain else set()
        assert wanted == found


def test_two_hops_are_replaced_from_either_of_their_ends() -> None:
    """2-opt from a host whose hop, out or in, a near host would make cheaper; all hops of the segment count."""
    for seed, directed in itertools.product(range(12), (False, True)):
        cost = made_costs(10, seed, directed=directed)
        order = order_of(made_ring(cost, seed))
        out, into = set(), set()
        for low, high in itertools.combinations(range(10), 2):
            p, first, last, q = order[low - 1], order[low], order[high], order[(high + 1) % 10]
            if p == q:
                continue
            other = [*order[:low], *order[low : high + 1][::-1], *order[high + 1 :]]
            plain = cost[p, last] + cost[first, q] < cost[p, first] + cost[last, q]
            if not plain or total(cost, other) >= total(cost, order):
                continue
            # Each end of the two hops looks whether its own hop becomes cheaper, in its own direction.
            if low:  # the segment follows the host's hop out, or ends with the host
                out |= {p} if cost[p, last] < cost[p, first] else set()
                out |= {last} if cost[last, p] < cost[last, q] else set()
            if high < 9:
                into |= {first} if cost[q, first] < cost[p, first] else set()
                into |= {q} if cost[first, q] < cost[last, q] else set()
        after = {host for host in order if improve_ring.two_opt_after(made_ring(cost, seed), host)}
        before = {host for host in order if improve_ring.two_opt_before(made_ring(cost, seed), host)}
        assert (after, before) == (out, into)


def test_every_hundredth_kick_begins_with_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments never span the ends of the list, so those are moved on now and then."""
    turned = []
    ring = made_ring(made_costs(12, 4, directed=True), 4)
    monkeypatch.setattr(
        improve_ring, "turn", lambda _ring, places: turned.append((ring.state[KICKS], places))
    )
    improve_ring.search(ring, 350, -1)
    assert [kick for kick, _ in turned] == [100, 200, 300]
    assert all(1 <= places < 12 for _, places in turned)


@pytest.mark.parametrize("size", [40, 150])
def test_the_skew_of_a_segment_is_what_it_costs_more_backwards(size: int) -> None:
    """Short ones one by one, long ones by sums, before and after the ring has changed."""
    cost = made_costs(size, 3, directed=True)
    ring = made_ring(cost, 5)
    rng = np.random.default_rng(1)
    for _ in range(60):
        low, high = sorted(rng.integers(0, size, 2).tolist())
        if low and rng.random() < 0.4:
            ring_list.reverse(ring, low, high, 0)
        order = order_of(ring)
        part = order[low : high + 1]
        forth, back = (sum(cost[a, b] for a, b in itertools.pairwise(way)) for way in (part, part[::-1]))
        assert ring_list.skew_between(ring, low, high) == back - forth
        assert ring.state[SUMMED] in range(1, size + 1)
    same = made_ring(made_costs(size, 3, directed=False), 5)
    assert ring_list.skew_between(same, 2, size - 2) == 0


@examples(40)
@given(st.integers(8, 40), st.integers(0, 10**6), st.booleans())
def test_a_kick_changes_the_places_of_three_segments_and_no_direction(
    size: int, seed: int, directed: bool
) -> None:
    cost = made_costs(size, seed, directed=directed)
    ring = made_ring(cost, seed)
    before = order_of(ring)
    improve_ring.kick(ring)
    check_books(ring, cost)
    after = order_of(ring)
    hops, were = ({*zip(o, np.roll(o, -1).tolist(), strict=True)} for o in (after, before))
    # Four hops at most are new, three where a segment ends up where it was; the host at place 0 stays.
    assert after[0] == before[0] and len(hops - were) in (3, 4)
    longest = max(1, min(improve_ring.LONGEST_KICK, (size - 2) // 3))
    places = [at for at in range(size) if before[at] != after[at]]
    assert places[-1] - places[0] + 1 <= 3 * longest
    waiting = set(ring.ring[4 * size : 4 * size + ring.state[WAITING]])
    assert {host for hop in hops ^ were for host in hop} <= waiting


def test_kicks_reach_every_place_and_every_length() -> None:
    cost = made_costs(14, 1, directed=True)
    ring = made_ring(cost, 1)
    firsts, spans = set(), set()
    for _ in range(600):
        before = order_of(ring)
        improve_ring.kick(ring)
        after = order_of(ring)
        places = [at for at in range(14) if before[at] != after[at]]
        firsts.add(places[0])
        spans.add(places[-1] - places[0] + 1)
    assert firsts == set(range(1, 11)) and spans == set(range(3, 13))


def test_the_random_numbers_are_park_and_millers() -> None:
    """The check value of minstd_rand in the C++ standard (26.5.5): the ten thousandth number from 1 is 399268537."""
    state = [0] * ring_list.STATES
    state[RANDOM] = 1
    drawn = [ring_list.random_below(state, 7) for _ in range(10_000)]
    assert state[RANDOM] == 399268537
    assert set(drawn) == set(range(7)) and drawn[0] == 48271 % 7


def test_a_turned_ring_is_the_same_ring() -> None:
    cost = made_costs(12, 2, directed=True)
    ring = made_ring(cost, 2)
    before = order_of(ring)
    ring_list.turn(ring, 5)
    check_books(ring, cost)
    assert order_of(ring) == [*before[5:], *before[:5]] == ring.ring[24:36]


def test_a_search_ends_at_what_is_enough_and_never_leaves_a_better_ring() -> None:
    for directed in (False, True):
        cost = made_costs(30, 7, directed=directed)
        ring, other = made_ring(cost, 3), made_ring(cost, 3)
        improve_ring.improve_all(ring)
        improve_ring.improve_all(other)
        totals = [ring.state[TOTAL]]
        for _ in range(150):
            assert improve_ring.search(ring, 1, -1) == 1
            check_books(ring, cost)
            totals.append(ring.state[TOTAL])
        assert totals == sorted(totals, reverse=True) and totals[-1] < totals[0]
        assert ring.state[KICKS] == 150
        # The first total that is enough ends it, before another kick.
        enough = totals[60]
        made = improve_ring.search(other, 150, enough)
        assert made == next(at for at, one in enumerate(totals) if one <= enough)
        assert improve_ring.search(other, 150, enough) == 0
    small = made_ring(made_costs(7, 1, directed=True), 1)
    assert improve_ring.search(small, 5, -1) == 0
    assert improve_ring.search(made_ring(made_costs(8, 1, directed=True), 1), 5, -1) == 5
