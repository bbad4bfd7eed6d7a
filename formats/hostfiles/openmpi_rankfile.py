"""Rankfiles of Open MPI, in and out: one line per rank, with the host and the cores it is bound to.

What Open MPI 4.1.4 does, tried with it: ranks go where the file says, also without a hostfile, whose hosts are then
the file's own, and ``--bind-to none`` does not undo the binding. A line without ``slot=`` is an error to it, and so
are relative hosts (``+n0``) together with a hostfile. Here each rank of a host is bound to the core of its local
rank, as the format demands: where a rank has threads, a hostfile under ``--map-by seq`` binds none.
Open MPI 5 spells the option ``--map-by rankfile:file=FILE``, by its manual; that was not tried.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import Host, check_hosts, is_ip_address, make_host
from netprobe.core.openmpi_names import naming_flags
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.openmpi import check_openmpi_names
from netprobe.formats.hostfiles.ranks import MAX_RANKS, argument_path, comments, places_of, slots_of
from netprobe.formats.hostfiles.repeated import content_lines

ORDER = (
    "mpirun 4.1 keeps it with --rankfile FILE (5: --map-by rankfile:file=FILE); without it ranks go by slot and the "
    "launching host first. Each rank is bound to one core, --bind-to none or not: for ranks with threads take a "
    "hostfile (--format openmpi)"
)
_DIGIT_AND_DOT = re.compile(r"[0-9][^.]*\.")
_LINE = re.compile(r"rank\s+(?P<rank>[0-9]{1,7})\s*=\s*(?P<name>\S+)\s+slots?\s*=\s*(?P<slot>[0-9pP:*,-]+)")


def rankfile_command(rankfile: str, ranks: int, program: Sequence[str] = ()) -> list[str]:
    """The argv that starts ``ranks`` processes as ``rankfile`` says (Open MPI 4.1)."""
    return ["mpirun", "--rankfile", argument_path(rankfile), "-np", str(ranks), *program]


def write_openmpi_rankfile(hosts: Sequence[Host], *, slots: int | None = None, by_node: bool = False) -> str:
    """The rankfile for ``hosts`` in rank order, each rank on the core of its local rank.

    A host's ranks are neighbours, or round-robin ``by_node``.

    Raises InputError for a launcher name that mpirun would misread.
    """
    check_hosts(hosts)
    names = [host.launcher_name for host in hosts]
    check_openmpi_names(names)
    for name in names:
        if _DIGIT_AND_DOT.match(name) and not is_ip_address(name):
            raise InputError(
                f"mpirun takes {name!r} in a rankfile for no name (a digit first, and a dot): give the host another "
                "launcher_name="
            )
    places = places_of(slots_of(hosts, slots), by_node=by_node)
    lines = [f"rank {rank}={names[at]} slot={local}" for rank, (at, local) in enumerate(places)]
    return comments("Open MPI rankfile.", ORDER) + "".join(f"{line}\n" for line in lines)


def read_openmpi_rankfile(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts in the order of their ranks, with as many slots as they have ranks; the cores are not kept.

    Raises HostsError, with the line, for a rank that is repeated, missing, or separate from its host's
    other ranks: an order of hosts could not say that.
    """
    at: dict[int, tuple[str, int]] = {}
    for number, content in content_lines(text, source=source):
        match = _LINE.fullmatch(content)
        if not match:
            fault = f"{content[:60]!r} is not a line of a rankfile, such as 'rank 0=n1 slot=0'"
            raise HostsError(fault, source=source, line=number)
        rank = int(match["rank"])
        if rank in at:
            raise HostsError(f"rank {rank} is repeated", source=source, line=number)
        if len(at) >= MAX_RANKS:
            raise HostsError(f"more than {MAX_RANKS} ranks", source=source, line=number)
        at[rank] = (match["name"], number)
    counts: dict[str, int] = {}
    lines: dict[str, int] = {}
    last: str | None = None
    for expected, rank in enumerate(sorted(at)):
        name, number = at[rank]
        if rank != expected:
            raise HostsError(f"no rank {expected}, and there is a rank {rank}", source=source, line=number)
        if name != last and name in counts:
            fault = f"host {name[:60]!r} has rank {rank} separate from its others: an order of hosts cannot say that"
            raise HostsError(fault, source=source, line=number)
        counts[name] = counts.get(name, 0) + 1
        lines.setdefault(name, number)
        last = name
    hosts = [make_host(name, source=source, line=lines[name], slots=n) for name, n in counts.items()]
    return check_hosts(hosts, source=source)


FORMAT = Format(
    name="rankfile",
    summary="rankfile of Open MPI's mpirun, each rank bound to a core",
    write=write_openmpi_rankfile,
    write_by_node=partial(write_openmpi_rankfile, by_node=True),
    read=read_openmpi_rankfile,
    command=rankfile_command,
    naming_flags=naming_flags,
    order=ORDER,
    file="rankfile",
)
