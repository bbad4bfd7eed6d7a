"""A byte-level language model on the standard library's sources, trained by a rank of the table endtoend."""

from __future__ import annotations

import contextlib
import os
import sysconfig
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

WIDTH, LAYERS, HEADS = 320, 9, 5
"""11 million parameters."""
LENGTH, BATCH = 64, 2
_MADE: dict[str, Any] = {}


def corpus() -> bytes:
    """The sources of the standard library, one after another."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))


def model_of() -> Any:
    """A small causal transformer over bytes."""
    import torch
    from torch import nn

    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(256, WIDTH)
            self.place = nn.Embedding(LENGTH, WIDTH)
            layer = nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
            self.head = nn.Linear(WIDTH, 256)

        def forward(self, text: Any) -> Any:
            mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
            at = torch.arange(text.shape[1])
            return self.head(self.layers(self.embed(text) + self.place(at), mask=mask, is_causal=True))

    torch.manual_seed(0)
    return Model()


def prepare(rank: int, plan: Any, optimizer: str = "AdamW") -> int:
    """The model under DistributedDataParallel, with the hook of ``plan`` unless that is None; its parameters."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from netprobe.runtime import ddp_hook

    warnings.simplefilter("ignore")
    model = model_of()
    # Gradients lie in the buckets: a copy less, for worlds that live side by side. All ranks draw the same weights.
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True, init_sync=False)
    if plan is not None:
        wrapped.register_comm_hook(*ddp_hook(plan))
    data = torch.frombuffer(bytearray(corpus()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(rank)
    made = getattr(torch.optim, optimizer)(wrapped.parameters(), lr=3e-4 if optimizer == "AdamW" else 0.01)
    _MADE.update(model=wrapped, data=data, generator=generator, optimizer=made)
    return sum(p.numel() for p in model.parameters())


def iterate(_: int, iterations: int, averaged: bool) -> list[tuple[float, float]]:
    """(seconds, loss) of each iteration of this rank; from a barrier, without averages where not ``averaged``."""
    import torch
    import torch.distributed as dist

    model, data, optimizer = _MADE["model"], _MADE["data"], _MADE["optimizer"]
    told = []
    for _ in range(iterations):
        starts = torch.randint(len(data) - LENGTH - 1, (BATCH,), generator=_MADE["generator"])
        text = torch.stack([data[at : at + LENGTH + 1] for at in starts.tolist()]).long()
        dist.barrier()
        began = perf_counter()
        optimizer.zero_grad()
        with contextlib.nullcontext() if averaged else model.no_sync():
            logits = model(text[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 256), text[:, 1:].reshape(-1))
            loss.backward()
        if averaged:
            optimizer.step()
        told.append((perf_counter() - began, float(loss)))
    return told


def memory(_: int) -> int:
    """Bytes of this rank, shared pages in parts."""
    for line in Path(f"/proc/{os.getpid()}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def checksum(_: int) -> float:
    """Of the parameters: the same on all ranks."""
    return sum(float(p.detach().double().sum()) for p in _MADE["model"].parameters())
