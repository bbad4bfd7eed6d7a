"""Algorithms of log N rounds in which ranks exchange with partners at growing or shrinking distances.

All are priced as the sum over the rounds of the slowest transfer, and both halves of an all-reduce are
counted (the dissertation counts the first; the second repeats its transfers, so that is twice as much). Their rounds,
and what is done with N that is not a power of two, are in ``netprobe.plan.schedule.builders``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from netprobe.core.errors import InputError
from netprobe.plan.costs.bounds import exchange_bound, pairs_bound
from netprobe.plan.costs.link import LinkCost
from netprobe.plan.costs.model import RoundModel
from netprobe.plan.schedule.builders.exchange import (
    bcube_radices,
    bcube_rounds,
    halving_doubling_rounds,
    recursive_doubling_rounds,
    reduce_scatter_halving,
    reduce_scatter_rounds,
)
from netprobe.plan.schedule.builders.rounds import binary_radices, power_of_two
from netprobe.plan.schedule.contract import Collective
from netprobe.plan.schedule.schedule import Round


def folds_bound(link_cost: LinkCost, extra: int, shares: tuple[float, ...]) -> float:
    """What folding costs at the least: a round of ``extra`` transfers for each of ``shares``."""
    return math.fsum(pairs_bound(link_cost, extra, share) for share in shares) if extra else 0.0


@dataclass(frozen=True)
class HalvingDoubling(RoundModel):
    """Rabenseifner's all-reduce: C = 2 * sum over i of max over r of c(r, r XOR 2^i)(S / 2^(i + 1)).

    The reduce-scatter halves the sizes while the distance doubles, so **neighbours exchange half the buffer
    and the farthest ranks least** (``nearest_first``, as printed in 5.2.1, in Gloo, and in the all-reduces
    of MPICH and Open MPI); the all-gather takes the same steps backwards. ``nearest_first=False`` is
    the other direction, in which far ranks exchange most.

    Mended: the printed maximum runs over j < N/2 with the partner j + 2^i, which in the early rounds leaves
    half the ranks out and pairs ranks that never exchange (1 and 2 in round 0). Partners are r XOR 2^i,
    over all ranks, and both directions of an exchange count.
    """

    nearest_first: bool = True

    @property
    def name(self) -> str:
        """What a user calls it."""
        return "halving-doubling" if self.nearest_first else "halving-doubling-farthest-first"

    def chunks(self, ranks: int) -> int:
        """A chunk for each member of the core."""
        return power_of_two(ranks)

    def program(self, ranks: int) -> list[Round]:
        """Fold, reduce-scatter, all-gather, unfold."""
        return halving_doubling_rounds(ranks, nearest_first=self.nearest_first)

    def lower_bound(self, link_cost: LinkCost) -> float:
        """Matchings, degrees and components of each round (``exchange_bound``)."""
        size = len(link_cost)
        radices = binary_radices(size)
        shares = [0.5 ** (i + 1) for i in range(len(radices))]
        core = 2 * exchange_bound(link_cost, radices, shares)
        return core + folds_bound(link_cost, size - power_of_two(size), (1.0, 1.0))


@dataclass(frozen=True)
class RecursiveDoubling(RoundModel):
    """The whole buffer with partner r XOR 2^i in each of log2 N rounds: C = sum of max c(r, r XOR 2^i)(S).

    MPICH and Open MPI take it for short messages: half the rounds of halving-doubling, all of the bytes in
    each. Not in the dissertation. N beyond a power of two: MPICH's fold (Open MPI's is the same here).
    """

    @property
    def name(self) -> str:
        """What a user calls it."""
        return "recursive-doubling"

    def chunks(self, ranks: int) -> int:  # noqa: ARG002
        """The buffer is not cut."""
        return 1

    def program(self, ranks: int) -> list[Round]:
        """Fold, exchange at every distance, unfold."""
        return recursive_doubling_rounds(ranks)

    def lower_bound(self, link_cost: LinkCost) -> float:
        """Matchings, degrees and components of each round (``exchange_bound``)."""
        size = len(link_cost)
        radices = binary_radices(size)
        core = exchange_bound(link_cost, radices, [1.0] * len(radices))
        return core + folds_bound(link_cost, size - power_of_two(size), (1.0, 1.0))


@dataclass(frozen=True)
class ReduceScatter(RoundModel):
    """Reduce-scatter by recursive halving: C = sum over i of max over r of c(r, r XOR N/2^i)(S / 2^i), i = 1...

    MPICH's, and for powers of two LightGBM's: **the farthest ranks exchange half the buffer first**,
    neighbours least and last, so that chunk r ends on rank r. The other direction from halving-doubling's
    first half, and the order that suits one does not suit the other. Not in the dissertation as an
    equation (6.3.4 runs it).

    N beyond a power of two: MPICH's fold. The core's members keep one chunk or two, so the two partners of a
    pair may send different amounts; at the end each odd rank hands its neighbour's chunk (S/N) back.
    """

    @property
    def name(self) -> str:
        """What a user calls it."""
        return "reduce-scatter"

    @property
    def collective(self) -> Collective:
        """What it computes."""
        return "reduce_scatter"

    def chunks(self, ranks: int) -> int:
        """One chunk per rank."""
        return ranks

    def program(self, ranks: int) -> list[Round]:
        """Fold, halve, hand the folded ranks their chunks."""
        return reduce_scatter_rounds(ranks)

    def lower_bound(self, link_cost: LinkCost) -> float:
        """Matchings, degrees and components of each round (``exchange_bound``)."""
        size = len(link_cost)
        least = [
            min(t.last - t.first for t in transfers) / size for transfers in reduce_scatter_halving(size)
        ]
        core = exchange_bound(link_cost, binary_radices(size), least)
        return core + folds_bound(link_cost, size - power_of_two(size), (1.0, 1.0 / size))


@dataclass(frozen=True)
class BCube(RoundModel):
    """Halving-doubling in groups of B: C = 2 * sum over i of max over r, k of c(r, r + k B^i)(S / B^(i + 1)).

    In round i the B ranks that differ in digit i of base B cut what they hold into B parts and each sends the
    others theirs, all at once; neighbours first, with the largest parts. B = 2 is halving-doubling.

    Mended: k goes 1 to B - 1 (printed: to B, which at k = B is a rank of the next round's group), and j runs over
    all ranks (printed: j < N/B, which again leaves ranks out); the partner's digit wraps within its group
    (printed: j + k B^i modulo N). Both directions count.

    Any N, as Gloo does it (``bcube`` of its present all-reduce): B is divided out of N while it goes, and what
    is left is the last group, so N = 32 runs 4 x 4 x 2 and N = 37 one direct exchange among all. Gloo's
    older algorithm class takes powers of B only. Gloo's default is B = 2, the dissertation measured B = 4.
    """

    base: int = 4

    def __post_init__(self) -> None:
        """Raises InputError for a base below 2."""
        if self.base < 2:
            raise InputError(f"BCube with B = {self.base}: groups of at least 2 are needed")

    @property
    def name(self) -> str:
        """What a user calls it."""
        return "bcube" if self.base == 4 else f"bcube-{self.base}"

    def chunks(self, ranks: int) -> int:
        """One chunk per rank."""
        return ranks

    def program(self, ranks: int) -> list[Round]:
        """Reduce-scatter, all-gather."""
        return bcube_rounds(ranks, self.base)

    def lower_bound(self, link_cost: LinkCost) -> float:
        """Matchings, degrees and components of each round (``exchange_bound``)."""
        radices = bcube_radices(len(link_cost), self.base)
        shares = [1.0 / math.prod(radices[: i + 1]) for i in range(len(radices))]
        return 2 * exchange_bound(link_cost, radices, shares)
