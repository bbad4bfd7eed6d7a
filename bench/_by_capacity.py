"""Tree orders planned with measured capacities against random ones, on shared uplinks (`orders --part capacity`)."""

from __future__ import annotations

import time

import numpy as np
from _fabric import Fabric
from _tables import heading, table

from netprobe.pipeline import plan_order
from netprobe.pipeline.planning.plan_order import PRICED_BYTES, PlanRequest
from netprobe.plan.auto.known import known_network
from netprobe.plan.order.timed import OrderTimes

TREES = ("nccl-tree", "double-binary-tree", "binomial-tree")
RANDOM, RESAMPLES = 40, 4000
FABRICS = (
    ("16 in racks of 4, uplinks of a host", Fabric(sizes=(4,) * 4)),
    ("32 in racks of 4, in rows of 4", Fabric(sizes=(4,) * 8, rows=4)),
    ("24 in racks of 9, 7, 5, 3", Fabric(sizes=(9, 7, 5, 3))),
    ("64 in racks of 8, 4:1", Fabric(sizes=(8,) * 8)),
    ("16 on one switch", Fabric(sizes=(16,))),
)


def row(where: str, fabric: Fabric, algorithm: str, *, racked: bool) -> tuple[object, ...]:
    """One fleet, given in random order or rack by rack."""
    map_, capacity = fabric.map(), fabric.capacity()
    names = [name for rack in fabric.racks for name in rack] if racked else fabric.hosts
    by_name = {host.name: host for host in map_.hosts}
    began = time.process_time()
    plan = plan_order(
        map_,
        PlanRequest(hosts=[by_name[name] for name in names], algorithm=algorithm),
        capacity=capacity,
    )
    took = time.process_time() - began
    network = known_network(map_, names, capacity).network
    times = OrderTimes(algorithm, network, PRICED_BYTES)
    rng = np.random.default_rng(1)
    random = [times([0, *(1 + rng.permutation(len(names) - 1)).tolist()]) for _ in range(RANDOM)]
    planned = times([network.index(name) for name in plan.order])
    means = [float(np.mean(rng.choice(random, RANDOM))) / planned for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    kind = "given" if plan.kept_given is not None or plan.solver is None else plan.solver.kind
    given = times(range(len(names)))
    return (
        algorithm, where, "by rack" if racked else "random",
        f"{np.mean(random) / planned:.2f} ({low:.2f} .. {high:.2f})", f"{given / planned:.2f}", kind, f"{took:.1f}",
    )  # fmt: skip


def capacity_table() -> None:
    """Print it, a row as it comes."""
    heading(f"Trees of {PRICED_BYTES / 1e6:.0f} MB in planned orders, {RANDOM} random ones, simulated")
    columns = ("algorithm", "hosts", "given", "random / planned", "given / planned", "order", "CPU s")
    for where, fabric in FABRICS:
        for algorithm in TREES:
            for racked in (False, True):  # each as it comes: they take a minute
                table(columns, [row(where, fabric, algorithm, racked=racked)])
