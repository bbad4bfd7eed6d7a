"""A new order on matrices in which every order costs the same, and where orders differ: how often one is written."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from _real import wonderproxy
from _tables import heading, table
from numpy.typing import NDArray

from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.scan import Measurement, RttStatistics, Scan, ScannedHost, VisitTable
from netprobe.embed import EmbedOptions
from netprobe.pipeline import map_scan
from netprobe.pipeline.mapping.map_scan import MapOptions
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.plan import ring_cost, solve_ring

Matrix = NDArray[np.float64]
CHOOSING, REPORTED = 30_000, 40_000
"""First seeds: the interval was chosen on the one series, and is reported on the other."""
SIZES = (5, 6, 8, 10, 16, 24)
ALGORITHMS = ("ring", "chunked-ring", "halving-doubling")
BASE_S = 1e-4


def lognormal(rng: np.random.Generator, n: int, sigma: float) -> Matrix:
    """Noise in proportion."""
    return np.exp(rng.normal(0.0, sigma, (n, n)))


def delays(rng: np.random.Generator, n: int) -> Matrix:
    """Noise that only ever adds."""
    return np.asarray(1.0 + rng.exponential(0.2, (n, n)))


def spikes(rng: np.random.Generator, n: int) -> Matrix:
    """Cell N3: sigma .246, and one reading in twenty Pareto (1.5) times slower."""
    slow = rng.random((n, n)) < 0.05
    return lognormal(rng, n, 0.246) * np.where(slow, 1.0 + rng.pareto(1.5, (n, n)), 1.0)


NOISES: dict[str, Callable[[np.random.Generator, int], Matrix]] = {
    "5 %": lambda rng, n: lognormal(rng, n, 0.05),
    "30 %": lambda rng, n: lognormal(rng, n, 0.3),
    "delays": delays,
    "spikes": spikes,
}


def scan_of(rtt_s: Matrix) -> Scan:
    """A scan with these two readings of each pair."""
    rtt_s = rtt_s.copy()
    np.fill_diagonal(rtt_s, np.nan)
    nothing = np.full(rtt_s.shape, np.nan)
    return Scan(
        status="ok",
        hosts=[ScannedHost(name=f"h{i}") for i in range(len(rtt_s))],
        measurements=[Measurement(id="rtt", key="rtt_s", method="bench", unit="s", statistic="p10")],
        rtt_s=RttStatistics(min=rtt_s, p10=rtt_s, p50=rtt_s, p90=rtt_s, p99=rtt_s),
        loss_ratio=nothing,
        ipdv_s=nothing,
        visits=VisitTable.of(()),
        rounds=0,
        duration_s=0.0,
    )


def planned(rtt_s: Matrix, algorithm: str, seed: int) -> OrderPlan:
    """The plan that `netprobe map` and `plan order` make of it."""
    scan = scan_of(rtt_s)
    map_ = map_scan(scan, options=MapOptions(embed=EmbedOptions(restarts=1, iterations=20)), seed=seed)
    return plan_order(map_, PlanRequest(algorithm=algorithm, seed=seed), scan=scan)


def is_new(plan: OrderPlan) -> bool:
    """Whether it is another order than the original one."""
    return plan.order != [host.name for host in plan.hosts]


def noise_matrices(count: int, first: int, skip: int = 0) -> Iterator[tuple[str, int, Matrix]]:
    """``count`` matrices of one distance and noise, over all sizes and kinds of noise, after ``skip`` others."""
    for number in range(skip, skip + count):
        kind = list(NOISES)[number % len(NOISES)]
        n = SIZES[number // len(NOISES) % len(SIZES)]
        yield kind, number, BASE_S * NOISES[kind](np.random.default_rng([first, number]), n)


def new_on_noise(algorithm: str, kind: str, number: int, rtt_s: Matrix) -> tuple[str, bool]:
    """The kind of a matrix, and whether it got another order."""
    return kind, is_new(planned(rtt_s, algorithm, number))


def noise_table(count: int, first: int, algorithms: Sequence[str], *, skip: int, jobs: int) -> None:
    """How many of them got another order."""
    numbers = f"numbers {skip} to {skip + count - 1}"
    heading(
        f"New orders on matrices of pure noise, 5 to 24 hosts, two readings a pair, {numbers} (at most 2.5 %)"
    )
    rows: list[tuple[object, ...]] = []
    with ProcessPoolExecutor(jobs) as pool:
        for algorithm in algorithms:
            found = dict.fromkeys(NOISES, 0)
            some = zip(*noise_matrices(count, first, skip))
            for kind, new in pool.map(partial(new_on_noise, algorithm), *some):
                found[kind] += new
            total = sum(found.values())
            rows.append((algorithm, count, *found.values(), total, f"{total / max(count, 1):.1%}"))
    table(["algorithm", "matrices", *NOISES, "new", "share"], rows)


def far_table(data: Path, count: int, first: int, hosts: int = 10) -> None:
    """Hosts far apart, drawn from real round trips: what is kept, and what it costs on the readings."""
    whole = wonderproxy(data) * 1e-3
    complete = np.flatnonzero(
        np.isfinite(whole + whole.T + np.diag(np.full(len(whole), 0.0))).sum(axis=1) > 200
    )
    heading(
        f"{count} draws of {hosts} hosts far apart (WonderProxy): ring, given order against the best found"
    )
    given, ours, new = [], [], 0
    for number in range(count):
        rng = np.random.default_rng([first, number])
        while True:
            some = rng.choice(complete, hosts, replace=False)
            rtt = whole[np.ix_(some, some)]
            np.fill_diagonal(rtt, 0.0)
            if np.isfinite(rtt).all():
                break
        plan = planned(rtt, "ring", number)
        mean = (rtt + rtt.T) / 2
        best = solve_ring(mean, seed=0).cost_s
        given.append(ring_cost(mean, range(hosts)) / best)
        ours.append(ring_cost(mean, [int(name[1:]) for name in plan.order]) / best)
        new += is_new(plan)
    table(
        ["order", "cost over the best: median", "worst", "new"],
        [
            ("as given", f"{np.median(given):.3f}", f"{np.max(given):.3f}", ""),
            ("planned", f"{np.median(ours):.3f}", f"{np.max(ours):.3f}", f"{new} of {count}"),
        ],
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", type=int, default=400, help="matrices of noise")
    parser.add_argument(
        "--skip",
        type=int,
        default=0,
        help="start after so many matrices: parts of a run too long for one sitting",
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="matrices at a time")
    parser.add_argument("--draws", type=int, default=50, help="draws of ten hosts")
    parser.add_argument("--algorithm", action="append", choices=list(ALGORITHMS))
    parser.add_argument("--choosing", action="store_true", help="the seeds that the interval was chosen on")
    parser.add_argument("--data", type=Path, default=os.environ.get("NETPROBE_DATA"))
    options = parser.parse_args()
    first = CHOOSING if options.choosing else REPORTED
    if options.noise > 0:
        algorithms = options.algorithm or list(ALGORITHMS)
        noise_table(options.noise, first, algorithms, skip=options.skip, jobs=options.jobs)
    if not options.draws:
        return
    if options.data is None:
        sys.exit("the second table needs real data: --data FOLDER, or NETPROBE_DATA")
    far_table(Path(options.data), options.draws, first)


if __name__ == "__main__":
    main()
