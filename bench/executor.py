"""Overhead of the executor: its all-reduce against Gloo's own, unshaped, on this machine's loopback."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

from _tables import heading, table

from netprobe.core.hosts import Host
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.document import Placement

GOALS = {(2, 32): 1.2, (2, 1): 1.5, (4, 32): 1.5, (4, 1): 2.5}


def work(rank: int, ranks: int, folder: str, sizes: list[int], runs: int) -> None:
    """One rank: all-reduces of both kinds in turn, from a barrier to the last rank's end; rank 0 writes the medians."""
    import torch
    import torch.distributed as dist

    from netprobe.runtime import Executor

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    warnings.simplefilter("ignore")
    hosts = [Host(name=f"h{i}") for i in range(ranks)]
    order = [host.name for host in hosts]
    plan = build_schedule_plan(build("chunked-ring", ranks), Placement(hosts=hosts, order=order))
    executor = Executor(plan)
    found: dict[str, Any] = {}
    for size in sizes:
        tensor = torch.ones(size * (1 << 20) // 4)
        times: dict[str, list[float]] = {"gloo": [], "executor": []}
        executor.reset()
        for turn in range(runs + 2):
            for name, call in (("gloo", dist.all_reduce), ("executor", executor.all_reduce)):
                tensor.fill_(1.0)
                dist.barrier()
                began = perf_counter()
                call(tensor)
                took = torch.tensor([perf_counter() - began], dtype=torch.float64)
                assert float(tensor[-1]) == ranks
                dist.all_reduce(took, op=dist.ReduceOp.MAX)
                if turn >= 2:
                    times[name].append(float(took))
        told, count = executor.breakdown(), runs + 2
        found[str(size)] = {
            **{name: statistics.median(values) for name, values in times.items()},
            **{part: getattr(told, f"{part}_s") / count for part in ("wire", "reduce", "wait", "other")},
        }
    if rank == 0:
        Path(folder, "found.json").write_text(json.dumps(found))
    dist.barrier()
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 32], help="MiB")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    given = parser.parse_args()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed", "netprobe.runtime.executor"])
    rows = []
    for ranks in given.ranks:
        with tempfile.TemporaryDirectory() as folder:
            processes = [
                context.Process(target=work, args=(rank, ranks, folder, given.sizes, given.runs))
                for rank in range(ranks)
            ]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
            found = json.loads(Path(folder, "found.json").read_text())
        for size in given.sizes:
            one = found[str(size)]
            parts = ", ".join(f"{part} {one[part] * 1e3:.1f}" for part in ("wire", "reduce", "wait", "other"))
            ratio = one["executor"] / one["gloo"]
            goal = GOALS.get((ranks, size))
            rows.append(
                [
                    str(ranks), f"{size} MiB", f"{one['gloo'] * 1e3:.1f}", f"{one['executor'] * 1e3:.1f}",
                    f"{ratio:.2f}", "" if goal is None else f"{goal:.1f}", parts,
                ]
            )  # fmt: skip
    heading(f"executor against Gloo, chunked ring, {os.cpu_count()} cores, medians of {given.runs}, ms")
    table(["ranks", "buffer", "Gloo", "executor", "ratio", "goal", "rank 0 a run"], rows)


if __name__ == "__main__":
    main()
