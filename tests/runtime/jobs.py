"""What the worker processes of the tests do: functions of a rank."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.hosts import Host
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.document import Placement
from netprobe.plan.schedule.schedule import Schedule
from tests.runtime.pool import GROUPS

if TYPE_CHECKING:
    from netprobe.runtime.tape import Settings

_KEPT: dict[Any, Any] = {}


def plan_of(schedule: Schedule) -> SchedulePlan:
    """A plan of a schedule on hosts h0, h1, ..."""
    hosts = [Host(name=f"h{i}") for i in range(schedule.ranks)]
    return build_schedule_plan(schedule, Placement(hosts=hosts, order=[host.name for host in hosts]))


def schedule_from(recipe: tuple[Any, ...]) -> Schedule:
    """A schedule of its description, as the tests draw it."""
    kind, *rest = recipe
    if kind == "2lha":
        groups, chunks, channels = rest
        return two_level(groups, chunks, channels=channels)
    if kind == "hierarchical":
        groups, channels, blocks = rest
        return hierarchical(groups, channels=channels, blocks=blocks)
    ranks, channels, blocks = rest
    return build(kind, ranks, channels=channels, blocks=blocks)


def executor_for(recipe: tuple[Any, ...], settings: Settings) -> Any:
    """An executor of a recipe; those of as many ranks share their connections."""
    from netprobe.runtime.executor import Executor

    plan = plan_of(schedule_from(recipe))
    key = len(plan.order), settings.native
    made = _KEPT.get(key)
    if made is None:
        first = plan_of(build("chunked-ring", len(plan.order), channels=CHANNELS))
        made = _KEPT[key] = Executor(first, GROUPS[len(plan.order)], timeout_s=100, settings=settings)
        assert made.native == settings.native
    made.switch(plan)
    made._settings = settings
    return made


def _settings(message_bytes: int, window: int, overtaking: int = 12) -> Settings:
    from netprobe.runtime.tape import Settings

    return Settings(message_bytes=message_bytes, window=window, overtaking=overtaking)


CHANNELS = 3


def values(rank: int, elements: int, dtype: str, seed: int) -> Any:
    """This rank's contribution."""
    import torch

    generator = torch.Generator().manual_seed(seed * 1000 + rank)
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(elements, generator=generator).to(kind)
    return torch.randint(-100, 100, (elements,), generator=generator).to(kind)


def compare(
    rank: int,
    recipe: tuple[Any, ...],
    elements: int,
    dtype: str,
    op: str,
    settings: tuple[int, ...],
    seed: int,
) -> tuple[bytes, float, float]:
    """(bytes of the result, its largest error, the largest error allowed).

    Twice by the library in C and once by torch's messages, and all must be the same.
    """
    import torch
    import torch.distributed as dist

    given = _settings(*settings)
    ranks = schedule_from(recipe).ranks
    own = values(rank, elements, dtype, seed)
    results = []
    for turn in range(3):
        executor = executor_for(recipe, dataclasses.replace(given, native=turn < 2))
        tensor = own.clone()
        if turn:
            work = executor.all_reduce(tensor, op, async_op=True)
            assert work.wait() is tensor
        else:
            assert executor.all_reduce(tensor, op) is tensor
        results.append(tensor)
    exact = own.double() if own.dtype.is_floating_point else own.clone()
    dist.all_reduce(exact, group=GROUPS[ranks])
    if op == "mean":
        exact /= ranks
    same, *others = (bytes(result.view(torch.uint8).numpy().tobytes()) for result in results)
    assert others == [same, same]
    error = float((results[0].to(exact.dtype) - exact).abs().max()) if elements else 0.0
    allowed = 0.0
    if own.dtype.is_floating_point and elements:
        allowed = float(torch.finfo(own.dtype).eps) * ranks * 6 * ranks**0.5
    return same, error, allowed


