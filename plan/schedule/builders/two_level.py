"""Two-level hierarchical aggregation (2LHA) and the hierarchical all-reduce: schedules among groups of ranks.

PLink (Luo, *Towards More Efficient Communication for Distributed Learning Systems* (2020), section 4.1): every chunk
has a global master, and in every other group a local master. Members send their chunk to the master of their group,
which adds it up; local masters send the sums to the global master; the result goes back the same way. Chunks follow
each other without waiting, so that the four phases overlap. Masters change from chunk to chunk, so that every host
carries its share: of the global ones in proportion to ``weights`` over all ranks, of the local ones inside each group.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from netprobe.plan.schedule.contract import all_reduce
from netprobe.plan.schedule.schedule import (
    COPY,
    REDUCE,
    Block,
    Round,
    Schedule,
    Template,
    Transfer,
    one_template,
    template_of,
    template_of_rounds,
)

PHASES = (
    ("to local masters", 0),
    ("to the global master", 1),
    ("from the global master", 2),
    ("from local masters", 3),
)
Groups = Sequence[Sequence[int]]
_SAME = 1e-9
"""Shares that differ by no more are equal but for rounding."""


def two_level(
    groups: Groups,
    chunks: int,
    *,
    weights: Sequence[float] | None = None,
    group_weights: Sequence[float] | None = None,
    channels: int = 1,
    name: str = "2lha",
) -> Schedule:
    """2LHA among ``groups``, which hold each rank 0 to N - 1 once, on ``chunks`` equal chunks.

    ``weights`` (N,) share the work of masters among the members of a group, ``group_weights`` (G,) the global masters
    among groups; both default to equal shares per rank. Chunk i goes over channel i modulo ``channels``. Raises
    ValueError for groups that are not a partition, and for weights that are not finite or all 0.
    """
    ranks = checked_groups(groups)
    if chunks < 1:
        raise ValueError(f"{chunks} chunks: at least 1 is needed")
    own = _checked_weights(weights, ranks, "ranks")
    between = _checked_weights(
        group_weights, len(groups), "groups", [float(sum(own[r] for r in g)) for g in groups]
    )
    even = _even_masters(groups, chunks) if _all_even(groups, own, between) else None
    homes, masters = even or _masters(groups, chunks, own, between)
    return with_masters(groups, homes, masters, channels=channels, name=name)


def with_masters(
    groups: Groups,
    homes: Sequence[int],
    masters: Sequence[Sequence[int]],
    *,
    channels: int = 1,
    name: str = "2lha",
) -> Schedule:
    """2LHA with given masters: of chunk c in group g rank ``masters[c][g]``, of which group ``homes[c]``'s is global.

    Chunk i goes over channel i modulo ``channels``. Raises ValueError for groups that are not a partition, and for a
    master that is not of its group.
    """
    ranks = checked_groups(groups)
    group_of = {rank: g for g, members in enumerate(groups) for rank in members}
    everyone = list(range(len(groups)))
    if not masters or any([group_of.get(rank) for rank in own] != everyone for own in masters):
        raise ValueError("every chunk needs one master in each group, of that group")
    templates: dict[tuple[int, ...], int] = {}
    made: list[Template] = []
    blocks = []
    for chunk, (home, own) in enumerate(zip(homes, masters)):
        number = templates.setdefault((home, *own), len(made))
        if number == len(made):
            made.append(_template(groups, own, home))
        blocks.append(
            Block(template=number, weights=(1,), channel=chunk % channels, start=chunk // max(ranks, 1))
        )
    return Schedule(
        name=name,
        contract=all_reduce(ranks, len(blocks)),
        templates=tuple(made),
        blocks=tuple(blocks),
        channels=channels,
        phases=PHASES,
    )


def _all_even(groups: Groups, own: Sequence[float], between: Sequence[float]) -> bool:
    """Whether all groups have the same size, and all ranks and groups the same share."""
    same = len(set(map(len, groups))) == 1
    return same and all(max(weights) - min(weights) <= _SAME * max(weights) for weights in (own, between))


def _even_masters(groups: Groups, chunks: int) -> tuple[list[int], list[list[int]]]:
    """`_masters` where all shares are equal: Latin squares of members and groups.

    Of n chunks in a row every host is a local master once, so that in each phase every host receives from as many as it
    sends to; their global masters are in as many groups as can be, and of n G chunks in a row every host is it once.
    The masters of a chunk have the same place in their groups: a host has connections to one host of each other group.
    """
    size = len(groups[0])
    turns = [divmod(chunk, size) for chunk in range(chunks)]
    homes = [(place + turn) % len(groups) for turn, place in turns]
    return homes, [[members[place] for members in groups] for _, place in turns]


def _masters(
    groups: Groups, chunks: int, own: Sequence[float], between: Sequence[float]
) -> tuple[list[int], list[list[int]]]:
    """Of each chunk: the group of its global master, and the master of every group.

    Global masters are shared out among all hosts, and the local ones of a group among its members, over the chunks
    whose global master is elsewhere: a host with its share of the one has its share of the other too.
    """
    hosts = [(g, rank) for g, members in enumerate(groups) for rank in members]
    inside = [sum(own[rank] for rank in members) for members in groups]
    central = [between[g] * own[rank] / inside[g] if inside[g] else 0.0 for g, rank in hosts]
    centres = [hosts[place] for place in shared_out(chunks, central)]
    homes = [g for g, _ in centres]
    masters = [[0] * len(groups) for _ in range(chunks)]
    for g, members in enumerate(groups):
        elsewhere = [chunk for chunk in range(chunks) if homes[chunk] != g]
        weights = [own[rank] for rank in members] if inside[g] else [1.0] * len(members)
        for chunk, place in zip(elsewhere, shared_out(len(elsewhere), weights)):
            masters[chunk][g] = members[place]
    for chunk, (g, rank) in enumerate(centres):
        masters[chunk][g] = rank
    return homes, masters


def _template(groups: Groups, masters: Sequence[int], home: int) -> Template:
    """One chunk: ``masters[g]`` adds up group g, and that of group ``home`` adds up all."""
    centre = masters[home]
    rows: list[tuple[int, int, int, int, int, int]] = []
    for members, master in zip(groups, masters):
        for rank in members:
            if rank != master:
                rows.append((0, rank, master, 0, 1, REDUCE))
                rows.append((3, master, rank, 0, 1, COPY))
        if master != centre:
            rows.append((1, master, centre, 0, 1, REDUCE))
            rows.append((2, centre, master, 0, 1, COPY))
    return template_of(rows, 1)


def shared_out(count: int, weights: Sequence[float]) -> list[int]:
    """Who gets each of ``count`` equal pieces, in proportion to ``weights`` (K,), evenly mixed.

    Graham's longest processing time rule (1969, at most 4/3 of the best) with equal pieces: each goes to who would
    then have the least for its weight; ties to the first.
    """
    heap = [(1.0 / weight, place, 1) for place, weight in enumerate(weights) if weight > 0]
    heapq.heapify(heap)
    given = []
    for _ in range(count):
        _, place, has = heap[0]
        given.append(place)
        heapq.heapreplace(heap, ((has + 1) / weights[place], place, has + 1))
    return given


def hierarchical_rounds(groups: Groups) -> tuple[list[Round], int]:
    """Reduce-scatter inside groups, all-reduce between those who hold the same, all-gather inside; and its chunks.

    The buffer is cut into L slices, L the size of the largest group, and each slice into G chunks, one per group. In a
    group of n member i holds slices ceil(i L / n) to ceil((i + 1) L / n) - 1; between groups the holders of a slice
    exchange directly, chunk g being added up in group g. All exchanges are direct, so that any sizes of groups work.
    """
    checked_groups(groups)
    slices, parts = max(map(len, groups)), len(groups)
    holders = [[g[s * len(g) // slices] for s in range(slices)] for g in groups]
    runs = [_runs(held) for held in holders]
    inside = [
        Transfer(rank, holder, first * parts, last * parts, True)
        for members, own in zip(groups, runs)
        for rank in members
        for holder, first, last in own
        if rank != holder
    ]
    between = [
        Transfer(holders[g][s], holders[home][s], s * parts + home, s * parts + home + 1, True)
        for s in range(slices)
        for home in range(parts)
        for g in range(parts)
        if g != home
    ]
    rounds = [
        inside,
        between,
        *([Transfer(t.dst, t.src, t.first, t.last, False) for t in r] for r in (between, inside)),
    ]
    return [r for r in rounds if r], slices * parts


def hierarchical(groups: Groups, *, channels: int = 1, blocks: int | None = None) -> Schedule:
    """The schedule of `hierarchical_rounds`. Raises ValueError for groups that are not a partition."""
    rounds, chunks = hierarchical_rounds(groups)
    count = channels if blocks is None else blocks
    return one_template(
        "hierarchical",
        all_reduce(sum(map(len, groups)), chunks * count),
        template_of_rounds(rounds, chunks),
        blocks=count,
        channels=channels,
    )


def checked_groups(groups: Groups) -> int:
    """How many ranks ``groups`` hold. Raises ValueError unless they hold each of 0 to N - 1 once."""
    ranks = [rank for group in groups for rank in group]
    if any(not group for group in groups) or not ranks:
        raise ValueError("a group is empty, or there are no groups")
    if sorted(ranks) != list(range(len(ranks))):
        raise ValueError(f"groups must hold each of the ranks 0 to {len(ranks) - 1} once")
    return len(ranks)


def _runs(holders: Sequence[int]) -> list[tuple[int, int, int]]:
    """(holder, first slice, last slice + 1) of neighbouring slices with one holder."""
    runs: list[tuple[int, int, int]] = []
    for at, holder in enumerate(holders):
        if runs and runs[-1][0] == holder:
            runs[-1] = (holder, runs[-1][1], at + 1)
        else:
            runs.append((holder, at, at + 1))
    return runs


def _checked_weights(
    weights: Sequence[float] | None, count: int, what: str, default: Sequence[float] | None = None
) -> list[float]:
    if weights is None:
        return list(default) if default is not None else [1.0] * count
    made = [float(w) for w in weights]
    if len(made) != count or not all(np.isfinite(w) and w >= 0 for w in made) or not any(made):
        raise ValueError(f"{count} weights of {what} are needed, finite, not below 0 and not all 0")
    return made
