"""PAIA against its definition, taken word for word: a triple loop over section 6.2.5."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.cluster.evaluate.affinity import Position, paia, shared_depths
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError


def common_prefix(one: Position, other: Position) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))


def by_definition(distance: FloatMatrix, positions: list[Position]) -> tuple[int, int, int, int]:
    """Triplets, right ones, ties and missing ones."""
    triplets = right = ties = missing = 0
    hosts = range(len(positions))
    for c in hosts:
        for a, b in itertools.combinations([h for h in hosts if h != c], 2):
            ta, tb = common_prefix(positions[a], positions[c]), common_prefix(positions[b], positions[c])
            if ta == tb:
                continue
            triplets += 1
            ma, mb = distance[c, a], distance[c, b]
            if math.isnan(ma) or math.isnan(mb):
                missing += 1
            elif ma == mb:
                ties += 1
            else:
                right += (ma < mb) == (ta > tb)
    return triplets, right, ties, missing


@st.composite
def fleets(draw: st.DrawFn) -> tuple[FloatMatrix, list[Position]]:
    size = draw(st.integers(1, 9))
    place = st.lists(st.sampled_from("xyz"), max_size=3).map(tuple)
    positions: list[Position] = draw(st.lists(place, min_size=size, max_size=size))
    cells = st.one_of(st.sampled_from([1.0, 2.0, 3.0]), st.floats(0.5, 4.0), st.just(math.nan))
    values = draw(st.lists(cells, min_size=size * size, max_size=size * size))
    return np.array(values).reshape(size, size), positions


@given(fleets())
def test_paia_is_what_the_definition_says(fleet: tuple[FloatMatrix, list[Position]]) -> None:
    distance, positions = fleet
    found = paia(distance, positions)
    expected = by_definition(distance, positions)
    assert (found.triplets, found.right, found.ties, found.missing) == expected
    assert found.paia == (expected[1] / expected[0] if expected[0] else None)


@given(fleets(), st.floats(1e-9, 1e9), st.randoms())
def test_neither_the_unit_nor_the_order_of_the_hosts_matters(
    fleet: tuple[FloatMatrix, list[Position]], factor: float, random: object
) -> None:
    distance, positions = fleet
    order = list(range(len(positions)))
    random.shuffle(order)  # type: ignore[attr-defined]
    again = paia((distance * factor)[np.ix_(order, order)], [positions[i] for i in order])
    assert again.triplets == paia(distance, positions).triplets
    # Two distances a rounding apart may become one, and no more than that.
    assert abs(again.right - paia(distance, positions).right) <= again.ties + paia(distance, positions).ties


def test_the_ends_of_the_scale() -> None:
    positions = [("a", "r"), ("a", "r"), ("a", "s"), ("b", "t"), ("b", "t")]
    true: FloatMatrix = np.asarray(3.0 - shared_depths(positions), dtype=np.float64)
    assert paia(true, positions).paia == 1.0
    assert paia(-true, positions).paia == 0.0
    constant = paia(np.ones((5, 5)), positions)
    assert constant.paia == 0.0
    assert constant.ties == constant.triplets > 0
    assert paia(true, [("a",)] * 5).paia is None
    noise = np.random.default_rng(0).random((60, 60))
    assert paia(noise, [(str(i // 6),) for i in range(60)]).paia == pytest.approx(0.5, abs=0.05)


def test_pairs_are_unordered_as_the_dissertation_counts_them() -> None:
    # 64 hosts in 8 racks of 8: an observer has 7 hosts in its rack and 56 outside, 7 x 56 pairs.
    positions = [(str(i // 8),) for i in range(64)]
    assert paia(np.ones((64, 64)), positions).triplets == 64 * 7 * 56


def test_a_thousand_hosts_are_counted_in_seconds() -> None:
    positions = [(str(i // 256), str(i // 64), str(i // 16)) for i in range(1024)]
    distance: FloatMatrix = (
        np.float64(4) - shared_depths(positions) + np.random.default_rng(1).random((1024, 1024))
    )
    began = time.process_time()
    found = paia(distance, positions)
    assert time.process_time() - began < 20
    assert found.paia == 1.0
    assert found.missing == found.ties == 0


def test_a_matrix_of_other_hosts_is_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        paia(np.ones((3, 3)), [("a",)] * 4)
