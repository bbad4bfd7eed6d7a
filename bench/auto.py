"""CPU seconds of ``plan auto``: the line at the end of a scan, and with the sizes at which the choice changes."""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from pathlib import Path

from _tables import heading, table

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.pipeline.planning.plan_auto import AutoRequest, plan_auto

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.maps import HOST_BYTES_PER_S, made_capacity, made_map

NOISES = (0.0, 0.05)
GROUPS = 4


def fleet(hosts: int, noise: float) -> tuple[Map, Capacity]:
    """Four racks whose uplinks carry one host's rate, in a shuffled order; ``noise``: of every rate, drawn normally."""
    map_ = made_map([hosts // GROUPS] * GROUPS, seed=1)
    drawn = random.Random(5)
    names = [f"{kind}:{host.name}" for kind in ("tx", "rx") for host in map_.hosts]
    names += [f"{kind}:{group.id}" for kind in ("up", "down") for group in map_.groups]
    rates: dict[str, float | None] = {name: HOST_BYTES_PER_S * drawn.gauss(1, noise) for name in names}
    return map_, made_capacity(map_, rates=rates)


def cpu_s(hosts: int, noise: float, *, ranges: bool) -> tuple[float, str]:
    """CPU seconds of one plan, and what it chose."""
    map_, capacity = fleet(hosts, noise)
    found = {"found": [name for group in map_.groups for name in group.hosts]}
    request = AutoRequest(ranges=ranges, orders=None if ranges else found)
    began = time.process_time()
    planned = plan_auto(map_, request, capacity=capacity)
    return time.process_time() - began, planned.decision.candidate.label


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", default="16,64,128,256", help="of each fleet (default 16,64,128,256)")
    parser.add_argument("--ranges", type=int, default=128, help="hosts at most with the sizes (default 128)")
    options = parser.parse_args()
    heading("CPU seconds of plan auto, 100 MB, four racks at 4:1 to 64:1, capacities measured.")
    # Compiled where that pays, and kept from then on, so that no row has the seconds of it.
    cpu_s(64, 0.0, ranges=True)
    rows = []
    for hosts, noise in itertools.product(map(int, options.hosts.split(",")), NOISES):
        line, chosen = cpu_s(hosts, noise, ranges=False)
        whole = f"{cpu_s(hosts, noise, ranges=True)[0]:.1f}" if hosts <= options.ranges else "-"
        rows.append((hosts, f"{noise:.0%}", f"{line:.1f}", whole, chosen))
    table(("hosts", "noise of rates", "end of a scan", "with sizes", "chosen"), rows)


if __name__ == "__main__":
    main()
