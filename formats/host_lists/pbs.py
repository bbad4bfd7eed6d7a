"""The nodefile that PBS (and Torque, and Cobalt) gives a job: one line a slot, named by ``$PBS_NODEFILE``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.repeated import read_line_a_slot


def read_pbs_nodefile(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts in the order of their first lines; ``slots`` is how many lines a host has.

    Raises HostsError naming the line.
    """
    return read_line_a_slot(text, source=source, what="a PBS nodefile")


def pbs_hosts(environ: Mapping[str, str], read_file: Callable[[str], str]) -> tuple[Host, ...]:
    """Hosts of the PBS job whose environment this is. Raises InputError outside a job."""
    path = environ.get("PBS_NODEFILE", "")
    if not path:
        raise InputError("no PBS job here (PBS_NODEFILE is not set): run inside a job, or give pbs:FILE")
    return read_pbs_nodefile(read_file(path), source=path)


FORMAT = Format(name="pbs", summary="nodefile of a PBS job", read=read_pbs_nodefile)
