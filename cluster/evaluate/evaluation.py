"""A matrix of distances and its groups, compared with where the hosts really are.

PAIA is of section 6.2.5 of the dissertation; the other scores are defined in `agreement`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.distances.pairs import symmetric
from netprobe.cluster.evaluate.affinity import Paia, Position, paia
from netprobe.cluster.evaluate.agreement import adjusted_mutual_information, adjusted_rand_index, purity
from netprobe.cluster.evaluate.repeated import RunToRun, run_to_run


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Agreement of a partition with the classes of one tier of the truth."""

    level: str
    classes: int
    """How many of them the hosts are in."""
    ari: float
    ami: float
    purity: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What `evaluate` found.

    groups: how many there are; grouping: agreement of these groups with each tier of the truth, outermost
    first. linkage: the same for the matrix alone, cut by average linkage into as many groups as the tier has
    classes; None where a distance is missing. run_to_run: None where it was not requested, or impossible.
    """

    hosts: int
    paia: Paia
    groups: int
    grouping: tuple[Agreement, ...]
    linkage: tuple[Agreement, ...] | None
    run_to_run: RunToRun | None


def evaluate(
    distance: NDArray[np.float64],
    labels: Sequence[Hashable],
    positions: Sequence[Position],
    tiers: Sequence[str],
    *,
    clusterings: int = 100,
    seed: int = 0,
) -> Evaluation:
    """Score N hosts' distances and groups.

    distance: (N, N), any unit, NaN where missing; row c is what observer c has. labels: the group of each
    host. positions: where each is, from the outside in; tiers: a name for each component of the longest
    position. clusterings: 0 for none. A host that is in no group belongs in a group of its own; its row of
    the matrix is missing and it takes no part in the clusterings.

    Raises InputError for lengths or shapes that do not fit.
    """
    matrix = np.asarray(distance, dtype=np.float64)
    placed = np.flatnonzero(_known(matrix).any(axis=1))
    inner = matrix[np.ix_(placed, placed)]
    complete = len(placed) > 1 and bool(_known(inner).sum() == len(placed) * (len(placed) - 1))
    classes = {name: [place[: depth + 1] for place in positions] for depth, name in enumerate(tiers)}
    # A tier at which all hosts share one class is reported only where there is no other.
    reported = [name for name in tiers if len(set(classes[name])) > 1] or list(tiers)[-1:]
    return Evaluation(
        hosts=len(matrix),
        paia=paia(matrix, positions),
        groups=len(set(labels)),
        grouping=tuple(_agreement(name, classes[name], labels) for name in reported),
        linkage=tuple(
            _agreement(name, classes[name], _linked(matrix, len(set(classes[name])))) for name in reported
        )
        if complete and len(placed) == len(matrix)
        else None,
        run_to_run=run_to_run(inner, clusterings=clusterings, seed=seed)
        if complete and clusterings > 1
        else None,
    )


def _known(matrix: NDArray[np.float64]) -> NDArray[np.bool_]:
    known = ~np.isnan(matrix) & ~np.eye(len(matrix), dtype=bool)
    return np.asarray(known | known.T)


def _agreement(level: str, classes: Sequence[Position], labels: Sequence[Hashable]) -> Agreement:
    return Agreement(
        level=level,
        classes=len(set(classes)),
        ari=adjusted_rand_index(classes, labels),
        ami=adjusted_mutual_information(classes, labels),
        purity=purity(classes, labels),
    )


def _linked(matrix: NDArray[np.float64], k: int) -> list[int]:
    """Average linkage on the logarithm of the distances, cut into k groups."""
    from scipy.cluster.hierarchy import cut_tree, linkage

    pairs = symmetric(matrix)[np.triu_indices(len(matrix), 1)]
    least = 1e-3 * float(pairs[pairs > 0].min()) if (pairs > 0).any() else 1.0
    tree = linkage(np.log(np.maximum(pairs, least) / least), method="average")
    return [int(label) for label in cut_tree(tree, n_clusters=k).ravel()]
