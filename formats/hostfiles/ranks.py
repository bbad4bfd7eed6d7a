"""How many ranks each host gets: one rule for every hostfile that netprobe writes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from netprobe.core.errors import InputError
from netprobe.core.hosts import MAX_SLOTS, Host

MAX_RANKS = 1_000_000


def slots_of(hosts: Sequence[Host], slots: int | None = None) -> list[int]:
    """Ranks of each of ``hosts``: ``slots`` for all of them, or each host's own ``slots``, or one.

    Raises InputError for a number of slots or of ranks that is out of range.
    """
    if slots is not None and not 1 <= slots <= MAX_SLOTS:
        raise InputError(f"{slots} slots a host: between 1 and {MAX_SLOTS} are possible")
    counts = [slots or host.slots or 1 for host in hosts]
    if sum(counts) > MAX_RANKS:
        raise InputError(f"{sum(counts)} ranks: a hostfile takes at most {MAX_RANKS}")
    return counts


def places_of(counts: Sequence[int], *, by_node: bool = False) -> list[tuple[int, int]]:
    """Host (its place in the order) and local rank of each rank, for ``counts`` ranks per host.

    A host's ranks are neighbours; ``by_node`` places them round-robin by host instead, skipping full hosts.
    """
    if not by_node:
        return [(at, local) for at, count in enumerate(counts) for local in range(count)]
    return [
        (at, local)
        for local in range(max(counts, default=0))
        for at, count in enumerate(counts)
        if count > local
    ]


def launcher_names(hosts: Sequence[Host]) -> list[str]:
    """Launcher names of ``hosts``. Raises InputError for one that two hosts have."""
    seen: set[str] = set()
    for host in hosts:
        if host.launcher_name in seen:
            raise InputError(f"two hosts have the launcher name {host.launcher_name!r}: give them others")
        seen.add(host.launcher_name)
    return [host.launcher_name for host in hosts]


def argument_path(path: str) -> str:
    """``path`` as an argument that no launcher takes for an option."""
    return f"./{path}" if path.startswith("-") else path


def comments(*lines: str) -> str:
    """``lines`` as comments of a file, each on lines of at most 110 characters."""
    wrapped = [part for line in lines for part in textwrap.wrap(line, 107, break_on_hyphens=False)]
    return "".join(f"# {part}\n" for part in wrapped)
