"""Plans in FullyShardedDataParallel: a communication hook for gradients, whole or sharded.

model = FullyShardedDataParallel(model, ...)
model.register_comm_hook(*netprobe.runtime.fsdp_hook("plan.json"))

The all-gathers of parameters stay torch's own: it has no hook for them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from netprobe.core.documents.plan import Plan
from netprobe.core.errors import InputError
from netprobe.runtime.executor import Executor


def fsdp_hook(
    plan: Plan | Path | str, group: Any = None, *, timeout_s: float = 300.0
) -> tuple[Executor, Callable[..., None]]:
    """(state, hook) for ``FullyShardedDataParallel.register_comm_hook``: gradients are averaged as ``plan`` says.

    ``plan`` is an all-reduce, or a reduce-scatter that leaves each rank the share of its number; with an all-reduce a
    sharded gradient is reduced whole and every rank keeps its share. ``group`` is the one given to
    FullyShardedDataParallel. Raises InputError, and WrongWorldError where the ranks are not those of the plan.
    """
    executor = Executor(plan, group, timeout_s=timeout_s)
    if not executor.collective.all_reduces and not _leaves_shares(executor):
        executor.close()
        raise InputError(
            "the plan is neither an all-reduce nor a reduce-scatter that leaves each rank the share of its number: "
            f"{executor.collective.schedule.name}"
        )
    return executor, average


def average(executor: Executor, gradient: Any, share: Any = None) -> None:
    """Average a flat gradient, in place (``share`` None: a whole one), or this rank's share of it into ``share``."""
    if share is None and not executor.collective.all_reduces:
        raise InputError("whole gradients (NO_SHARD) need a plan that is an all-reduce")
    executor.run(gradient.div_(executor.collective.ranks))
    if share is not None:
        share.copy_(gradient.view(-1)[executor.rank * share.numel() : (executor.rank + 1) * share.numel()])


def _leaves_shares(executor: Executor) -> bool:
    """Whether rank r of R is owed elements r S / R to (r + 1) S / R of S."""
    schedule, ranks = executor.collective.schedule, executor.collective.ranks
    each = schedule.contract.chunks
    at = schedule.boundaries(ranks * each).tolist()
    found: dict[int, list[tuple[int, int]]] = {}
    for owner, first, last, _ in schedule.contract.owed():
        found.setdefault(owner, []).append((at[first], at[last]))
    return all(
        len(runs := sorted(found.get(rank, []))) > 0
        and (runs[0][0], runs[-1][1]) == (rank * each, (rank + 1) * each)
        and all(one[1] == two[0] for one, two in pairwise(runs))
        for rank in range(ranks)
    )
