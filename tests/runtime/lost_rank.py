"""A program: one rank of a 2LHA all-reduce over torch's messages, in which rank 1 is killed in the middle of one.

Arguments: the rank, and the port of the job's store, or a file in which rank 0, which then keeps it, writes the port.
Every other rank ends with code 7, which takes until the time of the messages is up.
"""

import os
import sys
import threading
import time
import warnings
from datetime import timedelta
from pathlib import Path
from signal import SIGKILL
from typing import Any

import torch
import torch.distributed as dist

from netprobe.core.errors import RankLostError
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.runtime import waiters
from netprobe.runtime.executor import Executor
from netprobe.runtime.sockets import own_connections, read_counters
from netprobe.runtime.tape import Settings
from tests.runtime.jobs import plan_of
from tests.runtime.lost_message import CODE, Late

GROUPS, VICTIM = [[0], [1, 2, 3]], 1
RANKS = 4
TIMEOUT_S = 5.0
vars(waiters)["END_S"] = 0.5  # so that ranks end before that time is up


class Dying:
    """A process group that sends one message in part."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def send(self, *args: Any) -> Any:
        """Never returns."""
        before = acked()
        work = self._group.send(*args)
        while acked() < before + (1 << 20):
            pass
        os.kill(os.getpid(), SIGKILL)
        return work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)


def acked() -> int:
    """Bytes that others have got of this process."""
    return sum(one.acked_bytes for one in read_counters(own_connections()).values())


def store_at(where: str, rank: int) -> Any:
    """The store of the job."""
    if where.isdecimal():
        return dist.TCPStore("127.0.0.1", int(where), is_master=False)
    told = Path(where)
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        told.with_suffix(".new").write_text(str(store.port))
        told.with_suffix(".new").rename(told)
        return store
    while not told.exists():
        time.sleep(0.01)
    return dist.TCPStore("127.0.0.1", int(told.read_text()), is_master=False)


def main(rank: int, where: str) -> None:
    """One rank."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    store = store_at(where, rank)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    settings = Settings(native=False, message_bytes=1 << 25)
    executor = Executor(plan_of(two_level(GROUPS, 4)), timeout_s=100, settings=settings)
    tensor = torch.ones(1 << 25)
    executor.all_reduce(tensor)
    lines = executor._lines
    lines._timeout, lines._timeout_s = timedelta(seconds=TIMEOUT_S), TIMEOUT_S
    if rank == VICTIM:
        lines._groups = [Dying(group) for group in lines._groups]
    until = time.monotonic() + TIMEOUT_S + 1
    try:
        executor.all_reduce(tensor)
    except RankLostError as error:
        left = sum(thread.name == "netprobe-wait" for thread in threading.enumerate())
        sys.stdout.write(f"{error.rank} {left}\n")
        sys.stdout.flush()
        sys.late = Late(until)  # type: ignore[attr-defined]
        sys.exit(CODE)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
