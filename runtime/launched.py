"""The rank that srun or mpirun gave this process, under the names that torch reads."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from netprobe.core.errors import InputError

_NAMES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
"""Rank, size and local rank of Open MPI, of MPICH and Intel MPI, and of srun.

srun's last: a batch script has SLURM_PROCID too, and what it starts by mpirun inherits it. What only srun sets is the
step's number of tasks.
"""
_MEETING = ("MASTER_ADDR", "MASTER_PORT")


def set_rank_variables(environment: MutableMapping[str, str] | None = None) -> None:
    """Set RANK, WORLD_SIZE and LOCAL_RANK as srun or mpirun numbered this process; nothing where RANK is set.

    Call it before ``init_process_group``; `reorder` does it by itself. Raises InputError where no launcher has numbered
    the process, or MASTER_ADDR and MASTER_PORT do not say where the ranks meet.
    """
    env = os.environ if environment is None else environment
    if not ("RANK" in env and "WORLD_SIZE" in env):
        found = next((names for names in _NAMES if names[0] in env and names[1] in env), None)
        if found is None:
            raise InputError(
                "this process has no rank: start it by torchrun, srun or mpirun, or set RANK and WORLD_SIZE"
            )
        for ours, theirs in zip(("RANK", "WORLD_SIZE", "LOCAL_RANK"), found):
            if theirs in env:
                env[ours] = env[theirs]
    missing = [name for name in _MEETING if not env.get(name)]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} not set: give all ranks the address of rank 0's host, and a free port there "
            "(srun passes them on; mpirun with -x MASTER_ADDR -x MASTER_PORT)"
        )
