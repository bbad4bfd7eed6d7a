"""Machinefiles of MPICH's Hydra and of Intel MPI, in and out, and the command line that keeps their order.

What mpiexec.hydra of MPICH 4.0.2 and 5.0.2 and of Intel MPI 2021.18 do, tried with all three:

- each line is ``HOST:SLOTS``, and ranks go to the hosts in the order of the file, each host's slots as one
  block. This holds for ``-machinefile`` with ``-n`` the sum of the slots, also where the launching host is
  in the file, inside a Slurm job, and with ``I_MPI_PERHOST`` set. More ranks than slots start again at the top.
- ``-f`` and ``-hostfile`` are the same to MPICH. Intel's ``-f`` takes as many ranks as a host has cores where a
  line has no ``:SLOTS``, and ``I_MPI_PERHOST`` overrides the slots: so ``-machinefile`` it is.
- ``-ppn`` undoes the blocks in MPICH.
- ``user=`` behind a host is a login name to MPICH and ignored by Intel; ``binding=`` is ignored by MPICH and an
  error to Intel; ``ifname=``, of older Hydras, is an error to all. All are read here, and none is written.
- a name is cut at its first colon, so an IPv6 address cannot be written. A comment behind a host is an error
  to MPICH. Intel drops a host with ``:0`` without a word, which is an error here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import Host, check_hosts, make_host
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.ranks import argument_path, launcher_names, slots_of
from netprobe.formats.hostfiles.repeated import Listed, content_lines, slots_number

ORDER = (
    "mpiexec.hydra keeps it with -machinefile and -n of the sum of the slots; -ppn undoes it, and I_MPI_PERHOST does "
    "with -f"
)
HEADER = "# MPICH and Intel MPI machinefile"
TRAILING_KEYS = frozenset({"user", "binding", "ifname", "ifhn"})
_USER = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*")


def mpich_command(machinefile: str, ranks: int, program: Sequence[str] = ()) -> list[str]:
    """The argv that starts ``ranks`` processes in the order of ``machinefile``.

    The program is mpiexec.hydra by name, because ``mpiexec`` is Open MPI's on many machines.
    """
    # A file of this name would be taken for the word that means "this machine".
    path = f"./{machinefile}" if machinefile == "HYDRA_USE_LOCALHOST" else argument_path(machinefile)
    return ["mpiexec.hydra", "-machinefile", path, "-n", str(ranks), *program]


def write_mpich_machinefile(hosts: Sequence[Host], *, slots: int | None = None) -> str:
    """The machinefile for ``hosts`` in rank order; a host's ranks are neighbours.

    Raises InputError for a launcher name that Hydra would misread, before anything is written.
    """
    check_hosts(hosts)
    names = launcher_names(hosts)
    for name in names:
        if ":" in name:
            raise InputError(
                f"Hydra would cut the launcher name {name!r} at its first ':': give the host another "
                "launcher_name="
            )
    counts = slots_of(hosts, slots)
    lines = [f"{HEADER}, rank 0 first. mpiexec keeps this order only with these flags:"]
    lines += [f"#   mpiexec.hydra -machinefile THIS_FILE -n {sum(counts)} PROGRAM"]
    lines += [f"{name}:{count}" for name, count in zip(names, counts)]
    return "".join(f"{line}\n" for line in lines)


def read_mpich_machinefile(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of a machinefile, in the order of their first lines.

    ``slots`` of a host listed twice or more are added up, a line without ``:SLOTS`` counting one; a host
    listed once without it has None. ``user=`` becomes the target ``user@host``. Raises HostsError naming
    the line.
    """
    entries: dict[str, Listed] = {}
    for number, content in content_lines(text, source=source):
        _read_line(content.split(), entries, source=source, line=number)
    return check_hosts([entry.host(source=source) for entry in entries.values()], source=source)


def _read_line(words: Sequence[str], entries: dict[str, Listed], *, source: str | None, line: int) -> None:
    name, colon, count = words[0].partition(":")
    if ":" in count:
        raise HostsError(
            f"{words[0][:60]!r} has two colons: Hydra cuts a name at the first one, so an IPv6 address "
            "needs a name",
            source=source,
            line=line,
        )
    if "=" in words[0]:
        raise HostsError(f"{words[0][:60]!r} does not begin with a host", source=source, line=line)
    slots = slots_number(count)
    if colon and slots is None:
        raise HostsError(
            f"{words[0][:60]!r} is not HOST:SLOTS, with SLOTS a whole number of at least 1",
            source=source,
            line=line,
        )
    if name not in entries:
        make_host(name, source=source, line=line)
    user = _user(words[1:], source=source, line=line)
    entry = entries.setdefault(name, Listed(name=name, line=line))
    entry.add(slots, user, source=source, line=line)


def _user(words: Sequence[str], *, source: str | None, line: int) -> str | None:
    """The login name among the keys behind a host; the other keys only have to be known."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise HostsError(f"{word[:60]!r} is not KEY=VALUE", source=source, line=line)
        if key not in TRAILING_KEYS:
            known = ", ".join(sorted(TRAILING_KEYS))
            hint = "; 'HOST slots=N' is Open MPI's and DeepSpeed's" if key == "slots" else ""
            raise HostsError(f"unknown key {key[:60]!r}: known are {known}{hint}", source=source, line=line)
        if key in found:
            raise HostsError(f"{key} is given twice", source=source, line=line)
        found[key] = value
    if "user" in found and not _USER.fullmatch(found["user"]):
        raise HostsError(f"{found['user'][:60]!r} is not a valid user name", source=source, line=line)
    return found.get("user")


FORMAT = Format(
    name="mpich",
    summary="machinefile of MPICH and Intel MPI",
    write=write_mpich_machinefile,
    read=read_mpich_machinefile,
    command=mpich_command,
    order=ORDER,
    file="hostfile.mpich",
)
