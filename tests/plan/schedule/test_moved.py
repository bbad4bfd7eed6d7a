"""A schedule with a few other blocks: what is proved of these alone is what the whole proof finds."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.plan.schedule.builders import build, proved
from netprobe.plan.schedule.builders.two_level import two_level, with_masters
from netprobe.plan.schedule.moved import moved_blocks, prove_moved
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.schedule.proof import prove
from netprobe.plan.schedule.schedule import Schedule, from_rows
from tests.properties import examples


def drawn(groups: list[list[int]], chunks: int, chance: random.Random) -> list[tuple[int, list[int]]]:
    """(home, masters) of each chunk."""
    return [(chance.randrange(len(groups)), [chance.choice(own) for own in groups]) for _ in range(chunks)]


def schedule_with(groups: list[list[int]], rows: list[tuple[int, list[int]]], channels: int) -> Schedule:
    return with_masters(groups, [home for home, _ in rows], [own for _, own in rows], channels=channels)


@examples(30)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 24),
    st.integers(1, 3),
    st.floats(0, 1),
    st.integers(0, 1 << 20),
)
def test_the_proof_of_what_moved_is_the_whole_proof(
    sizes: list[int], chunks: int, channels: int, share: float, seed: int
) -> None:
    ends = np.cumsum([0, *sizes]).tolist()
    groups = [list(range(a, b)) for a, b in itertools.pairwise(ends)]
    chance = random.Random(seed)
    rows = drawn(groups, chunks, chance)
    before = schedule_with(groups, rows, channels)
    program, proof = proved(before)
    others = drawn(groups, chunks, chance)
    after = schedule_with(
        groups, [new if chance.random() < share else old for old, new in zip(rows, others)], channels
    )
    made, found = prove_moved(before, program, proof, after)
    whole = compile_schedule(after)
    assert found == prove(whole, after.contract)
    assert all(
        (getattr(made, name) == getattr(whole, name)).all() for name in ("kind", "first", "peer", "after")
    )


@examples(25)
@given(st.integers(0, 1 << 20))
def test_what_the_whole_proof_refuses_is_refused(seed: int) -> None:
    """One transfer of a moved block is dropped, doubled, or has another end, operation or step."""
    chance = random.Random(seed)
    groups = [[0, 1, 2], [3, 4]]
    rows = drawn(groups, 8, chance)
    before = schedule_with(groups, rows, 2)
    program, proof = proved(before)
    place = chance.randrange(8)
    rows[place] = drawn(groups, 1, chance)[0]
    after = schedule_with(groups, rows, 2)
    template = after.templates[after.blocks[place].template]
    table = np.stack(
        [template.step, template.src, template.dst, template.first, template.last, template.op], 1
    )
    at, how = chance.randrange(len(table)), chance.randrange(4)
    if how == 0:
        table = np.delete(table, at, axis=0)
    elif how == 1:
        table = np.insert(table, at, table[at], axis=0)
    elif how == 2:
        table[at, 5] = 1 - table[at, 5]
    else:
        table[at, 2] = next(r for r in range(5) if r not in (table[at, 1], table[at, 2]))
    blocks = list(after.blocks)
    blocks[place] = replace(blocks[place], template=len(after.templates))
    edited = replace(
        after, templates=(*after.templates, from_rows(1, table)), blocks=tuple(blocks), _expanded=[]
    )
    try:
        whole = prove(compile_schedule(edited), edited.contract)
    except ValueError:
        with pytest.raises(ValueError, match="chunk|rank"):
            prove_moved(before, program, proof, edited)
    else:
        assert prove_moved(before, program, proof, edited)[1] == whole


def test_chunks_that_are_not_as_they_were_proved_are_noticed() -> None:
    """A program that is not the one of the schedule before: the chunks that stayed are not taken on trust."""
    before, other = two_level([[0, 1], [2, 3]], 8), two_level([[0, 2], [1, 3]], 8)
    _, proof = proved(before)
    program, _ = proved(other)
    with pytest.raises(ValueError, match="stayed"):
        prove_moved(before, program, proof, before)


def test_schedules_of_other_shapes_are_proved_whole() -> None:
    before, after = build("chunked-ring", 4), build("halving-doubling", 4)
    assert moved_blocks(before, after) == [0] and moved_blocks(before, build("chunked-ring", 5)) is None
    for one in (after, build("flat", 4, blocks=2)):
        program, proof = proved(before)
        assert prove_moved(before, program, proof, one)[1] == proved(one)[1]
