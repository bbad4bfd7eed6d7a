"""What can run orders in turn and say how long each took: the agents (``wire.py``), or a real library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from netprobe.core.errors import NothingMeasuredError


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Seconds of the repetitions that were made, in turn; fewer than requested where ``reason`` says why."""

    seconds: tuple[float, ...]
    reason: str | None = None


class Runner(Protocol):
    """Runs a collective in one of several orders, which it was given by their number."""

    batch_s: float
    """The longest single request: the time left is checked between two requests."""

    async def repeat(self, sequence: Sequence[int], limit_s: float) -> Batch:
        """One repetition of each order of ``sequence``, in turn, in ``limit_s`` seconds at the most."""


class StoppedRunError(Exception):
    """Nothing more can be run; the message is the reason, and what was measured is kept."""


class BlockingRunner:
    """A ``Runner`` out of a function that runs one order and waits for its end, such as a real library's.

    ``run(order, timeout_s)`` gives seconds, and raises NothingMeasuredError when it cannot.
    """

    batch_s = 0.0

    def __init__(self, run: Callable[[int, float], float]) -> None:
        self._run = run

    async def repeat(self, sequence: Sequence[int], limit_s: float) -> Batch:
        """See ``Runner``."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit_s
        seconds: list[float] = []
        for order in sequence:
            try:
                seconds.append(await asyncio.to_thread(self._run, order, max(0.0, until - loop.time())))
            except NothingMeasuredError as error:
                return Batch(seconds=tuple(seconds), reason=str(error))
        return Batch(seconds=tuple(seconds))
