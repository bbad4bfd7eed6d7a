"""The list that SLURM_HOSTFILE names, in and out: a node a task, for ``srun --distribution=arbitrary``.

From Slurm's reader, and tried with 22.05: a line is a node, or ``NODE*TASKS``; ``#`` begins a comment; a line has at
most 1,023 characters; tasks are numbered in the order of the lines. Without both the variable and the option srun
sorts the nodes by name. It takes as many nodes as ``--ntasks`` lines name, and they must be the job's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import MAX_SLOTS, Host, check_hosts
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.ranks import argument_path, comments, launcher_names, places_of, slots_of
from netprobe.formats.hostfiles.repeated import add_up, content_lines

ORDER = (
    "srun keeps it with SLURM_HOSTFILE=FILE and --distribution=arbitrary, both, and --ntasks of as many as the file "
    "has lines; otherwise it sorts the nodes by name. Names must be those of sinfo -N"
)
RESERVED = ("ALL", "DEFAULT")
"""In its configuration: all nodes, and what the lines below have where they say nothing else."""
MAX_NUMBER = 2**64 - 1
"""At the end of a name, as ``scontrol show hostnames`` of 22.05 keeps it."""
_LINE = re.compile(r"(?P<name>[^\s*]+)(?:\*(?P<count>[0-9]{1,7}))?")


def slurm_hostfile_command(hostfile: str, ranks: int, program: Sequence[str] = ()) -> list[str]:
    """The argv that starts ``ranks`` tasks in the order of ``hostfile``, inside a job that has these nodes."""
    variable = f"SLURM_HOSTFILE={argument_path(hostfile)}"
    return ["env", variable, "srun", "--distribution=arbitrary", f"--ntasks={ranks}", *program]


def write_slurm_hostfile(hosts: Sequence[Host], *, slots: int | None = None, by_node: bool = False) -> str:
    """The list for ``hosts`` in rank order: each on as many lines, one below the other, as it has slots.

    ``by_node`` writes the lines round-robin by host instead.

    Raises InputError for a launcher name that no node can have.
    """
    check_hosts(hosts)
    names = launcher_names(hosts)
    check_node_names(names)
    lines = [names[at] for at, _ in places_of(slots_of(hosts, slots), by_node=by_node)]
    return comments("SLURM_HOSTFILE, task 0 first.", ORDER) + "".join(f"{line}\n" for line in lines)


def read_slurm_hostfile(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts in the order of their first lines, with as many slots as they have tasks. Raises HostsError."""
    entries: list[tuple[str, int, int | None]] = []
    for number, content in content_lines(text, source=source):
        match = _LINE.fullmatch(content)
        count = int(match["count"] or 1) if match else 0
        if not match or not 1 <= count <= MAX_SLOTS:
            fault = f"{content[:60]!r} is not a line of a SLURM_HOSTFILE, such as n1 or n1*4"
            raise HostsError(fault, source=source, line=number)
        entries.append((match["name"], count, number))
    return add_up(entries, source=source)


def check_node_names(names: Sequence[str]) -> None:
    """Raise InputError for a name that Slurm cannot have for a node."""
    for name in names:
        if ":" in name:
            raise InputError(
                f"Slurm has no node of the name {name!r} (':' in it): give the host another launcher_name="
            )
        if name.upper() in RESERVED:
            raise InputError(
                f"{name!r} is a reserved word of Slurm: give the host another name (launcher_name=)"
            )
        if int("0" + name[len(name.rstrip("0123456789")) :]) > MAX_NUMBER:
            raise InputError(
                f"Slurm would read another number at the end of {name!r} (it keeps 64 bits): give the host another "
                "launcher_name="
            )


FORMAT = Format(
    name="slurm-hostfile",
    summary="list that SLURM_HOSTFILE names (for srun --distribution=arbitrary)",
    write=write_slurm_hostfile,
    write_by_node=partial(write_slurm_hostfile, by_node=True),
    read=read_slurm_hostfile,
    command=slurm_hostfile_command,
    order=ORDER,
    file="hostfile.slurm",
)
