"""Hostfiles of Horovod: ``worker-1 slots=4``, one line per host, and nothing else.

From the source of horovodrun (not tried): each line is cut at blanks and at ``=``, so that a comment or an empty line
stops it, and a name is made of letters, digits and ``_ . -``. With ``--gloo`` ranks go to the hosts in the order of
the file, a host's as one block. With ``--mpi``, the default where it was built with MPI, it hands the hosts to
mpirun by slot, and Open MPI 4.1 moves the launching host to rank 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import Host, check_hosts
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.deepspeed import read_deepspeed_hostfile
from netprobe.formats.hostfiles.ranks import argument_path, launcher_names, slots_of

ORDER = (
    "horovodrun keeps it with --gloo and -np of the sum of the slots; with --mpi it starts mpirun by slot, which puts "
    "the launching host first. This is from its source, not tried; the file can hold no comment"
)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def horovod_command(hostfile: str, ranks: int, program: Sequence[str] = ()) -> list[str]:
    """The argv that starts ``ranks`` processes in the order of ``hostfile``."""
    return ["horovodrun", "--gloo", "-np", str(ranks), "--hostfile", argument_path(hostfile), *program]


def write_horovod_hostfile(hosts: Sequence[Host], *, slots: int | None = None) -> str:
    """The hostfile for ``hosts`` in rank order; a host without slots has one.

    Raises InputError for a launcher name that horovodrun would refuse.
    """
    check_hosts(hosts)
    names = launcher_names(hosts)
    for name in names:
        if not _NAME.fullmatch(name):
            raise InputError(
                f"horovodrun refuses the launcher name {name!r} (letters, digits and _ . - only): give the host "
                "another launcher_name="
            )
    return "".join(f"{name} slots={count}\n" for name, count in zip(names, slots_of(hosts, slots)))


def read_horovod_hostfile(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of a hostfile, in its order. Raises HostsError, also for a comment, which would stop horovodrun."""
    if "#" in text:
        raise HostsError("has a '#': horovodrun reads no comments", source=source)
    return read_deepspeed_hostfile(text, source=source)


FORMAT = Format(
    name="horovod",
    summary="hostfile of Horovod",
    write=write_horovod_hostfile,
    read=read_horovod_hostfile,
    command=horovod_command,
    order=ORDER,
    file="hostfile.horovod",
)
