"""endtoend: iterations a second of a language model on a lab: DDP in random orders, in netprobe's, with the hook.

The worlds of all kinds live side by side and train in turn, an iteration each, in an order drawn anew each turn: what
else the machine does meanwhile falls on all alike. Those whose turn it is not only occupy memory.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _lab_world import PORT, LabWorld
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
BEGAN = time.monotonic()
RANDOM, ORDERED, HOOK = "DDP, random orders", "DDP, netprobe's order", "DDP, netprobe's order, hook"


@dataclass
class Kind:
    """A way to train: seconds of its iterations, of those without averages, losses, memory of its worlds."""

    seconds: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    memory: int = 0


def note(text: str) -> None:
    """A line of progress, with the seconds since the program began."""
    print(f"{time.monotonic() - BEGAN:.0f} s: {text}", file=sys.stderr, flush=True)


class Training:
    """A world that trains, all ranks of a kind."""

    def __init__(
        self, fleet: Fleet, kind: Kind, order: Sequence[str], plan: Any, port: int, optimizer: str
    ) -> None:
        self.kind = kind
        self.world = LabWorld(fleet.lab, order, port)
        self.parameters = self.world.run(prepare, plan, optimizer)[0]
        # DistributedDataParallel makes its buckets anew after the first iteration.
        first, _ = self._took(averaged=True)
        note(f"{len(order)} ranks on port {port}, {first:.1f} s for a first iteration")

    def turn(self) -> None:
        """An iteration without averages, then one with."""
        self.kind.compute.append(self._took(averaged=False)[0])
        seconds, loss = self._took(averaged=True)
        self.kind.seconds.append(seconds)
        self.kind.losses.append(loss)

    def close(self) -> None:
        """End the world. Raises SystemExit where its ranks' models differ."""
        self.kind.memory = max(self.kind.memory, sum(self.world.run(memory)))
        same = len(set(self.world.run(checksum))) == 1
        self.world.close()
        if not same:
            raise SystemExit("the ranks' models differ")

    def _took(self, *, averaged: bool) -> tuple[float, float]:
        ranks = self.world.run(iterate, 1, averaged, timeout_s=400)
        return max(rank[0][0] for rank in ranks), statistics.mean(rank[0][1] for rank in ranks)


def train(fleet: Fleet, auto: Any, options: argparse.Namespace) -> tuple[dict[str, Kind], int]:
    """All kinds in turn; the parameters of the model."""
    rng, end = random.Random(options.seed), time.monotonic() + options.time
    kinds = {name: Kind() for name in (RANDOM, ORDERED, HOOK)}
    worlds: dict[str, Training] = {}
    try:
        worlds[ORDERED] = Training(fleet, kinds[ORDERED], fleet.order, None, PORT + 1, options.optimizer)
        worlds[HOOK] = Training(fleet, kinds[HOOK], auto.plan.order, auto.plan, PORT + 2, options.optimizer)
        for number in range(options.orders):
            order = rng.sample(fleet.order, len(fleet.order))
            worlds[RANDOM] = Training(fleet, kinds[RANDOM], order, None, PORT + 3 + number, options.optimizer)
            for _ in range(options.turns):
                if time.monotonic() > end:
                    break
                for name in rng.sample(list(kinds), len(kinds)):
                    worlds[name].turn()
                note("a turn of each")
            worlds.pop(RANDOM).close()
        parameters = worlds[HOOK].parameters
    finally:
        for world in worlds.values():
            world.close()
    return kinds, parameters


def rows_of(kinds: Mapping[str, Kind]) -> list[list[str]]:
    """A row for each kind: the ratio is that of each turn's iterations, in the median."""
    rows = []
    for name, kind in kinds.items():
        middle, compute = statistics.median(kind.seconds), statistics.median(kind.compute)
        ratios = sorted(base / own for base, own in zip(kinds[RANDOM].seconds, kind.seconds, strict=True))
        rows.append([
            name, f"{1 / middle:.3f}", f"{middle:.2f} ({min(kind.seconds):.2f} .. {max(kind.seconds):.2f})",
            str(len(kind.seconds)), f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} .. {ratios[-1]:.2f})",
            f"{compute:.2f} s, {100 * compute / middle:.0f} %", f"{kind.losses[-1]:.2f}", f"{kind.memory / 1e9:.1f} GB",
        ])  # fmt: skip
    return rows


def main() -> None:
    """A row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--racks", type=int, default=2, help="of 4 hosts")
    parser.add_argument("--rate", default="200Mbit/s", help="of a host, and of an uplink of four")
    parser.add_argument("--orders", type=int, default=2, help="random ones")
    parser.add_argument(
        "--turns", type=int, default=4, help="timed iterations of each kind beside each random order"
    )
    parser.add_argument("--time", type=float, default=1000, help="seconds after which no turn begins")
    parser.add_argument(
        "--optimizer", default="AdamW", choices=("AdamW", "SGD"), help="SGD needs less memory"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    hosts = 4 * options.racks
    heading(
        f"Training a language model on {hosts} hosts of {options.rate} in {options.racks} racks, 4:1 uplinks"
    )
    spec = {
        "name": "endtoend", "racks": [4] * options.racks, "host_rate": options.rate, "uplink_rate": options.rate,
    }  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        temporary(LabSpec.from_spec(spec), seed=options.seed) as lab,
    ):
        note("the lab is up")
        fleet = scan(lab, Path(folder) / "out", "rtt,capacity")
        note("scanned")
        map_ = load_document(Map, fleet.folder / "map.json")
        # The order of the ranks is that of the plan, so that the ring and the hook run among the same ranks.
        given = [Host(name=name) for name in fleet.order]
        request = AutoRequest(
            hosts=given, size_bytes=BUCKET_BYTES, ranges=False, orders={"found": fleet.order}
        )
        auto = plan_auto(map_, request, capacity=fleet.capacity)
        planned = time.monotonic() - BEGAN
        note("planned")
        kinds, parameters = train(fleet, auto, options)
    print()
    columns = ["training", "iterations/s", "seconds (range)", "iterations", "times random (range)", "compute"]
    table([*columns, "loss at the end", "memory of all ranks"], rows_of(kinds))
    print(f"{parameters / 1e6:.1f} M parameters; the hook's plan: {auto.decision.candidate.label}")
    print(f"load of the machine (1, 5, 15 minutes): {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(f"wall time: {time.monotonic() - BEGAN:.0f} s, of which lab, scan and plan {planned:.0f} s")


if __name__ == "__main__":
    main()
