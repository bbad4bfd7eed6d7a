"""Small fleets (3 to 40 hosts): maps of complete and of incomplete wide-area readings, and of a small data centre."""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from _datacentre import CELLS, CHOOSING, PLACEMENTS, REPORTED, Cell, Placement, make_fleet, paia
from _real import (
    SOURCES,
    Draw,
    Matrix,
    Source,
    by_paths,
    by_scaling,
    by_springs,
    draw,
    planetlab,
    wonderproxy,
)
from _tables import heading, table

from netprobe.core.errors import InputError
from netprobe.embed import EmbedOptions, fit_embedding
from netprobe.plan import ring_cost, solve_ring
from netprobe.plan.search.exact import MAX_EXACT_HOSTS

COMPLETE_SIZES = (3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 40)
HIDDEN_SIZES = (6, 8, 10, 12, 16, 20, 30, 40)
DATA_CENTRE_SIZES = (6, 8, 10, 12, 16, 20)
DATA_CENTRE_SEEDS = 10
GOAL_SEEN, GOAL_HIDDEN, GOAL_RING = 0.01, 0.01, 1.02
KICKS_A_HOST = 200
PARTS = ("complete", "hidden", "datacentre")


@lru_cache(maxsize=1)
def matrices(folder: Path) -> dict[int, Matrix]:
    """PlanetLab's slices by number, and WonderProxy under 0."""
    return {0: wonderproxy(folder), **planetlab(folder)}


def map_of(readings: Matrix) -> Matrix:
    """The distances that ``netprobe map`` would write, in the readings' unit."""
    return fit_embedding(readings, options=EmbedOptions(), seed=0).distance_s


def of_complete(folder: Path, choosing: bool, source: Source, n: int, number: int) -> tuple[float, float]:
    """Of one draw: the median error of a measured link; its ring's cost over that of the best, both on the readings."""
    one = draw(matrices(folder), source, n, number, choosing=choosing)
    found = map_of(one.readings)
    pairs = np.triu_indices(n, 1)
    error = float(np.median(np.abs(found[pairs] / one.both[pairs] - 1)))
    kicks = None if n <= MAX_EXACT_HOSTS else KICKS_A_HOST * n
    ours = solve_ring(found, iterations=kicks).order
    best = solve_ring(one.both, iterations=kicks, start=ours).order
    return error, ring_cost(one.both, ours) / ring_cost(one.both, best)


def of_hidden(folder: Path, choosing: bool, source: Source, n: int, number: int) -> list[Matrix]:
    """Relative errors of the hidden links of one draw, (3, M): netprobe, classical scaling, shortest path."""
    one = draw(matrices(folder), source, n, number, choosing=choosing)
    return [errors_of(found(one.given), one) for found in (map_of, by_scaling, by_paths)]


def errors_of(found: Matrix, one: Draw) -> Matrix:
    """(M,) relative errors on the hidden links."""
    return np.asarray(np.abs(found[one.hidden] / one.both[one.hidden] - 1))


def of_springs(folder: Path, choosing: bool, source: Source, n: int, draws: int) -> Matrix:
    """(M,) relative errors of Vivaldi on the hidden links of all draws."""
    ones = [draw(matrices(folder), source, n, number, choosing=choosing) for number in range(draws)]
    found = by_springs([one.given for one in ones], seed=n)
    return np.concatenate([errors_of(matrix, one) for matrix, one in zip(found, ones)])


def of_data_centre(n: int, choosing: bool, placement: Placement, cell: Cell, seed: int) -> tuple[float, ...]:
    """PAIA and median error (of the distance without noise) of the readings' mean and of the map."""
    fleet = make_fleet(
        n,
        placement=placement,
        cell=cell,
        seed=seed + 1000 * choosing,
        family=CHOOSING if choosing else REPORTED,
    )
    pairs = np.triu_indices(n, 1)
    raw, found = (fleet.rtt_s + fleet.rtt_s.T) / 2, map_of(fleet.rtt_s)
    errors = (float(np.median(np.abs(one[pairs] / fleet.clean_s[pairs] - 1))) for one in (raw, found))
    return (paia(fleet.hops, raw), paia(fleet.hops, found), *errors)


