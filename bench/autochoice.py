"""autochoice: how often `plan auto`, choosing by noisy probes, misses the best on the true network, and by how much.

Simulated fleets in random order. Round trips, groups and capacities are read with noise, and `plan auto` chooses by
them. Then every candidate that it had, and those that it would have had by exact readings, is timed on the true
network: the loss is what the choice takes there over the fastest of them. A loss up to `CLOSE` counts as the best, as
`plan auto` itself takes so much for equal.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from _fabric import Fabric
from _tables import heading, quantile, table

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.pipeline import map_scan
from netprobe.pipeline.planning.plan_auto import AutoPlanned, AutoRequest, plan_auto
from netprobe.plan.auto.candidates import Candidate, distinct
from netprobe.plan.auto.choice import CLOSE
from netprobe.plan.auto.known import KnownNetwork, known_network
from netprobe.plan.auto.predicting import bound_s, latency_of, time_of

SIZE = 100_000_000
FABRICS = {
    "4:1": {"oversubscribed": 4.0},
    "2:1": {"oversubscribed": 2.0},
    "1:1": {"oversubscribed": 1.0},
    "unequal": {"oversubscribed": 4.0},
    "slow": {"oversubscribed": 4.0, "slow": 1},
}


def fabric_of(name: str, hosts: int, seed: int) -> Fabric:
    """Racks of 8; ``unequal``: of 4 and 12; ``slow``: one host at half the rate."""
    sizes = (4, 12) * (hosts // 16) if name == "unequal" else (8,) * (hosts // 8)
    return Fabric(sizes=sizes, seed=seed, **FABRICS[name])  # type: ignore[arg-type]


def planned(map_: Map, capacity: Capacity, size: int) -> AutoPlanned:
    """What `plan auto` chooses, with the orders by group besides the given one."""
    found = {"found": [name for group in map_.groups for name in group.hosts]}
    return plan_auto(map_, AutoRequest(ranges=False, size_bytes=size, orders=found), capacity=capacity)


def fastest_s(known: KnownNetwork, candidates: Sequence[Candidate], size: int) -> float:
    """Seconds of the fastest on a network: those whose lower bound is above the best so far are not simulated."""
    bounds = {one: bound_s(known, one, size, latency_of(known, one, size)) for one in candidates}
    best = float("inf")
    for one in sorted(candidates, key=bounds.__getitem__):
        if bounds[one] >= best:
            break
        best = min(best, time_of(known, one, size))
    return best


def loss(fabric: Fabric, options: argparse.Namespace, size: int) -> tuple[float, bool]:
    """By how much the choice is slower than the best on the truth, and whether a baseline was kept for uncertainty."""
    truth_map, truth = fabric.map(), fabric.capacity()
    known = known_network(truth_map, fabric.hosts, truth)
    read_map = map_scan(fabric.scan(options.rtt_noise), seed=fabric.seed)
    groups = [list(group.hosts) for group in read_map.groups]
    chosen = planned(read_map, fabric.capacity(options.noise, groups=groups), size)
    exact = planned(truth_map, truth, size)
    every = [one.candidate for one in (*chosen.tried, *exact.tried)]
    took = time_of(known, chosen.decision.candidate, size)
    best = fastest_s(known, distinct(every, size), size)
    return max(took / best - 1, 0.0), chosen.decision.reason == "cannot_tell"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--hosts", default="16,32")
    parser.add_argument("--fabrics", default=",".join(FABRICS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--sizes", default="1000000,100000000", help="bytes")
    parser.add_argument(
        "--rtt-noise", type=float, default=0.2, help="log-normal, of each direction of a pair"
    )
    parser.add_argument("--noise", type=float, default=0.02, help="log-normal, of each capacity")
    options = parser.parse_args()
    heading(
        f"plan auto by noisy probes (round trips within {options.rtt_noise:.0%}, "
        f"capacities within {options.noise:.0%}), timed on the truth, {options.draws} fleets a row; "
        f"wrong: more than {CLOSE:.0%} slower than the best"
    )
    rows = []
    for hosts in map(int, options.hosts.split(",")):
        for name in options.fabrics.split(","):
            for size in map(int, options.sizes.split(",")):
                began = time.process_time()
                found = [loss(fabric_of(name, hosts, seed), options, size) for seed in range(options.draws)]
                losses = [one for one, _ in found]
                rows.append((
                    hosts, name, f"{size / 1e6:g} MB",
                    f"{sum(one > CLOSE for one in losses)} of {len(losses)}",
                    f"{quantile(losses, 0.5):.1%}", f"{quantile(losses, 0.95):.1%}", f"{max(losses):.1%}",
                    sum(open_ for _, open_ in found), f"{(time.process_time() - began) / len(losses):.1f}",
                ))  # fmt: skip
    table(
        ("hosts", "uplinks", "buffer", "wrong", "loss: median", "P95", "most", "left open", "CPU s a fleet"),
        rows,
    )


if __name__ == "__main__":
    main()