def train(rank: int, plan: Any, kind: str) -> list[float]:
    """The largest difference of gradients to those of plain DistributedDataParallel, in each of three iterations."""
    import contextlib

    import torch
    from torch.nn.parallel import DistributedDataParallel

    from netprobe.runtime import ddp_hook

    group = GROUPS[len(plan.order)]
    dtype = getattr(torch, kind) if kind in ("bfloat16", "float16") else torch.float32

    def made(hooked: bool) -> Any:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(16, 32), torch.nn.Linear(32, 32), torch.nn.Linear(32, 4)]
        model = torch.nn.Sequential(*layers).to(dtype)
        wrapped = DistributedDataParallel(
            model, process_group=group, bucket_cap_mb=0.002, find_unused_parameters=kind == "unused"
        )
        if hooked:
            if kind not in _KEPT:
                _KEPT[kind] = ddp_hook(plan, group, timeout_s=100, autotune=kind == "autotune")
                if kind == "autotune":
                    _KEPT[kind][0].autotune._every = 1
            wrapped.register_comm_hook(*_KEPT[kind])
        return wrapped

    models = [made(False), made(True)]
    apart = []
    for iteration in range(3):
        torch.manual_seed(iteration * 100 + rank)
        batches = [torch.randn(8, 16).to(dtype) for _ in range(2)]
        for model in models:
            model.zero_grad()
            for number, batch in enumerate(batches):
                waits = number == 0 and kind == "no_sync"
                with model.no_sync() if waits else contextlib.nullcontext():
                    used = model if kind != "unused" else lambda b, m=model: m(b)
                    used(batch).float().pow(2).mean().backward()
        pairs = zip(models[0].parameters(), models[1].parameters())
        apart.append(max(float((a.grad - b.grad).abs().max()) for a, b in pairs))
    return apart


class Bucket:
    """The last of DistributedDataParallel's buckets."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def buffer(self) -> Any:
        """The gradients."""
        return self.tensor

    def is_last(self) -> bool:
        """Whether it is."""
        return True


def tuned(rank: int, plan: Any, traitor: int | None, hooked: bool = False) -> Any:
    """Iterations, rank 0's links slower after the sixth: (digest of the schedule, whether the sum is right) of each.

    Made readings, so that nothing depends on this machine: a second a collective, links of 10 or 4 MB/s. ``traitor`` is
    a rank that makes other masters of the decision; ``hooked``: means by DistributedDataParallel's hook. At the end
    the log, or the error and whether the executor goes on.
    """
    import numpy as np
    import torch

    from netprobe.core.errors import NetprobeError
    from netprobe.runtime import Autotune, Executor, ddp_hook

    ranks = len(plan.order)
    told: list[str] = []
    executor: Executor
    autotune: Autotune
    if hooked:
        executor, average = ddp_hook(plan, GROUPS[ranks], timeout_s=100, autotune=True, tell=told.append)
        autotune = executor.autotune
        autotune._every = 2
    else:
        executor = Executor(plan, GROUPS[ranks], timeout_s=100)
        autotune = Autotune(executor, every=2, chunks_a_host=10, tell=told.append)
    now = [0]
    peers = [peer for peer in set(autotune._rates._peers.values()) if peer != rank]

    def rates() -> Any:
        made = np.full(ranks, np.nan)
        made[peers] = 4e6 if now[0] > 6 and rank == 0 else 1e7
        return made, 1e-4

    autotune._rates.take = rates  # type: ignore[method-assign]
    autotune._spent = lambda: float(executor.breakdown().collectives)  # type: ignore[method-assign]
    if rank == traitor:
        moved = autotune._moved
        autotune._moved = lambda masters: moved(autotune._masters)  # type: ignore[method-assign]
    seen = []
    try:
        for now[0] in range(1, 17):
            # By multiples of the number of ranks, so that the hook's mean of them is exact too.
            tensor = torch.arange(1003, dtype=torch.float32) * (rank + 1)
            if hooked:
                average(executor, Bucket(tensor.mul_(ranks))).wait()
            else:
                executor.all_reduce(tensor)
            whole = torch.arange(1003, dtype=torch.float32) * sum(range(1, ranks + 1))
            seen.append((executor.collective.digest, bool(torch.equal(tensor, whole))))
            if hooked:
                executor.drain()
            else:
                autotune.step()
        return seen, list(autotune.log), told, sorted(peers)
    except NetprobeError as error:
        try:
            executor.all_reduce(torch.ones(10))
        except NetprobeError:
            return type(error).__name__, getattr(error, "ranks", ()), len({one for one, _ in seen})
        return "goes on"
    finally:
        executor.close()


def refusals(rank: int, plan: Any, names: list[str]) -> tuple[str, tuple[int, ...], bool]:
    """What an executor says where rank r is on host ``names[r]``; whether a hook with a fallback takes torch's own."""
    import os
    import warnings

    from netprobe.core.errors import InputError
    from netprobe.runtime import Executor, ddp_hook

    os.environ["NETPROBE_HOST"] = names[rank]
    group = GROUPS[len(names)]
    try:
        try:
            Executor(plan, group, timeout_s=100)
            said, ranks = "", ()
        except InputError as error:
            said, ranks = type(error).__name__, getattr(error, "ranks", ())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, hook = ddp_hook(plan, group, fallback=True, timeout_s=100)
        return said, ranks, hook.__name__ == "allreduce_hook"
    finally:
        del os.environ["NETPROBE_HOST"]


