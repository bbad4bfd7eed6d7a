"""The torchrun command of each host, in and out, for a static rendezvous.

What torchrun of PyTorch 2.13 does, tried with it: with ``--rdzv-backend=static`` ranks follow ``--node-rank``, a
host's as one block, also where hosts have different ``--nproc-per-node``; and an IPv6 address has no brackets
in ``--master-addr``, since only an endpoint has them. By its source, not tried, ``c10d`` ignores ``--node-rank`` and
sorts the hosts by name, as strings. A static rendezvous starts no host again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_SLOTS, Host, check_hosts, checked_lines, make_host
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.ranks import comments, launcher_names, slots_of

PORT = 29500
ORDER = (
    "torchrun keeps it with --rdzv-backend=static and each host's own --node-rank; with --rdzv-backend=c10d it sorts "
    "the hosts by name, as strings. Start the line of each host on that host, the program in place of PROGRAM"
)
_LINE = re.compile(
    r"(?P<name>\S+) torchrun --nnodes=(?P<nodes>[0-9]{1,7}) --node-rank=(?P<rank>[0-9]{1,7}) "
    r"--nproc-per-node=(?P<slots>[0-9]{1,7}) --rdzv-backend=static --master-addr=\S+ --master-port=[0-9]{1,5} \S.*"
)


def torchrun_argv(
    hosts: Sequence[Host], rank: int, slots: int, program: Sequence[str], *, port: int = PORT
) -> list[str]:
    """The argv that host ``rank`` of ``hosts`` (node rank 0 first) runs. Host 0 is reached at its address."""
    master = hosts[0].address or hosts[0].launcher_name
    return [
        "torchrun",
        f"--nnodes={len(hosts)}",
        f"--node-rank={rank}",
        f"--nproc-per-node={slots}",
        "--rdzv-backend=static",
        f"--master-addr={master}",
        f"--master-port={port}",
        *program,
    ]


def write_torchrun_commands(hosts: Sequence[Host], *, slots: int | None = None) -> str:
    """One line per host, ``HOST COMMAND``, node rank 0 first. Raises InputError for a name that two hosts have."""
    check_hosts(hosts)
    names = launcher_names(hosts)
    text = comments(
        "torchrun, one line per host: its name, and the command to run there.",
        ORDER,
        f"The port {PORT} must be free on the first host, and open to the others.",
    )
    for rank, (name, count) in enumerate(zip(names, slots_of(hosts, slots))):
        text += f"{name} {shlex.join(torchrun_argv(hosts, rank, count, ['PROGRAM']))}\n"
    return text


def read_torchrun_commands(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of such lines, with their slots. Raises HostsError where node ranks are not those of the lines."""
    hosts: list[Host] = []
    nodes: list[int] = []
    for number, line in checked_lines(text.removeprefix("\ufeff"), source=source):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if not match or not 1 <= int(match["slots"]) <= MAX_SLOTS:
            fault = f"{line[:60]!r} is not a line 'HOST torchrun ..' as netprobe export writes it"
            raise HostsError(fault, source=source, line=number)
        if int(match["rank"]) != len(hosts):
            fault = f"node rank {match['rank']}, where {len(hosts)} is next"
            raise HostsError(fault, source=source, line=number)
        hosts.append(make_host(match["name"], source=source, line=number, slots=int(match["slots"])))
        nodes.append(int(match["nodes"]))
    if any(count != len(hosts) for count in nodes):
        raise HostsError(f"has {len(hosts)} hosts, and --nnodes says another number", source=source)
    return check_hosts(hosts, source=source)


FORMAT = Format(
    name="torchrun",
    summary="the torchrun command of each host (static rendezvous)",
    write=write_torchrun_commands,
    read=read_torchrun_commands,
    order=ORDER,
    file="torchrun.txt",
)
