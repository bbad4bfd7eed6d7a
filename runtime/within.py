"""A call that may never return, waited for no longer than so long.

The job's store is served by one process of the job. One that was stopped, or whose host has lost its power, answers
nothing and closes nothing: torch then waits for ever inside its own code, whatever time-out it was given.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from math import isfinite
from time import monotonic
from typing import Any, TypeVar

from netprobe.core.errors import InputError
from netprobe.runtime.keeper import port_of
from netprobe.runtime.sockets import close_connections, own_connections
from netprobe.runtime.worker import END_S

_Made = TypeVar("_Made")
STORE_S = 10.0
"""So long a store has to answer a question; where it is at work it takes milliseconds."""
MOST_TIMEOUT_S = 1e7
"""What torch can count in milliseconds, and more than a job runs."""
_RUNNING: weakref.WeakKeyDictionary[threading.Thread, int | None] = weakref.WeakKeyDictionary()
"""Threads that make calls, and the port of the store that each asks."""


class SilentError(Exception):
    """A call has not returned in time."""


class Patient:
    """A store that is asked, and has ``answer_s`` to answer; one that did not is not asked again."""

    def __init__(self, store: Any, answer_s: float) -> None:
        self.store, self._answer_s = store, answer_s
        self.silent = False

    def ask(self, call: Callable[[Any], _Made]) -> _Made:
        """What ``call`` returns, given the store. Raises what it raises, and SilentError."""
        if self.silent:
            raise SilentError("it has not answered before")
        try:
            return within(self._answer_s, lambda: call(self.store), port_of(self.store))
        except SilentError:
            self.silent = True
            raise


def within(seconds: float, call: Callable[[], _Made], port: int | None = None) -> _Made:
    """What ``call`` returns, made in a thread of its own. Raises what it raises, and SilentError after ``seconds``.

    ``port``: of the store that it asks.
    """
    outcome: list[Any] = []
    failed: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            failed.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="netprobe-ask", daemon=True)
    _RUNNING[thread] = port
    thread.start()
    if not ended.wait(max(seconds, 0.0)):
        raise SilentError(f"no answer in {seconds:.3g} s")
    if failed:
        # Without what it holds: connections that would stay open as long as the error lives.
        raise failed.pop().with_traceback(None)
    return outcome[0]  # type: ignore[no-any-return]


def checked_timeout(timeout_s: Any) -> float:
    """A time-out as seconds. Raises InputError for what is none."""
    good = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not (good and isfinite(timeout_s) and 0 < timeout_s <= MOST_TIMEOUT_S):
        raise InputError(
            f"timeout_s is {timeout_s!r}: seconds above 0 and up to {MOST_TIMEOUT_S:g} are needed"
        )
    return float(timeout_s)


def _end() -> None:
    """Let calls end first: one that comes back from torch's code when the interpreter has ended aborts the process.

    So would a call to a store that is silent, when its keeper ends: the connections to that store are closed.
    """
    silent = {port for port in _still_running().values() if port is not None}
    if silent:
        every = own_connections()
        close_connections(
            {at: ends for at, ends in every.items() if int(ends[1].rsplit(" ", 1)[1]) in silent}
        )
        _still_running()


def _still_running() -> dict[threading.Thread, int | None]:
    """The threads whose calls have not ended in `END_S`, and the ports."""
    deadline = monotonic() + END_S
    for thread in list(_RUNNING):
        if thread.is_alive():
            thread.join(max(deadline - monotonic(), 0.0))
    return {thread: port for thread, port in list(_RUNNING.items()) if thread.is_alive()}


atexit.register(_end)
