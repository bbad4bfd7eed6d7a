"""What trees say of pairs: when two leaves are joined, and into which groups a cut puts them.

scipy says the same of one tree in a call; of many small trees most of that time is spent on its checks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Trees of up to so many leaves are read many at once, as many as fit a cache.
_SMALL = 96
_CELLS_AT_ONCE = 1 << 17


def joined_at(trees: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D, M) heights at which D trees join the M pairs of their N leaves, in scipy's condensed order.

    trees: (D, N - 1, 4) as scipy's ``linkage`` gives them, heights not falling and not below zero.
    """
    count, n = len(trees), trees.shape[1] + 1
    if n > _SMALL:
        from scipy.cluster.hierarchy import cophenet

        return np.array([cophenet(tree) for tree in trees])
    at_once = max(_CELLS_AT_ONCE // n**2, 1)
    return np.concatenate([_joined_at(trees[done : done + at_once]) for done in range(0, count, at_once)])


def _joined_at(trees: NDArray[np.float64]) -> NDArray[np.float64]:
    """In the order of its leaves each merge of a tree is a stretch, and two leaves are joined at the greatest of
    the heights between them."""
    count, n = len(trees), trees.shape[1] + 1
    every = np.arange(count)
    ends = trees[:, :, :2].astype(np.intp)
    size = np.concatenate([np.ones((count, n)), trees[:, :, 3]], axis=1).astype(np.intp)
    place = np.zeros((count, 2 * n - 1), dtype=np.intp)
    between = np.empty((count, n - 1))
    for merge in range(n - 2, -1, -1):
        one, other = ends[:, merge, 0], ends[:, merge, 1]
        start = place[:, n + merge]
        middle = start + size[every, one]
        place[every, one], place[every, other] = start, middle
        between[every, middle - 1] = trees[:, merge, 2]
    # greatest[b, :, a]: of the heights between leaves a and b + 1.
    greatest = np.zeros((n - 1, count, n - 1))
    for last in range(n - 1):
        greatest[last, :, last] = between[:, last]
        np.maximum(greatest[last - 1, :, :last], between[:, last, None], out=greatest[last, :, :last])
    first, second = np.triu_indices(n, 1)
    joined = np.empty((count, len(first)))
    for tree in range(count):
        one, other = place[tree].take(first), place[tree].take(second)
        cell = np.maximum(one, other)
        cell -= 1
        cell *= count * (n - 1)
        cell += np.minimum(one, other)
        greatest.reshape(-1)[tree * (n - 1) :].take(cell, out=joined[tree])
    return joined


def cut(tree: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """(N,) labels of the k groups that are left after the first N - k merges, numbered in the order of the leaves.

    tree: (N - 1, 4). Merges at one height are made in the tree's order: scipy's own cut by count makes all or
    none of them, and can miss k.
    """
    n = len(tree) + 1
    made = n - k
    ends, sizes = tree[:, :2].astype(np.intp).tolist(), [1] * n + tree[:, 3].astype(np.intp).tolist()
    place, starts = [0] * (2 * n - 1), [0]
    for merge in range(n - 2, -1, -1):
        one, other = ends[merge]
        place[one] = place[n + merge]
        place[other] = place[one] + sizes[one]
        if merge >= made:
            starts += [place[node] for node in (one, other) if node < n + made]
    return np.searchsorted(np.unique(starts), place[:n], side="right").astype(np.int64) - 1
