"""Agreement of two partitions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def adjusted_rand_index(truth: Sequence[Hashable], found: Sequence[Hashable]) -> float:
    """Adjusted Rand index (Hubert and Arabie, 1985): 1 for the same partition, about 0 for chance.

    ``truth`` and ``found`` hold one label a host, in the same order.
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(_codes(truth), _codes(found)))


def _codes(labels: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]
