"""autotune: a host of a lab cut to 40 % of its rate in mid-run and restored, FA on 1:1 uplinks and 2LHA on 4:1."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _autotune_rank import Task, medians, serve
from _tables import heading, quantile, table

from netprobe.core.documents.document import write_document
from netprobe.core.hosts import Host
from netprobe.lab import Lab, parse_spec, set_value, temporary
from netprobe.lab.kernel import namespace_path
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.document import Placement

CASES: dict[str, tuple[list[int], int]] = {"FA, 1:1": ([8], 1), "2LHA, 4:1": ([4, 4, 4, 4], 4)}
"""Hosts of each rack, and by how much the uplinks are oversubscribed."""
CHUNKS_A_HOST = 40
CUT = 0.4
PORT = 29541
Found = dict[str, Any]


def plan_for(lab: Lab, case: str, path: Path) -> list[str]:
    """Write the plan; targets of the ranks in order. The last rack's last host but one is the one that is cut."""
    sizes, _ = CASES[case]
    by_rack = sorted((host for host in lab.hosts if host.rack is not None), key=lambda host: host.rack or 0)
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    groups = [list(range(ends[i], ends[i + 1])) for i in range(len(sizes))]
    schedule = two_level(groups, CHUNKS_A_HOST * max(sizes))
    hosts = [Host(name=host.name, address=host.address) for host in by_rack]
    order = [host.name for host in hosts]
    write_document(build_schedule_plan(schedule, Placement(hosts=hosts, order=order)), path)
    return [host.target for host in by_rack]


def run(case: str, options: argparse.Namespace) -> Found:
    """What rank 0 tells of a case, phase by phase."""
    sizes, over = CASES[case]
    rate = options.rate
    text = (
        f"name: tune\nracks: {sizes}\ndelay_inside: 50us\ndelay_between: 150us\nhost_rate: {rate:g}Mbit/s\n"
    )
    if len(sizes) > 1:
        text += f"uplink_rate: {rate * max(sizes) / over:g}Mbit/s\n"
    if options.queue:
        text += f"host_queue: {options.queue}\nuplink_queue: {options.queue}\n"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed", "netprobe.runtime.autotune"])
    found: Found = {}
    with temporary(parse_spec(text, source=case), seed=1) as lab, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        targets = plan_for(lab, case, path)
        slow = lab.host(targets[-2])
        first = lab.host(targets[0])
        task = Task(
            plan=str(path), port=PORT, address=str(first.address), size_bytes=options.size,
            quiet_steps=options.quiet, steps=options.steps, compared=options.compared,
            namespaces=tuple(str(namespace_path(target)) for target in targets),
        )  # fmt: skip
        ours, theirs = context.Pipe()
        ranks = [
            context.Process(target=serve, args=(rank, task, None if rank else theirs), daemon=True)
            for rank in range(len(targets))
        ]
        try:
            for rank in ranks:
                rank.start()
            theirs.close()
            while ours.poll(options.most):
                try:
                    what, told = ours.recv()
                except EOFError:
                    break
                if what == "step":
                    if options.verbose:
                        tell(told)
                    continue
                found[what] = told
                if what == "cut":
                    set_value(lab, slow.name, "rate", f"{rate * CUT:g}Mbit/s")
                if what == "restore":
                    set_value(lab, slow.name, "rate", f"{rate:g}Mbit/s")
                if options.verbose:
                    print(f"{what}: {told if what in ('untuned', 'beside') else ''}", flush=True)
                ours.send(None)
        finally:
            for rank in ranks:
                rank.kill()
                rank.join()
    return found


def tell(step: Found) -> None:
    """A step, with its line of the log."""
    print(f"{medians([step['seconds']]):.3f} s, max / min {step['spread']:.3f} | {step['line']}", flush=True)


def changes(steps: list[Any]) -> int:
    """How many steps moved masters."""
    return sum(1 for one in steps if ", keep: " not in one["line"] and ", wait: " not in one["line"])


def noise(steps: list[Any]) -> str:
    """Tenth and ninetieth percentile over the median: of an iteration's seconds, and of hosts' rates in a window."""
    every = [x for one in steps for x in one["seconds"]]
    rates = [x / float(np.median(row)) for one in steps for row in one["rates"] for x in row]
    return "; ".join(
        f"{quantile(values, 0.1) / quantile(values, 0.5):.2f} .. {quantile(values, 0.9) / quantile(values, 0.5):.2f}"
        for values in (every, rates)
    )


def first_step(steps: list[Any], below: float) -> str:
    """The first step after which hosts send bytes within ``below`` of each other."""
    return next((str(at + 1) for at, one in enumerate(steps) if one["spread"] < below), "none")


def row(case: str, found: Found, options: argparse.Namespace) -> list[str]:
    """What the table says of a case."""
    quiet = found.get("quiet")
    if quiet is None or (options.steps and "restored" not in found):
        return [case, f"ended after: {', '.join(found) or 'nothing'}", *[""] * 8]
    usual = medians([one["seconds"] for one in quiet])
    made = [case, f"{10 * len(quiet)}: {changes(quiet)}", noise(quiet), f"{usual:.2f} s"]
    if not options.steps:
        return [*made, *[""] * 6]
    untuned, tuned = (medians(rows) for rows in found["beside"])
    restored, steps = found["restored"], found["tuned"]
    at = next((str(at + 1) for at, one in enumerate(steps) if ", quick: " in one["line"]), "none")
    return [
        *made,
        f"{untuned:.2f} s",
        f"{tuned:.2f} s",
        f"{untuned / tuned:.2f}",
        f"{at} of {len(steps)}",
        first_step(restored, 1.05),
        f"{restored[-1]['spread']:.3f}",
    ]


def main() -> None:
    """A row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=100, help="Mbit/s of a host")
    parser.add_argument("--size", type=int, default=4 << 20)
    parser.add_argument("--queue", default="", help="queues of hosts and uplinks; the lab's own without")
    parser.add_argument("--quiet", type=int, default=4, help="quiet steps, of ten iterations")
    parser.add_argument("--steps", type=int, default=15, help="at most, after the cut and after the restore")
    parser.add_argument("--compared", type=int, default=3, help="untuned iterations after the cut")
    parser.add_argument("--cases", default=";".join(CASES), help="some of them, with ; between")
    parser.add_argument("--most", type=float, default=300, help="seconds for a phase")
    parser.add_argument("--verbose", action="store_true", help="every step")
    options = parser.parse_args()
    heading(
        f"{options.size >> 10} KiB, hosts at {options.rate:g} Mbit/s, one cut to {CUT:.0%} in mid-run, then restored"
    )
    rows = [row(case, run(case, options), options) for case in options.cases.split(";")]
    table(
        [
            "case", "quiet iterations: changes", "noise: seconds; rates", "an iteration", "cut, untuned", "cut, tuned",
            "ratio (goal 1.2)", "at step", "even again at step", "bytes of hosts, max / min",
        ],
        rows,
    )  # fmt: skip
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
