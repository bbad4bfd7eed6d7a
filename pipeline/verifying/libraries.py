"""A real library on the hosts of a plan: the exported hostfile, the launcher, and the session wired together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.openmpi_names import naming_flags
from netprobe.core.text import meant
from netprobe.formats.hostfiles.openmpi import openmpi_command, openmpi_ranks, write_openmpi_hostfile
from netprobe.pipeline.files import save_text
from netprobe.probe.launchers.launch import Launcher
from netprobe.verify.libraries.gloo import GlooLibrary
from netprobe.verify.libraries.library import Library
from netprobe.verify.libraries.mpi import MpiLibrary
from netprobe.verify.libraries.nccl import PROGRAM, NcclTests

LIBRARIES = ("mpi", "gloo", "nccl-tests")


def library_named(
    name: str,
    *,
    launcher: Launcher,
    mca: Sequence[str] = (),
    prefix: Sequence[str] = (),
    python: str | None = None,
    program: str = PROGRAM,
) -> Library:
    """``mpi``, ``gloo`` or ``nccl-tests``.

    ``launcher`` starts Gloo's processes; ``mca`` and ``prefix`` (what goes before mpirun) are for the other two,
    ``program`` is the path of all_reduce_perf. Raises InputError.
    """
    if name == "mpi":
        return MpiLibrary(one_rank_a_host, mca=mca, prefix=prefix, python=python or "python3")
    if name == "gloo":
        if mca:
            raise InputError("--mca goes with --with mpi and --with nccl-tests, not with --with gloo")
        return GlooLibrary(launcher, python=python)
    if name == "nccl-tests":
        return NcclTests(all_slots, mca=mca, prefix=prefix, program=program)
    raise InputError(f"--with {name[:60]!r}: known are {', '.join(LIBRARIES)}{meant(name, LIBRARIES)}")


def chosen_library(
    name: str | None,
    *,
    launcher: Launcher,
    mca: Sequence[str] = (),
    python: str | None = None,
    setup: str | None = None,
    program: str | None = None,
) -> Library | None:
    """The library of ``--with``, None without it. Raises InputError for an option that does not go with it."""
    if program is not None and name != "nccl-tests":
        raise InputError("--program goes with --with nccl-tests")
    if name is None:
        return None
    if setup is not None:
        raise InputError("--setup is for netprobe's own agents: give --python PATH for what --with runs")
    return library_named(name, launcher=launcher, mca=mca, python=python, program=program or PROGRAM)


def one_rank_a_host(hosts: Sequence[Host], path: Path) -> list[str]:
    """Write the Open MPI hostfile of hosts in rank order; mpirun's argv up to the program."""
    save_text(write_openmpi_hostfile(hosts, slots=1), path)
    return openmpi_command(str(path), len(hosts), _naming_flags(hosts))


def all_slots(hosts: Sequence[Host], path: Path) -> list[str]:
    """The same with as many ranks on each host as it has slots."""
    save_text(write_openmpi_hostfile(hosts), path)
    return openmpi_command(str(path), len(openmpi_ranks(hosts)), _naming_flags(hosts))


def _naming_flags(hosts: Sequence[Host]) -> tuple[str, ...]:
    return naming_flags(host.launcher_name for host in hosts)
