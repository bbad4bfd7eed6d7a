"""Trees: half the buffer up and down each of two trees over all ranks, or the whole buffer in a binomial tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netprobe.core.errors import InternalError
from netprobe.plan.schedule.schedule import Round, Transfer

Parents = tuple[int, ...]
"""Parent of each rank, -1 for the root."""


@dataclass(frozen=True, eq=False)
class Tree:
    """One rooted tree over the ranks."""

    parent: Parents
    children: tuple[tuple[int, ...], ...]
    depth: tuple[int, ...]
    root: int

    @property
    def height(self) -> int:
        """Links between the root and the deepest rank."""
        return max(self.depth)


def tree_rounds(trees: Sequence[Tree]) -> list[Round]:
    """One chunk per tree, all trees at once: the deepest ranks send first; then down again the same way."""
    height = max(tree.height for tree in trees)
    up = [
        [
            Transfer(rank, tree.parent[rank], part, part + 1, True)
            for part, tree in enumerate(trees)
            for rank, depth in enumerate(tree.depth)
            if depth == tree.height - step > 0
        ]
        for step in range(height)
    ]
    down = [
        [
            Transfer(tree.parent[rank], rank, part, part + 1, False)
            for part, tree in enumerate(trees)
            for rank, depth in enumerate(tree.depth)
            if depth == step + 1
        ]
        for step in range(height)
    ]
    return [*up, *down]


def middle_trees(ranks: int) -> tuple[Parents, Parents]:
    """The dissertation's: the tree of middles of intervals, and the same a rank lower."""
    first = [-1] * ranks
    intervals = [(0, ranks - 1)]
    while intervals:
        i, j = intervals.pop()
        middle = (i + j) // 2
        if i < middle:
            first[(3 * i + j - 2) // 4] = middle
            intervals.append((i, middle - 1))
        if middle < j:
            first[(i + 3 * j + 2) // 4] = middle
            intervals.append((middle + 1, j))
    return tuple(first), _shifted(first, -1)


def bit_trees(ranks: int) -> tuple[Parents, Parents]:
    """NCCL's: the bit tree, and its mirror image or shift."""
    first = [-1] * ranks
    for rank in range(1, ranks):
        bit = rank & -rank
        above = (rank ^ bit) | (bit << 1)
        first[rank] = above if above < ranks else rank ^ bit
    if ranks % 2:
        return tuple(first), _shifted(first, 1)
    mirrored = [-1 if up < 0 else ranks - 1 - up for up in reversed(first)]
    return tuple(first), tuple(mirrored)


def binomial_rounds(ranks: int) -> list[Round]:
    """Open MPI's tree, one chunk: a binomial reduce, in which rank r sends to r less its lowest set bit, the lowest
    bits first; then a binomial broadcast, in which rank r gets the sum from r less its highest set bit, and each sends
    to its nearest ranks first. Its two trees are not the same one."""
    bits = [1 << bit for bit in range((ranks - 1).bit_length())]
    up = [[Transfer(r, r - bit, 0, 1, True) for r in range(bit, ranks, 2 * bit)] for bit in bits]
    down = [[Transfer(r - bit, r, 0, 1, False) for r in range(bit, min(2 * bit, ranks))] for bit in bits]
    return [*up, *down]


def rooted(parent: Parents) -> Tree:
    """The tree of ``parent``. Raises InternalError when it is not a tree."""
    children: list[list[int]] = [[] for _ in parent]
    roots = []
    for rank, above in enumerate(parent):
        if above < 0:
            roots.append(rank)
        else:
            children[above].append(rank)
    depth = [-1] * len(parent)
    level, at = list(roots), 0
    while level:
        for rank in level:
            depth[rank] = at
        level = [child for rank in level for child in children[rank]]
        at += 1
    if len(roots) != 1 or min(depth) < 0:
        raise InternalError(f"{len(roots)} roots, {depth.count(-1)} ranks without a parent")
    return Tree(parent, tuple(map(tuple, children)), tuple(depth), roots[0])


def _shifted(parent: Sequence[int], by: int) -> Parents:
    """The same tree with every rank ``by`` more, modulo their number."""
    size = len(parent)
    moved = [-1] * size
    for rank, above in enumerate(parent):
        moved[(rank + by) % size] = -1 if above < 0 else (above + by) % size
    return tuple(moved)
