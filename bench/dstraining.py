"""dstraining: seconds of an iteration's averages over 8 lab hosts: DS-Sync, all-reduce, hierarchical, gossip."""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Sequence

from _averaging_rank import prepare, rounds
from _lab_world import LabWorld
from _tables import heading, table

from netprobe.core.documents.ds_sync_plan import AveragingIteration, DsSyncPlan
from netprobe.core.hosts import Host
from netprobe.lab import parse_spec, temporary
from netprobe.plan.ds_sync.consensus import eigenvalue_of, rho_of, steps_until_close
from netprobe.plan.ds_sync.patterns import make_pattern

CASES: dict[str, tuple[list[int], str, list[int]]] = {
    "4+4, clean": ([4, 4], "", []),
    "4+4, a flow on the uplink": ([4, 4], "{src: rack0/3, dst: rack1/3, rate: RATE}", []),
    "5+3, a flow on the uplink and a host": ([5, 3], "{src: rack0/4, dst: rack1/2, rate: RATE}", [4]),
}
"""Racks, background flows, and the plan's contended hosts."""


def plan_of(names: Sequence[str], sizes: Sequence[int], contended: Sequence[int]) -> DsSyncPlan:
    """The pattern for hosts rack by rack."""
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    racks = [list(range(ends[i], ends[i + 1])) for i in range(len(sizes))]
    pattern = make_pattern(racks, (), contended)
    rho = rho_of(pattern, len(names))
    return DsSyncPlan(
        hosts=[Host(name=name) for name in names],
        seed=0,
        racks=[[names[h] for h in rack] for rack in racks],
        contended_hosts=[names[h] for h in contended],
        pattern=[
            AveragingIteration(
                groups=[[names[h] for h in group] for group in one.groups],
                leaders=[names[h] for h in one.leaders],
            )
            for one in pattern
        ],
        pattern_length=len(pattern),
        adjust_every_iterations=1_000_000,
        rho=rho,
        rho_per_iteration=rho ** (1 / len(pattern)),
        eigenvalue=eigenvalue_of(pattern, len(names)),
        iterations_to_a_thousandth=steps_until_close(rho, len(pattern)),
    )


def run(case: str, options: argparse.Namespace) -> list[dict[str, list[float]]]:
    """Seconds of each method's iterations on the lab of a case, in each run: from a barrier to the last rank's end."""
    sizes, flow, contended = CASES[case]
    text = (
        f"name: dst\nracks: {sizes}\ndelay_inside: 50us\ndelay_between: 150us\n"
        f"host_rate: {options.rate}\nuplink_rate: {options.rate}\n"
    )
    if options.queue:
        text += f"host_queue: {options.queue}\nuplink_queue: {options.queue}\n"
    if flow:
        text += f"background:\n- {flow.replace('RATE', options.background)}\n"
    with temporary(parse_spec(text, source=case), seed=1) as lab:
        by_rack = sorted(
            (host for host in lab.hosts if host.rack is not None), key=lambda host: host.rack or 0
        )
        names = [host.name for host in by_rack]
        runs = []
        for _ in range(options.runs):
            world = LabWorld(lab, names)
            try:
                world.run(prepare, plan_of(names, sizes, contended), options.size // 4)
                ranks = world.run(rounds, options.rounds)
            finally:
                world.close()
            runs.append(
                {name: [max(each) for each in zip(*(one[name] for one in ranks))] for name in ranks[0]}
            )
    return runs


def ranged(values: Sequence[float], form: str) -> str:
    """The median of the runs, and their range."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} .. {max(values):{form}})"


def main() -> None:
    """A row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", default="50Mbit/s")
    parser.add_argument("--background", default="25Mbit/s")
    parser.add_argument("--size", type=int, default=1 << 20)
    parser.add_argument("--queue", default="", help="queues of hosts and uplinks; the lab's own without")
    parser.add_argument("--cases", default=";".join(CASES), help="some of them, with ; between")
    parser.add_argument(
        "--runs", type=int, default=3, help="worlds of ranks, one after another, on the lab of each case"
    )
    parser.add_argument(
        "--rounds", type=int, default=12, help="of each method: a multiple of the pattern's 4, and of 3"
    )
    options = parser.parse_args()
    heading(
        f"An iteration's averages of {options.size >> 10} KB, 8 hosts at {options.rate}, flow {options.background}"
    )
    rows = []
    for case in options.cases.split(";"):
        runs = run(case, options)
        # A pattern's iterations take unlike times, and so do gossip's: what counts is the mean of whole rounds of them.
        means = {name: [statistics.mean(one[name]) for one in runs] for name in runs[0]}
        own, ddp = means["DS-Sync"], means["all-reduce (DDP)"]
        others = [min(one) for one in zip(*(made for name, made in means.items() if name != "DS-Sync"))]
        rows.append([
            case, *(ranged([1000 * value for value in made], ".0f") + " ms" for made in means.values()),
            ranged([b / a for a, b in zip(own, ddp)], ".2f"), ranged([b / a for a, b in zip(own, others)], ".2f"),
        ])  # fmt: skip
    table(
        [
            "case",
            "DS-Sync",
            "all-reduce (DDP)",
            "hierarchical",
            "gossip",
            "DDP / DS-Sync",
            "best other / DS-Sync",
        ],
        rows,
    )
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
