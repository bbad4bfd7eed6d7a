"""Agreement of two partitions of the same hosts: adjusted Rand index, adjusted mutual information, purity.

Each takes one label a host, in the same order, of any hashable kind. Written out in numpy: the expected mutual
information depends on the group sizes alone and is kept for each pair of sizes, so that thousands of
partitions of one fleet are compared in a second, and without scikit-learn.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError


def adjusted_rand_index(truth: Sequence[Hashable], found: Sequence[Hashable]) -> float:
    """Adjusted Rand index (Hubert and Arabie 1985): 1 for the same partition, about 0 for chance.

    Two partitions that can only agree (one host; one group of all hosts in both) agree: 1. Raises InputError
    for labels of unlike numbers, or none.
    """
    table = contingency(truth, found)
    together = _pairs(table)
    in_truth, in_found = _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    if in_truth == in_found == together:
        return 1.0
    hosts = int(table.sum())
    expected = in_truth * in_found / (hosts * (hosts - 1) / 2)
    return float((together - expected) / ((in_truth + in_found) / 2 - expected))


def adjusted_mutual_information(truth: Sequence[Hashable], found: Sequence[Hashable]) -> float:
    """Adjusted mutual information (Vinh, Epps and Bailey 2010), over the arithmetic mean of the two entropies.

    1 for the same partition, about 0 for chance, below 0 for less than chance. Raises InputError as above.
    """
    table = contingency(truth, found)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if np.count_nonzero(table) == len(rows) == len(columns):
        return 1.0
    expected = _expected_information(rows, columns)
    most = (_entropy(rows) + _entropy(columns)) / 2
    if most - expected <= 1e-12:  # both know nothing, or everything, by their sizes alone
        return 0.0
    return float((_information(table) - expected) / (most - expected))


def purity(truth: Sequence[Hashable], found: Sequence[Hashable]) -> float:
    """Share of the hosts that are in the class which most of their found group is of; groups of one are pure.

    Source: Manning, Raghavan and Schuetze 2008, section 16.3. Raises InputError as above.
    """
    table = contingency(truth, found)
    return float(table.max(axis=0).sum() / table.sum())


def contingency(truth: Sequence[Hashable], found: Sequence[Hashable]) -> NDArray[np.int64]:
    """(R, C) hosts of each true class (rows) in each found group (columns), in order of appearance."""
    if len(truth) != len(found) or not len(truth):
        raise InputError(f"{len(truth)} and {len(found)} labels: two partitions of the same hosts are needed")
    rows, columns = _codes(truth), _codes(found)
    width = max(columns) + 1
    flat = np.bincount(np.array(rows) * width + np.array(columns), minlength=(max(rows) + 1) * width)
    return np.asarray(flat.reshape(-1, width), dtype=np.int64)


def _codes(labels: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]


def _pairs(sizes: NDArray[np.int64]) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def _entropy(sizes: NDArray[np.int64]) -> float:
    share = sizes / sizes.sum()
    return float(-(share * np.log(share)).sum())


def _information(table: NDArray[np.int64]) -> float:
    hosts = table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / hosts
    some = table > 0
    return float((table[some] / hosts * np.log(table[some] / expected[some])).sum())


def _expected_information(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> float:
    """Mean mutual information over all pairs of partitions with these group sizes."""
    hosts = int(rows.sum())
    (row_sizes, row_counts), (column_sizes, column_counts) = (
        np.unique(side, return_counts=True) for side in (rows, columns)
    )
    return math.fsum(
        times * others * _expected_of_sizes(hosts, min(size, other), max(size, other))
        for size, times in zip(row_sizes.tolist(), row_counts.tolist())
        for other, others in zip(column_sizes.tolist(), column_counts.tolist())
    )


@lru_cache(maxsize=1 << 16)
def _expected_of_sizes(hosts: int, first: int, second: int) -> float:
    """Mean contribution of one class and one group: hypergeometric in the hosts that they share."""
    from scipy.special import gammaln

    shared = np.arange(max(1, first + second - hosts), min(first, second) + 1, dtype=np.float64)
    log_ways = (
        gammaln(first + 1) + gammaln(second + 1) + gammaln(hosts - first + 1) + gammaln(hosts - second + 1)
    ) - gammaln(hosts + 1)
    log_chance = log_ways - (
        gammaln(shared + 1)
        + gammaln(first - shared + 1)
        + gammaln(second - shared + 1)
        + gammaln(hosts - first - second + shared + 1)
    )
    return float((shared / hosts * np.log(hosts * shared / (first * second)) * np.exp(log_chance)).sum())
