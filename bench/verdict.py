"""The verdict on locality: false alarms on pure noise, and how often it finds a contrast of 1.3 under noise."""

from __future__ import annotations

import argparse
import time

import numpy as np
from _tables import heading, table
from numpy.typing import NDArray

from netprobe.cluster import find_groups
from netprobe.embed import denoise

SIZES = (16, 24, 32, 48, 64)
INSIDE_US, CONTRAST = 15.0, 1.3


def fleet(n: int, groups: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Directed RTTs in seconds with the noise of cell N3, and each host's group.

    15 us inside a group, 1.3 times that across; heights gamma with mean 1 us a host; lognormal noise of
    sigma .246 a direction; 5 % of the directions Pareto (1.5) times slower.
    """
    generator = np.random.default_rng([20_000, n, groups, seed])
    group = generator.permutation(np.arange(n) % groups)
    base = np.where(
        group[:, None] == group[None, :], INSIDE_US, INSIDE_US * (CONTRAST if groups > 1 else 1.0)
    )
    height = generator.gamma(2.0, 0.5, n)
    rtt = (base + height[:, None] + height[None, :]) * np.exp(generator.normal(0.0, 0.246, (n, n)))
    slow = generator.random((n, n)) < 0.05
    rtt = np.where(slow, rtt * (1.0 + generator.pareto(1.5, (n, n))), rtt)
    np.fill_diagonal(rtt, 0.0)
    return rtt * 1e-6, group


def agreement(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Adjusted Rand index."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(one, other))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", type=int, default=400, help="matrices without locality, over all sizes")
    parser.add_argument("--fleets", type=int, default=100, help="fleets of two groups a size")
    options = parser.parse_args()
    heading("Verdict at the nominal significance level of 2.5 %, noise of cell N3, N = 16 to 64")
    rows: list[tuple[object, ...]] = []
    alarms = seen = 0
    for at, n in enumerate(SIZES):
        count = len(range(at, options.noise, len(SIZES)))
        began, found = time.perf_counter(), 0
        for seed in range(count):
            rtt, _ = fleet(n, 1, seed)
            found += find_groups(denoise(rtt), rtt, seed=seed)[1].locality == "found"
        spent = (time.perf_counter() - began) / max(count, 1)
        rows.append((n, count, found, f"{found / max(count, 1):.1%}", f"{spent:.2f}"))
        alarms, seen = alarms + found, seen + count
    rows.append(("all", seen, alarms, f"{alarms / max(seen, 1):.1%}", ""))
    table(["N", "pure noise", "claimed", "share (at most 5 %)", "s each"], rows)
    rows = []
    for n in SIZES:
        found, agreements = 0, []
        for seed in range(options.fleets):
            rtt, group = fleet(n, 2, seed)
            grouping, verdict = find_groups(denoise(rtt), rtt, seed=seed)
            found += verdict.locality == "found"
            agreements.append(agreement(group, grouping.labels))
        goal = "80 %" if n < 24 else "95 %"
        share = f"{found / max(options.fleets, 1):.1%}"
        rows.append(
            (n, options.fleets, share, goal, f"{np.mean(agreements):.3f}", f"{np.median(agreements):.3f}")
        )
    table(["N", "two groups, 1.3x", "found", "at least", "ARI, mean", "median"], rows)


if __name__ == "__main__":
    main()
