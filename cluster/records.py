"""What grouping gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["natural", "sqrt", "auto"]
METHODS: tuple[Method, ...] = ("natural", "sqrt", "auto")
Locality = Literal["found", "none", "cannot_tell"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Grouping:
    """A partition of N hosts, in the order they were given.

    labels: (N,) group of each host, 0 to k - 1. Groups are numbered by their smallest member, so the ids are
        stable when the hosts come in a stable order.
    k: how many groups.
    method: which way they were formed.
    evidence: why this k: plain numbers, texts and lists of them, ready for a document.
    size_min: the least size a group was allowed to have.
    """

    labels: NDArray[np.int64]
    k: int
    method: Method
    evidence: Mapping[str, object]
    size_min: int

    def members(self) -> tuple[tuple[int, ...], ...]:
        """Host numbers of each group, in order of group id."""
        return tuple(tuple(np.flatnonzero(self.labels == group).tolist()) for group in range(self.k))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the locality a grouping claims is there.

    contrast: median measured distance between groups over the median inside; None where there is no pair of
        one kind, or the inside is at no distance at all.
    p_value: probability of a grouping this good, chosen as freely, where there is no locality; None when
        there was nothing to test.
    text: one line for a person.
    gap: where the locality is found, the standard deviations by which the two statistics of the test stand above
        matrices without locality: ``nearness`` (the eigenvalue) and ``cut`` (the tree); the gap statistic of
        Tibshirani, Walther and Hastie (2001), with dealt readings for the null model. None without a test.
    """

    locality: Locality
    contrast: float | None
    p_value: float | None
    text: str
    gap: Mapping[str, float] | None = None


def numbered_by_first_member(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """The same partition (N,) with groups numbered 0, 1, ... in order of their smallest member."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse.reshape(-1)], dtype=np.int64)


def one_group(n: int, *, evidence: Mapping[str, object]) -> Grouping:
    """All hosts together."""
    return Grouping(labels=np.zeros(n, dtype=np.int64), k=1, method="natural", evidence=evidence, size_min=1)
