"""A small model trained by DS-Sync: each host averages its parameters with others in turn, as a plan says.

    netprobe plan ds-sync map.json --out plan.json
    torchrun --nnodes 8 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:PORT \\
        examples/train_ds_sync.py plan.json
    srun --ntasks-per-node 1 python examples/train_ds_sync.py plan.json
    mpirun -x MASTER_ADDR -x MASTER_PORT --map-by node python examples/train_ds_sync.py plan.json

With srun and mpirun, MASTER_ADDR (rank 0's host, as the launcher numbers ranks) and MASTER_PORT must be set. A host
whose name is not that of the plan says so by NETPROBE_HOST. The lines of netprobe are marked.
"""

import sys

import torch
import torch.distributed as dist

from netprobe.runtime import DSSync, Ensemble, set_rank_variables


def main(plan: str) -> None:
    """Train for a few iterations; each rank prints its loss and the sum of its model."""
    set_rank_variables()  # what srun and mpirun call a rank, for torch
    dist.init_process_group("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sync = DSSync(
        model, optimizer, plan, overlap=True, ensemble=Ensemble(factor=0.9)
    )  # 1: averages as planned
    torch.manual_seed(1 + dist.get_rank())
    loss = torch.zeros(())
    for _ in range(10):
        inputs = torch.randn(32, 64)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), inputs[:, :10].argmax(1))
        loss.backward()
        sync.step()  # 2: in place of optimizer.step()
    sync.finish()  # 3: one model on all ranks
    total = sum(float(p.detach().double().sum()) for p in model.parameters())
    # In one piece, so that lines of ranks that end at the same time do not run into each other.
    print(f"rank {dist.get_rank()} loss {loss.item():.3f} model {total!r}\n", end="", flush=True)
    dist.barrier()  # the store of the job ends with rank 0, or with its host's torchrun: all end together
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
