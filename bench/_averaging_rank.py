"""A rank of the table dstraining: one buffer averaged by DS-Sync, all-reduce, hierarchical all-reduce and gossip."""

from __future__ import annotations

import os
import time
from typing import Any

from netprobe.core.documents.ds_sync_plan import DsSyncPlan

_MADE: dict[str, Any] = {}


def prepare(rank: int, plan: DsSyncPlan, elements: int) -> None:
    """All methods, so that none is made while another is timed."""
    import torch
    import torch.distributed as dist

    from netprobe.runtime import DSSync

    names = [name for rack in plan.racks for name in rack]
    place = {name: at for at, name in enumerate(names)}
    os.environ["NETPROBE_HOST"] = names[rank]
    racks = [[place[name] for name in rack] for rack in plan.racks]
    model = torch.nn.Linear(elements, 1, bias=False)
    sync = DSSync(model, torch.optim.SGD(model.parameters(), lr=0.0), plan, bucket_bytes=8 << 20)
    inside = [dist.new_group(rack) for rack in racks]
    leaders = dist.new_group([rack[0] for rack in racks])
    mine = next(at for at, rack in enumerate(racks) if rank in rack)
    data, other = torch.ones(elements), torch.empty(elements)
    model.weight.grad = torch.zeros_like(model.weight)
    size = len(names)

    def hierarchical(_: int) -> None:
        dist.reduce(data, racks[mine][0], group=inside[mine])
        if rank == racks[mine][0]:
            dist.all_reduce(data, group=leaders)
        dist.broadcast(data, racks[mine][0], group=inside[mine])
        data.fill_(1.0)

    def gossip(t: int) -> None:
        step = 1 << t % (size - 1).bit_length()
        work = [dist.isend(data, (rank + step) % size), dist.irecv(other, (rank - step) % size)]
        for one in work:
            one.wait()
        data.add_(other).div_(2)

    def all_reduce(_: int) -> None:
        dist.all_reduce(data)
        data.div_(size)

    _MADE["methods"] = {
        "DS-Sync": lambda _: sync.step(),
        "all-reduce (DDP)": all_reduce,
        "hierarchical": hierarchical,
        "gossip": gossip,
    }
    rounds(rank, 1)


def rounds(_: int, count: int) -> dict[str, list[float]]:
    """Seconds of each method's iterations, from a barrier to this rank's end, in turn: all see the same network."""
    import torch.distributed as dist

    seconds: dict[str, list[float]] = {name: [] for name in _MADE["methods"]}
    for _ in range(count):
        turn = _MADE["turn"] = _MADE.get("turn", -1) + 1
        for name, method in _MADE["methods"].items():
            dist.barrier()
            began = time.perf_counter()
            method(turn)
            seconds[name].append(time.perf_counter() - began)
    return seconds
