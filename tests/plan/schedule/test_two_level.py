"""2LHA and hierarchical schedules: proved for any groups, and masters in proportion."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.plan.schedule.builders import proved
from netprobe.plan.schedule.builders.two_level import hierarchical, shared_out, two_level
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.schedule.proof import prove
from netprobe.plan.tune.masters import masters_of
from tests.plan.schedule.timing import add_up, contributions, expected
from tests.properties import examples


@st.composite
def groupings(draw: st.DrawFn) -> list[list[int]]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    ranks = list(range(sum(sizes)))
    random.Random(draw(st.integers(0, 99))).shuffle(ranks)
    ends = np.cumsum([0, *sizes]).tolist()
    return [ranks[a:b] for a, b in itertools.pairwise(ends)]


def masters(
    groups: list[list[int]], chunks: int, **weights: list[float]
) -> tuple[list[int], list[list[int]]]:
    """The global master of each chunk, and the masters of all groups."""
    found = masters_of(two_level(groups, chunks, **weights))  # type: ignore[arg-type]
    assert found is not None
    return found.centre.tolist(), found.local.tolist()


@pytest.mark.parametrize(("count", "size"), [(4, 4), (3, 5), (5, 2), (1, 4), (4, 1), (2, 6)])
def test_equal_hosts_take_turns_as_masters(count: int, size: int) -> None:
    """Latin squares: every run of n chunks has each host as local master once, and n G chunks as global master once."""
    groups = [[g + count * i for i in range(size)] for g in range(count)]
    ranks = count * size
    central, local = masters(groups, 2 * ranks)
    for begin in range(0, 2 * ranks, size):
        assert sorted(rank for own in local[begin : begin + size] for rank in own) == list(range(ranks))
        homes = {rank % count for rank in central[begin : begin + size]}
        assert len(homes) == min(size, count)
    for begin in (0, ranks):
        assert sorted(central[begin : begin + ranks]) == list(range(ranks))
    # Between groups every host has to do with one host of each.
    assert all(len({rank // count for rank in own}) == 1 for own in local)


def test_hosts_that_are_not_equal_do_not_take_turns() -> None:
    groups = [[0, 1], [2, 3]]
    central, _ = masters(groups, 16, weights=[3.0, 1.0, 1.0, 3.0])
    assert [central.count(rank) for rank in range(4)] == [6, 2, 2, 6]
    central, _ = masters(groups, 16, group_weights=[3.0, 1.0])
    assert [central.count(rank) for rank in range(4)] == [6, 6, 2, 2]
    central, _ = masters([[0, 1, 2], [3]], 16)
    assert [central.count(rank) for rank in range(4)] == [4, 4, 4, 4]


@examples(40)
@given(groupings(), st.integers(1, 12), st.integers(1, 3), st.integers(0, 1 << 20))
def test_any_groups_make_schedules_that_are_proved_and_add_up(
    groups: list[list[int]], chunks: int, channels: int, seed: int
) -> None:
    for schedule in (two_level(groups, chunks, channels=channels), hierarchical(groups, channels=channels)):
        program, proof = proved(schedule)
        assert proof.issue_order and proof.window == 1 and proof.uniform_messages
        own = contributions(schedule.contract, seed)
        assert add_up(program, own, seed) == expected(schedule.contract, own)


def test_bytes_are_those_of_table_4_1() -> None:
    """2(NC - 1) S in all; across racks 2(C - 1) S, for both 2LHA and hierarchical."""
    groups = [list(range(4 * g, 4 * g + 4)) for g in range(3)]
    size = 12 * 2520
    for schedule in (two_level(groups, 12), hierarchical(groups)):
        at = schedule.boundaries(size)
        every = schedule.expanded()
        sizes = at[every.last] - at[every.first]
        assert sizes.sum() == 2 * 11 * size
        assert sizes[every.src // 4 != every.dst // 4].sum() == 2 * 2 * size
        # Every host carries the same.
        assert len(set(np.bincount(every.src, sizes, minlength=12).tolist())) == 1


def test_global_masters_are_in_proportion_to_the_size_of_groups_or_to_weights() -> None:
    groups = [list(range(6)), list(range(6, 12)), list(range(12, 16))]

    def centres(weights: list[float] | None = None, group_weights: list[float] | None = None) -> list[int]:
        schedule = two_level(groups, 160, weights=weights, group_weights=group_weights)
        every = schedule.expanded()
        up = every.step - np.array([b.start for b in schedule.blocks])[every.block] == 1
        centre = dict(zip(every.first[up].tolist(), every.dst[up].tolist()))
        return [centre[chunk] for chunk in range(160)]

    assert np.bincount(centres(), minlength=16).tolist() == [10] * 16
    weighted = np.bincount(centres(group_weights=[1.0, 2.0, 1.0]), minlength=16)
    assert [weighted[group].sum() for group in groups] == pytest.approx([40, 80, 40], abs=3)
    halved = np.bincount(centres(weights=[0.5, *[1.0] * 15]), minlength=16)
    assert halved[0] in (5, 6) and min(halved[1:]) >= 9


@given(st.integers(0, 200), st.lists(st.floats(0.1, 10), min_size=1, max_size=8))
def test_pieces_are_shared_out_in_their_proportion(count: int, weights: list[float]) -> None:
    given_ = np.bincount(shared_out(count, weights), minlength=len(weights))
    assert given_.sum() == count
    share = count * np.array(weights) / sum(weights)
    assert (given_ >= np.floor(share * (1 - 1e-9))).all()
    # Nobody could hand one to another and be better off.
    assert max(given_ / weights) <= min((given_ + 1) / weights) * (1 + 1e-9)


@pytest.mark.parametrize("groups", [[], [[]], [[0], []], [[0, 0]], [[0], [2]], [[-1, 0]]])
def test_groups_that_are_no_partition_are_refused(groups: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="group"):
        two_level(groups, 1)
    with pytest.raises(ValueError, match="group"):
        hierarchical(groups)


def test_chunks_and_weights_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="0 chunks"):
        two_level([[0, 1]], 0)
    for weights in ([1.0], [0.0, 0.0], [float("nan"), 1.0], [-1.0, 1.0]):
        with pytest.raises(ValueError, match="2 weights of ranks"):
            two_level([[0, 1]], 1, weights=weights)


def test_that_one_unread_message_is_enough_is_seen_from_the_steps_without_a_search_for_circles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search takes longer than all the rest of a proof, and five times the memory."""

    def search(*_: object, **__: object) -> None:
        raise AssertionError("searched for circles")

    schedule = two_level([range(8), range(8, 14), [14, 15]], 40)
    program = compile_schedule(schedule)
    monkeypatch.setattr("scipy.sparse.csgraph.connected_components", search)
    assert prove(program, schedule.contract).window == 1
