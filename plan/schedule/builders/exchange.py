"""Algorithms of log N rounds in which ranks exchange with partners at growing or shrinking distances."""

from __future__ import annotations

from netprobe.plan.schedule.builders.rounds import (
    binary_radices,
    exchange_rounds,
    folded,
    gathered,
    of_core,
    power_of_two,
)
from netprobe.plan.schedule.schedule import Round, Transfer


def halving_doubling_rounds(ranks: int, *, nearest_first: bool = True) -> list[Round]:
    """Rabenseifner's all-reduce on a chunk for each member of the core: fold, reduce-scatter, all-gather, unfold."""
    chunks = power_of_two(ranks)
    extra = ranks - chunks
    halving = exchange_rounds(binary_radices(ranks), nearest_first=nearest_first)
    return [
        *folded(extra, chunks, back=False),
        *of_core([*halving, *gathered(halving)], extra),
        *folded(extra, chunks, back=True),
    ]


def recursive_doubling_rounds(ranks: int) -> list[Round]:
    """The whole buffer as one chunk: fold, exchange at every distance, unfold."""
    core = power_of_two(ranks)
    extra = ranks - core
    distances = [1 << i for i in range(core.bit_length() - 1)]
    exchanges = [[Transfer(r, r ^ d, 0, 1, True) for r in range(core)] for d in distances]
    return [*folded(extra, 1, back=False), *of_core(exchanges, extra), *folded(extra, 1, back=True)]


def reduce_scatter_rounds(ranks: int) -> list[Round]:
    """Reduce-scatter by recursive halving on one chunk per rank: fold, halve, hand the folded ranks their chunks."""
    extra = ranks - power_of_two(ranks)
    back = [[Transfer(2 * i + 1, 2 * i, 2 * i, 2 * i + 1, False) for i in range(extra)]] if extra else []
    return [*folded(extra, ranks, back=False), *reduce_scatter_halving(ranks), *back]


def reduce_scatter_halving(ranks: int) -> list[Round]:
    """The halving among the members of the core: member i handles chunks start(i) to start(i + 1) - 1."""
    extra = ranks - power_of_two(ranks)
    halving = exchange_rounds(binary_radices(ranks), nearest_first=False)
    cut = [[t._replace(first=_start(t.first, extra), last=_start(t.last, extra)) for t in r] for r in halving]
    return of_core(cut, extra)


def bcube_rounds(ranks: int, base: int) -> list[Round]:
    """Halving-doubling in groups of ``base``, on one chunk per rank: reduce-scatter, all-gather."""
    scatter = exchange_rounds(bcube_radices(ranks, base), nearest_first=True)
    return [*scatter, *gathered(scatter)]


def bcube_radices(ranks: int, base: int) -> list[int]:
    """Size of the groups in each round of BCube, neighbours first; their product is ``ranks``."""
    sizes = []
    left = ranks
    while left > 1 and left % base == 0:
        sizes.append(base)
        left //= base
    return [*sizes, left] if left > 1 else sizes


def _start(member: int, extra: int) -> int:
    """First chunk that the core's ``member`` handles: two chunks for each folded pair before it."""
    return member + min(member, extra)
