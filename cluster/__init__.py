"""Distances to groups, and whether the groups mean anything.

`find_groups` is what a map calls: groups from the denoised distances, the verdict from the raw ones.
`natural` chooses how many groups by evidence (the default), `balanced` is PLink's square root of N,
`kmeans` the constrained k-means under both, `judge` the permutation test, `levels` and `hierarchy` the
matrix and the tree that natural and judge share. Nothing here groups hosts in a space of few dimensions:
such a space forgets the racks.

`ConstrainedKMeans` is the same k-means as an estimator of scikit-learn, which is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netprobe.cluster.balanced import sqrt_groups
from netprobe.cluster.find import find_groups
from netprobe.cluster.judge import judge_locality
from netprobe.cluster.natural import natural_groups
from netprobe.cluster.records import Grouping, Verdict

if TYPE_CHECKING:
    from netprobe.cluster.estimator import ConstrainedKMeans

__all__ = [
    "ConstrainedKMeans",
    "Grouping",
    "Verdict",
    "find_groups",
    "judge_locality",
    "natural_groups",
    "sqrt_groups",
]


def __getattr__(name: str) -> Any:
    if name == "ConstrainedKMeans":
        from netprobe.cluster.estimator import ConstrainedKMeans

        return ConstrainedKMeans
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