def complete(pool: ProcessPoolExecutor, folder: Path, choosing: bool, draws: int, sizes: list[int]) -> None:
    """Print the table of complete readings."""
    rows = []
    for source in SOURCES:
        for n in (n for n in COMPLETE_SIZES if n in sizes):
            found = list(pool.map(partial(of_complete, folder, choosing, source, n), range(draws)))
            error, ring = np.array(found).T
            rows.append(
                (
                    source, n, draws, f"{np.median(error):.2%}", int((error > GOAL_SEEN).sum()),
                    f"{np.median(ring):.3f}", f"{ring.mean():.3f}", f"{ring.max():.3f}",
                    int((ring > GOAL_RING).sum()),
                )
            )  # fmt: skip
    print(
        "All pairs measured: a link's distance against the mean of its two readings, and the ring searched on the map"
    )
    print(
        f"against the best on the readings (proven up to {MAX_EXACT_HOSTS} hosts, else {KICKS_A_HOST} kicks a host).\n"
    )
    columns = ("source", "hosts", "draws", "median error", "draws above 1 %", "ring: median", "mean", "most")
    table((*columns, "rings above 1.02"), rows)


def hidden(pool: ProcessPoolExecutor, folder: Path, choosing: bool, draws: int, sizes: list[int]) -> None:
    """Print the table of hidden links."""
    rows = []
    for source in SOURCES:
        for n in (n for n in HIDDEN_SIZES if n in sizes):
            springs = pool.submit(of_springs, folder, choosing, source, n, draws)
            found = list(pool.map(partial(of_hidden, folder, choosing, source, n), range(draws)))
            ours, scaling, paths = (float(np.median(np.concatenate(one))) for one in zip(*found))
            vivaldi = float(np.median(springs.result()))
            above = ours - min(vivaldi, scaling, paths)
            links = sum(len(one[0]) for one in found)
            met = "yes" if above <= GOAL_HIDDEN else "no"
            shares = (f"{value:.1%}" for value in (ours, vivaldi, scaling, paths))
            rows.append((source, n, draws, links, *shares, f"{100 * above:+.1f}", met))
    print("A fifth of the pairs hidden: median relative error on them, over all draws.\n")
    columns = ("source", "hosts", "draws", "links", "netprobe", "Vivaldi, heights", "classical scaling")
    table((*columns, "shortest path", "points above the best", "at most 1"), rows)


def data_centre(pool: ProcessPoolExecutor, choosing: bool, sizes: list[int]) -> None:
    """Print the table of the simulated data centre, where the noise must still be removed."""
    rows = []
    for n in (n for n in DATA_CENTRE_SIZES if n in sizes):
        cells = [(p, c, s) for p in PLACEMENTS for c in CELLS for s in range(DATA_CENTRE_SEEDS)]
        found = np.array(list(pool.map(partial(of_data_centre, n, choosing), *zip(*cells))))
        means = np.nanmean(found, axis=0)
        rows.append(
            (n, len(cells), *(f"{value:.3f}" for value in means[:2]), *(f"{v:.1%}" for v in means[2:]))
        )
    print(
        "A simulated data centre, all placements and cells, both directions given: PAIA, and the median error\n"
    )
    table(("hosts", "fleets", "PAIA: readings", "PAIA: map", "error: readings", "error: map"), rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the data sets (default: the variable NETPROBE_DATA)")
    parser.add_argument("--draws", type=int, default=100, help="random fleets a row (default 100)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(COMPLETE_SIZES), help="hosts")
    parser.add_argument("--choosing", action="store_true", help="the draws that the methods were chosen on")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="fleets at a time")
    options = parser.parse_args()
    name = options.data or os.environ.get("NETPROBE_DATA")
    if not name or not Path(name).is_dir():
        parser.error(
            f"no folder of data sets ({name or 'none named'}): name one with --data or NETPROBE_DATA"
        )
    if options.draws < 1:
        parser.error(f"--draws {options.draws}: at least 1")
    heading(
        "Small fleets: random hosts of WonderProxy (two directions) and of PlanetLab-490 (one number a pair)."
    )
    try:
        with ProcessPoolExecutor(options.jobs) as pool:
            if "complete" in options.parts:
                complete(pool, Path(name), options.choosing, options.draws, options.sizes)
            if "hidden" in options.parts:
                hidden(pool, Path(name), options.choosing, options.draws, options.sizes)
            if "datacentre" in options.parts:
                data_centre(pool, options.choosing, options.sizes)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
