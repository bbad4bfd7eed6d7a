"""2LHA against rings, flat aggregation and other groups on simulated data centres, as in the dissertation.

2LHA and the best order's ring are planned from what noisy probes read: groups and the order by readings of every pair
both ways, masters and chunks by capacities. Truth-guided 2LHA knows the racks, and nothing of what links carry.
All are timed on the true network. With ``--keep`` every draw is written down when it is done, and those that are there
are not done again: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from _fabric import Fabric
from _tables import heading, quantile, table

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.pipeline import map_scan, plan_order
from netprobe.pipeline.planning.plan_order import PlanRequest
from netprobe.plan.auto.baselines import balanced_random_groups
from netprobe.plan.auto.candidates import Groups, with_shares
from netprobe.plan.auto.known import known_network
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate import Job, simulate

SIZE = 100_000_000
FABRICS = {
    "4:1": {"oversubscribed": 4.0},
    "2:1": {"oversubscribed": 2.0},
    "1:1": {"oversubscribed": 1.0},
    "slow": {"slow": 1},
}
KINDS = ("2lha", "random ring", "FA", "balanced random 2lha", "truth-guided 2lha", "best order's ring")


def sizes_of(hosts: int, *, unequal: bool) -> tuple[int, ...]:
    """Racks of 8; unequal ones of 4 and 12 in turn."""
    return (4, 12) * (hosts // 16) if unequal else (8,) * (hosts // 8)


def on_groups(groups: Groups, chunks: int) -> Schedule:
    """2LHA with the shares of masters that the groups have."""
    shares = groups.shares
    return two_level(
        groups.ranks,
        chunks,
        weights=None if shares is None else shares.hosts,
        group_weights=None if shares is None else shares.groups,
    )


def fastest(groups: Groups, measured: Map, read: Capacity) -> Groups:
    """The shares that are faster by what was read, where there are two."""
    if groups.others is None:
        return groups
    hosts = [host.name for host in measured.hosts]
    network = known_network(measured, hosts, read).network
    return min(
        (groups, replace(groups, shares=groups.others)),
        key=lambda one: (
            simulate(network, [Job(schedule=on_groups(one, 128), order=hosts, size_bytes=SIZE)]).time_s
        ),
    )


def draw(fabric: Fabric, options: argparse.Namespace) -> list[float]:
    """Seconds of each kind on one data centre."""
    map_, capacity, hosts = fabric.map(), fabric.capacity(), fabric.hosts
    network = known_network(map_, hosts, capacity).network
    mixed = random.Random(fabric.seed).sample(hosts, len(hosts))
    balanced = balanced_random_groups(hosts, len(fabric.racks), seed=fabric.seed)
    ring = build("chunked-ring", len(hosts))
    measured = map_scan(fabric.scan(options.rtt_noise), seed=fabric.seed)
    read = fabric.capacity(options.noise, groups=[list(group.hosts) for group in measured.groups])
    formed = fastest(
        with_shares("measured", [group.hosts for group in measured.groups], hosts, read), measured, read
    )
    found = plan_order(measured, PlanRequest(algorithm="chunked-ring", seed=fabric.seed))
    runs: list[tuple[Schedule, Sequence[str]]] = [
        (on_groups(formed, options.chunks), hosts),
        (ring, mixed),
        (build("flat", len(hosts)), hosts),
        (on_groups(with_shares("random", balanced, hosts, None), options.chunks), hosts),
        (on_groups(with_shares("truth", fabric.racks, hosts, None), options.chunks), hosts),
        (ring, found.order),
    ]
    return [
        simulate(network, [Job(schedule=schedule, order=order, size_bytes=SIZE)]).time_s
        for schedule, order in runs
    ]


def draws(name: str, options: argparse.Namespace) -> np.ndarray:
    """(draws, kinds) seconds on one kind of data centre, the kept ones as they are."""
    about = [name, options.hosts, options.chunks, options.rtt_noise, options.noise]
    kept: dict[int, list[float]] = {}
    if options.keep and options.keep.exists():
        lines = [json.loads(line) for line in options.keep.read_text().splitlines()]
        kept = {line["seed"]: line["seconds"] for line in lines if line["about"] == about}
    sizes = sizes_of(options.hosts, unequal=name == "unequal")
    for seed in range(options.draws):
        if seed in kept:
            continue
        began = time.process_time()
        fabric = Fabric(sizes=sizes, seed=seed, **FABRICS.get(name, {}))  # type: ignore[arg-type]
        kept[seed] = draw(fabric, options)
        if options.keep:
            line = {
                "about": about, "seed": seed, "seconds": kept[seed], "cpu_s": time.process_time() - began,
            }  # fmt: skip
            with options.keep.open("a") as file:
                file.write(json.dumps(line) + "\n")
    return np.array([kept[seed] for seed in range(options.draws)])


def main() -> None:
    """Print the table of one kind of data centre."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--fabric", default="4:1", help=f"of {', '.join((*FABRICS, 'unequal'))}; several: with commas"
    )
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--chunks", type=int, default=128, help="of 2LHA")
    parser.add_argument(
        "--rtt-noise", type=float, default=0.2, help="log-normal, of each direction of a pair"
    )
    parser.add_argument("--noise", type=float, default=0.02, help="log-normal, of each capacity")
    parser.add_argument(
        "--keep", type=Path, help="file to which draws are added, and from which they are taken"
    )
    options = parser.parse_args()
    heading(
        f"{SIZE / 1e6:.0f} MB among {options.hosts} hosts, {options.draws} draws, {options.chunks} chunks, "
        f"round trips read within {options.rtt_noise:.0%}, capacities within {options.noise:.0%}"
    )
    rows = []
    for name in options.fabric.split(","):
        found = draws(name, options)
        for number, kind in enumerate(KINDS):
            took, over = found[:, number] * 1e3, (found[:, number] / found[:, 0]).tolist()
            rows.append((
                name, kind, f"{took.mean():.1f}", f"{quantile(took.tolist(), 0.5):.1f}",
                f"{quantile(took.tolist(), 0.95):.1f}",
                f"{np.mean(over):.2f}", f"{quantile(over, 0.5):.2f}", f"{quantile(over, 0.95):.2f}",
            ))  # fmt: skip
    table(("fabric", "algorithm", "mean, ms", "P50", "P95", "over 2lha: mean", "P50", "P95"), rows)


if __name__ == "__main__":
    main()
