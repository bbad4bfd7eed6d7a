"""A grouping improved on the measured pairs alone.

Denoised distances blur what noise blurs, and where nine pairs in ten are missing the filled-in ones are
guesses. Here the measured pairs alone decide: two groups are joined, or a host is moved to another group, while
that raises the score of `hierarchy` (the correlation of the log distance with "in different groups"): greedy
joins and moves, netprobe's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.distances.log_distances import LogDistances
from netprobe.cluster.distances.pairs import ends_of

_GAIN = 1e-9
_ROUNDS = 20
_CELLS_AT_ONCE = 200_000
"""That stay in a processor's cache."""
_SHRINK = 8
"""Tables lose the groups that are gone when they are this part of all."""


def regroup(log_distances: LogDistances | None, labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """(N,) labels joined and moved until no step raises the score; ties go to the first.

    log_distances: of the readings as measured (`log_distances_of`).
    """
    found: NDArray[np.int64] = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    if log_distances is None:
        return found
    n = log_distances.n
    first, second = (ends[log_distances.measured] for ends in ends_of(n))
    values = log_distances.log_distance[log_distances.measured]
    values = values - values.mean()
    spread = float(np.sqrt((values**2).sum()))
    if spread <= 0:
        return found
    score = _Score(pairs=len(values), total=float(values.sum()), spread=spread)
    weight, log_distance = np.zeros((n, n)), np.zeros((n, n))
    weight[first, second] = weight[second, first] = 1.0
    log_distance[first, second] = log_distance[second, first] = values
    for _ in range(_ROUNDS):
        joined = _join(found, weight, log_distance, score)
        moved = _move(joined, weight, log_distance, score)
        if np.array_equal(moved, found):
            break
        found = moved
    return found


def joined_scores(log_distances: LogDistances, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D,) the score that joining groups, from single hosts on and as `regroup` does, comes to in D matrices.

    values: (D, P) log distances of the measured pairs of ``log_distances``. Hosts are not moved. Where few pairs were
    measured this sees groups that no tree does, for a tree has to fill the missing ones.
    """
    n = log_distances.n
    at_once = max(_CELLS_AT_ONCE // n**2, 1)
    if len(values) > at_once:
        parts = [values[start : start + at_once] for start in range(0, len(values), at_once)]
        return np.concatenate([joined_scores(log_distances, part) for part in parts])
    values = values - values.mean(axis=1, keepdims=True)
    spread = np.sqrt((values**2).sum(axis=1))
    best = np.zeros(len(values))
    rows = np.flatnonzero(spread > 0)
    pairs = values.shape[1]
    size = n * (n - 1) // 2
    # Condensed, and one more cell that stands for the diagonal.
    counts, sums = np.zeros((len(rows), size + 1)), np.zeros((len(rows), size + 1))
    counts[:, :-1][:, log_distances.measured] = 1.0
    sums[:, :-1][:, log_distances.measured] = values[rows]
    count, inside = np.zeros(len(rows)), np.zeros(len(rows))
    ends, cells = ends_of(n), _cells_of(n)
    alive, steps = np.ones((len(rows), n), dtype=bool), 0
    while len(rows):
        # Only pairs of groups with a measured pair are looked at: at first few of all are.
        at = np.flatnonzero(counts)
        starts = np.searchsorted(at, np.arange(len(rows) + 1) * counts.shape[1])
        matrix = np.repeat(np.arange(len(rows)), np.diff(starts))
        within, inner = count[matrix] + counts.ravel()[at], inside[matrix] + sums.ravel()[at]
        between = pairs - within
        with np.errstate(divide="ignore", invalid="ignore"):
            value = (-inner / between - inner / within) * np.sqrt(within * between / pairs)
        value[between <= 0] = -np.inf
        highest = np.full(len(rows), -np.inf)
        some = np.diff(starts) > 0
        highest[some] = np.maximum.reduceat(value, starts[:-1][some]) if some.any() else -np.inf
        score = highest / spread[rows]
        more = np.flatnonzero(score > best[rows] + _GAIN)
        best[rows[more]] = score[more]
        reached = np.flatnonzero(value == highest[matrix])
        # Of several as high the first: written last.
        place = np.zeros(len(rows), dtype=np.intp)
        place[matrix[reached[::-1]]] = reached[::-1]
        place = place[more]
        cell = at[place] - more * counts.shape[1]
        one, other = ends[0][cell], ends[1][cell]
        count, inside = within[place], inner[place]
        if len(more) < len(rows):
            rows, counts, sums, alive = rows[more], counts[more], sums[more], alive[more]
        here = np.arange(len(rows))
        kept, gone = cells[one], cells[other]
        for table in (counts, sums):
            table[here[:, None], kept] += table[here[:, None], gone]
            table[here[:, None], gone] = 0.0
            table[:, -1] = 0.0
        # Each matrix has been joined as often as every other: what is left of all is of one size.
        steps += 1
        alive[here, other] = False
        if len(rows) and steps >= alive.shape[1] // _SHRINK:
            left = np.nonzero(alive)[1].reshape(len(rows), -1)
            smaller = ends_of(left.shape[1])
            chosen = cells[left[:, smaller[0]], left[:, smaller[1]]]
            nothing = np.zeros((len(rows), 1))
            counts, sums = (
                np.concatenate([np.take_along_axis(table, chosen, axis=1), nothing], axis=1)
                for table in (counts, sums)
            )
            ends, cells = smaller, _cells_of(left.shape[1])
            alive, steps = np.ones(left.shape, dtype=bool), 0
    return best


def _cells_of(n: int) -> NDArray[np.intp]:
    """(n, n) places of pairs in the condensed order; those of the diagonal are one behind the last."""
    size = n * (n - 1) // 2
    cells = np.full((n, n), size)
    first, second = ends_of(n)
    cells[first, second] = cells[second, first] = np.arange(size)
    return cells


class _Score:
    """Score of a partition by the number of measured pairs inside groups and the sum of their log distances."""

    def __init__(self, *, pairs: int, total: float, spread: float) -> None:
        self.pairs, self.total, self.spread = pairs, total, spread

    def __call__(self, count: NDArray[np.float64], inside: NDArray[np.float64]) -> NDArray[np.float64]:
        between = self.pairs - count
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (self.total - inside) / between - inside / count
            value = step * np.sqrt(count * between / self.pairs) / self.spread
        return np.asarray(np.where((count > 0) & (between > 0), value, 0.0))


def _join(
    labels: NDArray[np.int64], weight: NDArray[np.float64], log_distance: NDArray[np.float64], score: _Score
) -> NDArray[np.int64]:
    member = np.eye(int(labels.max()) + 1)[labels]
    counts, sums = member.T @ weight @ member, member.T @ log_distance @ member
    while len(counts) > 1:
        count, inside = np.trace(counts) / 2, np.trace(sums) / 2
        value = score(count + counts, inside + sums)
        value[(counts == 0) | np.tri(len(counts), dtype=bool)] = -np.inf
        one, other = np.unravel_index(int(np.argmax(value)), value.shape)
        if value[one, other] <= float(score(np.array(count), np.array(inside))) + _GAIN:
            break
        for table in (counts, sums):
            table[one] += table[other]
            table[:, one] += table[:, other]
        counts, sums = (np.delete(np.delete(t, other, axis=0), other, axis=1) for t in (counts, sums))
        labels = np.where(labels == other, one, labels)
        labels = labels - (labels > other)
    return labels


def _move(
    labels: NDArray[np.int64], weight: NDArray[np.float64], log_distance: NDArray[np.float64], score: _Score
) -> NDArray[np.int64]:
    labels = labels.copy()
    hosts = np.arange(len(labels))
    member = np.eye(int(labels.max()) + 1)[labels]
    near, near_sum = weight @ member, log_distance @ member
    for _ in range(4 * len(labels)):
        own, own_sum = near[hosts, labels], near_sum[hosts, labels]
        count, inside = own.sum() / 2, own_sum.sum() / 2
        value = score(count - own[:, None] + near, inside - own_sum[:, None] + near_sum)
        value[near == 0] = -np.inf
        host, group = np.unravel_index(int(np.argmax(value)), value.shape)
        if value[host, group] <= float(score(np.array(count), np.array(inside))) + _GAIN:
            break
        for table, of_host in ((near, weight[:, host]), (near_sum, log_distance[:, host])):
            table[:, labels[host]] -= of_host
            table[:, group] += of_host
        labels[host] = group
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
