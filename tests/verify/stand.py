"""A library in the place of mpirun and its like: it says how long it took, and misbehaves where it is configured to."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from netprobe.core.hosts import Host
from netprobe.verify.libraries.process_group import LibraryError


class Stand:
    """Takes 2 s (it says) in the given order and 1 s in the proposed; ``then`` happens after so many trials."""

    name = "mpi"
    algorithms = ("ring",)
    version = "Stand 1.0"

    def __init__(self, trials: int = 999, then: str = "") -> None:
        self.trials, self.then = trials, then
        self.ended = threading.Event()
        self.closed = False

    @contextmanager
    def open(
        self,
        hosts: Sequence[Host],
        *,
        algorithm: str,
        start_timeout_s: float,
        ended: threading.Event | None = None,
    ) -> Iterator[Stand]:
        self.ended = ended or self.ended
        if self.then == "refuse":
            raise LibraryError("a: no torch")
        if self.then == "start":
            self.interrupt()
        try:
            yield self
        finally:
            self.closed = True

    def interrupt(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert self.ended.wait(30)
        raise LibraryError("it was ended")

    def time_all_reduce(self, order: Sequence[int], size_bytes: int, timeout_s: float) -> float:
        self.trials -= 1
        if self.trials < 0:
            if self.then == "break":
                raise LibraryError("b: it crashed")
            self.interrupt()
        return 1.0 + (order[0] != 0) + 0.001 * (self.trials % 3)
