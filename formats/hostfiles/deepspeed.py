"""Hostfiles of DeepSpeed: ``worker-1 slots=4``, one line per host.

From DeepSpeed's own reader: each line is a name and ``slots=N``, each host appears once, and a comment is
a whole line. Its launcher numbers the ranks in the order of the file. **It runs on this machine alone, with no
more than a warning, when the file is missing**, so check the path that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import MAX_SLOTS, Host, check_hosts, make_host
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.ranks import launcher_names, slots_of
from netprobe.formats.hostfiles.repeated import content_lines

ORDER = (
    "deepspeed --hostfile FILE keeps it, by its source (not tried); it runs on this machine alone where the file is "
    "missing, and --include or --exclude leave hosts out"
)
_LINE = re.compile(r"(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<name>\S+)\s+slots=(?P<slots>[0-9]{1,7})")


def write_deepspeed_hostfile(hosts: Sequence[Host], *, slots: int | None = None) -> str:
    """The hostfile for ``hosts`` in rank order; a host without slots has one.

    Raises InputError for a launcher name that DeepSpeed's launchers would misread.
    """
    check_hosts(hosts)
    names = launcher_names(hosts)
    for name in names:
        if ":" in name:
            raise InputError(
                f"DeepSpeed would cut the launcher name {name!r} at its ':': give the host another "
                "launcher_name="
            )
    lines = ["# DeepSpeed hostfile, rank 0 first"]
    lines += [f"{name} slots={count}" for name, count in zip(names, slots_of(hosts, slots))]
    return "".join(f"{line}\n" for line in lines)


def read_deepspeed_hostfile(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of a hostfile, in its order; ``user@host`` is a target. Raises HostsError naming the line."""
    hosts: list[Host] = []
    for number, content in content_lines(text, source=source):
        match = _LINE.fullmatch(content)
        if not match:
            raise HostsError(
                f"{content[:60]!r} is not a line of a DeepSpeed hostfile, such as 'worker-1 slots=4'",
                source=source,
                line=number,
            )
        if not 1 <= int(match["slots"]) <= MAX_SLOTS:
            raise HostsError(
                f"slots={match['slots']} is not a valid number of slots", source=source, line=number
            )
        target = match["name"] if match["user"] is None else f"{match['user']}@{match['name']}"
        hosts.append(
            make_host(match["name"], source=source, line=number, target=target, slots=int(match["slots"]))
        )
    return check_hosts(hosts, source=source)


FORMAT = Format(
    name="deepspeed",
    summary="hostfile of DeepSpeed",
    write=write_deepspeed_hostfile,
    read=read_deepspeed_hostfile,
    order=ORDER,
    file="hostfile.deepspeed",
)
