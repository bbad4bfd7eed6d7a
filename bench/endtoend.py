"""endtoend: iterations a second of a language model on a lab: DDP in random orders, in netprobe's, with the hook."""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _lab_world import LabWorld
from _language_model import checksum, iterate, memory, prepare
from _tables import heading, table
from wire import Fleet, scan

from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.hosts import Host
from netprobe.lab import LabSpec, temporary
from netprobe.pipeline.planning.plan_auto import AutoRequest, plan_auto

BUCKET_BYTES = 25 << 20
"""Of DistributedDataParallel, for which the hook's plan is made."""
RANDOM, ORDERED, HOOK = "DDP, random orders", "DDP, netprobe's order", "DDP, netprobe's order, hook"


def measure(fleet: Fleet, order: Sequence[str], plan: Any, iterations: int) -> dict[str, Any]:
    """A world in an order: seconds of iterations, of those without averages, memory, loss."""
    world = LabWorld(fleet.lab, order)
    try:
        parameters = world.run(prepare, plan)[0]
        world.run(iterate, 1, True, timeout_s=400)
        compute = world.run(iterate, 2, False, timeout_s=400)
        whole = world.run(iterate, iterations, True, timeout_s=400)
        if len(set(world.run(checksum))) != 1:
            raise SystemExit("the ranks' models differ")
        return {
            "parameters": parameters,
            "compute": [max(rank[i][0] for rank in compute) for i in range(2)],
            "seconds": [max(rank[i][0] for rank in whole) for i in range(iterations)],
            "loss": statistics.mean(rank[-1][1] for rank in whole),
            "memory": sum(world.run(memory)),
        }
    finally:
        world.close()


def main() -> None:
    """Each kind in turn, ``--turns`` times, each time another random order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--racks", type=int, default=2, help="of 4 hosts")
    parser.add_argument("--rate", default="200Mbit/s", help="of a host, and of an uplink of four")
    parser.add_argument("--iterations", type=int, default=2, help="timed ones each time")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    hosts = 4 * options.racks
    heading(
        f"Training a language model on {hosts} hosts of {options.rate} in {options.racks} racks, 4:1 uplinks"
    )
    began = time.monotonic()
    spec = {
        "name": "endtoend", "racks": [4] * options.racks, "host_rate": options.rate, "uplink_rate": options.rate,
    }  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {RANDOM: [], ORDERED: [], HOOK: []}
    with (
        tempfile.TemporaryDirectory() as folder,
        temporary(LabSpec.from_spec(spec), seed=options.seed) as lab,
    ):
        fleet = scan(lab, Path(folder) / "out", "rtt,capacity")
        map_ = load_document(Map, fleet.folder / "map.json")
        # The order of the ranks is that of the plan, so that the ring and the hook run among the same ranks.
        given = [Host(name=name) for name in fleet.order]
        request = AutoRequest(
            hosts=given, size_bytes=BUCKET_BYTES, ranges=False, orders={"found": fleet.order}
        )
        auto = plan_auto(map_, request, capacity=fleet.capacity)
        rng = random.Random(options.seed)
        for _ in range(options.turns):
            arms = [
                (RANDOM, rng.sample(fleet.order, hosts), None),
                (ORDERED, fleet.order, None),
                (HOOK, auto.plan.order, auto.plan),
            ]
            rng.shuffle(arms)
            for name, order, plan in arms:
                found[name].append(measure(fleet, order, plan, options.iterations))
                print(".", end="", file=sys.stderr, flush=True)
    rows = []
    base = statistics.median(s for one in found[RANDOM] for s in one["seconds"])
    for name, runs in found.items():
        seconds = [s for one in runs for s in one["seconds"]]
        compute = statistics.median(s for one in runs for s in one["compute"])
        middle = statistics.median(seconds)
        rows.append([
            name, f"{1 / middle:.3f}", f"{middle:.2f} ({min(seconds):.2f} .. {max(seconds):.2f})", len(seconds),
            f"{base / middle:.2f}", f"{compute:.2f} s, {100 * compute / middle:.0f} %",
            f"{statistics.mean(one['loss'] for one in runs):.2f}",
            f"{max(one['memory'] for one in runs) / 1e9:.1f} GB",
        ])  # fmt: skip
    print()
    columns = ["training", "iterations/s", "seconds (range)", "iterations", "times random", "compute"]
    table([*columns, "loss at the end", "memory of all ranks"], rows)
    print(
        f"{found[RANDOM][0]['parameters'] / 1e6:.1f} M parameters; the hook's plan: {auto.decision.candidate.label}"
    )
    print(f"load of the machine (1, 5, 15 minutes): {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(f"wall time: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
