"""Run-to-run consistency: how well repeated clusterings of the same distances agree (dissertation, figure 4.4)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.balanced.kmeans import constrained_kmeans
from netprobe.cluster.balanced.lloyd import DescentOptions
from netprobe.cluster.balanced.sqrt_groups import realise
from netprobe.cluster.distances.pairs import symmetric
from netprobe.cluster.evaluate.agreement import adjusted_mutual_information
from netprobe.cluster.records import numbered_by_first_member
from netprobe.core.errors import InputError

# As the grouping by the square root of N has them.
_MAX_ITER = 100
_TOL = 1e-6


@dataclass(frozen=True, kw_only=True)
class RunToRun:
    """AMI of each two of ``clusterings`` into ``k`` groups: its mean, and the least of them."""

    clusterings: int
    k: int
    mean_ami: float
    least_ami: float


def run_to_run(
    distance: NDArray[np.float64], *, clusterings: int = 100, elasticity: float = 2.0, seed: int = 0
) -> RunToRun:
    """Group the N hosts ``clusterings`` times, each from its own k-means++ start, and compare each two results.

    distance: (N, N) complete distances, any unit. The groups are PLink's: k = round(sqrt N) of at least
    floor(sqrt N / elasticity) hosts, one descent each. Labels from different starts that are the same partition
    have an AMI of 1: the mean says how much of a grouping is the fleet's and how much is the start's. It
    says nothing about the truth.

    Raises InputError for a matrix with a missing distance, fewer than two hosts or fewer than two clusterings.
    """
    matrix = symmetric(distance)
    hosts = len(matrix)
    if hosts < 2 or clusterings < 2:
        raise InputError(
            f"{clusterings} clusterings of {hosts} hosts cannot be compared: two of each at least"
        )
    if np.isnan(matrix[np.triu_indices(hosts, 1)]).any():
        raise InputError("clusterings need a complete matrix; denoise it first")
    points = realise(matrix)
    k = round(math.sqrt(hosts))
    partitions = Counter(
        tuple(numbered_by_first_member(labels).tolist())
        for labels in _clusterings(points, k, hosts, clusterings, elasticity, seed)
    )
    amis = {(a, b): adjusted_mutual_information(a, b) for a, b in itertools.combinations(partitions, 2)}
    # Runs that came to the same partition agree wholly, and are compared with the others once.
    pairs = clusterings * (clusterings - 1) / 2
    same = sum(times * (times - 1) / 2 for times in partitions.values())
    summed = math.fsum(ami * partitions[a] * partitions[b] for (a, b), ami in amis.items())
    return RunToRun(
        clusterings=clusterings,
        k=k,
        mean_ami=(same + summed) / pairs,
        least_ami=min(amis.values(), default=1.0),
    )


def _clusterings(
    points: NDArray[np.float64], k: int, hosts: int, count: int, elasticity: float, seed: int
) -> Iterator[NDArray[np.int64]]:
    options = DescentOptions(
        size_min=max(math.floor(math.sqrt(hosts) / elasticity), 1),
        size_max=hosts,
        max_iter=_MAX_ITER,
        tol=_TOL,
    )
    for child in np.random.SeedSequence(seed).spawn(count):
        yield constrained_kmeans(
            points,
            k,
            options=options,
            restarts=1,
            seed=int(child.generate_state(1)[0]),
        ).labels
