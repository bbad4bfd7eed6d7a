"""Constrained k-means compared with the package k-means-constrained: seconds a restart, and the sum of squares."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from _tables import heading, table
from numpy.typing import NDArray

from netprobe.cluster import ConstrainedKMeans

Points = NDArray[np.float64]

# N, least and largest size (None: no limit); k is the square root of N.
CELLS = [
    (64, 8, None),
    (256, 16, None),
    (1024, 32, None),
    (1024, 21, None),
    (1024, 16, None),
    (1024, 16, 48),
    (4096, 64, None),
    (4096, 42, None),
    (4096, 32, None),
]
STARTS = 5
# The peer takes minutes for the largest.
PEER_UP_TO = 1024


def racks(n: int, seed: int) -> Points:
    """(n, 3) points: the square root of n racks of unequal sizes, and a tenth of the hosts anywhere."""
    generator = np.random.default_rng(seed)
    k = round(np.sqrt(n))
    middle = generator.normal(0.0, 3.0, (k, 3))
    rack = generator.choice(k, n, p=generator.dirichlet(np.full(k, 3.0)))
    points = middle[rack] + generator.normal(0.0, 1.0, (n, 3))
    stray = generator.random(n) < 0.1
    return np.asarray(np.where(stray[:, None], generator.normal(0.0, 4.0, (n, 3)), points))


def peer() -> Callable[..., object] | None:
    """The package's class, where it is installed."""
    try:
        from k_means_constrained import KMeansConstrained
    except ImportError:
        return None
    return KMeansConstrained  # type: ignore[no-any-return]


def timed(model: object, points: Points, starts: int) -> tuple[float, float]:
    """Seconds a start, and the inertia."""
    began = time.perf_counter()
    model.fit(points)  # type: ignore[attr-defined]
    return (time.perf_counter() - began) / starts, float(model.inertia_)  # type: ignore[attr-defined]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="instances a cell")
    parser.add_argument("--largest", type=int, default=4096, help="leave out cells of more points")
    options = parser.parse_args()
    other = peer()
    heading(
        f"Constrained k-means, k = sqrt(N), 3 dimensions, {STARTS} starts, mean of {options.seeds} instances"
    )
    if other is None:
        print("k-means-constrained is not installed: pip install 'netprobe-fleet[bench]'\n")
    rows = []
    for n, least, most in CELLS:
        if n > options.largest:
            continue
        ours: list[tuple[float, float]] = []
        theirs: list[tuple[float, float]] = []
        k = round(np.sqrt(n))
        for seed in range(options.seeds):
            points = racks(n, seed)
            model = ConstrainedKMeans(k, size_min=least, size_max=most, n_init=STARTS, random_state=seed)
            ours.append(timed(model, points, STARTS))
            if other is not None and n <= PEER_UP_TO:
                made = other(k, size_min=least, size_max=most, n_init=STARTS, random_state=seed)
                theirs.append(timed(made, points, STARTS))
        own, peers = np.array(ours), np.array(theirs) if theirs else np.full((options.seeds, 2), np.nan)
        ratio = own[:, 1] / peers[:, 1]
        rows.append(
            (n, k, least, most or "-", f"{own[:, 0].mean():.2f}", f"{own[:, 1].mean():.1f}")
            + (("-",) * 4 if not theirs else _beside(peers, ratio))
        )
    ours_, theirs_ = "s a start", "k-means-constrained: s a start"
    table(["N", "k", "min", "max", ours_, "inertia", theirs_, "inertia", "ratio, mean", "ratio, worst"], rows)


def _beside(peers: NDArray[np.float64], ratio: NDArray[np.float64]) -> tuple[str, str, str, str]:
    seconds, inertia = peers.mean(axis=0)
    return f"{seconds:.2f}", f"{inertia:.1f}", f"{ratio.mean():.4f}", f"{ratio.max():.4f}"


if __name__ == "__main__":
    main()
