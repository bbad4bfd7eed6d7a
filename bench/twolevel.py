"""2LHA against rings, flat aggregation and other groups on simulated data centres, as in the dissertation."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

import numpy as np
from _fabric import Fabric
from _tables import heading, quantile, table

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
KINDS = ("2lha", "random ring", "FA", "balanced random 2lha", "truth-guided 2lha", "ring by rack")


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


def draw(fabric: Fabric, chunks: int) -> list[float]:
    """Seconds of each kind on one data centre."""
    map_, capacity, hosts = fabric.map(), fabric.capacity(), fabric.hosts
    network = known_network(map_, hosts, capacity).network
    mixed = random.Random(fabric.seed).sample(hosts, len(hosts))
    by_rack = [name for rack in fabric.racks for name in rack]
    balanced = balanced_random_groups(hosts, len(fabric.racks), seed=fabric.seed)
    ring = build("chunked-ring", len(hosts))
    runs: list[tuple[Schedule, Sequence[str]]] = [
        (on_groups(with_shares("measured", fabric.racks, hosts, capacity), chunks), hosts),
        (ring, mixed),
        (build("flat", len(hosts)), hosts),
        (on_groups(with_shares("random", balanced, hosts, None), chunks), hosts),
        (on_groups(with_shares("truth", fabric.racks, hosts, None), chunks), hosts),
        (ring, by_rack),
    ]
    return [
        simulate(network, [Job(schedule=schedule, order=order, size_bytes=SIZE)]).time_s
        for schedule, order in runs
    ]


def main() -> None:
    """Print the table of one kind of data centre."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fabric", choices=(*FABRICS, "unequal"), default="4:1")
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--chunks", type=int, default=128, help="of 2LHA")
    options = parser.parse_args()
    heading(
        f"{SIZE / 1e6:.0f} MB among {options.hosts} hosts, {options.fabric}, {options.draws} draws, "
        f"2LHA in {options.chunks} chunks"
    )
    sizes = sizes_of(options.hosts, unequal=options.fabric == "unequal")
    found = np.array(
        [
            draw(Fabric(sizes=sizes, seed=seed, **FABRICS.get(options.fabric, {})), options.chunks)  # type: ignore[arg-type]
            for seed in range(options.draws)
        ]
    )
    rows = []
    for number, kind in enumerate(KINDS):
        took, over = found[:, number] * 1e3, (found[:, number] / found[:, 0]).tolist()
        rows.append((
            kind, f"{took.mean():.1f}", f"{quantile(took.tolist(), 0.5):.1f}", f"{quantile(took.tolist(), 0.95):.1f}",
            f"{np.mean(over):.2f}", f"{quantile(over, 0.5):.2f}", f"{quantile(over, 0.95):.2f}",
        ))  # fmt: skip
    table(("algorithm", "mean, ms", "P50", "P95", "over 2lha: mean", "P50", "P95"), rows)


if __name__ == "__main__":
    main()
