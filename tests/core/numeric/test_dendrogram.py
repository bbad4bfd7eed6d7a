"""What trees say of pairs is what scipy says of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import cophenet, fcluster, linkage

from netprobe.core.numeric.dendrogram import cut, joined_at


def trees_of(n: int, *, rounded: bool) -> np.ndarray:
    """Five average-linkage trees over n leaves; ``rounded`` distances have many ties."""
    levels = np.random.default_rng(n).random((5, n * (n - 1) // 2))
    return np.stack([linkage(np.round(level, 1) if rounded else level, "average") for level in levels])


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("n", [2, 3, 4, 17, 96, 97])
def test_pairs_are_joined_where_scipy_joins_them(n: int, rounded: bool) -> None:
    trees = trees_of(n, rounded=rounded)
    np.testing.assert_array_equal(joined_at(trees), [cophenet(tree) for tree in trees])


@pytest.mark.parametrize("n", [2, 3, 17, 60])
def test_a_cut_has_the_groups_of_scipys(n: int) -> None:
    for tree in trees_of(n, rounded=True):
        by_order = tree.copy()
        by_order[:, 2] = np.arange(n - 1)
        for k in range(1, n):
            expected = fcluster(by_order, n - k - 0.5, criterion="distance")
            labels = cut(tree, k)
            assert sorted(set(labels.tolist())) == list(range(k))
            np.testing.assert_array_equal(labels[:, None] == labels, expected[:, None] == expected)
