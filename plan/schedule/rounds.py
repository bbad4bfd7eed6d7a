"""What a collective does, round by round, and the proof that it does its collective.

A program is a sequence of rounds; a round is a list of transfers that all leave at once, from what their
senders held when the round began. The buffer is cut into ``chunks`` equal parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

Collective = Literal["all_reduce", "reduce_scatter"]
Triple = tuple[int, int, float]


class Transfer(NamedTuple):
    """Chunks ``first`` to ``last`` - 1 from rank ``src`` to rank ``dst``, added to what it has or put over it."""

    src: int
    dst: int
    first: int
    last: int
    reduces: bool


Round = list[Transfer]


def triples(rounds: Iterable[Round], chunks: int) -> Iterator[list[Triple]]:
    """Each round as (sender, receiver, share of the buffer)."""
    for transfers in rounds:
        yield [(t.src, t.dst, (t.last - t.first) / chunks) for t in transfers]


def exchange_rounds(radices: Sequence[int], *, nearest_first: bool) -> list[Round]:
    """Reduce-scatter among prod(radices) ranks, a chunk a rank: a round for each radix r.

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


def check_program(rounds: Iterable[Round], ranks: int, chunks: int, collective: Collective) -> None:
    """Run a program on symbols: each rank starts with its own contribution to each chunk.

    Raises ValueError where a transfer has no sender, receiver or chunk, where a contribution would be added
    twice, and where, at the end, a rank lacks a part of the result it should have: every chunk for
    an all_reduce, chunk r on rank r for a reduce_scatter.
    """
    state = [[1 << rank] * chunks for rank in range(ranks)]
    for number, transfers in enumerate(rounds):
        sent = [state[t.src][t.first : t.last] if 0 <= t.src < ranks else [] for t in transfers]
        written: set[tuple[int, int]] = set()
        for t, data in zip(transfers, sent):
            if not (0 <= t.src < ranks and 0 <= t.dst < ranks) or t.src == t.dst:
                raise ValueError(f"round {number}: a transfer from rank {t.src} to rank {t.dst}")
            if not 0 <= t.first < t.last <= chunks:
                raise ValueError(f"round {number}: chunks {t.first} to {t.last} of {chunks}")
            for chunk, parts in zip(range(t.first, t.last), data):
                if t.reduces and state[t.dst][chunk] & parts:
                    raise ValueError(f"round {number}: rank {t.dst} would add a part of chunk {chunk} twice")
                if not t.reduces and (t.dst, chunk) in written:
                    raise ValueError(f"round {number}: two senders write chunk {chunk} of rank {t.dst}")
                written.add((t.dst, chunk))
                state[t.dst][chunk] = state[t.dst][chunk] | parts if t.reduces else parts
    whole = (1 << ranks) - 1
    for rank in range(ranks):
        for chunk in range(chunks) if collective == "all_reduce" else [rank]:
            if state[rank][chunk] != whole:
                raise ValueError(f"rank {rank} ends without the whole of chunk {chunk}")
