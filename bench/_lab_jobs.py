"""What a rank of the table trainlab does: contenders of both kinds, made once, each run when it is asked for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any

_MADE: dict[str, Any] = {}
TIMEOUT_S = 250.0
PERIOD = 8


@dataclass(frozen=True, kw_only=True)
class Job:
    """A contender: Gloo's own all-reduce where ``plan`` is None, else the executor; ``ranks`` in its order.

    With ``groups``, of equal sizes: Gloo's own reduce-scatter inside them, its all-reduce between those who hold the
    same part, its all-gather inside.
    """

    name: str
    ranks: tuple[int, ...]
    plan: Any = None
    groups: tuple[tuple[int, ...], ...] = ()


class Native:
    """Collectives of sub-groups, by Gloo's own."""

    def __init__(self, rank: int, groups: tuple[tuple[int, ...], ...]) -> None:
        mine = next(group for group in groups if rank in group)
        self._place = mine.index(rank)
        self._inside = gloo_of(rank, mine)
        self._between = gloo_of(rank, tuple(group[self._place] for group in groups))
        self._parts = len(mine)

    def all_reduce(self, data: Any) -> None:
        """In place; a size that the members of a group share evenly."""
        part = data.view(self._parts, -1)[self._place].clone()
        self._inside._reduce_scatter_base(part, data).wait()
        self._between.allreduce([part]).wait()
        self._inside._allgather_base(data, part).wait()


def gloo_of(rank: int, members: tuple[int, ...]) -> Any:
    """A group of Gloo's among ``members``, in this order."""
    from torch.distributed.distributed_c10d import ProcessGroupGloo

    from netprobe.runtime.lines import meeting

    wait = timedelta(seconds=TIMEOUT_S)
    return ProcessGroupGloo(meeting(members, "gloo"), members.index(rank), len(members), timeout=wait)


def prepare(rank: int, jobs: list[Job], elements: int) -> int:
    """Make what the jobs need that is not there yet, connections and operations alike; how many there are."""
    import torch.distributed as dist

    from netprobe.runtime import Executor

    warnings.simplefilter("ignore")
    for job in jobs:
        made = _MADE.get(job.name)
        if job.plan is None and made is None:
            _MADE[job.name] = Native(rank, job.groups) if job.groups else gloo_of(rank, job.ranks)
        elif job.plan is not None:
            if made is None:
                made = _MADE[job.name] = Executor(job.plan, list(job.ranks), timeout_s=TIMEOUT_S)
            made._tape(elements, 4)
    dist.barrier()
    return len(_MADE)


def drop(_: int, names: list[str]) -> None:
    """Close the connections of jobs."""
    for name in names:
        made = _MADE.pop(name, None)
        if hasattr(made, "close"):
            made.close()


def trial(rank: int, name: str, elements: int) -> tuple[float, float, float]:
    """Seconds from a barrier to this rank's end, and CPU seconds of it; the sum is checked."""
    import os

    import torch
    import torch.distributed as dist

    repeats = -(-elements // PERIOD)
    ones = torch.arange(1, PERIOD + 1, dtype=torch.float32).repeat(repeats)[:elements]
    data = ones * (rank % 16 + 1)
    made = _MADE[name]
    dist.barrier()
    used, began = os.times(), perf_counter()
    if hasattr(made, "all_reduce"):
        made.all_reduce(data)
    else:
        made.allreduce([data]).wait()
    took, now = perf_counter() - began, os.times()
    if not torch.equal(data, ones * sum(r % 16 + 1 for r in range(dist.get_world_size()))):
        raise RuntimeError(f"{name}: the sum is wrong")
    return took, began, now.user + now.system - used.user - used.system
