"""The end of training: all ranks' models become one, and batch normalisation gets its statistics for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from netprobe.core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """A running average of each rank's parameters: ``factor`` is the past's share in a step, from step ``start`` on."""

    factor: float
    start: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.factor < 1 or self.start < 0:
            raise InputError(
                f"{self}: a factor of at least 0 and below 1, and a start of at least 0 are needed"
            )


def average_buffers(model: Any, groups: Any) -> None:
    """Buffers of floats become their mean over all ranks, others those of rank 0."""
    import torch.distributed as dist

    size = dist.get_world_size(groups.world)
    root = dist.get_process_group_ranks(groups.world)[0]
    for buffer in model.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer, group=groups.world)
            buffer /= size
        else:
            dist.broadcast(buffer, root, group=groups.world)


def has_statistics(model: Any) -> bool:
    """Whether a model has batch normalisation with running statistics."""
    return next(_normalisations(model), None) is not None


def estimate_statistics(model: Any, batches: Iterable[Any], groups: Any) -> None:
    """Running means and variances anew for the parameters as they are, over the ``batches`` of all ranks.

    A batch is the model's input, or a tuple or list that begins with it. Means over ranks count every rank the same;
    the variance is that within ranks plus that of their means.
    """
    import torch
    import torch.distributed as dist

    torch.optim.swa_utils.update_bn(batches, model)
    size = dist.get_world_size(groups.world)
    with torch.no_grad():
        for module in _normalisations(model):
            mean, second = module.running_mean, module.running_var + module.running_mean**2
            dist.all_reduce(mean, group=groups.world)
            dist.all_reduce(second, group=groups.world)
            mean /= size
            module.running_var.copy_(second / size - mean**2)


def _normalisations(model: Any) -> Iterator[Any]:
    import torch

    kinds = torch.nn.modules.batchnorm._BatchNorm
    yield from (m for m in model.modules() if isinstance(m, kinds) and m.running_mean is not None)
