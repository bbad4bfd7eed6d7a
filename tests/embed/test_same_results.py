"""The same readings and seed give the same distances on every machine and from version to version.

What a fit finds hangs on every constant of it. Who changes one on purpose writes down here what it finds then, and in
CHANGELOG.md that maps of the same scan are others. The readings are whole numbers of a formula; a result is three
weighted sums of the logarithms of its distances, which change with any of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.embed import EmbedOptions, denoise, fit_embedding
from netprobe.embed.records import Method

QUICK: dict[str, Any] = {"iterations": 40, "restarts": 2, "backend": "numpy"}
SAME = 2e-4
"""Of a weighted sum, whose weights have a square sum of 1."""


def racks(size: int, share: float) -> NDArray[np.float64]:
    """Microseconds between hosts of racks of four in rows of three, with heights, noise, detours and holes."""
    rng = np.random.default_rng([size, 1])
    host = np.arange(size)
    rack, row = host // 4, host // 12
    base = np.where(rack[:, None] == rack, 80, np.where(row[:, None] == row, 240, 700))
    tall = np.where(host % 7 == 3, 60, host % 5)
    read = base + tall[:, None] + tall + rng.integers(0, 20, (size, size))
    return holed(np.where(rng.random(read.shape) < 0.03, read * 3, read), rng, share)


def cities(size: int, share: float) -> NDArray[np.float64]:
    """Microseconds between places on a plane, with detours and holes."""
    rng = np.random.default_rng([size, 2])
    at = rng.integers(0, 40_000, (size, 2))
    way = np.abs(at[:, None] - at[None]).sum(axis=2) + 500 + rng.integers(0, 300, (size, size))
    slow = np.triu(rng.random(way.shape) < 0.05, 1)
    return holed(np.where(slow | slow.T, way * 3 // 2, way), rng, share)


def holed(whole: NDArray[Any], rng: np.random.Generator, share: float) -> NDArray[np.float64]:
    """Without a share of the pairs, and without one reading of some more."""
    read, size = whole.astype(np.float64), len(whole)
    gone = np.triu(rng.random((size, size)) < share, 2)
    read[gone | gone.T | (rng.random((size, size)) < 0.02)] = np.nan
    np.fill_diagonal(read, 0.0)
    return read * 1e-6


def sums(distance: NDArray[np.float64]) -> list[float]:
    """Three weighted sums of the logarithms above the diagonal."""
    seen = np.log(np.maximum(distance[np.triu_indices(len(distance), 1)], 1e-9))
    at = np.arange(1, len(seen) + 1)
    weights = [np.ones(len(seen)), np.cos(at), np.cos(3 * at)]
    return [float(seen @ weight / np.linalg.norm(weight)) for weight in weights]


FITS: list[tuple[str, int, float, dict[str, Any], list[float]]] = [
    ("racks", 30, 0.3, {}, [-159.35979, -0.77312, 0.44737, -2.37253]),
    ("racks", 70, 0.2, {}, [-364.92534, 0.00897, -0.08101, 23.11976]),
    ("cities", 14, 0.2, {}, [-37.53955, 0.60177, 1.2951, -1.86018]),
    ("cities", 40, 0.2, {}, [-104.48506, 0.23453, 1.07113, -6.59817]),
    ("cities", 66, 0.1, {}, [-172.26342, -1.08309, -0.43788, -11.04135]),
    ("racks", 24, 0.1, {"method": "huber"}, [-129.85088, 0.0686, 0.07681, 4.43251]),
    ("racks", 20, 0.1, {"method": "plink"}, [-107.99467, -1.27685, 0.47868, 3.78355]),
    (
        "racks",
        20,
        0.1,
        {"method": "plink", "heights": True, "alpha": 2.0, "dimensions": 2},
        [-107.50122, -0.92341, 0.5691, 161.896],
    ),
    ("racks", 28, 0.1, {"method": "ultrametric"}, [-149.29669, -1.03512, 0.98049, 3.78891]),
    ("racks", 28, 0.4, {"method": "block", "held_out": 0.2}, [-149.31286, -1.05115, 0.8739, 3.97853]),
]


@pytest.mark.parametrize(("kind", "size", "share", "options", "expected"), FITS)
def test_fits(kind: str, size: int, share: float, options: dict[str, Any], expected: list[float]) -> None:
    assert fitted(kind, size, share, options) == pytest.approx(expected, abs=SAME)


def fitted(kind: str, size: int, share: float, options: dict[str, Any]) -> list[float]:
    """The sums of the distances, and one of all else that a fit says."""
    matrix = {"racks": racks, "cities": cities}[kind](size, share)
    found = fit_embedding(matrix, options=EmbedOptions(**{**QUICK, **options}), seed=3)
    rest = [found.stress, found.held_out_median_relative_error or 0.0, found.cap, float(found.converged)]
    rest += [weight * (1 + place) for place, (_, weight) in enumerate(sorted(found.weights.items()))]
    scale = float(np.median(found.distance_s))
    rest += [
        float(np.linalg.norm(found.coordinates, axis=1).sum() / scale),
        float(found.heights_s.sum() / scale),
    ]
    rest.append(0.0 if found.interval_factor is None else float(np.log(found.interval_factor).mean()))
    numbers = np.array(rest)
    return [*sums(found.distance_s), float(numbers @ np.cos(np.arange(len(numbers))))]


DENOISED: list[tuple[str, int, float, Method, list[float]]] = [
    ("racks", 70, 0.3, "block", [-363.86684, -0.04899, -0.10506]),
    ("cities", 30, 0.2, "block", [-77.5994, -0.50777, 0.39756]),
    ("cities", 66, 0.2, "block", [-172.10182, -0.98859, -0.41278]),
    ("racks", 12, 0.1, "ensemble", [-68.62564, 1.95113, 1.54443]),
    ("cities", 12, 0.2, "ensemble", [-31.20371, 1.59232, 0.67835]),
]


@pytest.mark.parametrize(("kind", "size", "share", "method", "expected"), DENOISED)
def test_denoised_distances(
    kind: str, size: int, share: float, method: Method, expected: list[float]
) -> None:
    matrix = {"racks": racks, "cities": cities}[kind](size, share)
    assert sums(denoise(matrix, method=method, seed=3)) == pytest.approx(expected, abs=SAME)