def batched(rank: int, recipe: tuple[Any, ...], elements: int) -> bool:
    """Whether a tape in batches gives the bits that the executor gives."""
    import torch

    from netprobe.runtime.batches import Batches

    executor = executor_for(recipe, _settings(4096, 4))
    tensor = values(rank, elements, "float32", 3)
    twin = tensor.clone()
    executor.all_reduce(tensor)
    Batches(GROUPS[executor.collective.ranks]).run(executor._tape(elements, 4), twin)
    return bool(torch.equal(tensor, twin))


def odd_tensors(rank: int, recipe: tuple[Any, ...]) -> list[str]:
    """What is wrong with the sums of strided tensors, of several that are started at once, and with refusals."""
    import torch

    from netprobe.core.errors import InputError

    executor = executor_for(recipe, _settings(4096, 4))
    ranks = executor.collective.ranks
    wrong = []
    base = torch.full((20, 30), float(rank))
    strided = base.t()[::2]
    executor.all_reduce(strided)
    askew = torch.frombuffer(bytearray(4005), dtype=torch.float32, offset=1, count=1001).fill_(rank)
    executor.all_reduce(askew)
    if askew.data_ptr() % 4 == 0 or not (askew == ranks * (ranks - 1) / 2).all():
        wrong.append("askew")
    gone = torch.ones(1000)
    gone.untyped_storage().resize_(3000)
    try:
        executor.all_reduce(gone)
        wrong.append("memory that was given back")
    except InputError:
        pass
    total = ranks * (ranks - 1) / 2
    if not (base[:, ::2] == total).all() or not (base[:, 1::2] == rank).all():
        wrong.append("strided")
    several = [torch.full((1000 * i,), float(rank)) for i in range(4)]
    pending = [executor.all_reduce(one, async_op=True) for one in several]
    futures = [work.get_future().then(lambda done: done.value().sum()) for work in pending]
    if [float(f.wait()) for f in futures] != [1000 * i * total for i in range(4)]:
        wrong.append("several")
    try:
        executor.all_reduce(torch.ones(3, dtype=torch.int32), "mean")
        wrong.append("mean of whole numbers")
    except InputError:
        pass
    before = executor.breakdown().collectives
    told = executor.exchange(10_000)
    if told.collectives != 1 or executor.breakdown().collectives != before + 1 or told.wire_s <= 0:
        wrong.append("exchange")
    return wrong


def scattered(rank: int, recipe: tuple[Any, ...], elements: int) -> bool:
    """Whether the chunks that this rank is owed by a reduce-scatter hold the sum."""
    import torch
    import torch.distributed as dist

    executor = executor_for(recipe, _settings(4096, 4))
    schedule = executor.collective.schedule
    tensor = torch.arange(elements, dtype=torch.int64) * (rank + 1)
    expected = tensor.clone()
    executor.run(tensor)
    dist.all_reduce(expected, group=GROUPS[schedule.ranks])
    at = schedule.boundaries(elements)
    owed = [(first, last) for owner, first, last, _ in schedule.contract.owed() if owner == rank]
    return all(torch.equal(tensor[at[a] : at[b]], expected[at[a] : at[b]]) for a, b in owed)


def without_library(rank: int, recipe: tuple[Any, ...], victim: int) -> tuple[bool, list[str], float]:
    """Whether the messages are the library's where ``victim`` is told not to take it, what is warned of, and a sum."""
    import os
    import warnings

    import torch

    from netprobe.runtime.executor import Executor

    if rank == victim:
        os.environ["NETPROBE_NATIVE"] = "0"
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            executor = Executor(plan_of(schedule_from(recipe)), GROUPS[3], timeout_s=100)
    finally:
        os.environ.pop("NETPROBE_NATIVE", None)
    tensor = torch.ones(100)
    executor.all_reduce(tensor)
    executor.close()
    warned = [str(one.message) for one in said if "torch.distributed" in str(one.message)]
    return executor.native, warned, float(tensor.sum())
