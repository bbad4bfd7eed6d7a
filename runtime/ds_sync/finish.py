"""The end of training: all ranks' models become one, and batch normalisation gets its statistics for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from netprobe.core.errors import InputError
from netprobe.runtime.ds_sync.groups import ProcessGroups


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


def average_buffers(model: Any, groups: ProcessGroups, iteration: int) -> None:
    """Buffers of floats become their mean over all ranks, others those of rank 0."""
    for buffer in model.buffers():
        if buffer.is_floating_point():
            groups.sum(buffer, iteration)
            buffer /= len(groups.hosts)
        else:
            groups.broadcast(buffer, iteration)


def has_statistics(model: Any) -> bool:
    """Whether a model has batch normalisation with running statistics."""
    return next(_normalisations(model), None) is not None


def estimate_statistics(model: Any, batches: Iterable[Any], groups: ProcessGroups, iteration: int) -> None:
    """Running means and variances anew for the parameters as they are, over the ``batches`` of all ranks.

    A batch is the model's input, or a tuple or list that begins with it. Means over ranks count every rank the same;
    the variance is that within ranks plus that of their means.
    """
    import torch

    torch.optim.swa_utils.update_bn(batches, model)
    size = len(groups.hosts)
    with torch.no_grad():
        for module in _normalisations(model):
            mean, second = module.running_mean, module.running_var + module.running_mean**2
            groups.sum(mean, iteration)
            groups.sum(second, iteration)
            mean /= size
            module.running_var.copy_(second / size - mean**2)


def _normalisations(model: Any) -> Iterator[Any]:
    import torch

    kinds = torch.nn.modules.batchnorm._BatchNorm
    yield from (m for m in model.modules() if isinstance(m, kinds) and m.running_mean is not None)
