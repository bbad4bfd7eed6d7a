"""A rank of the table dstraining: one buffer averaged by DS-Sync, all-reduce, hierarchical all-reduce and gossip.

    python _averaging_rank.py RANK SIZE ADDRESS PORT OWN_ADDRESS PLAN ROUNDS ELEMENTS

Rank 0 prints a line of JSON: seconds of each iteration of each method, from a barrier to the last rank's end.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from netprobe.core.documents.ds_sync_plan import DsSyncPlan
from netprobe.plan import load_plan
from netprobe.runtime import DSSync
from netprobe.runtime.scripts.gloo_allreduce import interface_of


def main() -> None:
    """Take turns, so that all methods see the same network."""
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    address, port, own, path = sys.argv[3:7]
    rounds, elements = int(sys.argv[7]), int(sys.argv[8])
    os.environ["GLOO_SOCKET_IFNAME"] = interface_of(own) or ""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{address}:{port}", rank=rank, world_size=size)
    plan = load_plan(Path(path))
    assert isinstance(plan, DsSyncPlan)
    place = {name: at for at, name in enumerate(name for rack in plan.racks for name in rack)}
    racks = [[place[name] for name in rack] for rack in plan.racks]
    model = torch.nn.Linear(elements, 1, bias=False)
    sync = DSSync(model, torch.optim.SGD(model.parameters(), lr=0.0), plan, bucket_bytes=8 << 20)
    inside = [dist.new_group(rack) for rack in racks]
    leaders = dist.new_group([rack[0] for rack in racks])
    mine = next(at for at, rack in enumerate(racks) if rank in rack)
    data, other = torch.ones(elements), torch.empty(elements)
    model.weight.grad = torch.zeros_like(model.weight)

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

    methods = {
        "DS-Sync": lambda _: sync.step(),
        "all-reduce (DDP)": all_reduce,
        "hierarchical": hierarchical,
        "gossip": gossip,
    }
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for t in range(rounds + 1):
        for name, method in methods.items():
            dist.barrier()
            began = time.perf_counter()
            method(t)
            took = torch.tensor([time.perf_counter() - began], dtype=torch.float64)
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            if t:
                seconds[name].append(float(took))
    if rank == 0:
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
