"""A small model trained by DistributedDataParallel, its gradients averaged as a plan says.

    torchrun --nnodes 8 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:PORT examples/train_ddp.py plan.json
    srun --ntasks-per-node 1 python examples/train_ddp.py plan.json
    mpirun -x MASTER_ADDR -x MASTER_PORT --map-by node python examples/train_ddp.py plan.json

With srun and mpirun, MASTER_ADDR (rank 0's host, as the launcher numbers ranks) and MASTER_PORT must be set. The two
lines of netprobe are marked.
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import netprobe.runtime


def main(plan: str) -> None:
    """Train for a few iterations; rank 0 prints the loss."""
    dist.init_process_group("gloo", **netprobe.runtime.reorder(plan))  # 1: ranks in the plan's order
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(*netprobe.runtime.ddp_hook(plan))  # 2: gradients as the plan says
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    loss = torch.zeros(())
    for _ in range(10):
        inputs = torch.randn(32, 64)
        loss = torch.nn.functional.cross_entropy(wrapped(inputs), inputs[:, :10].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = torch.cat([p.detach().view(-1) for p in model.parameters()])
    first = weights.clone()
    dist.broadcast(first, 0)
    same = torch.equal(first, weights)
    # In one piece, so that lines of ranks that end at the same time do not run into each other.
    print(f"rank {dist.get_rank()} loss {loss.item():.3f} same weights {same}\n", end="", flush=True)
    dist.barrier()  # the store of the job ends with rank 0, or with its host's torchrun: all end together
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
