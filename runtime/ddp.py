"""Plans in DistributedDataParallel: a communication hook, and ranks in a plan's order.

dist.init_process_group("gloo", **netprobe.runtime.reorder("plan.json"))
model = DistributedDataParallel(model)
model.register_comm_hook(*netprobe.runtime.ddp_hook("plan.json"))
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netprobe.core.documents.plan import Plan
from netprobe.core.errors import InputError, WrongWorldError
from netprobe.runtime.autotune import Autotune
from netprobe.runtime.executor import Executor
from netprobe.runtime.running import REPORT_S, meet, one_each

Hook = Callable[[Any, Any], Any]


def ddp_hook(
    plan: Plan | Path | str | None,
    group: Any = None,
    *,
    fallback: bool = False,
    timeout_s: float = 300.0,
    autotune: bool = False,
    tell: Callable[[str], None] | None = None,
) -> tuple[Any, Hook]:
    """(state, hook) for ``DistributedDataParallel.register_comm_hook``: gradients are averaged as ``plan`` says.

    ``group`` is the one given to DistributedDataParallel. The state is the `Executor`. Raises InputError without a
    plan, and WrongWorldError where the ranks are not those of the plan; with ``fallback`` it warns, and the hook is
    torch's own all-reduce. ``autotune``: masters of 2LHA and flat plans follow what the network carries (`Autotune`;
    an iteration is a backward pass that averages); ``tell`` is called on rank 0 with each line that says of a
    change, and ``autotune.log`` of the state has a line a step.
    """
    try:
        if plan is None:
            raise InputError("there is no plan: give a plan document or its path")
        executor = Executor(plan, group, timeout_s=timeout_s)
        if not executor.collective.all_reduces:
            executor.close()
            raise InputError(
                f"the plan is not an all-reduce among all ranks: {executor.collective.schedule.name}"
            )
    except InputError as error:
        if not fallback:
            raise
        warnings.warn(
            f"gradients are averaged by torch's own all-reduce: {error}", RuntimeWarning, stacklevel=2
        )
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        return group, allreduce_hook
    if autotune:
        executor.autotune = Autotune(executor, tell=tell)
    return executor, average


def average(executor: Executor, bucket: Any) -> Any:
    """Start the average of a bucket of gradients; a future of the tensor.

    Gradients are divided before they are added, as DistributedDataParallel does, so that sums in float16 stay in range.
    """
    tensor = bucket.buffer()
    future = executor.all_reduce(tensor.div_(executor.collective.ranks), async_op=True).get_future()
    if executor.autotune is not None and bucket.is_last():
        executor.autotune.step(wait=False)
    return future


# torch compares a hook's annotations with its own classes, and takes a hook without any.
average.__annotations__.clear()


def reorder(plan: Plan | Path | str, *, timeout_s: float = REPORT_S) -> dict[str, Any]:
    """Arguments of ``init_process_group`` (store, rank, world_size) that give each process its host's rank in the plan.

    Call it on every rank, before the process group is made, in a job of torchrun, srun or mpirun (the last two need
    MASTER_ADDR and MASTER_PORT in the environment); RANK is set anew. Raises InputError, and WrongWorldError where the
    ranks' hosts are not the plan's.
    """
    met = meet(plan, "reorder", timeout_s)
    hosts, found = met.collective.hosts, met.found
    if len(found) != len(hosts):
        raise WrongWorldError(
            f"{len(found)} ranks run, and the plan is for {len(hosts)}: plan for the hosts of this job, or give "
            "netprobe.runtime.running_plan(plan)"
        )
    mine = one_each(found)[met.rank]
    os.environ["RANK"] = str(mine)
    return {"store": met.store, "rank": mine, "world_size": len(found)}
