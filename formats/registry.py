"""The formats that netprobe writes and reads hosts from: names to pure functions, text in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.formats.ansible import read_ansible_inventory
from netprobe.formats.deepspeed import read_deepspeed_hostfile, write_deepspeed_hostfile
from netprobe.formats.lsf import read_lsf_hostfile
from netprobe.formats.mpich import mpich_command, read_mpich_machinefile, write_mpich_machinefile
from netprobe.formats.openmpi import openmpi_command, read_openmpi_hostfile, write_openmpi_hostfile
from netprobe.formats.pbs import read_pbs_nodefile
from netprobe.formats.plain import read_plain_list, write_plain_list
from netprobe.formats.slurm import read_slurm_nodelist


class Writer(Protocol):
    """Hosts in rank order to text; ``slots`` is the ranks of every host, None for the hosts' own."""

    def __call__(self, hosts: Sequence[Host], *, slots: int | None = None) -> str:
        """Raises InputError for what the format cannot say."""


class Reader(Protocol):
    """Text to hosts; ``source`` names the text in errors."""

    def __call__(self, text: str, *, source: str | None = None) -> tuple[Host, ...]:
        """Raises HostsError naming the line."""


class Command(Protocol):
    """The argv under which a launcher keeps the order of a written file."""

    def __call__(self, file: str, ranks: int, program: Sequence[str] = (), /) -> list[str]:
        """``ranks`` is the sum of the slots."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One foreign format.

    ``write`` is None for a format that is only read, ``read`` for one that is only written, and ``command``
    where no command was tried that keeps the order.
    """

    name: str
    summary: str
    write: Writer | None = None
    read: Reader | None = None
    command: Command | None = None


FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format(
            name="openmpi",
            summary="hostfile of Open MPI's mpirun (for --map-by seq)",
            write=write_openmpi_hostfile,
            read=read_openmpi_hostfile,
            command=openmpi_command,
        ),
        Format(
            name="mpich",
            summary="machinefile of MPICH and Intel MPI",
            write=write_mpich_machinefile,
            read=read_mpich_machinefile,
            command=mpich_command,
        ),
        Format(
            name="deepspeed",
            summary="hostfile of DeepSpeed",
            write=write_deepspeed_hostfile,
            read=read_deepspeed_hostfile,
        ),
        Format(
            name="plain",
            summary="one host a line, in rank order",
            write=write_plain_list,
            read=read_plain_list,
        ),
        Format(name="slurm", summary="node list of Slurm", read=read_slurm_nodelist),
        Format(name="pbs", summary="nodefile of a PBS job", read=read_pbs_nodefile),
        Format(name="lsf", summary="host file of an LSF job", read=read_lsf_hostfile),
        Format(name="ansible", summary="Ansible inventory in INI form", read=read_ansible_inventory),
    )
}


def format_named(name: str) -> Format:
    """The format of that name. Raises InputError listing the known ones."""
    if name not in FORMATS:
        raise InputError(f"unknown format {name[:60]!r}: known are {', '.join(sorted(FORMATS))}")
    return FORMATS[name]


def writer_named(name: str) -> Writer:
    """What writes the format of that name. Raises InputError listing those that are written."""
    write = FORMATS[name].write if name in FORMATS else None
    if write is None:
        written = ", ".join(sorted(entry.name for entry in FORMATS.values() if entry.write))
        what = f"format {name!r} is only read" if name in FORMATS else f"unknown format {name[:60]!r}"
        raise InputError(f"{what}: known are {written}")
    return write
