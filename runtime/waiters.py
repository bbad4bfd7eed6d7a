"""Threads that wait for messages: a message of torch's Gloo can be waited for, and not asked whether it has come.

A wait for a message of which a part had come, or for a send that was being written, does not learn from Gloo that its
connection has closed: it ends when its own time is up. A thread that comes back from torch's code while the
interpreter ends aborts the process. So the threads wait without end, and who takes messages from them keeps the time: a
thread whose connection is gone stays in torch's code, with its tensor, for as long as the process lives.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, NamedTuple

from netprobe.runtime.within import MOST_TIMEOUT_S
from netprobe.runtime.worker import END_S

WITHOUT_END = timedelta(seconds=MOST_TIMEOUT_S)


class Awaited(NamedTuple):
    """A message to wait for: ``start`` posts it (or hands out the work) when the works ``before`` it have ended."""

    message: int
    before: Sequence[tuple[int, Any]]
    start: Callable[[], Any]
    timeout: timedelta


class Came(NamedTuple):
    """Message ``message`` has come, or ``error`` is what became of message ``failed``, which it needed."""

    message: int
    failed: int = -1
    error: RuntimeError | None = None


class Waiters:
    """``count`` threads, which come to their end when what they wait for does.

    ``cut`` closes the connections of what they wait for, where the program ends before that; whether any was open.
    """

    def __init__(self, count: int, cut: Callable[[], bool]) -> None:
        """Start them."""
        self._due: dict[int, float] = {}
        """When the time of a message is up; the first one put has the first."""
        self._jobs: queue.SimpleQueue[Awaited | None] = queue.SimpleQueue()
        self._came: queue.SimpleQueue[Came] = queue.SimpleQueue()
        self.threads = [
            threading.Thread(target=_serve, args=(self._jobs, self._came), name="netprobe-wait", daemon=True)
            for _ in range(count)
        ]
        for thread in self.threads:
            thread.start()
        self.end = weakref.finalize(self, _end, self._jobs, self.threads, cut)

    def put(self, job: Awaited) -> None:
        """Have a thread wait for it; no more at once than there are threads."""
        self._due[job.message] = monotonic() + job.timeout.total_seconds()
        self._jobs.put(job)

    def next(self) -> Came:
        """What comes next, or the message whose time is up."""
        first, due = next(iter(self._due.items()))
        try:
            came = self._came.get(timeout=max(due - monotonic(), 0.0))
        except queue.Empty:
            came = Came(first, first, RuntimeError("Timed out"))
        self._due.pop(came.message, None)
        return came


def _serve(jobs: queue.SimpleQueue[Awaited | None], came: queue.SimpleQueue[Came]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        said = _waited(job)
        message = job.message
        del job  # works hold connections open
        came.put(Came(message, *said))


def _waited(job: Awaited) -> tuple[int, RuntimeError] | tuple[()]:
    """Nothing, or the message that failed and how."""
    failed = job.message
    try:
        for earlier, work in job.before:
            failed = earlier
            work.wait(WITHOUT_END)
        failed = job.message
        job.start().wait(WITHOUT_END)
    except RuntimeError as error:
        return failed, error.with_traceback(None)
    return ()


def _end(
    jobs: queue.SimpleQueue[Awaited | None], threads: Sequence[threading.Thread], cut: Callable[[], bool]
) -> None:
    for _ in threads:
        jobs.put(None)
    if not _ended(threads) and cut():
        _ended(threads)


def _ended(threads: Sequence[threading.Thread]) -> bool:
    """Whether all have ended, in `END_S` at most."""
    deadline = monotonic() + END_S
    for thread in threads:
        thread.join(max(deadline - monotonic(), 0.0))
    return not any(thread.is_alive() for thread in threads)
