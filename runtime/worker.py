"""One thread that does the jobs it is given, one after the other, and comes to its end when the program does."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable

END_S = 2.0
"""The thread has so long to end when the program does; one that waits for a lost rank is not waited for longer."""


class Worker:
    """A thread for jobs, which must not raise."""

    def __init__(self, name: str) -> None:
        """Start it."""
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=_serve, args=(self._jobs,), name=name, daemon=True)
        self.thread.start()
        # A daemon thread that is inside torch's C++ code when the interpreter ends it aborts the process (a finalizer
        # runs before that), and one that is no daemon would keep a program from ending that lost a rank.
        self.end = weakref.finalize(self, _end, self._jobs, self.thread)

    def put(self, job: Callable[[], None]) -> None:
        """Do this after what was put before it."""
        self._jobs.put(job)


def _serve(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job()
        del job  # what it refers to may go now, not with the next one


def _end(jobs: queue.SimpleQueue[Callable[[], None] | None], thread: threading.Thread) -> None:
    jobs.put(None)
    if thread is not threading.current_thread():
        thread.join(END_S)
