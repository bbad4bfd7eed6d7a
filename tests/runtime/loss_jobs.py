"""What the worker processes of the tests do where one of them is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from netprobe.core.documents.schedule_plan import SchedulePlan


class Stepped:
    """The library in C as an executor calls it; ``call`` is made before each step, which is short."""

    def __init__(self, executor: Any, call: Callable[[], None]) -> None:
        engine = executor._lines._native._engine
        self._library, self._call = engine._library, call
        engine._library = self

    def np_go(self, engine: Any, timeout_s: float, _: float) -> int:
        """A step."""
        self._call()
        return int(self._library.np_go(engine, timeout_s, 0.0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


def before_messages(executor: Any, call: Callable[[], None]) -> None:
    """Have ``call`` made before each receive of a collective (each step of it, by the library in C)."""
    if executor.native:
        Stepped(executor, call)
        return
    receive = executor._lines._receive

    def called(*args: Any) -> Any:
        call()
        return receive(*args)

    executor._lines._receive = called


def all_reduce_with(rank: int, change: str, plan: SchedulePlan, victim: int, timeout_s: float) -> Any:
    """Two all-reduces, in the second of which ``victim`` is lost: ``killed`` at some message, or ``stopped``.

    ``async`` after that: the second is started, and then waited for; ``torch``: over torch's messages; ``forked``:
    the victim leaves a child, as of a data loader.

    (rank lost, its host, whether the tensor was refused afterwards) by each other rank.
    """
    import os
    import signal
    import time

    import torch

    from netprobe.core.errors import RankLostError
    from netprobe.runtime import faults
    from netprobe.runtime.executor import Executor
    from netprobe.runtime.tape import Settings

    settings = Settings(native="torch" not in change)
    executor = Executor(plan, timeout_s=100, settings=settings)  # until all are there
    executor.all_reduce(torch.ones(1000))
    # Ranks that wait for a stopped one give up within seconds of each other where the machine is busy.
    faults.LISTEN_S = min(timeout_s / 2, 3.0)
    executor._lines._timeout, executor._lines._timeout_s = timedelta(seconds=timeout_s), timeout_s
    if rank == victim:
        how, at = change.split()[:2]
        left = [int(at)]

        def count() -> None:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            left[0] -= 1

        before_messages(executor, count)
        if "forked" in change and not os.fork():
            time.sleep(20)
            os._exit(0)
    tensor = torch.ones(1000)
    try:
        if "async" in change:
            executor.all_reduce(tensor, async_op=True).wait()
        else:
            executor.all_reduce(tensor)
    except RankLostError as error:
        try:
            executor.all_reduce(tensor)
        except RankLostError:
            return error.rank, error.host, True
        return error.rank, error.host, False
    return "no error"


def closed_below(rank: int, plan: SchedulePlan) -> str:
    """Rank 0 waits for the others, until the handler of a signal closes its executor; what each rank is told."""
    import signal

    import torch
    import torch.distributed as dist

    from netprobe.core.errors import NetprobeError
    from netprobe.runtime.executor import Executor

    executor = Executor(plan, timeout_s=100)
    executor.all_reduce(torch.ones(10))
    if rank == 0:
        signal.signal(signal.SIGALRM, lambda *_: executor.close())
        signal.setitimer(signal.ITIMER_REAL, 0.3)
    else:
        dist.barrier()  # rank 0 has closed
    try:
        executor.all_reduce(torch.ones(10))
    except NetprobeError as error:
        if rank == 0:
            dist.barrier()
        return str(error)
    return "no error"
