"""Worker processes that are ranks of one torch.distributed world, forked from a process that has imported torch.

A test sends all of them a function and its arguments; the function runs in every rank at once.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "torch.distributed", "netprobe.runtime.executor"])
ANSWER_S = 120.0
GROUPS: dict[int, Any] = {}
"""In a worker: the group of the first so many ranks. All make all of them, as torch wants it."""


def serve(rank: int, size: int, store: str, pipe: Connection) -> None:
    """A worker: join the world, then run what comes until the pipe ends."""
    import torch
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    for ranks in range(1, size + 1):
        GROUPS[ranks] = dist.new_group(list(range(ranks)))
    pipe.send((True, rank))
    while True:
        try:
            call, args = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            pipe.send((True, call(rank, *args)))
        except Exception as error:
            pipe.send((False, "".join(traceback.format_exception(error))))


class Pool:
    """``size`` ranks."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.broken = ""
        self._folder = tempfile.TemporaryDirectory(prefix="netprobe-ranks-")
        store = str(Path(self._folder.name) / "store")
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        for rank in range(size):
            ours, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(target=serve, args=(rank, size, store, theirs), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self.answers(range(size))

    def answers(self, ranks: Sequence[int]) -> list[Any]:
        """What the ranks return. Fails with the traceback of the first that raised."""
        found = []
        for rank in ranks:
            if not self.pipes[rank].poll(ANSWER_S):
                self.broken = f"rank {rank} does not answer"
                pytest.fail(self.broken)
            found.append(self.pipes[rank].recv())
        for rank, (good, answer) in zip(ranks, found):
            if not good:
                pytest.fail(f"rank {rank}: {answer}")
        return [answer for _, answer in found]

    def run(self, call: Callable[..., Any], *args: Any, ranks: int | None = None) -> list[Any]:
        """``call(rank, *args)`` in the first ``ranks`` ranks (all without)."""
        if self.broken:
            pytest.fail(f"the ranks are of no more use: {self.broken}")
        chosen = range(self.size if ranks is None else ranks)
        for rank in chosen:
            self.pipes[rank].send((call, args))
        return self.answers(chosen)

    def close(self) -> None:
        """End every worker."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        self._folder.cleanup()
