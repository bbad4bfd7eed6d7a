"""Threads that wait for messages: a message of torch's Gloo can be waited for, and not asked whether it has come."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from netprobe.runtime.worker import END_S


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
    """``count`` threads, which come to their end when what they wait for does."""

    def __init__(self, count: int) -> None:
        """Start them."""
        self._jobs: queue.SimpleQueue[Awaited | None] = queue.SimpleQueue()
        self._came: queue.SimpleQueue[Came] = queue.SimpleQueue()
        self.threads = [
            threading.Thread(target=_serve, args=(self._jobs, self._came), name="netprobe-wait", daemon=True)
            for _ in range(count)
        ]
        for thread in self.threads:
            thread.start()
        # A thread that is inside torch's code when the interpreter ends would abort the process.
        self.end = weakref.finalize(self, _end, self._jobs, self.threads)

    def put(self, job: Awaited) -> None:
        """Have a thread wait for it; no more at once than there are threads."""
        self._jobs.put(job)

    def next(self) -> Came:
        """What comes next."""
        return self._came.get()


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
            work.wait(job.timeout)
        failed = job.message
        job.start().wait(job.timeout)
    except RuntimeError as error:
        return failed, error.with_traceback(None)
    return ()


def _end(jobs: queue.SimpleQueue[Awaited | None], threads: Sequence[threading.Thread]) -> None:
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        thread.join(END_S)
