"""Rounds of transfers, from which builders make templates, and what several algorithms share.

All transfers of a round leave with what their senders hold when it begins.

**Ranks beyond a power of two** are folded as MPICH does it: of the first 2(N - P) ranks each even one hands
its whole buffer to the odd one after it, the P left run the algorithm, and each gives the result back. Open
MPI's Rabenseifner all-reduce has the pair halve the work first and keeps the even rank. Gloo's
halving-doubling cuts the ranks into blocks of falling powers of two, each of which hands its sums to the next
larger. Where N is not a power of two this module does what MPICH does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from netprobe.plan.schedule.schedule import Round, Transfer

Triple = tuple[int, int, float]
"""Sender, receiver, share of the buffer."""


def triples(rounds: Iterable[Round], chunks: int) -> Iterator[list[Triple]]:
    """Each round as (sender, receiver, share of the buffer)."""
    for transfers in rounds:
        yield [(t.src, t.dst, (t.last - t.first) / chunks) for t in transfers]


def exchange_rounds(radices: Sequence[int], *, nearest_first: bool) -> list[Round]:
    """Reduce-scatter among prod(radices) ranks, one chunk per rank: a round for each radix r.

    Ranks that differ in one digit of the mixed radix are a group of r; each cuts its window into r parts,
    keeps that of its own digit and sends the others to their keepers. ``nearest_first`` takes the lowest
    digit (neighbours) first, when windows are largest.
    """
    size = math.prod(radices)
    window = [(0, size)] * size
    strides = [math.prod(radices[:i]) for i in range(len(radices))]
    steps = list(zip(radices, strides))
    rounds = []
    for radix, stride in steps if nearest_first else reversed(steps):
        transfers: Round = []
        kept = list(window)
        for rank in range(size):
            first, last = window[rank]
            part = (last - first) // radix
            digit = rank // stride % radix
            for other in range(radix):
                low = first + other * part
                if other == digit:
                    kept[rank] = (low, low + part)
                else:
                    transfers.append(Transfer(rank, rank + (other - digit) * stride, low, low + part, True))
        window = kept
        rounds.append(transfers)
    return rounds


def gathered(rounds: Sequence[Round]) -> list[Round]:
    """The all-gather that undoes a reduce-scatter: its rounds backwards, every transfer the other way."""
    return [[Transfer(t.dst, t.src, t.first, t.last, False) for t in r] for r in reversed(rounds)]


def power_of_two(ranks: int) -> int:
    """The largest power of two that is not above ``ranks``."""
    return 1 << (max(ranks, 1).bit_length() - 1)


def core_rank(index: int, extra: int) -> int:
    """Rank of the core's member ``index`` when ``extra`` even ranks were folded into their odd neighbours."""
    return 2 * index + 1 if index < extra else index + extra


def binary_radices(ranks: int) -> list[int]:
    """A round of pairs for each power of two up to ``ranks``."""
    return [2] * (power_of_two(ranks).bit_length() - 1)


def folded(extra: int, chunks: int, *, back: bool) -> list[Round]:
    """The round in which ``extra`` even ranks hand their buffers to their odd neighbours, or get them ``back``."""
    if not extra:
        return []
    if back:
        return [[Transfer(2 * i + 1, 2 * i, 0, chunks, False) for i in range(extra)]]
    return [[Transfer(2 * i, 2 * i + 1, 0, chunks, True) for i in range(extra)]]


def of_core(rounds: list[Round], extra: int) -> list[Round]:
    """``rounds`` among the members of the core, as rounds among ranks."""
    return [
        [t._replace(src=core_rank(t.src, extra), dst=core_rank(t.dst, extra)) for t in transfers]
        for transfers in rounds
    ]
