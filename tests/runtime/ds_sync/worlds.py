"""Ranks as processes of this machine: a long-lived pool over Gloo, and worlds of which one is killed."""

from __future__ import annotations

import itertools
import multiprocessing
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_S = 120


def plan_of(racks: list[int], every: int = 100, busy: list[int] | None = None) -> Any:
    """A pattern for hosts h0, h1 .. in racks of these sizes."""
    return plan_of_hosts([f"h{i}" for i in range(sum(racks))], racks, every, busy)


def plan_of_hosts(names: list[str], racks: list[int], every: int = 100, busy: list[int] | None = None) -> Any:
    """A pattern for hosts of these names, rack by rack."""
    from netprobe.core.documents.ds_sync_plan import AveragingIteration, DsSyncPlan
    from netprobe.core.hosts import Host
    from netprobe.plan.ds_sync.consensus import eigenvalue_of, rho_of, steps_until_close
    from netprobe.plan.ds_sync.patterns import make_pattern

    ends = [sum(racks[:i]) for i in range(len(racks) + 1)]
    places = [list(range(a, b)) for a, b in itertools.pairwise(ends)]
    pattern = make_pattern(places, (), busy or ())
    rho = rho_of(pattern, ends[-1])
    return DsSyncPlan(
        hosts=[Host(name=name) for name in names],
        seed=0,
        racks=[[names[i] for i in rack] for rack in places],
        contended_hosts=[names[i] for i in busy or ()],
        pattern=[
            AveragingIteration(
                groups=[[names[i] for i in group] for group in one.groups],
                leaders=[names[i] for i in one.leaders],
            )
            for one in pattern
        ],
        pattern_length=len(pattern),
        adjust_every_iterations=every,
        rho=rho,
        rho_per_iteration=rho ** (1 / len(pattern)),
        eigenvalue=eigenvalue_of(pattern, ends[-1]),
        iterations_to_a_thousandth=steps_until_close(rho, len(pattern)),
    )


def _serve(rank: int, size: int, store: str, timeout_s: float, pipe: Any) -> None:
    import datetime

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=timeout_s)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=timeout
    )
    while True:
        task, arguments = pipe.recv()
        try:
            answer = task(rank, *arguments)
        except Exception as error:
            data = {key: value for key, value in vars(error).items() if not key.startswith("_")}
            answer = (type(error).__name__, str(error), data)
        pipe.send(answer)


class World:
    """``size`` ranks that run tasks: functions of a module, called with the rank first."""

    def __init__(self, size: int, timeout_s: float = 60) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed", "netprobe.runtime.ds_sync.trainer"])
        self._folder = tempfile.TemporaryDirectory()
        store = str(Path(self._folder.name) / "store")
        ends = [context.Pipe() for _ in range(size)]
        self.pipes = [ours for ours, _ in ends]
        self.processes = [
            context.Process(target=_serve, args=(rank, size, store, timeout_s, end), daemon=True)
            for rank, (_, end) in enumerate(ends)
        ]
        for process in self.processes:
            process.start()

    def run(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What the task says on each rank; an exception is its class, text and data."""
        self.begin(task, *arguments)
        return [self.answer(rank) for rank in range(len(self.pipes))]

    def begin(self, task: Callable[..., Any], *arguments: Any) -> None:
        for pipe in self.pipes:
            pipe.send((task, arguments))

    def answer(self, rank: int) -> Any:
        assert self.pipes[rank].poll(PATIENCE_S), f"rank {rank} says nothing"
        return self.pipes[rank].recv()

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self._folder.cleanup()
