"""Do the groups come back when the readings are drawn anew?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.hierarchy import hierarchy_of
from netprobe.cluster.levels import levels_of, symmetric

_RESAMPLES = 20
_RESAMPLES_LARGE = 5
_LARGE = 128


def stability_of(
    raw_distance_s: NDArray[np.float64], labels: NDArray[np.int64], *, seed: int
) -> dict[str, float | int] | None:
    """How well as many groups, formed on resampled readings, agree with ``labels`` (N,).

    raw_distance_s: (N, N) ``[src, dst]``, NaN where missing. Every pair has two readings, one from each end;
    a resample draws two of them with replacement, which is what another scan would vary by, and is cut into
    as many groups by average linkage on the readings alone. ``mean`` and ``least`` are of the Jaccard index
    of the pairs inside groups: 1 when the same pairs are together. None where no pair has two readings.
    """
    raw = np.array(raw_distance_s, dtype=np.float64)
    both = np.isfinite(raw) & np.isfinite(raw.T)
    np.fill_diagonal(both, False)
    k = int(labels.max()) + 1
    if not both.any() or k < 2:
        return None
    there = np.where(np.isnan(raw), raw.T, raw)
    together = labels[:, None] == labels[None, :]
    generator = np.random.default_rng(seed)
    upper = np.triu_indices(len(raw), 1)
    alike = []
    joined = symmetric(raw)
    levels = levels_of(joined)
    if levels is None:
        return None
    for _ in range(_RESAMPLES if len(raw) <= _LARGE else _RESAMPLES_LARGE):
        pick = generator.random(raw.shape) < 0.5
        drawn = np.where(pick, there, there.T)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.log(symmetric(drawn) / joined)[upper]
        level = levels.level + np.where(np.isfinite(change), change, 0.0)
        found = hierarchy_of(level, levels.measured).cut(k)
        again = found[:, None] == found[None, :]
        one, other = together[upper], again[upper]
        alike.append(float((one & other).sum()) / max(float((one | other).sum()), 1.0))
    return {"mean": round(float(np.mean(alike)), 9), "least": round(min(alike), 9), "resamples": len(alike)}
