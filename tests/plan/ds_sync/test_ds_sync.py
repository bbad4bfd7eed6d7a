"""Patterns of divide-and-shuffle synchronisation: every one mixes, and rates worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netprobe.plan.ds_sync import choose_pattern, prove
from netprobe.plan.ds_sync.consensus import product


@pytest.mark.parametrize("racks", [2, 3, 5])
@pytest.mark.parametrize("size", [3, 4, 5, 8])
def test_rate_of_equal_racks(racks: int, size: int) -> None:
    pattern, proof = choose_pattern([size] * racks)
    assert len(pattern) == size
    assert proof.rho == pytest.approx(((size - 2) / (size - 1)) ** size, abs=1e-9)


def test_leaders_in_turn_never_mix_racks_of_two() -> None:
    with pytest.raises(ValueError):
        prove([[[0, 2], [1], [3]], [[1, 3], [0], [2]]], 4)
    assert choose_pattern([2, 2])[1].rho < 1


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[int], set[int], set[int]]:
    sizes = draw(st.lists(st.integers(1, 6), min_size=2, max_size=6))
    racks = draw(st.sets(st.integers(0, len(sizes) - 1)))
    return sizes, racks, draw(st.sets(st.integers(0, sum(sizes) - 1), max_size=3))


@settings(max_examples=60, deadline=None)
@given(fleets())
def test_every_pattern_mixes(fleet: tuple[list[int], set[int], set[int]]) -> None:
    sizes, racks, hosts = fleet
    rack_of = np.repeat(np.arange(len(sizes)), sizes)
    pattern, proof = choose_pattern(sizes, racks, hosts)
    assert proof.rho <= proof.norm + 1e-9 and proof.norm < 1
    whole = product([iteration.groups for iteration in pattern], sum(sizes))
    assert np.allclose(whole.sum(axis=0), 1) and np.allclose(whole.sum(axis=1), 1) and whole.min() >= 0
    for iteration in pattern:
        assert sorted(h for group in iteration.groups for h in group) == list(range(sum(sizes)))
        crossing = [group for group in iteration.groups if len({rack_of[h] for h in group}) > 1]
        uplinks = [rack_of[h] for group in crossing for h in group]
        assert len(uplinks) == len(set(uplinks))
        for group in crossing:
            if len(racks) < len(sizes) and racks & {int(rack_of[h]) for h in group}:
                assert len(group) == 2


@pytest.mark.parametrize(
    ("sizes", "racks", "hosts"),
    [([4], [], []), ([], [], []), ([3, 0], [], []), ([2, 2], [2], []), ([2, 2], [], [4]), ([2, 2], [-1], [])],
)
def test_bad_input(sizes: list[int], racks: list[int], hosts: list[int]) -> None:
    with pytest.raises(ValueError):
        choose_pattern(sizes, racks, hosts)
