"""A rank's connections for the library in C, opened on all ranks or on none."""

from __future__ import annotations

import os
import socket
import threading
import warnings
import weakref
from contextlib import suppress
from datetime import timedelta
from typing import Any

from netprobe.runtime.native.build import NotBuiltError, library
from netprobe.runtime.native.connect import NotConnectedError, connect
from netprobe.runtime.native.engine import NO_MEMORY, Engine, Failed
from netprobe.runtime.tape import Tape

_OPEN: weakref.WeakSet[NativeLines] = weakref.WeakSet()
VARIABLE = "NETPROBE_NATIVE"
"""0: messages go through torch.distributed."""


class NativeLines:
    """Connections to every other rank, ``channels`` a pair."""

    def __init__(self, sockets: dict[tuple[int, int], socket.socket], ranks: int) -> None:
        self._sockets = list(sockets.values())
        self._ranks = ranks
        self.peers = [peer for peer, _ in sockets]
        """Of each connection."""
        links = {key: at for at, key in enumerate(sockets)}
        self._engine = Engine([one.fileno() for one in self._sockets], links)
        self._use = threading.Lock()
        self._closed = False
        _OPEN.add(self)

    def run(
        self, tape: Tape, flat: Any, kind: int, mark: int, timeout_s: float, *, adds: bool
    ) -> tuple[float, float]:
        """Run a tape on a contiguous tensor of one dimension; seconds waited and adding.

        Raises Failed, and RuntimeError where this rank itself cannot go on.
        """
        if not self._use.acquire(blocking=False):
            raise RuntimeError("a collective is being run over these connections")
        try:
            if self._closed:
                raise RuntimeError("these connections were closed")
            return self._engine.run(tape, flat.data_ptr(), kind, mark, timeout_s, adds=adds)
        except Failed as failed:
            if failed.code == NO_MEMORY:
                raise RuntimeError(str(failed)) from None
            raise
        finally:
            self._use.release()
            if self._closed:
                self.close()

    def peers_of(self, failed: Failed) -> tuple[int, list[int]]:
        """The rank at the other end, and the ranks that this one waited for."""
        waited = dict.fromkeys(self.peers[link] for link in failed.missing)
        return self.peers[failed.link], list(waited)

    def add_waited_s(self, waited_s: list[float]) -> None:
        """Put the seconds waited for each rank in place."""
        totals = [0.0] * self._ranks
        for peer, seconds in zip(self.peers, self._engine.waited_s()):
            totals[peer] += seconds
        waited_s[:] = totals

    def close(self) -> None:
        """End the connections, also where a forked process still holds them.

        While a tape is run (in another thread, or below a signal's handler) their numbers are not given back, for what
        the process opens next would get them, and the tape's messages: the tape fails, and then they are.
        """
        self._closed = True
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        if self._use.acquire(blocking=False):
            for one in self._sockets:
                one.close()
            self._use.release()

    def leave(self) -> None:
        """In a forked process: let go of them, so that peers learn of the rank's end whatever its children do."""
        for one in self._sockets:
            one.close()


def open_native(
    store: Any,
    address: str,
    rank: int,
    ranks: int,
    channels: int,
    timeout_s: float,
    why_not: str = "",
) -> tuple[NativeLines | None, str]:
    """The connections, where every rank has opened its own; else None, and why the first could not.

    ``why_not``: what keeps this rank from it. Raises RuntimeError as the store does, where a rank does not come.
    """
    why = why_not or _unable(address, ranks)
    if ranks == 1:
        return (None, why) if why else (NativeLines({}, 1), "")
    made: NativeLines | None = None
    try:
        sockets = connect(store, "" if why else address, rank, ranks, channels, timeout_s, why)
        made = NativeLines(sockets, ranks)
    except NotConnectedError as error:
        why = str(error)
    store.set(f"connected {rank}", why)
    keys = [f"connected {other}" for other in range(ranks)]
    store.wait(keys, timedelta(seconds=timeout_s))
    for other, key in enumerate(keys):
        text = str(store.get(key), "utf-8")
        if text:
            if made is not None:
                made.close()
            return None, text if text.startswith("rank ") else f"rank {other}: {text}"
    return made, ""


def warn_of_torch(why: str) -> None:
    """Say why messages take the longer way, unless that is wanted."""
    if os.environ.get(VARIABLE) != "0":
        warnings.warn(
            f"messages go through torch.distributed, which takes longer: {why}; {VARIABLE}=0 on every rank says that "
            "this is wanted",
            RuntimeWarning,
            stacklevel=2,
        )


def _unable(address: str, ranks: int) -> str:
    """What keeps this rank from it, if anything."""
    if os.environ.get(VARIABLE) == "0":
        return f"{VARIABLE} is 0"
    device = os.environ.get("GLOO_DEVICE_TRANSPORT", "TCP")
    if device != "TCP":
        return f"GLOO_DEVICE_TRANSPORT is {device}"
    try:
        library()
    except NotBuiltError as error:
        return str(error)
    return "" if address or ranks == 1 else "the address of its connections cannot be read in /proc"


def _leave_all() -> None:
    for one in list(_OPEN):
        one.leave()


os.register_at_fork(after_in_child=_leave_all)
