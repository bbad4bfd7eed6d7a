"""Do the same groups come out of resampled readings? As in Ben-Hur, Elisseeff and Guyon (2002)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.distances.log_distances import log_distances_of
from netprobe.cluster.distances.pairs import ends_of, of_directions, places_of, symmetric
from netprobe.cluster.partition.hierarchy import hierarchy_of

_RESAMPLES = 20
_RESAMPLES_LARGE = 5
_LARGE = 128


def stability_of(
    raw_distance_s: NDArray[np.float64], labels: NDArray[np.int64], *, seed: int
) -> dict[str, float | int] | None:
    """How well as many groups, formed on resampled readings, agree with ``labels`` (N,).

    raw_distance_s: (N, N) ``[src, dst]``, NaN where missing. Every pair has two readings, one from each end;
    a resample takes two of them with replacement, which imitates the variation between scans, and is cut into
    as many groups by average linkage on the readings alone. ``mean`` and ``least`` are of the Jaccard index
    of the pairs inside groups: 1 when the same pairs are together. None where no pair has two readings.
    """
    raw = np.array(raw_distance_s, dtype=np.float64)
    both = np.isfinite(raw) & np.isfinite(raw.T)
    np.fill_diagonal(both, False)
    k = int(labels.max()) + 1
    if not both.any() or k < 2:
        return None
    joined = symmetric(raw)
    log_distances = log_distances_of(joined)
    if log_distances is None:
        return None
    first, second = ends_of(len(raw))
    there_at, back_at = places_of(len(raw)), second * len(raw) + first
    one_way = np.where(np.isnan(raw), raw.T, raw)
    one_way, other_way = one_way.take(there_at), one_way.take(back_at)
    kept = joined.take(there_at)
    together = labels[first] == labels[second]
    generator = np.random.default_rng(seed)
    agreements = []
    for _ in range(_RESAMPLES if len(raw) <= _LARGE else _RESAMPLES_LARGE):
        pick = generator.random(raw.shape) < 0.5
        there = np.where(pick.take(there_at), one_way, other_way)
        back = np.where(pick.take(back_at), other_way, one_way)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.log(of_directions(there, back) / kept)
        log_distance = log_distances.log_distance + np.where(np.isfinite(change), change, 0.0)
        found = hierarchy_of(log_distance, log_distances.measured).cut(k)
        again = found.take(first) == found.take(second)
        agreements.append(float((together & again).sum()) / max(float((together | again).sum()), 1.0))
    return {
        "mean": round(float(np.mean(agreements)), 9),
        "least": round(min(agreements), 9),
        "resamples": len(agreements),
    }
