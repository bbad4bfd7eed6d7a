"""Trees: double binary ones, and the binomial one of Open MPI."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.costs.bounds import pairs_bound, tree_bound
from netprobe.plan.costs.delta import Evaluation
from netprobe.plan.costs.link import LinkCost, RankOrders, Ranks, checked_orders
from netprobe.plan.costs.model import RoundModel
from netprobe.plan.schedule.builders.rounds import Triple, triples
from netprobe.plan.schedule.builders.tree import (
    Parents,
    Tree,
    binomial_rounds,
    bit_trees,
    middle_trees,
    rooted,
    tree_rounds,
)
from netprobe.plan.schedule.contract import Collective
from netprobe.plan.schedule.schedule import Round

HALF = 0.5


@dataclass(frozen=True)
class TreeModel(ABC):
    """C = max over both trees of the slowest path up to the root plus the slowest path down from it.

    Each tree carries half the buffer: its ranks add what their children send and pass it up, and the root
    sends the result down. A path costs the sum of its links; a rank waits for the slower of its children.
    Pipelining inside a half, and the two trees sharing a host's port, are not priced. The dissertation's T goes
    one way; with symmetric costs this is twice that.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What a user calls it."""

    @property
    def collective(self) -> Collective:
        """What it computes."""
        return "all_reduce"

    @abstractmethod
    def parents(self, ranks: int) -> tuple[Parents, Parents]:
        """Both trees: the parent of each rank, -1 for the root."""

    def chunks(self, ranks: int) -> int:  # noqa: ARG002
        """A half a tree."""
        return 2

    def program(self, ranks: int) -> list[Round]:
        """The deepest ranks send first, in both trees at once; then down again along the same paths."""
        return tree_rounds(both_trees(self, ranks))

    def rounds(self, ranks: int) -> Iterator[list[Triple]]:
        """``program`` as (sender, receiver, share of the buffer)."""
        return triples(self.program(ranks), self.chunks(ranks))

    def cost(self, order: Sequence[int], link_cost: LinkCost) -> float:
        """Seconds of the hosts in ``order``, rank 0 first. Raises InputError for an invalid order."""
        return float(self.costs([order], link_cost)[0])

    def costs(self, orders: Iterable[Sequence[int]] | RankOrders, link_cost: LinkCost) -> FloatMatrix:
        """``cost`` of each of ``orders`` (K, N), as an array (K,)."""
        array = checked_orders(orders, len(link_cost))
        total = np.zeros(len(array))
        if array.shape[1] > 1:
            for tree in both_trees(self, array.shape[1]):
                time_up, time_down = path_times(tree, array, link_cost)
                total = np.maximum(total, time_up[:, tree.root] + time_down[:, tree.root])
        return total

    def start(self, order: Sequence[int], link_cost: LinkCost) -> Evaluation:
        """``order`` priced, ready for the costs of its neighbours."""
        array = checked_orders([order], len(link_cost))[0]
        return TreeEvaluation(both_trees(self, len(array)), array, link_cost)

    def lower_bound(self, link_cost: LinkCost) -> float:
        """The best root's farthest host and back (``tree_bound``)."""
        if len(link_cost) < 2:
            return 0.0
        return max(tree_bound(link_cost, tree.height, HALF) for tree in both_trees(self, len(link_cost)))


@dataclass(frozen=True)
class DoubleBinaryTree(TreeModel):
    """The dissertation's tree: the middle of an interval is the parent of the middles of both halves.

    T(i, j) has its root at m = (i + j) // 2, over T(i, m - 1) and T(m + 1, j); the second tree is the first with
    every rank one less (modulo N), structure unchanged.

    Corrected: the children are printed as (3i + j)/2 - 1 and (i + 3j)/2 + 1, which lie outside most intervals (and
    a plain /4 with those -1 and +1 is wrong too). The middles of both halves are (3i + j - 2) // 4 and
    (i + 3j + 2) // 4. An empty half (i = m) has no child: as printed it is charged for a rank outside the
    interval. The recursion drops its argument S, and the printed C prices the first tree only, though
    the text takes the maximum of all trees. Any N: nothing is folded.
    """

    @property
    def name(self) -> str:
        """What a user calls it."""
        return "double-binary-tree"

    def parents(self, ranks: int) -> tuple[Parents, Parents]:
        """The tree of middles, and the same a rank lower."""
        return middle_trees(ranks)


@dataclass(frozen=True)
class NcclTree(TreeModel):
    """NCCL's double tree between hosts: ranks by their lowest set bit, so that leaves and inner ranks alternate.

    Rank 0 is the root over the largest power of two below N; a rank whose lowest set bit is b hangs under
    the rank with b cleared and 2b set, or with b cleared only when that one is beyond N. The second tree is the
    mirror image (N - 1 - r) for even N and a shift by one rank for odd N, so that a leaf of one tree is
    mostly an inner rank of the other. Source: ``src/graph/trees.cc`` of NCCL; Sanders, Speck and Traff,
    "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009). Any N: nothing is folded.
    A rank is a host here: inside a host NCCL runs a chain of GPUs.
    """

    @property
    def name(self) -> str:
        """What a user calls it."""
        return "nccl-tree"

    def parents(self, ranks: int) -> tuple[Parents, Parents]:
        """The bit tree, and its mirror image or shift."""
        return bit_trees(ranks)


