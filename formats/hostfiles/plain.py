"""A plain list: one host a line, rank 0 first, as pdsh, fping and most scripts take it."""

from __future__ import annotations

from collections.abc import Sequence

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import MAX_HOSTS, Host, check_hosts, make_host
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.repeated import content_lines

ORDER = (
    "the list says nothing of ranks: whoever reads it keeps the order, or not (srun does with SLURM_HOSTFILE and "
    "--distribution=arbitrary, and sorts by name otherwise)"
)


def write_plain_list(hosts: Sequence[Host], *, slots: int | None = None) -> str:
    """The launcher names of ``hosts``, one per line. Raises InputError when slots are requested."""
    if slots is not None:
        raise InputError("a plain list says nothing of slots: leave them out, or export an openmpi hostfile")
    names = [host.launcher_name for host in check_hosts(hosts)]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two hosts have the launcher name {twice!r}: the list could not distinguish them")
    return "".join(f"{name}\n" for name in names)


def read_plain_list(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of a plain list; ``#`` starts a comment. Raises HostsError naming the line."""
    hosts = []
    for number, content in content_lines(text, source=source):
        words = content.split()
        if len(words) > 1:
            raise HostsError(
                f"{' '.join(words)[:60]!r} is more than one word: a plain list has one host a line",
                source=source,
                line=number,
            )
        hosts += [make_host(word, source=source, line=number) for word in words]
        if len(hosts) > MAX_HOSTS:
            raise HostsError(f"more than {MAX_HOSTS} hosts", source=source)
    return check_hosts(hosts, source=source)


FORMAT = Format(
    name="plain",
    summary="one host a line, in rank order",
    write=write_plain_list,
    read=read_plain_list,
    order=ORDER,
    file="hostfile.plain",
)
