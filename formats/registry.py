"""The formats that netprobe writes and reads hosts from: names to pure functions, text in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.formats.openmpi import read_openmpi_hostfile, write_openmpi_hostfile
from netprobe.formats.plain import read_plain_list, write_plain_list


class Writer(Protocol):
    """Hosts in rank order to text; ``slots`` is the ranks of every host, None for the hosts' own."""

    def __call__(self, hosts: Sequence[Host], *, slots: int | None = None) -> str:
        """Raises InputError for what the format cannot say."""


class Reader(Protocol):
    """Text to hosts; ``source`` names the text in errors."""

    def __call__(self, text: str, *, source: str | None = None) -> tuple[Host, ...]:
        """Raises HostsError naming the line."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One foreign format. ``read`` is None for a format that is only written."""

    name: str
    summary: str
    write: Writer
    read: Reader | None = None


FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format(
            name="openmpi",
            summary="hostfile of Open MPI's mpirun (for --map-by seq)",
            write=write_openmpi_hostfile,
            read=read_openmpi_hostfile,
        ),
        Format(
            name="plain",
            summary="one host a line, in rank order",
            write=write_plain_list,
            read=read_plain_list,
        ),
    )
}


def format_named(name: str) -> Format:
    """The format of that name. Raises InputError listing the known ones."""
    if name not in FORMATS:
        raise InputError(f"unknown format {name[:60]!r}: known are {', '.join(sorted(FORMATS))}")
    return FORMATS[name]
