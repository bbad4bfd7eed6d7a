"""Which rank's process keeps the job's store, or runs on the host that does: a store that is gone has gone with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netprobe.runtime.sockets import listens, own_connections

NOT_HERE, HOST, PROCESS = range(3)


def port_of(store: Any) -> int | None:
    """The port at which ``store`` is served; None where it is not served over TCP."""
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    return getattr(store, "port", None)


def keeps(store: Any) -> int:
    """Whether this process serves ``store`` (torchrun's agent does not), its host does, or neither is known."""
    port = port_of(store)
    if port is None:
        return NOT_HERE
    if listens(port):
        return PROCESS
    for own, other in own_connections().values():
        (here, _), (there, number) = own.rsplit(" ", 1), other.rsplit(" ", 1)
        if number == str(port) and here == there:
            return HOST
    return NOT_HERE


def keeper_of(said: Sequence[int]) -> int | None:
    """The rank, from what each says of itself; None where none does, or several run on that host."""
    most = max(said)
    found = [rank for rank, one in enumerate(said) if one == most]
    return found[0] if most != NOT_HERE and len(found) == 1 else None
