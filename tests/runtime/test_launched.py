"""The rank of a process as each launcher says it."""

from __future__ import annotations

import pytest

from netprobe.core.errors import InputError
from netprobe.runtime import set_rank_variables

MEET = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
BATCH = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}
"""What a batch script has before it starts anything, and what mpirun hands on to every rank."""
MPIRUN = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (MPIRUN, ("5", "8", "1")),
        ({**BATCH, **MPIRUN}, ("5", "8", "1")),
        ({"PMI_RANK": "2", "PMI_SIZE": "4", **BATCH}, ("2", "4", None)),
        (SRUN, ("3", "4", "0")),
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", **SRUN}, ("1", "2", "0")),
    ],
)
def test_a_rank_is_that_of_the_innermost_launcher(
    given: dict[str, str], expected: tuple[str | None, ...]
) -> None:
    env = {**MEET, **given}
    set_rank_variables(env)
    assert (env.get("RANK"), env.get("WORLD_SIZE"), env.get("LOCAL_RANK")) == expected


@pytest.mark.parametrize("given", [{}, MEET, {**MEET, **BATCH}, SRUN, {**SRUN, "MASTER_ADDR": "10.0.0.1"}])
def test_without_a_rank_or_a_place_to_meet_it_is_said(given: dict[str, str]) -> None:
    with pytest.raises(InputError):
        set_rank_variables(dict(given))
