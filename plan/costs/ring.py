"""The two readings of a ring: the sum of its hops, and its slowest hop once for every round."""

from __future__ import annotations

from dataclasses import dataclass

from netprobe.plan.bounds.rings import bottleneck_lower_bound, sum_lower_bound
from netprobe.plan.costs.link import LinkCost
from netprobe.plan.costs.model import RoundModel
from netprobe.plan.costs.phases import Phases, ring_phases
from netprobe.plan.schedule.builders.ring import chunked_ring_rounds, whole_ring_rounds
from netprobe.plan.schedule.schedule import Round


@dataclass(frozen=True)
class Ring(RoundModel):
    """The whole buffer goes round: C = sum of c(r, r + 1)(S), the dissertation's equation (5.2.1).

    Printed is c(i, i - 1); section 5.1 and the libraries (MPI, NCCL, Gloo) send from rank i to rank i + 1, and
    so is it here, which matters once costs are directed. With latencies alone it is ``ring_cost`` of
    the ring solver, to the last bit. The equation counts each hop once. A buffer that is summed on its way
    to the last rank and then handed round makes 2(N - 1) of the N hops; over all ranks it may start
    from, that is 2(N - 1)/N times this cost, which changes no order.

    Any N: a ring folds nothing. One host costs 0, two hosts c(0, 1) + c(1, 0).
    """

    @property
    def name(self) -> str:
        """What a user calls it."""
        return "ring"

    def chunks(self, ranks: int) -> int:  # noqa: ARG002
        """The buffer is not cut."""
        return 1

    def program(self, ranks: int) -> list[Round]:
        """N - 1 hops add up, N - 1 hops hand out."""
        return whole_ring_rounds(ranks)

    def phases(self, ranks: int) -> Phases:
        """All hops, added."""
        return ring_phases(ranks, 1.0, 1, adds=True)

    def lower_bound(self, link_cost: LinkCost) -> float:
        """Held and Karp's bound (``netprobe.plan.bounds.rings``)."""
        given = self.cost(range(len(link_cost)), link_cost)
        return sum_lower_bound(link_cost.matrix(), given)


@dataclass(frozen=True)
class ChunkedRing(RoundModel):
    """Reduce-scatter and all-gather round a ring, N chunks: C = 2(N - 1) * max of c(r, r + 1)(S/N).

    What NCCL, Gloo (``ring``) and Open MPI (``ring``) run for large buffers; Patarasuk and Yuan,
    "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009). In each of 2(N - 1)
    rounds every rank sends one chunk to the next, so the slowest hop sets the pace. The dissertation gives
    the sum only. Any N: a ring folds nothing, chunks are equal (a library's differ by one element).
    """

    @property
    def name(self) -> str:
        """What a user calls it."""
        return "chunked-ring"

    def chunks(self, ranks: int) -> int:
        """One chunk per rank."""
        return ranks

    def program(self, ranks: int) -> list[Round]:
        """Rank r starts with chunk r; each round it passes on the chunk it got in the round before."""
        return chunked_ring_rounds(ranks)

    def phases(self, ranks: int) -> Phases:
        """One round, made 2(N - 1) times."""
        return ring_phases(ranks, 1.0 / ranks, 2 * (ranks - 1), adds=False)

    def lower_bound(self, link_cost: LinkCost) -> float:
        """The least largest hop that leaves a 2-connected graph (``netprobe.plan.bounds.rings``), each round."""
        size = len(link_cost)
        if size < 2:
            return 0.0
        return 2 * (size - 1) * bottleneck_lower_bound(link_cost.matrix(1.0 / size))
