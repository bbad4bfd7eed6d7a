"""What a rank has sent to each other rank and received from it, and how long it waited for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.probe.agent.collective.program import SEND
from netprobe.runtime.tape import Tape

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Per peer (N,): payload bytes sent and received, seconds waited; and the bytes of all buffers reduced."""

    sent_bytes: Floats
    received_bytes: Floats
    waited_s: Floats
    reduced_bytes: float


class Counting:
    """Counts runs of tapes among ``ranks`` ranks; their messages are added up when that is asked for."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._runs: dict[int, tuple[Tape, int, int]] = {}
        self._sent, self._received = np.zeros(ranks), np.zeros(ranks)
        self._reduced = 0.0

    def ran(self, tape: Tape, elements: int, itemsize: int) -> None:
        """A tape ran once."""
        _, _, count = self._runs.get(id(tape), (tape, itemsize, 0))
        self._runs[id(tape)] = (tape, itemsize, count + 1)
        self._reduced += elements * itemsize

    def told(self, waited_s: Sequence[float]) -> Traffic:
        """All so far."""
        self.settle()
        return Traffic(
            sent_bytes=self._sent.copy(),
            received_bytes=self._received.copy(),
            waited_s=np.array(waited_s, dtype=np.float64),
            reduced_bytes=self._reduced,
        )

    def settle(self) -> None:
        """Forget the tapes, and keep what they moved."""
        for tape, itemsize, count in self._runs.values():
            for message in tape.messages:
                column = self._sent if message.kind == SEND else self._received
                column[message.peer] += (message.end - message.begin) * itemsize * count
        self._runs.clear()
