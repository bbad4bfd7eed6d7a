"""Options that say how to reach the hosts, and the hosts that a launcher knows by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from netprobe.core.hosts import Host

KNOW_THEIR_HOSTS = ("slurm",)
"""Values of --via that need no --hosts."""

ViaOption = Annotated[
    str | None,
    typer.Option(
        "--via",
        help="How to reach the hosts: ssh (default), local, slurm (inside an allocation), mpi, or a template such as "
        "'ip netns exec {target}'. See docs/launchers.md.",
    ),
]
SshConfigOption = Annotated[
    Path | None, typer.Option("--ssh-config", metavar="FILE", help="Passed to ssh as -F.")
]
SshOptionOption = Annotated[
    list[str] | None, typer.Option("--ssh-option", metavar="KEY=VALUE", help="Passed to ssh as -o.")
]
McaOption = Annotated[
    list[str] | None, typer.Option("--mca", metavar="KEY=VALUE", help="Passed to mpirun as --mca KEY VALUE.")
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="ADDR[:PORT]",
        help="Where agents dial back to (the address that routes to the hosts, any port).",
    ),
]
PythonOption = Annotated[
    str | None, typer.Option("--python", help="The Python to run on the hosts, 3.8 or later (python3).")
]
SetupOption = Annotated[
    str | None,
    typer.Option(
        "--setup",
        metavar="LINES",
        help="Shell lines to run on each host before Python: '. /etc/profile; module load python/3.11'.",
    ),
]
FanOutOption = Annotated[
    int | None,
    typer.Option("--fan-out", min=1, help="How many hosts are being connected to at a time (16)."),
]


def hosts_to_scan(hosts: str | None, via: str) -> tuple[Host, ...]:
    """The hosts of ``--hosts``, or those that the launcher knows by itself. Raises InputError."""
    from netprobe.core.errors import InputError
    from netprobe.formats import load_hosts

    if hosts is None and via not in KNOW_THEIR_HOSTS:
        raise InputError("give either --hosts FILE or --lab SPEC")
    return load_hosts(f"{via}:" if hosts is None else hosts)
