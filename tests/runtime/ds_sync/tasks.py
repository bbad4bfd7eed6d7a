"""What ranks do in the tests of the trainer."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from typing import Any

from tests.runtime.ds_sync.worlds import plan_of


def trainer(rank: int, model: Any, optimizer: Any, plan: Any, **options: Any) -> Any:
    from netprobe.runtime import DSSync, Ensemble

    if options.get("ensemble") is not None:
        options["ensemble"] = Ensemble(factor=options["ensemble"])
    return DSSync(model, optimizer, plan, host=options.pop("host", f"h{rank}"), **options)


def network(seed: int, normalised: bool = False) -> Any:
    import torch

    torch.manual_seed(seed)
    middle: list[Any] = [torch.nn.BatchNorm1d(8)] if normalised else []
    return torch.nn.Sequential(
        torch.nn.Linear(6, 8), *middle, torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    )  # fmt: skip


def learn(sync: Any, model: Any, optimizer: Any, rank: int, iterations: range) -> None:
    import torch

    for t in iterations:
        torch.manual_seed(1000 * rank + t)
        optimizer.zero_grad()
        model(torch.randn(5, 6)).square().mean().backward()
        sync.step()


def values(model: Any) -> list[float]:
    import torch

    return [float(x) for x in torch.cat([p.detach().flatten() for p in model.parameters()])]


def walk(rank: int, racks: list[int], iterations: int, overlap: bool) -> list[list[float]]:
    """Gradients that are this rank's number: the parameters after each iteration."""
    import torch

    model = torch.nn.Linear(3, 2, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    sync = trainer(rank, model, optimizer, plan_of(racks), overlap=overlap)
    with torch.no_grad():
        model.weight.fill_(float(10 * rank))
    seen = []
    for _ in range(iterations):
        optimizer.zero_grad()
        (model(torch.ones(1, 3)).sum() * (rank + 1)).backward()
        sync.step()
        sync.wait()
        seen.append(values(model))
    return seen


def train(rank: int, racks: list[int], iterations: int, options: dict[str, Any]) -> list[float]:
    import torch

    torch.manual_seed(rank)
    model = network(rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    sync = trainer(rank, model, optimizer, plan_of(racks), **options)
    learn(sync, model, optimizer, rank, range(iterations))
    sync.wait()
    return values(model)


def start(rank: int) -> list[float]:
    import torch

    model = network(rank, normalised=True)
    model[1].running_mean.fill_(float(rank))
    trainer(rank, model, torch.optim.SGD(model.parameters(), lr=0.1), plan_of([2, 2]))
    return [*values(model), *(float(x) for x in model[1].running_mean)]


def resume(rank: int, folder: str, at: int, iterations: int) -> tuple[list[float], list[float], int]:
    """The end of a run in one go, that of a run from a checkpoint at ``at``, and where this begins."""
    import torch

    options: dict[str, Any] = {"ensemble": 0.9, "overlap": True}
    ends = []
    for parts in ([range(iterations)], [range(at), range(at, iterations)]):
        for part in parts:
            model = network(0)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            sync = trainer(rank, model, optimizer, plan_of([3, 1]), **options)
            path = f"{folder}/{rank}.pt"
            if part.start:
                saved = torch.load(path)
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])
                sync.load_state_dict(saved["sync"])
            begins = sync.iteration
            learn(sync, model, optimizer, rank, part)
            state = sync.state_dict()
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "sync": state}, path
            )
        sync.finish()
        ends.append(values(model))
    return ends[0], ends[1], begins


def mixed_up_checkpoints(rank: int) -> None:
    import torch

    model = network(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sync = trainer(rank, model, optimizer, plan_of([2, 2]))
    state = sync.state_dict()
    state["iteration"] = 5 + (rank == 2)
    sync.load_state_dict(state)


def adjust(rank: int, slow: int, iterations: int) -> tuple[list[Any], list[int], list[float]]:
    """With a host whose averages take three times as long: the pattern of each iteration, and what is contended."""
    import torch

    model = network(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sync = trainer(rank, model, optimizer, plan_of([3, 1], every=6))
    groups: list[Any] = []

    class Slowed(deque[float]):
        def append(self, seconds: float) -> None:
            share = 2 * (len(groups[-1]) - 1) / len(groups[-1])
            super().append(share * (3.0 if slow in groups[-1] else 1.0) + 0.001 * rank)

    sync.seconds = Slowed(maxlen=6)
    for t in range(iterations):
        groups.append(sync.group)
        learn(sync, model, optimizer, rank, range(t, t + 1))
    return groups, sorted(sync.contended.hosts), values(model)


def elsewhere(rank: int, names: list[str]) -> None:
    import torch

    model = network(0)
    trainer(rank, model, torch.optim.SGD(model.parameters(), lr=0.1), plan_of([2, 2]), host=names[rank])


def end(rank: int, ensemble: float | None) -> tuple[list[float], list[float], list[float]]:
    """Parameters before and after finish(), and statistics."""
    import torch

    model = network(0, normalised=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sync = trainer(rank, model, optimizer, plan_of([2, 2]), ensemble=ensemble)
    learn(sync, model, optimizer, rank, range(3))
    before = values(model)
    torch.manual_seed(rank)
    batches = [torch.randn(500, 6) + rank for _ in range(2)]
    sync.finish(batches)
    statistics = [*model[1].running_mean, *model[1].running_var]
    return before, values(model), [float(x) for x in statistics]


def without_batches(rank: int) -> None:
    import torch

    model = network(0, normalised=True)
    sync = trainer(rank, model, torch.optim.SGD(model.parameters(), lr=0.1), plan_of([2, 2]), ensemble=0.9)
    sync.finish()


def accumulate(rank: int) -> tuple[list[float], list[float]]:
    """Two half batches in one iteration, with and without overlap."""
    import torch

    ends = []
    for overlap in (False, True):
        model = network(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sync = trainer(rank, model, optimizer, plan_of([2, 2]), overlap=overlap)
        for t in range(3):
            torch.manual_seed(100 * rank + t)
            data = torch.randn(2, 4, 6)
            optimizer.zero_grad()
            with sync.no_sync():
                model(data[0]).square().mean().backward()
            model(data[1]).square().mean().backward()
            sync.step()
        sync.wait()
        ends.append(values(model))
    return ends[0], ends[1]


def die(rank: int, victim: int, how: int, overlap: bool, adjusts: bool = False) -> None:
    """The victim ends in its third iteration, or where it ``adjusts``; the others go on until they notice."""
    import torch

    model = network(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plan = plan_of([2, 1], every=2 if adjusts else 100)
    sync = trainer(rank, model, optimizer, plan, overlap=overlap, timeout_s=8)
    if rank == victim and adjusts:
        sync._adjust = lambda: os.kill(os.getpid(), how)
    for t in range(1000):
        if t == 2 and rank == victim:
            os.kill(os.getpid(), how)
            time.sleep(1000)
        learn(sync, model, optimizer, rank, range(t, t + 1))


KILLED, STOPPED = signal.SIGKILL, signal.SIGSTOP


def end_early(rank: int, early: int, iterations: int) -> None:
    """One rank has half as many batches as the others."""
    import torch

    model = network(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sync = trainer(rank, model, optimizer, plan_of([2, 1]), timeout_s=2)
    learn(sync, model, optimizer, rank, range(iterations // 2 if rank == early else iterations))
    sync.finish()


def end_apart(rank: int) -> None:
    """Each has another number of batches, and averages with nobody."""
    import torch

    model = network(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sync = trainer(rank, model, optimizer, plan_of([2, 2]))
    sync.iteration = rank
    sync.finish()
