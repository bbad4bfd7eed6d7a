"""Connections in a process that was forked from a rank: they are the rank's, and must not even be closed there.

Both processes share their sockets, and the set of them that Gloo watches. What a child of a data loader, say, closed or
sent would end the rank.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from netprobe.core.errors import InputError

_OPEN: weakref.WeakSet[Any] = weakref.WeakSet()


class Owner:
    """The process that made ``connections``."""

    def __init__(self, connections: Any) -> None:
        self._pid = os.getpid()
        _OPEN.add(connections)

    @property
    def elsewhere(self) -> bool:
        """Whether this process is another one."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raises InputError in another process."""
        if self.elsewhere:
            raise InputError(
                f"this executor is that of process {self._pid}, from which this one was forked: use it there only"
            )


def _keep() -> None:
    """In a forked process: have nothing collected, not even when it ends, for Gloo would wait there for its threads."""
    for connections in list(_OPEN):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connections))


os.register_at_fork(after_in_child=_keep)
