"""Group ids that stay from one map to the next: the matching of most common hosts (netprobe's own use of it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np


def ids_like(groups: Sequence[Sequence[str]], earlier: Mapping[str, Sequence[str]]) -> list[str]:
    """An id for each of ``groups`` (names of hosts): that of the earlier group it shares most hosts with.

    Groups are matched one to one so that the hosts shared in all are most (an assignment problem); of equal
    matchings, the one with the largest Jaccard similarity. A group that shares no host with the one it was
    matched to is new, and gets a number that no earlier group had: ids are never passed on to strangers.
    """
    from scipy.optimize import linear_sum_assignment

    names = list(earlier)
    numbers = [int(name[1:]) for name in names if name[:1] == "g" and name[1:].isdecimal()]
    fresh = max(numbers, default=0)
    shared = np.zeros((len(groups), len(names)))
    similarity = np.zeros_like(shared)
    for row, group in enumerate(groups):
        for column, name in enumerate(names):
            both = len(set(group) & set(earlier[name]))
            shared[row, column] = both
            similarity[row, column] = both / max(len(set(group) | set(earlier[name])), 1)
    # All similarities together weigh less than one host.
    rows, columns = linear_sum_assignment(shared + similarity / (1.0 + min(shared.shape)), maximize=True)
    taken = {row: names[column] for row, column in zip(rows, columns) if shared[row, column] > 0}
    ids = []
    for row in range(len(groups)):
        if row not in taken:
            fresh += 1
        ids.append(taken.get(row) or f"g{fresh}")
    return ids
