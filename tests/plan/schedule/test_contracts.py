"""Contracts against their definition, chunk by chunk: all of two parts among two ranks, and some among four."""

from __future__ import annotations

import itertools
import random

import pytest

from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.contract import ROOTED, Collective, Contract, Part, owned_runs
from netprobe.plan.schedule.program import NOBODY, compile_schedule

KNOWN: tuple[Collective, ...] = (
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "group_all_reduce",
)  # fmt: skip


def is_right(kind: Collective, chunks: int, parts: tuple[Part, ...], root: int | None) -> bool:
    """Whether the parts are a collective of this kind, by what each chunk's parts say."""
    of = [[p for p in parts if p.first <= chunk < p.last] for chunk in range(chunks)]
    for own in of:
        for ranks in ([r for p in own for r in p.contributors], [r for p in own for r in p.receivers]):
            if len(ranks) != len(set(ranks)):
                return False
    if kind == "group_all_reduce":
        groups = {p.contributors for p in parts}
        return (
            bool(parts)
            and all(p.contributors == p.receivers for p in parts)
            and all({p.contributors for p in own} == groups for own in of)
        )
    if any(len(own) != 1 for own in of):
        return False
    gives, takes = ({getattr(own[0], what) for own in of} for what in ("contributors", "receivers"))
    if kind == "all_reduce":
        return len(gives) == 1 and gives == takes
    if kind == "reduce_scatter":
        return len(gives) == 1 and all(len(one) == 1 for one in takes)
    if kind == "all_gather":
        return len(takes) == 1 and all(len(one) == 1 for one in gives)
    if kind == "broadcast":
        return gives == {(root,)} and len(takes) == 1
    return takes == {(root,)} and len(gives) == 1


def accepts(kind: Collective, ranks: int, chunks: int, parts: tuple[Part, ...], root: int | None) -> bool:
    try:
        Contract(collective=kind, ranks=ranks, chunks=chunks, parts=parts, root=root)
    except ValueError:
        return False
    return True


def subsets(ranks: int) -> list[tuple[int, ...]]:
    return [own for size in range(1, ranks + 1) for own in itertools.combinations(range(ranks), size)]


@pytest.mark.parametrize("kind", KNOWN)
def test_every_contract_of_two_parts_is_accepted_by_its_definition(kind: Collective) -> None:
    runs = [(0, 1), (1, 2), (0, 2)]
    every = [Part(*run, gives, takes) for run in runs for gives in subsets(2) for takes in subsets(2)]
    roots = (0, 1) if kind in ROOTED else (None,)
    lists: list[tuple[Part, ...]] = [(), *((one,) for one in every), *itertools.product(every, repeat=2)]
    right = 0
    for parts, root in itertools.product(lists, roots):
        expected = is_right(kind, 2, parts, root)
        assert accepts(kind, 2, 2, parts, root) == expected, (parts, root)
        right += expected
    assert right > 0


@pytest.mark.parametrize("kind", KNOWN)
def test_contracts_among_four_are_accepted_by_their_definition(kind: Collective) -> None:
    """Built to be right, with one part's ranks or run changed by chance."""
    chance = random.Random(1)
    everyone = subsets(4)
    root = 2 if kind in ROOTED else None
    found = []
    for _ in range(600):
        ends = sorted(chance.sample(range(1, 5), chance.randrange(0, 3)))
        runs = list(itertools.pairwise([0, *ends, 5]))
        members = chance.choice(everyone)
        parts = []
        for first, last in runs:
            one = (chance.choice(members),)
            gives = {"broadcast": (2,), "all_gather": one}.get(kind, members)
            takes = {"reduce": (2,), "reduce_scatter": one}.get(kind, members)
            parts.append(Part(first, last, gives, takes))
        if kind == "group_all_reduce" and (others := [s for s in everyone if not set(s) & set(members)]):
            own = chance.choice(others)
            parts.append(Part(0, 5, own, own))
        if chance.random() < 0.6:
            at = chance.randrange(len(parts))
            part = parts[at]
            parts[at] = chance.choice(
                [
                    Part(part.first, part.last, chance.choice(everyone), part.receivers),
                    Part(part.first, part.last, part.contributors, chance.choice(everyone)),
                    Part(chance.randrange(part.last), part.last, part.contributors, part.receivers),
                ]
            )
        expected = is_right(kind, 5, tuple(parts), root)
        assert accepts(kind, 4, 5, tuple(parts), root) == expected, parts
        found.append(expected)
    assert 100 < sum(found) < 560


def test_what_a_rank_is_said_to_do_twice_is_what_it_does() -> None:
    both = (Part(0, 2, (0, 1), (0,)), Part(1, 2, (2,), (0,)))
    with pytest.raises(ValueError, match="chunk 1 is owed rank 0"):
        Contract(collective="reduce_scatter", ranks=3, chunks=2, parts=both)
    both = (Part(0, 2, (0, 1), (0,)), Part(1, 2, (1,), (2,)))
    with pytest.raises(ValueError, match="chunk 1 is contributed by rank 1"):
        Contract(collective="reduce_scatter", ranks=3, chunks=2, parts=both)


def test_owners_of_neighbours_are_runs() -> None:
    assert owned_runs([]) == []
    assert owned_runs([2, 2, 0, 2, 2, 2]) == [(2, 0, 2), (0, 2, 3), (2, 3, 6)]


def test_an_action_is_named_with_its_peer_where_it_has_one() -> None:
    program = compile_schedule(build("ring", 3))
    for action in range(len(program.kind)):
        peer, channel = program.peer[action], program.channel[action]
        said = program.text(action)
        assert (f"peer {peer}, channel {channel})" in said) == (peer != NOBODY) == ("peer" in said)
        rank = next(r for r in range(3) if program.bounds[r] <= action < program.bounds[r + 1])
        assert f"rank {rank}, action {action - program.bounds[rank]} " in said
        first, last = int(program.first[action]), int(program.last[action])
        assert f"chunk {first}" in said if last == first + 1 else f"chunks {first} to {last - 1}" in said
