"""A tiny program that says which rank it is and which host it runs on, and the commands that start it as ranks.

It is one ``echo`` of a POSIX shell, so that it runs on every host of a launcher. Each rank prints one line::

    netprobe-rank 1 LAUNCHER RANK SIZE LOCAL_RANK names NAME .. addresses ADDRESS .. end

with ``none`` for a variable that is not set, which says that another launcher started it. One write of less than a
pipe's 4,096 bytes is not torn by those of other ranks. No name is looked up, since that takes seconds where a
resolver is broken.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.text import meant
from netprobe.formats.hostfiles.ranks import slots_of
from netprobe.formats.hostfiles.torchrun import torchrun_argv
from netprobe.formats.registry import format_named

MARK = "netprobe-rank 1 "


@dataclass(frozen=True, kw_only=True)
class RankLauncher:
    """One launcher whose ranks can report where they run.

    ``format`` is that of the file it reads. ``says`` is the word for it in a rank's line. ``rank``, ``size`` and
    ``local_rank`` are the variables it sets, ``names`` those that hold the host's name.
    """

    name: str
    format: str
    says: str
    rank: str
    size: str
    local_rank: str
    names: tuple[str, ...] = ()

    @property
    def program(self) -> list[str]:
        """The argv of the program."""
        numbers = " ".join(f"${{{variable}:-none}}" for variable in (self.rank, self.size, self.local_rank))
        names = " ".join([*(f"${{{variable}:-}}" for variable in self.names), "$(uname -n)"])
        addresses = "$(hostname -I 2>/dev/null)"
        return ["sh", "-c", f'echo "{MARK}{self.says} {numbers} names {names} addresses {addresses} end"']


_OPENMPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
_LAUNCHERS = (
    ("openmpi", "openmpi", "openmpi", *_OPENMPI, ("PMIX_HOSTNAME",)),
    ("rankfile", "rankfile", "openmpi", *_OPENMPI, ("PMIX_HOSTNAME",)),
    ("mpich", "mpich", "mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", ()),
    (
        "slurm",
        "slurm-hostfile",
        "slurm",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        ("SLURMD_NODENAME",),
    ),
    ("torchrun", "torchrun", "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", ()),
    (
        "horovod",
        "horovod",
        "horovod",
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
        "HOROVOD_LOCAL_RANK",
        ("HOROVOD_HOSTNAME",),
    ),
)
RANK_LAUNCHERS: dict[str, RankLauncher] = {
    name: RankLauncher(
        name=name, format=format_, says=says, rank=rank, size=size, local_rank=local, names=names
    )
    for name, format_, says, rank, size, local, names in _LAUNCHERS
}


def rank_launcher(name: str) -> RankLauncher:
    """The launcher of that name. Raises InputError listing the known ones."""
    if name not in RANK_LAUNCHERS:
        known = ", ".join(RANK_LAUNCHERS)
        raise InputError(f"unknown launcher {name[:60]!r}: known are {known}{meant(name, RANK_LAUNCHERS)}")
    return RANK_LAUNCHERS[name]


def rank_argv(
    launcher: RankLauncher,
    file: str,
    hosts: Sequence[Host],
    *,
    slots: int | None = None,
    extra: Sequence[str] = (),
) -> list[str] | None:
    """The argv that starts the program as every rank of ``file``; None where each host needs one of its own.

    ``extra`` are arguments for the launcher, put before the program. Raises InputError as `slots_of` does.
    """
    command = format_named(launcher.format).command
    if command is None:
        return None
    return command(file, sum(slots_of(hosts, slots)), [*extra, *launcher.program])


def rank_commands(
    launcher: RankLauncher,
    file: str,
    hosts: Sequence[Host],
    *,
    slots: int | None = None,
    extra: Sequence[str] = (),
) -> list[str]:
    """The same as lines for a shell: one, or ``HOST COMMAND`` for each host where each starts its own ranks."""
    argv = rank_argv(launcher, file, hosts, slots=slots, extra=extra)
    if argv is not None:
        return [shlex.join(argv)]
    program = [*extra, "--no-python", *launcher.program]
    return [
        f"{host.launcher_name} {shlex.join(torchrun_argv(hosts, at, count, program))}"
        for at, (host, count) in enumerate(zip(hosts, slots_of(hosts, slots)))
    ]
