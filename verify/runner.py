"""What can run orders in turn and say how long each took: the agents (``wire.py``), or a real library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Seconds of the repetitions that were made, in turn; fewer than were asked for where ``reason`` says why."""

    seconds: tuple[float, ...]
    reason: str | None = None


class Runner(Protocol):
    """Runs a collective in one of several orders, which it was given by their number."""

    async def repeat(self, sequence: Sequence[int], limit_s: float) -> Batch:
        """One repetition of each order of ``sequence``, in turn, in ``limit_s`` seconds at the most."""


class StoppedRunError(Exception):
    """Nothing more can be run; the message is the reason, and what was measured stands."""
