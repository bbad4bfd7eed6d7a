"""A simulated data centre: where hosts are, what a probe between them reads, and how right a matrix is.

A host is at (cluster, row, rack). Two hosts are 2, 4, 6 or 8 hops apart (same rack, row, cluster, data
centre); each tier has a round-trip time, and a reading is that times noise. The cells:

    N1  noise of each direction of a pair, nothing else
    N2  and a height a host: what its own stack adds to every reading
    N3  and heavy outliers: a share of the links reads a Pareto multiple
    N4  and lasting factors of each pair of racks and of each pair of rows: paths that differ for good, so
        that no tree fits, and 3 per cent outliers. Even a probe without noise cannot read the hops there.

Placements: ``packed`` (64 hosts in about 14 racks, 4 rows and 2 clusters) and ``spread`` (59, 14 and 6).

Two families of generators, so that methods are chosen on one and reported on the other: CHOOSING is the
plain one (equal steps a tier, lognormal noise, racks of similar size); REPORTED has another base and unequal
steps, racks of very unequal sizes, other counts of them, queueing noise (a gamma on top of the lognormal),
and heights and outliers of other shapes. The noise of each cell is set so that the raw readings of 64 hosts
score about .81 (.78 in N4) on seeds of its own; see `main`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.evaluate.affinity import paia_of_depths

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]
Cell = Literal["N1", "N2", "N3", "N4"]
Placement = Literal["packed", "spread"]
CELLS: tuple[Cell, ...] = ("N1", "N2", "N3", "N4")
PLACEMENTS: tuple[Placement, ...] = ("packed", "spread")
# Seeds of the family in use when the noise is set; neither choosing nor reporting uses them.
CALIBRATION_SEEDS = range(5000, 5016)


@dataclass(frozen=True, kw_only=True)
class Family:
    """One way to make data centres. Times in microseconds.

    level_us: round-trip time at 2, 4, 6 and 8 hops. evenness: shape of the gamma that draws the sizes of
    racks; larger is more even. racks, rows, clusters: counts at 64 hosts, by placement, each varied by a
    seed. queueing: share of the noise that is a gamma of shape 1/2 instead of a lognormal. noise: sigma, by
    placement and cell.
    """

    name: str
    level_us: tuple[float, float, float, float]
    evenness: float
    counts: dict[Placement, tuple[int, int, int]]
    queueing: float
    height_shape: float
    outlier_index: float
    path_sigma: float
    noise: dict[tuple[Placement, Cell], float] = field(default_factory=dict)


CHOOSING = Family(
    name="choosing",
    level_us=(15.0, 20.0, 25.0, 30.0),
    evenness=4.0,
    counts={"packed": (14, 4, 2), "spread": (59, 14, 6)},
    queueing=0.0,
    height_shape=1.0,
    outlier_index=1.5,
    path_sigma=0.12,
    noise={
        ("packed", "N1"): 0.285,
        ("packed", "N2"): 0.238,
        ("packed", "N3"): 0.234,
        ("packed", "N4"): 0.234,
        ("spread", "N1"): 0.258,
        ("spread", "N2"): 0.216,
        ("spread", "N3"): 0.201,
        ("spread", "N4"): 0.186,
    },
)
REPORTED = Family(
    name="reported",
    level_us=(21.0, 29.0, 34.0, 43.0),
    evenness=1.5,
    counts={"packed": (12, 5, 2), "spread": (50, 11, 4)},
    queueing=0.3,
    height_shape=2.0,
    outlier_index=1.2,
    path_sigma=0.12,
    noise={
        ("packed", "N1"): 0.325,
        ("packed", "N2"): 0.277,
        ("packed", "N3"): 0.242,
        ("packed", "N4"): 0.274,
        ("spread", "N1"): 0.282,
        ("spread", "N2"): 0.253,
        ("spread", "N3"): 0.214,
        ("spread", "N4"): 0.262,
    },
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """N hosts of a data centre and what was read between them.

    rtt_s: (N, N) ``[src, dst]`` readings. clean_s: (N, N) symmetric, without noise of a reading or outliers
    (heights and lasting factors are in it). hops: (N, N), 0 on the diagonal. rack, row: (N,) labels.
    """

    rtt_s: Matrix
    clean_s: Matrix
    hops: Labels
    rack: Labels
    row: Labels

    @property
    def larger_s(self) -> Matrix:
        """(N, N) symmetric: the larger of the two directions, as the dissertation has it."""
        return np.maximum(self.rtt_s, self.rtt_s.T)

    def truth(self, placement: Placement) -> Labels:
        """(N,) the labels a grouping is compared with: racks, or rows where racks hold one host each."""
        return self.rack if placement == "packed" else self.row


def make_fleet(
    n: int,
    *,
    placement: Placement,
    cell: Cell,
    seed: int,
    family: Family = CHOOSING,
    noise: float | None = None,
) -> Fleet:
    """Place n hosts and read every link once. noise: sigma in place of the family's own."""
    rng = np.random.default_rng([seed, n, CELLS.index(cell), PLACEMENTS.index(placement)])
    rack, row, cluster = _place(n, family, placement, rng)
    hops = 8 - 2 * (
        (cluster[:, None] == cluster[None, :]).astype(np.int64)
        + (row[:, None] == row[None, :])
        + (rack[:, None] == rack[None, :])
    )
    path = np.array(family.level_us)[hops // 2 - 1]
    if cell == "N4":
        path = path * _lasting(rack, family.path_sigma, rng) * _lasting(row, family.path_sigma, rng)
    height = np.zeros(n)
    if cell != "N1":
        mean_us = 2.0 if cell == "N2" else 1.0
        height = rng.gamma(family.height_shape, mean_us / family.height_shape, n)
    clean = path + height[:, None] + height[None, :]
    sigma = family.noise[placement, cell] if noise is None else noise
    factor = np.exp(rng.normal(0.0, sigma, (n, n)))
    if family.queueing:
        queue = 1.0 + sigma * rng.gamma(0.5, 2.0, (n, n))
        factor = np.where(rng.random((n, n)) < family.queueing, queue, factor)
    reading = clean * factor
    share = {"N1": 0.0, "N2": 0.0, "N3": 0.05, "N4": 0.03}[cell]
    hit = rng.random((n, n)) < share
    reading = np.where(hit, reading * (1.0 + rng.pareto(family.outlier_index, (n, n))), reading)
    for matrix in (reading, clean, hops):
        np.fill_diagonal(matrix, 0)
    return Fleet(rtt_s=reading * 1e-6, clean_s=clean * 1e-6, hops=hops, rack=rack, row=row)


def _place(
    n: int, family: Family, placement: Placement, rng: np.random.Generator
) -> tuple[Labels, Labels, Labels]:
    """(N,) each: rack, row and cluster of every host, in a random order of hosts."""
    racks, rows, clusters = family.counts[placement]
    scale = n / 64
    racks = max(2, round(racks * scale * rng.uniform(0.85, 1.15)))
    rows = max(2, round(rows * scale**0.75 * rng.uniform(0.85, 1.15)))
    clusters = max(1, round(clusters * scale**0.5))
    rows, clusters = min(rows, racks), min(clusters, rows)
    row_of_rack = _spread(racks, rows, rng)
    cluster_of_row = _spread(rows, clusters, rng)
    weight = rng.gamma(family.evenness, 1.0, racks) + 0.02
    rack = rng.choice(racks, n, p=weight / weight.sum())
    row = row_of_rack[rack]
    return rack.astype(np.int64), row, cluster_of_row[row]


def _spread(items: int, boxes: int, rng: np.random.Generator) -> Labels:
    """(items,) a box each, none of the boxes empty."""
    box = np.concatenate([np.arange(boxes), rng.integers(0, boxes, items - boxes)])
    return rng.permutation(box).astype(np.int64)


def _lasting(label: Labels, sigma: float, rng: np.random.Generator) -> Matrix:
    """(N, N) one lognormal factor a pair of labels; 1 inside a label."""
    size = int(label.max()) + 1
    factor = np.exp(rng.normal(0.0, sigma, (size, size)))
    factor = np.triu(factor, 1) + np.triu(factor, 1).T + np.eye(size)
    return np.asarray(factor[label[:, None], label[None, :]])


def paia(hops: Labels, distance: Matrix) -> float:
    """Physical affinity inference accuracy (dissertation, section 6.2.5): unordered pairs a, b of different
    hops from an observer c; the share of which the distance orders strictly the same way. A tie is wrong.
    """
    found = paia_of_depths(distance, -hops).paia
    return float("nan") if found is None else found


def _mean_raw(family: Family, placement: Placement, cell: Cell, noise: float) -> float:
    scores = []
    for seed in CALIBRATION_SEEDS:
        fleet = make_fleet(64, placement=placement, cell=cell, seed=seed, family=family, noise=noise)
        scores.append(paia(fleet.hops, fleet.larger_s))
    return float(np.mean(scores))


def main() -> None:
    """Print the noise of each cell that puts the raw readings at their score."""
    for family in (CHOOSING, REPORTED):
        for placement in PLACEMENTS:
            for cell in CELLS:
                wanted = 0.813 if cell != "N4" else {"packed": 0.785, "spread": 0.770}[placement]
                low, high = 0.01, 0.8
                for _ in range(10):
                    middle = (low + high) / 2
                    if _mean_raw(family, placement, cell, middle) > wanted:
                        low = middle
                    else:
                        high = middle
                print(f'        ("{placement}", "{cell}"): {low:.3f},  # {family.name}')


if __name__ == "__main__":
    main()
