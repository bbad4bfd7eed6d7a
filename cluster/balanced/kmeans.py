"""k-means whose groups keep a least and a largest size: restarts and swaps, under `ConstrainedKMeans`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.balanced.lloyd import DescentOptions, KMeansRun, check_sizes, lloyd, plus_plus
from netprobe.cluster.balanced.swaps import improved
from netprobe.core.errors import InfeasibleError

# Of up to so many points every descent continues by swaps, of more only the best one.
_SWAPPED_EACH = 512


def constrained_kmeans(
    points: NDArray[np.float64],
    k: int,
    *,
    options: DescentOptions,
    restarts: int,
    seed: int,
    swaps: int = 0,
) -> KMeansRun:
    """The descent with the least inertia over several k-means++ starts on points (n, D) (the first of equals).

    swaps: that descent continues by swaps (see `swaps`) until so many in a row did not help; of up to 512
    points, where it costs little, each descent does.
    Exactly k labels occur when ``size_min`` is at least 1, identical points or not. Raises InfeasibleError.
    """
    check_sizes(len(points), k, size_min=options.size_min, size_max=options.size_max)
    generator = np.random.default_rng(seed)
    centred = points - points.mean(axis=0)

    def further(run: KMeansRun) -> KMeansRun:
        return improved(centred, run, options, tries=swaps)

    each = swaps > 0 and len(points) <= _SWAPPED_EACH
    best: KMeansRun | None = None
    for _ in range(restarts):
        run = lloyd(centred, plus_plus(centred, k, generator), options)
        run = further(run) if each else run
        if best is None or run.inertia < best.inertia * (1 - 1e-12):
            best = run
    if best is None:
        raise InfeasibleError("k-means needs at least one start")
    if swaps > 0 and not each:
        best = further(best)
    return replace(best, centres=best.centres + points.mean(axis=0))
