"""Distances to groups, and whether the groups mean anything.

`find_groups` is what a map calls: it forms groups on the denoised distances and judges them on the raw ones.

    find            groups and verdict in one call
    natural/        the number of groups by evidence (the default): `number_of_groups` (best cut of a tree, or one
                    group), `candidates` (several views of the readings), `nested` (racks in rows), `stability`
    balanced/       PLink's square root of N groups, by constrained k-means
    locality_test   the verdict: a permutation test
    anomalies/      outlying hosts and links; directions that differ; slow hosts reassigned to their group
    evaluate/       distances and groups compared with the truth
    stable_ids      group ids that stay the same between maps
    distances/      what the others share: pairs, log distances, which pairs were measured
    partition/      what the others share: trees, scores of partitions, and joins and moves that raise them

Nothing here forms groups in a space of few dimensions: such a space loses the racks.

`ConstrainedKMeans` is the constrained k-means as an estimator of scikit-learn, which is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netprobe.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from netprobe.cluster.anomalies.directions import asymmetric_pairs
    from netprobe.cluster.anomalies.outliers import OutlierSet, find_outliers
    from netprobe.cluster.balanced.estimator import ConstrainedKMeans
    from netprobe.cluster.balanced.sqrt_groups import sqrt_groups
    from netprobe.cluster.find import compare_methods, find_groups
    from netprobe.cluster.locality_test import judge_locality
    from netprobe.cluster.natural.number_of_groups import natural_groups
    from netprobe.cluster.records import Partition
    from netprobe.cluster.stable_ids import ids_like

__all__ = [
    "ConstrainedKMeans",
    "OutlierSet",
    "Partition",
    "asymmetric_pairs",
    "compare_methods",
    "find_groups",
    "find_outliers",
    "ids_like",
    "judge_locality",
    "natural_groups",
    "sqrt_groups",
]

__getattr__ = lazy_names(
    __name__,
    {
        "anomalies.directions": "asymmetric_pairs",
        "anomalies.outliers": "OutlierSet find_outliers",
        "balanced.sqrt_groups": "sqrt_groups",
        "find": "compare_methods find_groups",
        "locality_test": "judge_locality",
        "natural.number_of_groups": "natural_groups",
        "records": "Partition",
        "stable_ids": "ids_like",
        "balanced.estimator": "ConstrainedKMeans",
    },
)
