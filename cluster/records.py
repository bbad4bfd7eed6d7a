"""What grouping gives back: a partition of the hosts, and why it is this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["natural", "sqrt", "auto"]
METHODS: tuple[Method, ...] = ("natural", "sqrt", "auto")


@dataclass(frozen=True, kw_only=True, eq=False)
class Partition:
    """A partition of N hosts, in the order of the matrix it was made from.

    labels: (N,) group of each host, 0 to k - 1. Groups are numbered by their smallest member, so the ids are
        stable when the hosts come in a stable order.
    method: how they were formed.
    evidence: why this k: plain numbers, texts and lists of them, ready for a document.
    """

    labels: NDArray[np.int64]
    method: Method
    evidence: Mapping[str, object]

    @property
    def k(self) -> int:
        """How many groups there are."""
        return int(self.labels.max()) + 1

    def members(self) -> tuple[tuple[int, ...], ...]:
        """Host numbers of each group, in order of group id."""
        return tuple(tuple(np.flatnonzero(self.labels == group).tolist()) for group in range(self.k))

    def put_back(self, order: NDArray[np.intp]) -> Partition:
        """The same partition with the hosts, which came in ``order`` (N,), at the places that they had before.

        What the evidence says by host or by group is put back as well: ``far_hosts``, ``excess``, ``levels``.
        """
        labels = np.empty_like(self.labels)
        labels[order] = self.labels
        evidence = dict(self.evidence)
        far, excess, levels = (evidence.get(key) for key in ("far_hosts", "excess", "levels"))
        near = np.ones(len(order), dtype=bool)
        if isinstance(far, list):
            near[far] = False
            evidence["far_hosts"] = np.sort(order[~near]).tolist()
        if isinstance(excess, list) and excess:
            evidence["excess"] = [excess[at] for at in np.argsort(order).tolist()]
        if isinstance(levels, list):
            # Tiers count groups by the first of their hosts that are near.
            counted = numbered_by_first_member(self.labels[near])[np.argsort(order[near])]
            groups = list(dict.fromkeys(counted.tolist()))
            evidence["levels"] = [
                {
                    **level,
                    "of_groups": numbered_by_first_member(np.array(level["of_groups"])[groups]).tolist(),
                }
                for level in levels
            ]
        return replace(self, labels=numbered_by_first_member(labels), evidence=evidence)


def numbered_by_first_member(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """The same partition (N,) with groups numbered 0, 1, ... in order of their smallest member."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse.reshape(-1)], dtype=np.int64)


def one_group(n: int, *, evidence: Mapping[str, object]) -> Partition:
    """All hosts in one group."""
    return Partition(labels=np.zeros(n, dtype=np.int64), method="natural", evidence=evidence)
