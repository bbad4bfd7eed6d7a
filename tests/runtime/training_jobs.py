"""What the worker processes of tests of training do: backward passes, FSDP, executors among given ranks."""

from __future__ import annotations

from typing import Any

from netprobe.core.documents.schedule_plan import SchedulePlan
from tests.runtime.pool import GROUPS


def train_until_lost(rank: int, plan: SchedulePlan, victim: int, timeout_s: float) -> tuple[str, bool]:
    """Backward passes with the hook, before the third of which ``victim`` is killed: in the second DDP makes buckets
    anew, over its own group.

    The error that ends the pass of each other rank, and whether the parameters are as before it.
    """
    import os
    import signal

    import torch
    from torch.nn.parallel import DistributedDataParallel

    from netprobe.runtime import ddp_hook, faults

    faults.LISTEN_S = 4.0  # on a busy machine a rank may take a second to say whom it waited for
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)))
    model.register_comm_hook(*ddp_hook(plan, timeout_s=timeout_s))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for iteration in range(3):
        if iteration == 2 and rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        before = [p.detach().clone() for p in model.parameters()]
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).pow(2).mean()
        try:
            loss.backward()
        except RuntimeError as error:
            same = all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
            return str(error), same
        optimizer.step()
    return "no error", False


def locals_first(rank: int, plan: SchedulePlan, hosts: int) -> tuple[float, str]:
    """Two neighbouring ranks a host, as docs/training.md does it: the sum, and what an executor of all ranks says."""
    import torch
    import torch.distributed as dist

    from netprobe.core.errors import InputError
    from netprobe.runtime import Executor

    said = ""
    try:
        Executor(plan, GROUPS[2 * hosts], timeout_s=100)
    except InputError as error:
        said = f"{type(error).__name__}: {error}"
    leaders = [2 * host for host in range(hosts)]
    pairs = [dist.new_group([leader, leader + 1]) for leader in leaders]
    leader, group = leaders[rank // 2], pairs[rank // 2]
    executor = Executor(plan, leaders, timeout_s=100) if rank == leader else None
    tensor = torch.full((1000,), float(rank))
    dist.reduce(tensor, leader, group=group)
    if executor is not None:
        executor.all_reduce(tensor)
    dist.broadcast(tensor, leader, group=group)
    return float(tensor[0]), said


def in_order(rank: int, plan: Any, ranks: list[int], wrong: list[list[int]]) -> tuple[float, list[bool]]:
    """A sum among ``ranks`` in this order, which need no group of their own; whether each of ``wrong`` is refused."""
    import torch

    from netprobe.core.errors import InputError
    from netprobe.runtime import Executor

    refused = []
    for given in wrong:
        try:
            Executor(plan, given, timeout_s=100)
            refused.append(False)
        except InputError:
            refused.append(True)
    if rank not in ranks:
        return 0.0, refused
    executor = Executor(plan, ranks, timeout_s=100)
    assert executor.rank == ranks.index(rank)
    tensor = torch.full((1000,), float(rank))
    executor.all_reduce(tensor)
    executor.close()
    return float(tensor[-1]), refused


def shard(rank: int, plan: Any, strategy: str) -> float:
    """The largest difference of parameters to those of a model that FSDP trained without a hook, after two steps."""
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    from netprobe.runtime import fsdp_hook

    group = GROUPS[len(plan.order)]
    trained = []
    for hooked in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(7, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
        wrapped = FullyShardedDataParallel(
            model, group, ShardingStrategy[strategy], device_id=torch.device("cpu")
        )
        if hooked:
            wrapped.register_comm_hook(*fsdp_hook(plan, group, timeout_s=100))
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.5)
        for step in range(2):
            torch.manual_seed(100 * step + rank)
            optimizer.zero_grad()
            wrapped(torch.randn(8, 7)).pow(2).mean().backward()
            optimizer.step()
        with FullyShardedDataParallel.summon_full_params(wrapped):
            trained.append(torch.cat([p.detach().clone().view(-1) for p in wrapped.parameters()]))
    assert float(trained[0].abs().sum()) > 0
    return float((trained[0] - trained[1]).abs().max())


def shard_refused(rank: int, plan: Any) -> bool:
    """Whether a plan that leaves ranks no shares of theirs is refused."""
    from netprobe.core.errors import InputError
    from netprobe.runtime import fsdp_hook

    try:
        fsdp_hook(plan, GROUPS[len(plan.order)], timeout_s=100)
    except InputError:
        return True
    return False


def shares(rank: int, plan: Any) -> tuple[list[float], list[float] | str]:
    """This rank's share of a mean by the hook of FSDP, and the whole mean where the plan allows it."""
    import torch

    from netprobe.core.errors import InputError
    from netprobe.runtime import fsdp_hook

    state, hook = fsdp_hook(plan, GROUPS[len(plan.order)], timeout_s=100)
    gradient, share = torch.arange(6.0) * (rank + 1), torch.empty(2)
    hook(state, gradient.clone(), share)
    try:
        hook(state, gradient)
    except InputError:
        return share.tolist(), "refused"
    return share.tolist(), gradient.tolist()


def unlike(rank: int, plan: Any, tensors: list[tuple[int, str]], timeout_s: float) -> tuple[str, int | None]:
    """What this rank is told where rank r reduces ``tensors[r]`` (elements, dtype): class of the error, rank named."""
    from datetime import timedelta

    import torch

    from netprobe.core.errors import RankLostError
    from netprobe.runtime import Executor, faults

    executor = Executor(plan, GROUPS[len(plan.order)], timeout_s=100)
    usual, faults.LISTEN_S = faults.LISTEN_S, 20.0  # all of them speak
    executor._lines._timeout, executor._lines._timeout_s = timedelta(seconds=timeout_s), timeout_s
    elements, dtype = tensors[rank]
    try:
        executor.all_reduce(torch.ones(elements, dtype=getattr(torch, dtype)))
        return "", None
    except RankLostError as error:
        return "reduces" if "must reduce the same" in str(error) else str(error), error.rank
    finally:
        faults.LISTEN_S = usual
        executor.close()


def refused_tensors(rank: int, plan: Any) -> tuple[list[str], bool, list[str]]:
    """What is not refused at once, whether the executor goes on, and how it answers once it is closed."""
    import numpy as np
    import torch

    from netprobe.core.errors import InputError
    from netprobe.runtime import Executor

    executor = Executor(plan, GROUPS[len(plan.order)], timeout_s=100)
    with torch.inference_mode():
        frozen = torch.ones(3)
    given = {
        "float8": torch.ones(3).to(torch.float8_e4m3fn),
        "uint16": torch.ones(3, dtype=torch.uint16),
        "bool": torch.ones(3, dtype=torch.bool),
        "expanded": torch.ones(1).expand(3),
        "overlapping": torch.ones(6).as_strided((3, 3), (1, 1)),
        "negated": torch._neg_view(torch.ones(3)),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "meta": torch.ones(3, device="meta"),
        "inference": frozen,
        "list": [1.0],
        "none": None,
        "numpy": np.ones(3),
    }
    taken = []
    for name, tensor in given.items():
        try:
            executor.all_reduce(tensor)
            taken.append(name)
        except InputError:
            pass
    tensor = torch.ones(3)
    executor.all_reduce(tensor)
    executor.all_reduce(torch.ones(0, 0))
    executor.close()
    said = []
    for call in (
        lambda: executor.all_reduce(torch.ones(3)),
        lambda: executor.all_reduce(torch.ones(3), async_op=True),
        lambda: executor.exchange(3),
        lambda: executor.switch(plan),
    ):
        try:
            call()
        except InputError:
            said.append("refused")
    executor.close()
    return taken, float(tensor[0]) == len(plan.order), said


def forked(rank: int, plan: Any) -> tuple[int, float]:
    """How a process ends that is forked from a rank, uses the executor, closes it and lets it go; and a sum after that.

    0: the use was refused.
    """
    import gc
    import os

    import torch

    from netprobe.core.errors import InputError
    from netprobe.runtime import Executor

    executor: Any = Executor(plan, GROUPS[len(plan.order)], timeout_s=100)
    executor.all_reduce(torch.ones(1000))
    child = os.fork()
    if not child:
        code = 1
        try:
            executor.all_reduce(torch.ones(1000))
        except InputError:
            code = 0
        executor.close()
        del executor
        gc.collect()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    tensor = torch.ones(1000)
    executor.all_reduce(tensor)
    executor.close()
    return status, float(tensor[-1])


def interrupted(rank: int, plan: Any, victim: int, native: bool) -> Any:
    """``victim`` gets a KeyboardInterrupt in a collective, and asks for another: what each rank is told."""
    import torch

    from netprobe.core.errors import InputError, RankLostError
    from netprobe.runtime import Executor
    from netprobe.runtime.tape import Settings
    from tests.runtime.loss_jobs import before_messages

    settings = Settings(native=native)
    executor = Executor(plan, GROUPS[len(plan.order)], timeout_s=1000, settings=settings)
    executor.all_reduce(torch.ones(1000))
    if rank == victim:

        def interrupt() -> None:
            raise KeyboardInterrupt

        before_messages(executor, interrupt)
    try:
        executor.all_reduce(torch.ones(1000))
    except KeyboardInterrupt:
        try:
            executor.all_reduce(torch.ones(1000))
        except InputError:
            return "refused"
    except RankLostError as error:
        return error.rank
    finally:
        executor.close()
    return "no error"


def left_out(rank: int, plan: Any) -> str:
    """What an executor says whose group leaves this rank out, and one whose group is none."""
    import torch.distributed as dist

    from netprobe.core.errors import InputError
    from netprobe.runtime import Executor

    said = []
    for group in (dist.GroupMember.NON_GROUP_MEMBER, 7, "world"):
        try:
            Executor(plan, group, timeout_s=100)
        except InputError as error:
            said.append(str(error))
    return " ".join(said)
