"""Fleets whose agents are a few lines in this process, with faults, on a clock that jumps from event to event.

The scheduler, the connections, the choosers and the document are the real ones. Time is what the visits take: the
controller's own work takes none.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from scheduler import InMemory

from netprobe.core.hosts import Host
from netprobe.probe.agent import messages
from netprobe.probe.agent.stamp.sender import MIN_GRACE_NS, WARM_UP_WAIT_NS
from netprobe.probe.launchers.launch import Channel
from netprobe.probe.records.events import ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import ScanOutcome
from netprobe.probe.scan.session import measure

OVERHEAD_S = 0.01
"""Of a visit, besides its probes and the wait for what is late."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still while something is to be done, and jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        """Seconds of the simulation."""
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """At once: a thread would run while the clock jumps."""
        future = self.create_future()
        future.set_result(func(*args))
        return future


@dataclass(frozen=True)
class Faults:
    """What is wrong with which hosts."""

    unheard: Callable[[int, int], bool] = lambda _src, _dst: False
    """Whether the probes of ``src`` to ``dst``, or the answers, vanish."""
    hung: frozenset[int] = frozenset()
    """They stop altogether after ``HANGS_AT_S``."""
    slow: frozenset[int] = frozenset()
    """Their own visits take ``SLOW_S``."""
    swapping: frozenset[int] = frozenset()
    """They stop for ``STOP_S`` and run for ``RUN_S``, in turns."""


HANGS_AT_S, SLOW_S, STOP_S, RUN_S = 0.5, 2.0, 3.0, 0.5


class Simulated(InMemory):
    """An agent that takes the time that a real one takes."""

    def __init__(
        self, host: Host, index: int, probes: int, faults: Faults, by_address: dict[str, int]
    ) -> None:
        super().__init__(host, index + 1, probes)
        self._index = index
        self._faults = faults
        self._by_address = by_address
        self._free_at = 0.0

    def _answer(self, message: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if message["type"] != "probe":
            at = self._runs_at(self._index, now)
            if at is not None:
                loop.call_at(at, super()._answer, message)
            return
        begin = self._runs_at(self._index, max(now, self._free_at))
        if begin is None:
            return
        heard, took = self._visit(message, begin)
        end = self._runs_at(self._index, begin + took)
        if end is None:
            return
        self._free_at = end
        if heard:
            loop.call_at(end, super()._answer, message)
        else:
            loop.call_at(end, self._nothing, message)

    def _visit(self, message: dict[str, Any], begin: float) -> tuple[bool, float]:
        """Whether any answer comes, and how long it takes (s)."""
        dst = self._by_address[message["address"]]
        probing_s = 1e-9 * message["interval_ns"] * (message["count"] + 2)
        patience_s = 1e-9 * min(message["patience_ns"], message["timeout_ns"])
        warm_up_s = min(1e-9 * WARM_UP_WAIT_NS, patience_s)
        silent_s = warm_up_s + probing_s
        silent_s += min(patience_s, max(1e-9 * message["timeout_ns"] - silent_s, 1e-9 * MIN_GRACE_NS))
        answers_at = self._runs_at(dst, begin)
        if self._faults.unheard(self._index, dst) or answers_at is None or answers_at - begin > silent_s:
            return False, silent_s
        own_s = SLOW_S if self._index in self._faults.slow else OVERHEAD_S
        return True, answers_at - begin + probing_s + own_s

    def _nothing(self, message: dict[str, Any]) -> None:
        done = {
            "type": "done",
            "sent": message["count"],
            "received": 0,
            "duplicates": 0,
            "rejected": 0,
            "unsent": 0,
        }
        done |= {"source_port": 40000, "stamps": None, "duration_ns": 1, "reason": None, "id": message["id"]}
        empty = struct.pack("!BI", messages.SAMPLES_FRAME, 8) + struct.pack("!II", message["id"], 0)
        self.reader.feed_data(empty + messages.json_frame(done))

    def _runs_at(self, host: int, at: float) -> float | None:
        """When a host next runs; None: never again."""
        if host in self._faults.hung and at >= HANGS_AT_S:
            return None
        if host in self._faults.swapping:
            phase = at % (RUN_S + STOP_S)
            return at if phase < RUN_S else at - phase + RUN_S + STOP_S
        return at


class SimulatedLauncher:
    """Simulated agents, all at once."""

    local = False

    def __init__(self, probes: int, faults: Faults) -> None:
        self._probes = probes
        self._faults = faults

    def check(self, hosts: Sequence[Host]) -> None:
        """All are there."""

    async def launch(self, hosts: Sequence[Host], *_unused: object) -> AsyncIterator[Channel]:
        """All at once."""
        numbers: dict[str, int] = {}
        for index, host in enumerate(hosts):
            number = index + 1
            numbers[f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"] = index
            yield Simulated(host, index, self._probes, self._faults, numbers)


def simulated_scan(hosts: int, faults: Faults, *, probes: int = 100) -> ScanOutcome:
    """A scan of all pairs; ``duration_s`` of its document is simulated time."""
    loop = JumpingLoop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(
            measure(
                [Host(name=f"h{index:04d}") for index in range(hosts)],
                SimulatedLauncher(probes, faults),
                ScanOptions(probes_per_visit=probes, audit=False),
                on_event=ignore,
                clock=loop.time,
            )
        )
    finally:
        asyncio.set_event_loop(None)
        loop.close()
