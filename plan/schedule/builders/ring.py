"""Rings: the whole buffer hop by hop, in chunks, and in chunks both ways at once."""

from __future__ import annotations

from netprobe.plan.schedule.schedule import Round, Transfer


def whole_ring_rounds(ranks: int) -> list[Round]:
    """One chunk: N - 1 hops add up, N - 1 hops hand out."""
    return [
        [Transfer(hop % ranks, (hop + 1) % ranks, 0, 1, hop < ranks - 1)] for hop in range(2 * (ranks - 1))
    ]


def chunked_ring_rounds(ranks: int) -> list[Round]:
    """One chunk per rank: rank r starts with chunk r; each round it passes on the chunk it got in the round before."""
    return [
        [
            Transfer(
                rank,
                (rank + 1) % ranks,
                (rank - number) % ranks,
                (rank - number) % ranks + 1,
                number < ranks - 1,
            )
            for rank in range(ranks)
        ]
        for number in range(2 * (ranks - 1))
    ]


def two_way_ring_rounds(ranks: int) -> list[Round]:
    """Two chunks per rank: one half of the buffer goes round as in the chunked ring, the other half the other way."""
    return [[*r, *_mirrored(r, ranks)] for r in chunked_ring_rounds(ranks)]


def _mirrored(transfers: Round, ranks: int) -> Round:
    """The same the other way round, on the second half of the chunks."""
    return [
        Transfer(
            -t.src % ranks, -t.dst % ranks, ranks + -t.first % ranks, ranks + -t.first % ranks + 1, t.reduces
        )
        for t in transfers
    ]
