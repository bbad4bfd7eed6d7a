"""Candidate partitions from several views of the readings, and the best of them, which is then tested.

Netprobe's own choice; the trees are average linkage (Sokal and Michener 1958), the halves spectral bisection
(Fiedler 1973).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.distances.coverage import is_sparse
from netprobe.cluster.distances.log_distances import LogDistances, log_distances_of
from netprobe.cluster.distances.pairs import square, symmetric
from netprobe.cluster.natural.number_of_groups import best_grouping
from netprobe.cluster.partition.hierarchy import partition_score
from netprobe.cluster.partition.regroup import regroup
from netprobe.cluster.records import Partition, numbered_by_first_member

# Above this many hosts noise averages out in the denoised matrix, and moving hosts costs too much.
_MOST_MOVED = 128
# Scores closer than this are the same.
_SAME = 1e-9


def best_candidate(
    distance_s: NDArray[np.float64],
    raw_distance_s: NDArray[np.float64],
    *,
    log_distances: LogDistances | None = None,
) -> Partition:
    """The grouping whose score on the measured pairs is best; see `hierarchy` for the score.

    Candidates are the best cut of the tree on the denoised distances, that of the tree on the raw ones, and
    the two halves that the leading eigenvector of nearness separates, which detects two groups where no
    single pair can. Each is also improved by joining groups and moving hosts on what was measured alone. The
    first of equals is taken, and the denoised one is kept as it is when it says that there is nothing.
    distance_s, raw_distance_s: (N, N) ``[src, dst]`` in seconds, complete and as measured (NaN where missing);
    log_distances: of the raw distances, where they are known already.
    """
    first = best_grouping(distance_s)
    n = len(raw_distance_s)
    sparse = is_sparse(raw_distance_s)
    if n < 3 or (n > _MOST_MOVED and not sparse):
        return first
    log_distances = log_distances_of(symmetric(raw_distance_s)) if log_distances is None else log_distances
    if log_distances is None:
        return first
    pairs = np.zeros(len(log_distances.log_distance))
    pairs[log_distances.measured] = log_distances.unexplained
    suggested = [("denoised", first.labels)] if first.k > 1 else []
    if not sparse:
        leading = np.linalg.eigh(-square(pairs, n))[1][:, -1]
        suggested.append(("raw", best_grouping(raw_distance_s, log_distances=log_distances).labels))
        suggested.append(("halves", (leading > 0).astype(np.int64)))
    candidates: list[tuple[float, str, NDArray[np.int64]]] = []
    for name, labels in suggested:
        moved = regroup(log_distances, labels)
        for found in (moved,) if sparse else (labels, moved):
            candidates.append(
                (partition_score(log_distances.log_distance, log_distances.measured, found), name, found)
            )
    top = max((score for score, _, _ in candidates), default=0.0)
    if top <= 0.0:
        return first
    score, name, labels = next(one for one in candidates if one[0] >= top - _SAME)
    labels = numbered_by_first_member(labels)
    evidence = {**first.evidence, "score": round(score, 9), "view": name}
    evidence.pop("reason", None)
    return replace(first, labels=labels, evidence=evidence)
