"""Ranks of one torch.distributed world on a lab's hosts, forked from a process that has imported torch.

Sixteen processes that each import torch take 17 s of two cores, and 200 MB each; forked ones share both. Each moves
into its host's network namespace before it makes a thread or a connection.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from netprobe.lab import Lab

PORT = 29533
_NEW_NETWORK = 0x40000000
CONTEXT = multiprocessing.get_context("forkserver")
PRELOADED = [
    "torch",
    "torch.distributed",
    "netprobe.runtime.executor",
    "netprobe.runtime.ddp",
    "netprobe.runtime.ds_sync.trainer",
    "torch._dynamo",  # the first optimizer imports it
    "netprobe.plan",
]


def serve(rank: int, size: int, namespace: str, meeting: str, pipe: Connection) -> None:
    """A rank: move to its host, join the world, then run what comes until the pipe ends."""
    with Path(f"/run/netns/{namespace}").open("rb") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")
    import torch
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{meeting}", rank=rank, world_size=size)
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


class LabWorld:
    """One rank on each of ``names``, in that order; worlds that live at once need ports of their own."""

    def __init__(self, lab: Lab, names: Sequence[str], port: int = PORT) -> None:
        CONTEXT.set_forkserver_preload(PRELOADED)
        self.names = list(names)
        meeting = f"{lab.host(names[0]).address}:{port}"
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        for rank, name in enumerate(names):
            ours, theirs = CONTEXT.Pipe()
            target = lab.host(name).target
            process = CONTEXT.Process(
                target=serve, args=(rank, len(names), target, meeting, theirs), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self._answers(120.0)

    def run(self, call: Callable[..., Any], *args: Any, timeout_s: float = 300.0) -> list[Any]:
        """``call(rank, *args)`` in every rank at once; what they return."""
        for pipe in self._pipes:
            pipe.send((call, args))
        return self._answers(timeout_s)

    def pids(self) -> list[int]:
        """The ranks' processes."""
        return [process.pid for process in self._processes]

    def close(self) -> None:
        """End every rank."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.kill()
            process.join()

    def _answers(self, timeout_s: float) -> list[Any]:
        found = []
        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(timeout_s):
                raise SystemExit(f"rank {rank} says nothing for {timeout_s:g} s")
            good, answer = pipe.recv()
            if not good:
                raise SystemExit(f"rank {rank}: {answer}")
            found.append(answer)
        return found
