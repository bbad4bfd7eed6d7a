"""A rank of the table autotune, in a host's network namespace: iterations of one all-reduce, the network changed in
between by whoever started it.
"""

from __future__ import annotations

import ctypes
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

_NEW_NETWORK = 0x40000000
SETTLED = 4
"""Steps without a change after which a phase ends early."""


@dataclass(frozen=True)
class Task:
    """What all ranks do."""

    plan: str
    port: int
    address: str
    size_bytes: int
    quiet_steps: int
    steps: int
    compared: int
    namespaces: tuple[str, ...]


def enter(path: str) -> None:
    """Go into a network namespace. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), f"setns {path}")
    os.close(descriptor)


class Rank:
    """One rank; rank 0 tells what happened through ``pipe``."""

    def __init__(self, rank: int, task: Task, pipe: Connection | None) -> None:
        import torch
        import torch.distributed as dist

        from netprobe.runtime import Autotune, Executor

        self.rank, self.task, self.pipe = rank, task, pipe
        size = len(task.namespaces)
        dist.init_process_group(
            "gloo", init_method=f"tcp://{task.address}:{task.port}", rank=rank, world_size=size
        )
        warnings.simplefilter("ignore")
        self.executor = Executor(task.plan)
        self.tensor = torch.ones(task.size_bytes // 4)
        self.right = float(size)
        self.first = self.executor.collective
        self.autotune = Autotune(self.executor)

    def iterations(self, count: int, *, tunes: bool) -> list[float]:
        """Seconds of each, without the steps of tuning. Raises ValueError for a wrong sum."""
        seconds = []
        for _ in range(count):
            self.tensor.fill_(1.0)
            began = time.perf_counter()
            self.executor.all_reduce(self.tensor)
            seconds.append(time.perf_counter() - began)
            if float(self.tensor[0]) != self.right or float(self.tensor[-1]) != self.right:
                raise ValueError("a wrong sum")
            if tunes:
                self.autotune.step()
        return seconds

    def steps(self, most: int, *, early: bool) -> list[dict[str, Any]]:
        """Up to ``most`` steps of tuning: what each decided, seconds of its iterations, bytes of all hosts."""
        found: list[dict[str, Any]] = []
        for _ in range(most):
            began = time.perf_counter()
            seconds = self.iterations(self.autotune._every, tunes=True)
            rest = time.perf_counter() - began - sum(seconds)
            line = self.autotune.log[-1]
            found.append({"seconds": seconds, "line": line, "spread": self.spread(), "rest": rest})
            found[-1]["rates"] = [one.rates.tolist() for one in self.autotune._tuner._recent][-1:]
            if self.pipe is not None:
                self.pipe.send(("step", found[-1]))
            changed = [", keep: " not in one["line"] and ", wait: " not in one["line"] for one in found]
            if early and any(changed) and not any(changed[-SETTLED:]):
                break
        return found

    def spread(self) -> float:
        """Most bytes that a host sends over least."""
        every = self.executor.collective.schedule.expanded()
        sent = np.bincount(every.src, minlength=len(self.task.namespaces))
        return float(sent.max() / sent.min())

    def say(self, what: str, found: Any) -> None:
        """Tell, and wait for the answer, on rank 0; the others wait for its next message."""
        if self.pipe is not None:
            self.pipe.send((what, found))
            self.pipe.recv()

    def run(self) -> None:
        """All phases."""
        self.say("quiet", self.steps(self.task.quiet_steps, early=False))
        if not self.task.steps:
            return
        untuned = self.executor.collective
        self.say("cut", None)
        self.say("untuned", self.iterations(self.task.compared, tunes=False))
        self.say("tuned", self.steps(self.task.steps, early=True))
        tuned, pairs = self.executor.collective, []
        for _ in range(3):
            for one in (untuned, tuned):
                self.executor.adopt(one)
                pairs.append(self.iterations(2, tunes=False))
        self.say("beside", [pairs[0::2], pairs[1::2]])
        self.say("restore", None)
        self.say("restored", self.steps(self.task.steps, early=True))


def serve(rank: int, task: Task, pipe: Connection | None) -> None:
    """The process of a rank."""
    enter(task.namespaces[rank])
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    import torch

    torch.set_num_threads(1)
    one = Rank(rank, task, pipe)
    one.run()
    import torch.distributed as dist

    dist.barrier()
    os._exit(0)


def medians(rows: Sequence[Sequence[float]]) -> float:
    """Median of all."""
    return float(np.median([x for row in rows for x in row]))
