"""Rings to start from, and the neighbours worth trying for each host.

The search works on whole units: costs are scaled to 2^40 for the largest one (less from 1,025 hosts on, so that
no sum overflows 63 bits, penalties for hops that are too long included) and rounded. Sums are exact
then, ties are ties on every machine, and the order of summation decides nothing. Nor does the unit where costs are
whole numbers of one, below 2^10; elsewhere another unit may round a cost to the next of 2^40 steps, which tells
apart only rings that are equal to 12 digits. A coarser grid (see `on_a_grid`) could prove fewer rings to be the best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix

SCALE_BITS = 40
SUM_BITS = 61
NEAREST = 8
GAPS = 3
AFTER_A_GAP = 2


def whole_units(cost: FloatMatrix) -> NDArray[np.int64]:
    """``cost`` (N, N) in whole units, the largest being 2^40 up to 1,024 hosts; the diagonal is 0."""
    work = cost.copy()
    np.fill_diagonal(work, 0.0)
    top = float(work.max()) if work.size else 0.0
    if top <= 0:
        return np.zeros(work.shape, dtype=np.int64)
    bits = min(SCALE_BITS, SUM_BITS - 2 * (len(work) - 1).bit_length())
    return np.rint(work / top * float(1 << bits)).astype(np.int64)


def nearest_neighbour(units: NDArray[np.int64], first: int) -> list[int]:
    """From ``first``, always on to the nearest host not yet visited (ties: the smaller index)."""
    size = len(units)
    far = np.iinfo(np.int64).max
    free = np.ones(size, dtype=bool)
    order = [first]
    free[first] = False
    for _ in range(size - 1):
        host = int(np.where(free, units[order[-1]], far).argmin())
        free[host] = False
        order.append(host)
    return order


def linkage_leaves(units: NDArray[np.int64]) -> list[int]:
    """The leaves of the average-linkage tree of the mean of both directions, as the tree is drawn."""
    if len(units) < 3:
        return list(range(len(units)))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    both = (units + units.T).astype(np.float64)
    np.fill_diagonal(both, 0.0)
    tree = linkage(squareform(both, checks=False), method="average")
    return [int(leaf) for leaf in leaves_list(tree)]


def neighbours(units: NDArray[np.int64]) -> list[list[int]]:
    """For each host the hosts worth following it, nearest first.

    They are the NEAREST nearest ones, and the first ones behind the widest gaps of the sorted row: a row
    of a fleet in racks has its own rack first, and the nearest host of another rack comes after a gap.
    """
    size = len(units)
    work = units.copy()
    np.fill_diagonal(work, np.iinfo(np.int64).max)
    ranked = np.argsort(work, axis=1, kind="stable")[:, : size - 1]
    values = np.take_along_axis(work, ranked, axis=1)
    near = min(NEAREST, size - 1)
    lists = []
    for host in range(size):
        wanted = set(range(near))
        if size - 1 > near:
            jumps = np.diff(values[host])[near - 1 :]
            for gap in np.argsort(-jumps, kind="stable")[:GAPS].tolist():
                wanted.update(range(near + gap, min(near + gap + AFTER_A_GAP, size - 1)))
        lists.append([int(ranked[host, rank]) for rank in sorted(wanted)])
    return lists


def padded(lists: list[list[int]]) -> NDArray[np.int64]:
    """One row a list, -1 from its end on."""
    width = max(map(len, lists))
    return np.array([[*row, *[-1] * (width - len(row))] for row in lists], dtype=np.int64)
