"""What runs inside a job.

    collective.py   a plan as a proved program
    tape.py         what one rank does for one buffer size, as a fixed list of operations
    lines.py        the connections of a rank, and tapes run over them by torch.distributed
    native/         tapes run by a small library in C, over connections of its own
    breakdown.py    where the time of an executor goes
    batches.py      messages in batches of a step, as NCCL wants them
    faults.py       a rank that is lost: which one, told to the others
    world.py        which host each rank is on, compared with the plan
    agreed.py       the plan, the ranks' hosts and a store that all ranks of an executor have
    within.py       a call that may never return, waited for no longer than so long
    keeper.py       which rank keeps the job's store
    forked.py       connections in a process that was forked from a rank
    traffic.py      bytes and waits of each link
    sockets.py      what the kernel knows of this process's connections
    talk.py         short messages between rank 0 and the others
    autotune.py     masters moved while the job runs, by `plan/tune`
    launched.py     the rank that srun or mpirun gave this process
    running.py      the plan without hosts that do not run, before there is a process group
    ddp.py          a communication hook of DistributedDataParallel; ranks in a plan's order
    fsdp.py         the same of FullyShardedDataParallel
    executor.py     collectives of a plan in a training job
    ds_sync/        a trainer that averages parameters in groups that change, as a plan of kind ``ds_sync`` says
    scripts/        stand-alone scripts, one process on each host, each for one collective library

Nothing in scripts/ imports the rest. torch is imported when an executor is made, not by ``import netprobe.runtime``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netprobe.core.errors import RankLostError, WrongWorldError
    from netprobe.runtime.autotune import Autotune
    from netprobe.runtime.breakdown import Breakdown
    from netprobe.runtime.ddp import ddp_hook, reorder
    from netprobe.runtime.ds_sync.finish import Ensemble
    from netprobe.runtime.ds_sync.trainer import DSSync
    from netprobe.runtime.executor import Executor, Pending
    from netprobe.runtime.fsdp import fsdp_hook
    from netprobe.runtime.launched import set_rank_variables
    from netprobe.runtime.running import running_plan
    from netprobe.runtime.tape import Settings
    from netprobe.runtime.traffic import Traffic

__all__ = [
    "Autotune",
    "Breakdown",
    "DSSync",
    "Ensemble",
    "Executor",
    "Pending",
    "RankLostError",
    "Settings",
    "Traffic",
    "WrongWorldError",
    "ddp_hook",
    "fsdp_hook",
    "reorder",
    "running_plan",
    "set_rank_variables",
]

_HOMES = {
    "Autotune": "netprobe.runtime.autotune",
    "Breakdown": "netprobe.runtime.breakdown",
    "DSSync": "netprobe.runtime.ds_sync.trainer",
    "Ensemble": "netprobe.runtime.ds_sync.finish",
    "Executor": "netprobe.runtime.executor",
    "Pending": "netprobe.runtime.executor",
    "RankLostError": "netprobe.core.errors",
    "Settings": "netprobe.runtime.tape",
    "Traffic": "netprobe.runtime.traffic",
    "WrongWorldError": "netprobe.core.errors",
    "ddp_hook": "netprobe.runtime.ddp",
    "fsdp_hook": "netprobe.runtime.fsdp",
    "reorder": "netprobe.runtime.ddp",
    "running_plan": "netprobe.runtime.running",
    "set_rank_variables": "netprobe.runtime.launched",
}


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
