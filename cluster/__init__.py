"""Distances to groups, and whether the groups mean anything.

`find_groups` is what a map calls: groups from the denoised distances, the verdict from the raw ones.

- how many groups by evidence (the default): `natural` (the best cut of a tree), `candidates` (several views
  of the readings), `regroup` (hosts moved on what was measured), `nested` (levels above and below),
  `stability` (resampled readings)
- PLink's square root of N: `balanced`, on the constrained `kmeans` with its exact `assign` step
- whether it means anything: `judge`, the permutation test; `outliers`, the hosts and links that stand out
- what they share: `levels` (pairs, and what single hosts explain) and `hierarchy` (the tree and its score)
- `likeness`: group ids that stay between scans

Nothing here groups hosts in a space of few dimensions: such a space forgets the racks.

`ConstrainedKMeans` is the same k-means as an estimator of scikit-learn, which is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netprobe.cluster.anomalies.outliers import Outliers, find_outliers
from netprobe.cluster.balanced.sqrt_groups import sqrt_groups
from netprobe.cluster.find import compare_methods, find_groups
from netprobe.cluster.locality_test import judge_locality
from netprobe.cluster.natural.natural_groups import natural_groups
from netprobe.cluster.records import Grouping, Verdict
from netprobe.cluster.stable_ids import ids_like

if TYPE_CHECKING:
    from netprobe.cluster.balanced.estimator import ConstrainedKMeans

__all__ = [
    "ConstrainedKMeans",
    "Grouping",
    "Outliers",
    "Verdict",
    "compare_methods",
    "find_groups",
    "find_outliers",
    "ids_like",
    "judge_locality",
    "natural_groups",
    "sqrt_groups",
]


def __getattr__(name: str) -> Any:
    if name == "ConstrainedKMeans":
        from netprobe.cluster.balanced.estimator import ConstrainedKMeans

        return ConstrainedKMeans
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
