"""Maps of a simulated data centre: how right each denoiser reads the hops and the racks, next to other methods."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from _datacentre import CELLS, CHOOSING, PLACEMENTS, REPORTED, Family, Fleet, Placement, make_fleet, paia
from _tables import heading, table
from numpy.typing import NDArray

from netprobe.embed import METHODS, EmbedOptions, fit_embedding
from netprobe.embed.coordinates.starts import classical_scaling

# What ``netprobe map`` reads: both directions of a pair, where every other row gets the larger one.
BOTH_DIRECTIONS = "netprobe, both directions"
Matrix = NDArray[np.float64]
Method = Callable[[Matrix, int], Matrix]
# Methods and their constants were chosen on the family CHOOSING with seeds from 1000 on.
CHOOSING_SEEDS, REPORTED_SEEDS = 1000, 0
DIMENSIONS = 3


def fitted(**options: object) -> Method:
    """A denoiser of netprobe."""
    chosen = EmbedOptions(**options)  # type: ignore[arg-type]
    return lambda matrix, seed: fit_embedding(matrix, options=chosen, seed=seed).distance_s


def apart(points: Matrix) -> Matrix:
    """(N, N) Euclidean distances."""
    return np.asarray(np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)))


def classical(matrix: Matrix, _seed: int) -> Matrix:
    """Classical scaling (Torgerson 1952)."""
    return apart(classical_scaling(matrix, dimensions=DIMENSIONS))


def scaled(*, metric: bool) -> Method:
    """scikit-learn's MDS (SMACOF), started from classical scaling and at random."""

    def run(matrix: Matrix, seed: int) -> Matrix:
        from sklearn.manifold import MDS

        fit = MDS(
            DIMENSIONS,
            metric_mds=metric,
            metric="precomputed",
            n_init=1,
            init="classical_mds",
            random_state=seed,
            normalized_stress="auto",
        )
        return apart(fit.fit_transform(matrix / np.median(matrix)))

    return run


def average_linkage(matrix: Matrix, _seed: int) -> Matrix:
    """The heights at which average linkage joins the raw logarithms."""
    from scipy.cluster.hierarchy import cophenet
    from scipy.spatial.distance import squareform

    return np.asarray(np.exp(squareform(cophenet(tree(matrix)))))


def tree(matrix: Matrix) -> Matrix:
    """Average linkage on log distances."""
    from scipy.cluster.hierarchy import linkage

    upper = np.triu_indices(len(matrix), 1)
    log_distance = np.log(np.maximum(matrix[upper], 1e-12))
    return np.asarray(linkage(log_distance - log_distance.min(), "average"))


def methods(n: int) -> dict[str, Method]:
    """What is compared at this size: scikit-learn's MDS takes minutes above a few hundred hosts."""
    ours: dict[str, Method] = {f"netprobe {name}": fitted(method=name) for name in METHODS if name != "plink"}
    ours[BOTH_DIRECTIONS] = ours["netprobe ensemble"]
    peers: dict[str, Method] = {
        "raw": lambda matrix, _seed: matrix,
        "eq. 4.1, alpha 1": fitted(method="plink", held_out=0.0),
        "eq. 4.1, alpha 2": fitted(method="plink", held_out=0.0, alpha=2.0),
        "eq. 4.1, alpha 1, heights": fitted(method="plink", held_out=0.0, heights=True),
        "classical MDS": classical,
        "average linkage": average_linkage,
    }
    if n <= 256:
        peers |= {"MDS (scikit-learn)": scaled(metric=True), "non-metric MDS": scaled(metric=False)}
    return peers | ours


def rack_ami(matrix: Matrix, fleet: Fleet, placement: Placement) -> float:
    """AMI of the average-linkage cut at the true number of racks (packed) or rows (spread) with them."""
    from scipy.cluster.hierarchy import fcluster
    from sklearn.metrics import adjusted_mutual_info_score

    truth = fleet.truth(placement)
    labels = fcluster(tree(matrix), len(set(truth.tolist())), "maxclust")
    return float(adjusted_mutual_info_score(truth, labels))


