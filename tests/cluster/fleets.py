"""Made-up scans: racks at 100 and 300 us with the lab's noise, and fleets without any locality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def rack_rtt(
    sizes: Sequence[int],
    seed: int,
    *,
    noise: float = 0.0,
    outliers: float = 0.0,
    missing: float = 0.0,
) -> tuple[Matrix, list[int]]:
    """Directed RTTs in seconds and each host's rack, shuffled: 100 us inside, 300 us between, plus 3 to 6.

    noise: further lognormal noise; outliers: share of links 2 to 5 times too slow; missing: share of pairs.
    """
    rng = np.random.default_rng(seed)
    rack = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    n = len(rack)
    rtt = np.where(rack[:, None] == rack[None, :], 100.0, 300.0) + rng.uniform(3.0, 6.0, (n, n))
    rtt = rtt * np.exp(rng.normal(0.0, noise, (n, n))) if noise else rtt
    rtt = np.where(rng.random((n, n)) < outliers, rtt * rng.uniform(2.0, 5.0, (n, n)), rtt)
    hidden = np.triu(rng.random((n, n)) < missing, 1)
    rtt[hidden | hidden.T] = np.nan
    np.fill_diagonal(rtt, 0.0)
    return rtt * 1e-6, rack.tolist()


def flat_rtt(n: int, seed: int, *, noise: float, slow_hosts: bool, outliers: float) -> Matrix:
    """Directed RTTs in seconds of hosts without locality; slow hosts are slow towards all others."""
    rng = np.random.default_rng(seed)
    height = rng.gamma(1.0, 30.0, n) if slow_hosts else np.zeros(n)
    rtt = (100.0 + height[:, None] + height[None, :]) * np.exp(rng.normal(0.0, noise, (n, n)))
    hit = rng.random((n, n)) < outliers
    rtt = np.where(hit, rtt * (1.0 + rng.pareto(1.5, (n, n))), rtt)
    np.fill_diagonal(rtt, 0.0)
    return rtt * 1e-6


def racks(*sizes: int) -> NDArray[np.int64]:
    """The rack of each host, one rack after the other."""
    return np.repeat(np.arange(len(sizes)), sizes)


def apart(labels: NDArray[np.int64], inside: float, across: float, noise: float = 0.0) -> Matrix:
    """Distances of two kinds, with lognormal noise."""
    matrix = np.where(labels[:, None] == labels[None, :], inside, across)
    matrix = matrix * np.exp(np.random.default_rng(1).normal(0.0, noise, matrix.shape))
    np.fill_diagonal(matrix, 0.0)
    return matrix
