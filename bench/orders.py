"""Rank orders of halving-doubling, double tree and BCube on readings they did not see, compared with the leaf order."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

import numpy as np
from _by_capacity import capacity_table
from _tables import heading, table
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.scan import Measurement, RttStatistics, Scan, ScannedHost, VisitTable
from netprobe.pipeline import map_scan, plan_order
from netprobe.pipeline.planning.held_out import readings_of
from netprobe.pipeline.planning.plan_order import PlanRequest
from netprobe.plan.costs import LinkCost, cost_model, latency_only
from netprobe.plan.search.anneal_kernels import kernels
from netprobe.plan.search.leaves import leaf_order

ALGORITHMS = ("halving-doubling", "double-binary-tree", "bcube")
LEVELS_S = (8e-6, 15e-6, 30e-6, 60e-6)
"""Round trips inside racks of 8, rows of 4 racks, clusters of 4 rows, and across."""
NOISE, OUTLIERS, FACTORS = 0.05, 0.02, (1.5, 4.0)
"""Of a reading: log-normal sigma. A share of the readings (transient) or of the pairs (persistent) is slower."""
FRESH = 200
"""Measurements that orders are priced on; with outliers in them one alone varies by a sixth."""


class Fleet:
    """Hosts in balanced racks, in random order; ``reading`` is another measurement of all links [src, dst]."""

    def __init__(self, hosts: int, seed: int, *, persistent: bool) -> None:
        self.rng = np.random.default_rng([seed, hosts])
        place = self.rng.permutation(hosts)
        same = [(place // size)[:, None] == (place // size)[None, :] for size in (8, 32, 128)]
        self.base: FloatMatrix = np.select(same, LEVELS_S[:3], LEVELS_S[3])
        self.fast = self.base
        self.persistent = persistent
        if persistent:
            slow = np.triu(self._slower(hosts), 1)
            self.base = self.base * (slow + slow.T + np.eye(hosts))

    def _slower(self, hosts: int) -> FloatMatrix:
        drawn = self.rng.random((hosts, hosts)) < OUTLIERS
        return np.where(drawn, self.rng.uniform(*FACTORS, (hosts, hosts)), 1.0)

    def reading(self, *, clean: bool = False) -> FloatMatrix:
        """Round trips; ``clean``: as they would be without any outlier."""
        hosts = len(self.base)
        base = self.fast if clean else self.base
        rtt: FloatMatrix = base * np.exp(self.rng.normal(0.0, NOISE, base.shape))
        if not (self.persistent or clean):
            rtt = rtt * self._slower(hosts)
        np.fill_diagonal(rtt, np.nan)
        return rtt


def scan_of(rtt_s: FloatMatrix) -> Scan:
    """The readings as a scan."""
    names = [f"h{i:04d}" for i in range(len(rtt_s))]
    nothing = rtt_s * 0.0
    return Scan(
        status="ok",
        hosts=[ScannedHost(name=name) for name in names],
        measurements=[Measurement(id="rtt", key="rtt_s", method="stamp", unit="s", statistic="p10")],
        rtt_s=RttStatistics(min=rtt_s, p10=rtt_s, p50=rtt_s, p90=rtt_s, p99=rtt_s),
        loss_ratio=nothing,
        ipdv_s=nothing,
        visits=VisitTable.of([]),
        rounds=2 * len(names),
        duration_s=1.0,
    )


def ratios(
    hosts: int, seed: int, algorithms: Sequence[str], *, persistent: bool
) -> Iterator[tuple[str, NDArray[np.float64], str, float]]:
    """For each algorithm: costs on fresh readings (given, random, leaf, the plan's, and the leaf order's without any
    outlier), the kind chosen, seconds."""
    fleet = Fleet(hosts, seed, persistent=persistent)
    scan = scan_of(fleet.reading())
    map_ = map_scan(scan, seed=seed)
    readings = readings_of(map_, scan, seed=seed)
    index = {host.name: i for i, host in enumerate(map_.hosts)}
    leaf = leaf_order(np.asarray(map_.distance), 0)
    shuffled = np.random.default_rng(seed).permutation(hosts).tolist()
    plans, seconds = {}, {}
    for name in algorithms:
        began = time.perf_counter()
        plans[name] = plan_order(map_, PlanRequest(algorithm=name, seed=seed), readings=readings)
        seconds[name] = time.perf_counter() - began
    orders = {
        name: np.array([range(hosts), shuffled, leaf, [index[host] for host in plan.order]])
        for name, plan in plans.items()
    }
    costs = {name: np.zeros(5) for name in algorithms}
    for _ in range(FRESH):
        link, clean = _links(fleet.reading()), _links(fleet.reading(clean=True))
        for name in algorithms:
            model = cost_model(name)
            costs[name][:4] += model.costs(orders[name], link) / FRESH
            costs[name][4] += model.cost(leaf, clean) / FRESH
    for name, plan in plans.items():
        kind = plan.solver.kind if plan.solver is not None else "given"
        yield name, costs[name], kind, seconds[name]


def _links(rtt_s: FloatMatrix) -> LinkCost:
    np.fill_diagonal(rtt_s, 0.0)
    return latency_only(rtt_s)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="fleets a cell, seeds from --first on")
    parser.add_argument(
        "--first", type=int, default=0, help="first seed (choices were made on 100 and above)"
    )
    parser.add_argument("--hosts", default="64,256", help="sizes of the fleets")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help="the rows")
    parser.add_argument(
        "--part", choices=("cost", "capacity"), default="cost", help="capacity: trees, by time"
    )
    options = parser.parse_args()
    if options.part == "capacity":
        capacity_table()
        return
    algorithms = options.algorithms.split(",")
    how = "compiled" if kernels() is not None else "without numba"
    heading(
        f"Cost on {FRESH} fresh measurements, racks of 8, 2 % of readings or pairs 1.5 to 4 times slower, "
        f"{options.seeds} fleets a cell; searches {how}"
    )
    rows = []
    for hosts in map(int, options.hosts.split(",")):
        for persistent in (False, True):
            cells: dict[str, list[tuple[NDArray[np.float64], str, float]]] = {}
            for seed in range(options.first, options.first + options.seeds):
                for name, costs, kind, seconds in ratios(hosts, seed, algorithms, persistent=persistent):
                    cells.setdefault(name, []).append((costs, kind, seconds))
            for name in algorithms:
                found = np.array([cell[0] for cell in cells[name]])
                mean = found.mean(axis=0) * 1e6
                kinds = [cell[1] for cell in cells[name]]
                rows.append(
                    (
                        name,
                        hosts,
                        "persist" if persistent else "transient",
                        f"{mean[1]:.0f}",
                        f"{mean[2]:.0f}",
                        f"{mean[3]:.0f}",
                        f"{mean[4]:.0f}",
                        f"{mean[3] / mean[2]:.3f}",
                        f"{mean[2] / mean[3]:.2f}x",
                        f"{mean[2] / mean[4]:.2f}x",
                        f"{(found[:, 3] / found[:, 0]).max():.2f}",
                        " ".join(f"{kinds.count(k)} {k}" for k in sorted(set(kinds))),
                        f"{np.median([cell[2] for cell in cells[name]]):.1f}",
                    )
                )
    table(
        [
            "algorithm",
            "hosts",
            "outliers",
            "random, us",
            "leaf, us",
            "netprobe, us",
            "no outliers, us",
            "over leaf",
            "below leaf",
            "at best",
            "over given, worst",
            "chosen",
            "s a plan",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