def interval(values: list[float]) -> str:
    """95 % interval of the mean, by 2,000 bootstrap samples."""
    rng = np.random.default_rng(0)
    sample = np.array(values)
    means = sample[rng.integers(0, len(sample), (2000, len(sample)))].mean(axis=1)
    return f"{np.quantile(means, 0.025):.3f} to {np.quantile(means, 0.975):.3f}"


def one_cell(
    n: int,
    placement: Placement,
    cell: str,
    seeds: range,
    family: Family,
    names: list[str],
) -> list[tuple[str, ...]]:
    """One row a method of these ``names``."""
    chosen = {name: method for name, method in methods(n).items() if name in names}
    scores: dict[str, list[float]] = {name: [] for name in chosen}
    racks: dict[str, list[float]] = {name: [] for name in chosen}
    seconds = dict.fromkeys(chosen, 0.0)
    for seed in seeds:
        fleet = make_fleet(n, placement=placement, cell=cell, seed=seed, family=family)  # type: ignore[arg-type]
        for name, method in chosen.items():
            readings = fleet.rtt_s if name == BOTH_DIRECTIONS else fleet.larger_s
            began = time.process_time()
            found = method(readings, seed)
            seconds[name] += time.process_time() - began
            scores[name].append(paia(fleet.hops, found))
            racks[name].append(rack_ami(found, fleet, placement))
    bound = np.array(scores["raw"]) if "raw" in scores else np.zeros(len(seeds))
    return [
        (
            f"{placement} {cell}",
            name,
            f"{np.mean(scores[name]):.3f}",
            f"{min(scores[name]):.3f}",
            interval(scores[name]),
            f"{int((np.array(scores[name]) < bound).sum())}",
            f"{np.mean(racks[name]):.3f}",
            f"{seconds[name] / len(seeds):.2f}",
        )
        for name in chosen
    ]


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=64, help="64, 256 or 1024 (default 64)")
    parser.add_argument("--seeds", type=int, help="fleets a cell (default 24; 4 at 256 hosts, 1 beyond)")
    parser.add_argument("--family", choices=("reported", "choosing"), default="reported")
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=CELLS)
    parser.add_argument("--methods", nargs="+", help="words; methods whose names hold one of them")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="cells at a time")
    options = parser.parse_args()
    if options.hosts < 4 or (options.seeds is not None and options.seeds < 1):
        parser.error(f"--hosts {options.hosts} --seeds {options.seeds}: at least 4 hosts and 1 seed")
    n = options.hosts
    count = options.seeds or (24 if n <= 64 else 4 if n <= 256 else 1)
    family, first = (REPORTED, REPORTED_SEEDS) if options.family == "reported" else (CHOOSING, CHOOSING_SEEDS)
    words = options.methods or [""]
    names = [name for name in methods(n) if any(word in name for word in words)]
    if not names:
        parser.error(f"no method's name holds one of {', '.join(words)}")
    heading(
        f"{n} hosts, family {family.name!r}, seeds {first} to {first + count - 1}. PAIA: dissertation, 6.2.5. "
        "AMI: average linkage cut at the true number of racks (packed) or rows (spread).\n"
        f"All get the larger of two directions, as the dissertation has it; {BOTH_DIRECTIONS!r} what a scan holds.\n"
        "Methods were chosen on the family 'choosing' with seeds from 1000 on, and on no other."
    )
    columns = ("cell", "method", "PAIA mean", "min", "95 % interval", "below raw", "AMI", "CPU s")
    cells = [(placement, cell) for placement in PLACEMENTS for cell in options.cells]
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = [
            pool.submit(
                one_cell,
                n,
                placement,
                cell,
                range(first, first + count),
                family,
                names,
            )
            for placement, cell in cells
        ]
        for rows in waiting:
            table(columns, rows.result())


if __name__ == "__main__":
    main()
