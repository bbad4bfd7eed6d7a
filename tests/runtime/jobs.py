"""What the worker processes of the tests do: functions of a rank."""

from __future__ import annotations

from typing import Any

from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.hosts import Host
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.document import Placement
from netprobe.plan.schedule.schedule import Schedule
from tests.runtime.pool import GROUPS

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


def executor_for(recipe: tuple[Any, ...], message_bytes: int, window: int) -> Any:
    """An executor of a recipe; those of as many ranks share their connections."""
    from netprobe.runtime.executor import Executor
    from netprobe.runtime.tape import Settings

    plan = plan_of(schedule_from(recipe))
    ranks, settings = len(plan.order), Settings(message_bytes=message_bytes, window=window)
    made = _KEPT.get(ranks)
    if made is None:
        first = plan_of(build("chunked-ring", ranks, channels=CHANNELS))
        made = _KEPT[ranks] = Executor(first, GROUPS[ranks], timeout_s=20)
    made.switch(plan)
    made._settings = settings
    return made


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
    settings: tuple[int, int],
    seed: int,
) -> tuple[bytes, float, float]:
    """(bytes of the result, its largest error, the largest error allowed): twice, and the two must be the same."""
    import torch
    import torch.distributed as dist

    executor = executor_for(recipe, *settings)
    ranks = executor.collective.ranks
    own = values(rank, elements, dtype, seed)
    results = []
    for turn in range(2):
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
    same = bytes(results[0].view(torch.uint8).numpy().tobytes())
    assert same == bytes(results[1].view(torch.uint8).numpy().tobytes())
    error = float((results[0].to(exact.dtype) - exact).abs().max()) if elements else 0.0
    allowed = 0.0
    if own.dtype.is_floating_point and elements:
        allowed = float(torch.finfo(own.dtype).eps) * ranks * 6 * ranks**0.5
    return same, error, allowed
