"""Which pairs were measured, and what that leaves open about the groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPARSE = 0.5
"""Below this share of measured pairs a matrix is sparse."""
MOST_UNOBSERVED = 0.01
"""Above this share of `unobserved_share` there are too few pairs to separate the groups."""


def is_sparse(raw_distance_s: NDArray[np.float64]) -> bool:
    """Whether most pairs, (N, N) with NaN where missing, were not measured in either direction."""
    known = np.isfinite(raw_distance_s)
    known |= known.T
    n = len(known)
    return n > 2 and int(np.triu(known, 1).sum()) < SPARSE * n * (n - 1) / 2


def unobserved_share(raw_distance_s: NDArray[np.float64], labels: NDArray[np.integer]) -> float:
    """Of all pairs of hosts in different groups ``labels`` (N,), the share, 0 to 1, between groups of which no pair was
    measured in an (N, N) matrix (NaN where missing).

    Such groups may be one: nothing says that they are not.
    """
    known = np.isfinite(raw_distance_s)
    known |= known.T
    member = np.eye(int(np.max(labels)) + 1)[np.asarray(labels)]
    sizes = member.sum(axis=0)
    between = np.triu(np.outer(sizes, sizes), 1)
    unobserved = between[(member.T @ known @ member) == 0].sum()
    return float(unobserved / between.sum()) if between.any() else 0.0


def hidden_chance(raw_distance_s: NDArray[np.float64]) -> tuple[int, float]:
    """A size, and how probable it is (0 to 1) that no pair inside a group of that size was measured, by an (N, N)
    matrix, NaN where missing.

    The size is round(sqrt N), 3 at least; pairs are taken to be measured at random. Where that is probable,
    readings that show no locality do not rule out that there is some.
    """
    known = np.isfinite(raw_distance_s)
    known |= known.T
    n = len(known)
    size = max(3, round(n**0.5))
    pairs = n * (n - 1) / 2
    missing = 1 - float(np.triu(known, 1).sum()) / pairs if pairs else 0.0
    return size, missing ** (size * (size - 1) / 2)
