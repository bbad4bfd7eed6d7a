"""Parameters as flat buffers. Buckets are made and sent in one order on all ranks, whatever the order of gradients."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any


class Bucket:
    """Some parameters of one type on one device; ``flat`` is what travels, ``ensemble`` their running average."""

    def __init__(self, parameters: Sequence[Any], number: int) -> None:
        import torch

        self.number = number
        self.parameters = list(parameters)
        first = parameters[0]
        self.flat = torch.empty(sum(p.numel() for p in parameters), dtype=first.dtype, device=first.device)
        self.ensemble: Any = None
        self.views = []
        at = 0
        for parameter in parameters:
            self.views.append(self.flat[at : at + parameter.numel()].view(parameter.shape))
            at += parameter.numel()
        self.pending = False
        self.work: Any = None
        self.group: tuple[int, ...] = ()
        self.began_s = 0.0
        self.ended_s: float | None = None

    def end(self) -> None:
        """The sum is there; the first call counts."""
        if self.ended_s is None:
            self.ended_s = time.perf_counter()

    def pack(self) -> None:
        """Parameters to ``flat``."""
        import torch

        with torch.no_grad():
            for view, parameter in zip(self.views, self.parameters):
                view.copy_(parameter)

    def unpack(self) -> None:
        """``flat`` to parameters."""
        import torch

        with torch.no_grad():
            for view, parameter in zip(self.views, self.parameters):
                parameter.copy_(view)


def make_buckets(parameters: Sequence[Any], bucket_bytes: int) -> list[Bucket]:
    """Buckets of at most ``bucket_bytes`` (or one parameter), the last parameters first: their gradients come first."""
    buckets: list[list[Any]] = []
    used = 0
    for parameter in reversed(parameters):
        size = parameter.numel() * parameter.element_size()
        last = buckets[-1][-1] if buckets else None
        same_kind = last is not None and (last.dtype, last.device) == (parameter.dtype, parameter.device)
        if not same_kind or used + size > bucket_bytes:
            buckets.append([])
            used = 0
        buckets[-1].append(parameter)
        used += size
    return [Bucket(members, number) for number, members in enumerate(buckets)]
