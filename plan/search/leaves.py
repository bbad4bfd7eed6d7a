"""Orders to start from: the leaves of the hierarchy of the hosts, and the same interleaved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.schedule.builders.rounds import core_rank, power_of_two
from netprobe.plan.search.construct import whole_units


def leaf_order(cost: FloatMatrix, first: int) -> list[int]:
    """The leaves of the average-linkage tree of ``cost`` (N, N), as a tree in which ``first`` hangs leftmost.

    Linkage goes by the mean of both directions. At each fork the branch that holds ``first`` comes first,
    and elsewhere the larger branch, so that ranks of groups begin at round numbers where they can.
    """
    size = len(cost)
    if size < 3:
        return [first, *(host for host in range(size) if host != first)]
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    units = whole_units(cost).astype(np.float64)
    both = units + units.T
    np.fill_diagonal(both, 0.0)
    tree = linkage(squareform(both, checks=False), method="average")
    branches: list[list[int]] = [[host] for host in range(size)]
    for left, right in tree[:, :2].astype(int).tolist():
        one, other = branches[left], branches[right]
        # A branch is given up once it is part of another: N lists in all, not N^2 numbers.
        branches[left] = branches[right] = []
        swap = other[0] == first or (one[0] != first and len(other) > len(one))
        branches.append([*other, *one] if swap else [*one, *other])
    return branches[-1]


def interleaved(order: Sequence[int]) -> list[int]:
    """``order`` interleaved over the ranks, so that its neighbours get the ranks farthest apart; rank 0 stays.

    What suits algorithms in which far ranks exchange most. The members of the core of log N rounds take their
    hosts in the order of their reversed bits; two ranks that MPICH's fold joins stay together.
    """
    size = len(order)
    core = power_of_two(size)
    extra, bits = size - core, core.bit_length() - 1
    placed = [-1] * size
    hosts = iter(order)
    for number in range(core):
        member = int(f"{number:0{bits}b}"[::-1], 2) if bits else 0
        if member < extra:
            placed[2 * member] = next(hosts)
        placed[core_rank(member, extra)] = next(hosts)
    return placed