@dataclass(frozen=True)
class BinomialTree(RoundModel):
    """Open MPI's tree (its ``reduce`` 5, then ``bcast`` 6, both binomial): the whole buffer in 2 log2 N rounds.

    C = sum over the rounds of the slowest transfer of S. Rank 0 is the root of both trees. The reduce goes by lowest
    set bits and the broadcast by highest ones, so that a host's neighbours in one are not those in the other; in both
    the root deals with the nearest ranks first. Segments, which let rounds overlap, are not priced. Any N: nothing
    is folded. Source: ``coll_base_topo.c`` of Open MPI; Thakur, Rabenseifner and Gropp (2005).
    """

    @property
    def name(self) -> str:
        """What a user calls it."""
        return "binomial-tree"

    def chunks(self, ranks: int) -> int:  # noqa: ARG002
        """The buffer is not cut."""
        return 1

    def program(self, ranks: int) -> list[Round]:
        """A reduce to rank 0, and a broadcast from it."""
        return binomial_rounds(ranks)

    def lower_bound(self, link_cost: LinkCost) -> float:
        """For each round as many disjoint transfers as it has (``pairs_bound``)."""
        counts = map(len, self.program(len(link_cost)))
        return math.fsum(pairs_bound(link_cost, pairs, 1.0) for pairs in counts)


class TreeEvaluation(Evaluation):
    """Keeps the times of the paths up and down from every rank; a neighbour changes some on paths to the root."""

    def __init__(self, trees: tuple[Tree, Tree], order: Ranks, link_cost: LinkCost) -> None:
        super().__init__(order)
        self._trees, self._link_cost = trees, link_cost
        priced = [path_times(tree, order[None], link_cost) for tree in trees]
        self._times = [(up[0].tolist(), down[0].tolist()) for up, down in priced]
        self._pending = self._times
        self._cost = self._total(self._times)

    def _priced(self, order: list[int], changed: list[int]) -> float:
        pairs = zip(self._trees, self._times)
        self._pending = [self._mended(tree, up, down, order, changed) for tree, (up, down) in pairs]
        return self._total(self._pending)

    def _mended(
        self, tree: Tree, up: list[float], down: list[float], order: list[int], changed: list[int]
    ) -> tuple[list[float], list[float]]:
        """Path times after ``changed``: those of the changed ranks, their parents, and all above them."""
        dirty: set[int] = set()
        for rank in changed:
            at = rank
            while at >= 0 and at not in dirty:
                dirty.add(at)
                at = tree.parent[at]
        up, down = list(up), list(down)
        seconds = self._link_cost.one
        for rank in sorted(dirty, key=tree.depth.__getitem__, reverse=True):
            host, rises, falls = order[rank], 0.0, 0.0
            for child in tree.children[rank]:
                rises = max(rises, up[child] + seconds(order[child], host, HALF))
                falls = max(falls, down[child] + seconds(host, order[child], HALF))
            up[rank], down[rank] = rises, falls
        return up, down

    def _keep(self) -> None:
        self._times = self._pending

    def _total(self, priced: list[tuple[list[float], list[float]]]) -> float:
        return max(up[tree.root] + down[tree.root] for tree, (up, down) in zip(self._trees, priced))


def path_times(tree: Tree, orders: RankOrders, link_cost: LinkCost) -> tuple[FloatMatrix, FloatMatrix]:
    """Time (K, N) of the slowest path from below up to each rank, and from each rank down, under ``orders`` (K, N)."""
    up, down = np.zeros(orders.shape), np.zeros(orders.shape)
    for above, below in levels(tree):
        half = np.full(len(above), HALF)
        hosts, theirs = orders[:, above], orders[:, below]
        up[:, above] = np.maximum(up[:, above], up[:, below] + link_cost.seconds(theirs, hosts, half))
        down[:, above] = np.maximum(down[:, above], down[:, below] + link_cost.seconds(hosts, theirs, half))
    return up, down


@lru_cache(maxsize=128)
def levels(tree: Tree) -> tuple[tuple[Ranks, Ranks], ...]:
    """Links (parents, children), the deepest first; no parent is twice in one entry."""
    entries = []
    for depth in range(tree.height - 1, -1, -1):
        parents = [rank for rank, its in enumerate(tree.depth) if its == depth]
        for place in range(max(len(tree.children[rank]) for rank in parents)):
            above = [rank for rank in parents if len(tree.children[rank]) > place]
            below = [tree.children[rank][place] for rank in above]
            entries.append((np.array(above, dtype=np.intp), np.array(below, dtype=np.intp)))
    return tuple(entries)


@lru_cache(maxsize=128)
def both_trees(model: TreeModel, ranks: int) -> tuple[Tree, Tree]:
    """The two trees of ``model`` over ``ranks``."""
    first, second = model.parents(ranks)
    return rooted(first), rooted(second)
