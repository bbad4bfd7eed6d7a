"""Average linkage on log distances, and how well each of its cuts explains them.

The score of a partition is the correlation, over all pairs, between the log distance and "these two hosts
are in different groups": 1 when pairs inside and pairs between form two clearly separate sets, 0 when the partition
says nothing. A cut with too few groups has far pairs inside, one with too many has near pairs between, so
the score has its maximum at the right number, and racks of any sizes can win it. For a nested structure
the tier that explains most of the log distances wins.

Average linkage is Sokal and Michener's (1958); the score is the cophenetic idea of Sokal and Rohlf (1962) for one cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.distances.pairs import ends_of, square
from netprobe.core.numeric.dendrogram import cut, joined_at

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Log distances that vary less than this (root mean square) count as equal.
_FLAT = 1e-9
# Trees of so many hosts are grown many at once.
_SMALL = 40


@dataclass(frozen=True, kw_only=True, eq=False)
class Hierarchy:
    """A tree over N hosts, (N - 1, 4) as scipy has it; ``score`` (N + 1,) has at k the score, up to 1, of the
    cut into k groups (zero for k < 2 and k = N).
    """

    tree: NDArray[np.float64]
    score: NDArray[np.float64]

    def cut(self, k: int) -> NDArray[np.int64]:
        """(N,) labels of the cut into exactly k groups, ties between equal heights included."""
        n = len(self.tree) + 1
        return np.arange(n, dtype=np.int64) if k >= n else cut(self.tree, k)


def hierarchy_of(log_distance: Vector, measured: Mask) -> Hierarchy:
    """Tree and scores of (M,) condensed log distances of at least two hosts.

    The tree is built on all pairs, ``measured`` (M,) or filled in; the score of a cut looks at the measured
    ones. All cuts are scored at once, from the pairs that each merge brings together.
    """
    from scipy.cluster.hierarchy import linkage

    shifted = log_distance - log_distance.min()
    tree = np.asarray(linkage(shifted, "average"))
    if measured.all():
        return Hierarchy(tree=tree, score=_scores(tree[None], shifted[None])[0])
    n = len(tree) + 1
    score = np.zeros(n + 1)
    if n > 2:
        counts, sums = _joined(tree[None], shifted[None], measured)
        score[n - 1 : 1 : -1] = _of_cuts(counts, sums, shifted[None, measured])[0]
    return Hierarchy(tree=tree, score=score)


def best_scores(log_distances: Vector, measured: Mask) -> Vector:
    """(D,) the best score of a cut, as `hierarchy_of` finds it, of D matrices: (D, M) condensed log distances."""
    from scipy.cluster.hierarchy import linkage

    shifted = log_distances - log_distances.min(axis=1, keepdims=True)
    n = round((1 + np.sqrt(1 + 8 * log_distances.shape[1])) / 2)
    if n <= _SMALL:
        trees = _average_linkages(square(shifted, n))
    else:
        trees = np.stack([linkage(one, "average") for one in shifted])
    if measured.all():
        return np.asarray(_scores(trees, shifted).max(axis=1))
    if n < 3:
        return np.zeros(len(log_distances))
    # With few measured pairs scores may be negative: that counts as no score.
    best = _of_cuts(*_joined(trees, shifted, measured), shifted[:, measured]).max(axis=1)
    return np.asarray(np.maximum(best, 0.0))


def _average_linkages(matrices: Vector) -> Vector:
    """(D, N - 1, 4) average-linkage trees of (D, N, N) matrices, as scipy gives them, all at once.

    N - 1 times the nearest two clusters of each matrix are joined. Of many small matrices this takes less than
    half the time that as many calls take. Of equal distances another pair may be joined first than scipy's.
    """
    count, n, _ = matrices.shape
    apart = matrices + np.where(np.eye(n, dtype=bool), np.inf, 0.0)
    sizes, names = np.ones((count, n)), np.tile(np.arange(n), (count, 1))
    trees = np.empty((count, n - 1, 4))
    every = np.arange(count)
    for step in range(n - 1):
        one, other = np.divmod(apart.reshape(count, -1).argmin(axis=1), n)
        size_one, size_other = sizes[every, one], sizes[every, other]
        size = size_one + size_other
        trees[:, step] = np.stack(
            [names[every, one], names[every, other], apart[every, one, other], size], axis=1
        )
        joined = size_one[:, None] * apart[every, one] + size_other[:, None] * apart[every, other]
        joined /= size[:, None]
        apart[every, other] = apart[every, :, other] = np.inf
        joined[every, one] = joined[every, other] = np.inf
        apart[every, one] = apart[every, :, one] = joined
        sizes[every, one], names[every, one] = size, n + step
    return trees


def _scores(trees: Vector, log_distances: Vector) -> Vector:
    """(D, N + 1) scores of the cuts of D trees, (D, N - 1, 4), grown on complete (D, M) log distances."""
    n = trees.shape[1] + 1
    score = np.zeros((len(trees), n + 1))
    if n < 3:
        return score
    # The height of an average-linkage merge is the mean over just the pairs that it brings together.
    size = np.concatenate([np.ones((len(trees), n)), trees[:, :, 3]], axis=1)
    ends = np.take_along_axis(size[:, :, None], trees[:, :, :2].astype(np.intp), axis=1)
    counts = ends[:, :, 0] * ends[:, :, 1]
    score[:, n - 1 : 1 : -1] = _of_cuts(counts, counts * trees[:, :, 2], log_distances)
    return score


def _of_cuts(counts: Vector, sums: Vector, values: Vector) -> Vector:
    """(D, N - 2) scores of the cuts into N - 1 .. 2 groups, by what each merge brings together.

    counts, sums: (D, N - 1) pairs, and the sum of their log distances; values: (D, P) those of all pairs.
    """
    pairs = values.shape[1]
    inside, inside_sum = np.cumsum(counts, axis=1)[:, :-1], np.cumsum(sums, axis=1)[:, :-1]
    between = pairs - inside
    both = (inside > 0) & (between > 0)
    total = values.sum(axis=1)[:, None]
    spread = np.sqrt(np.square(values - values.mean(axis=1, keepdims=True)).sum(axis=1))[:, None]
    flat = spread <= _FLAT * np.sqrt(pairs)
    step = (total - inside_sum) / np.maximum(between, 1) - inside_sum / np.maximum(inside, 1)
    score = step * np.sqrt(inside * between / pairs) / np.where(flat, 1.0, spread)
    return np.asarray(np.where(both & ~flat, score, 0.0))


def partition_scores(values: Vector, between: Mask) -> Vector:
    """(D,) `partition_score` of one partition on D matrices.

    values: (D, P) log distances of the measured pairs; between: (P,) which of these join different groups.
    """
    count = int(between.sum())
    if count in (0, len(between)):
        return np.zeros(len(values))
    spread = np.sqrt(np.square(values - values.mean(axis=1, keepdims=True)).sum(axis=1))
    across = values @ between.astype(np.float64)
    step = across / count - (values.sum(axis=1) - across) / (len(between) - count)
    share = float(np.sqrt(count * (len(between) - count) / len(between)))
    flat = spread <= _FLAT * np.sqrt(len(between))
    return np.asarray(np.where(flat, 0.0, step * share / np.where(flat, 1.0, spread)))


def partition_score(log_distance: Vector, measured: Mask, labels: NDArray[np.int64]) -> float:
    """The same score for any partition ``labels`` (N,), by (M,) condensed log distances and which are
    measured; 0 when all pairs are of one kind or all log distances are equal.
    """
    first, second = ends_of(len(labels))
    between = (labels[first] != labels[second])[measured]
    values = log_distance[measured]
    spread = _spread(values)
    if between.all() or not between.any() or spread <= _FLAT * np.sqrt(len(values)):
        return 0.0
    step = float(values[between].mean() - values[~between].mean())
    share = float(between.sum()) * float((~between).sum()) / len(values)
    return step * float(np.sqrt(share)) / spread


def _joined(trees: Vector, log_distances: Vector, measured: Mask) -> tuple[Vector, Vector]:
    """(D, N - 1) how many measured pairs each merge of D trees brings together, and the sum of their
    log distances."""
    count, merges = trees.shape[:2]
    ordered = trees.copy()
    # Merge number t at height t: heights that are equal, or rounded, decide nothing.
    ordered[:, :, 2] = np.arange(merges)
    merge = joined_at(ordered)[:, measured].astype(np.intp)
    merge += (merges * np.arange(count))[:, None]
    counts = np.bincount(merge.ravel(), minlength=count * merges).astype(np.float64)
    sums = np.bincount(merge.ravel(), log_distances[:, measured].ravel(), minlength=count * merges)
    return counts.reshape(count, merges), np.asarray(sums.reshape(count, merges))


def _spread(values: Vector) -> float:
    return float(np.sqrt(((values - values.mean()) ** 2).sum()))
