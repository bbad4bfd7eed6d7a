"""A training script that goes on without a host. FOLDER: the plan and the checkpoint; host h1 dies in iteration 3."""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import netprobe.runtime

ITERATIONS = 8


def main(folder: Path) -> None:
    """Train from the checkpoint on, by the plan for the hosts that run."""
    host, checkpoint = os.environ["NETPROBE_HOST"], folder / "checkpoint"
    plan = netprobe.runtime.running_plan(folder / "plan.json")
    dist.init_process_group("gloo", **netprobe.runtime.reorder(plan))
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    model.register_comm_hook(*netprobe.runtime.ddp_hook(plan))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begin = 0
    if checkpoint.exists():
        kept = torch.load(checkpoint)
        model.load_state_dict(kept["model"])
        begin = kept["iterations"]
    for iteration in range(begin, ITERATIONS):
        if host == "h1" and iteration == 3:
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        model(torch.full((4, 8), iteration + 1.0)).pow(2).mean().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            new = folder / "checkpoint.new"
            torch.save({"model": model.state_dict(), "iterations": iteration + 1}, new)
            new.replace(checkpoint)
    (folder / f"{host}.done").write_text(f"{dist.get_rank()} of {dist.get_world_size()} from {begin}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
