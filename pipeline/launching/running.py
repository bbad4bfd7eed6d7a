"""A job from start to end: all hosts or none, signals passed on, and the first failure ends the rest."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from netprobe.core.errors import NothingMeasuredError
from netprobe.core.system.interrupts import ENDING, noted
from netprobe.core.text import listed
from netprobe.pipeline.launching.parts import Part
from netprobe.pipeline.launching.process import BEAT_S, HostProcess, OnOutput
from netprobe.probe.launchers.bootstrap import Payload, new_payload
from netprobe.probe.launchers.diagnose import Diagnosis
from netprobe.probe.launchers.exec_launcher import (
    DESCRIPTORS_PER_CHILD,
    LONGEST_DELAY_S,
    MAX_PER_ROUTE,
    RETRY_DELAY_S,
    SPARE_DESCRIPTORS,
    ChildLauncher,
    allow_descriptors,
)

POLL_S = 0.02
_AFTER_GRACE_S = 8.0
"""A supervisor kills after the grace, and gives up some seconds later."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How a job is run.

    ``time_s``: killed after that long (None: never). ``folder`` is where it runs; with ``folder_needed`` a host without
    it is a failure.
    """

    grace_s: float = 10.0
    start_timeout_s: float = 30.0
    python: str | None = None
    setup: str | None = None
    folder: str | None = None
    folder_needed: bool = False
    time_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """How a job ended: ``code`` is that of the part that failed first, 0 where none did.

    ``failed`` is the name of its host, and ``signals`` are those that were passed on.
    """

    code: int
    failed: str | None = None
    signals: tuple[int, ...] = ()


def run_job(
    parts: Sequence[Part],
    launcher: ChildLauncher,
    options: JobOptions,
    *,
    on_output: OnOutput,
    on_note: Callable[[str], None] = lambda _text: None,
) -> JobEnd:
    """Run a job's parts on their hosts, and return when nothing of it runs any more.

    No part starts before every host has answered. Raises NothingMeasuredError where one does not, and InputError as
    the launcher's check does.
    """
    launcher.check([part.host for part in parts])
    allow_descriptors(len(parts) * DESCRIPTORS_PER_CHILD + SPARE_DESCRIPTORS)
    return asyncio.run(_Run(parts, launcher, options, on_output, on_note).whole())


class _Run:
    def __init__(
        self,
        parts: Sequence[Part],
        launcher: ChildLauncher,
        options: JobOptions,
        on_output: OnOutput,
        on_note: Callable[[str], None],
    ) -> None:
        self.processes = [HostProcess(part, launcher, on_output) for part in parts]
        self.launcher = launcher
        self.options = options
        self.on_note = on_note
        self.signals: list[int] = []
        self.kill_at: float | None = None
        self.first: HostProcess | None = None

    async def whole(self) -> JobEnd:
        try:
            await self._open_all()
            with _signals_to(self._on_signal):
                for process in self.processes:
                    process.start(
                        grace_s=self.options.grace_s,
                        folder=self.options.folder,
                        folder_needed=self.options.folder_needed,
                    )
                if self.options.time_s is not None:
                    asyncio.get_running_loop().call_later(self.options.time_s, self._kill_all)
                await self._until_ended()
        finally:
            patience_s = 0.0 if all(process.code is not None for process in self.processes) else 1.0
            patience_s += (
                0.0 if not any(p.started and p.code is None for p in self.processes) else _AFTER_GRACE_S
            )
            await asyncio.gather(*(process.close(patience_s) for process in self.processes))
        first = self.first
        return JobEnd(
            code=0 if first is None else first.code or 0,
            failed=None if first is None else first.part.host.name,
            signals=tuple(self.signals),
        )

    async def _open_all(self) -> None:
        payload = new_payload(lease_s=0, python=self.options.python, setup=self.options.setup)
        everyone = asyncio.Semaphore(self.launcher.fan_out)
        routes: dict[str, asyncio.Semaphore] = {}
        found = await asyncio.gather(*(self._open(p, payload, everyone, routes) for p in self.processes))
        failed = [(process, why) for process, why in zip(self.processes, found) if why is not None]
        if failed:
            names = listed([process.part.host.name for process, _ in failed])
            raise NothingMeasuredError(
                f"nothing was started, for not all hosts can be reached: {names}: {failed[0][1].reason}",
                nobody_up=len(failed) == len(self.processes),
            )

    async def _open(
        self,
        process: HostProcess,
        payload: Payload,
        everyone: asyncio.Semaphore,
        routes: dict[str, asyncio.Semaphore],
    ) -> Diagnosis | None:
        route = await self.launcher.route(process.part.host)
        narrow: contextlib.AbstractAsyncContextManager[object] = contextlib.nullcontext()
        if route is not None:
            narrow = routes.setdefault(route, asyncio.Semaphore(MAX_PER_ROUTE))
        loop = asyncio.get_running_loop()
        async with narrow, everyone:
            deadline, delay_s = loop.time() + self.options.start_timeout_s, RETRY_DELAY_S
            while True:
                why = await process.open(payload, max(0.05, deadline - loop.time()))
                wait_s = delay_s * random.uniform(0.5, 1.5)
                if why is None or not why.retry or loop.time() + wait_s >= deadline:
                    return why
                await process.close(0.0)
                await asyncio.sleep(wait_s)
                delay_s = min(2 * delay_s, LONGEST_DELAY_S)

    async def _until_ended(self) -> None:
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + BEAT_S
        killed_at: float | None = None
        while True:
            ended = [await process.look() for process in self.processes]
            failed = [process for process in self.processes if process.code]
            if failed and self.first is None:
                self.first = failed[0]
                self._end_others()
            if all(ended):
                return
            if loop.time() >= beat_at:
                beat_at += BEAT_S
                for process in self.processes:
                    process.beat()
            if self.kill_at is not None and loop.time() >= self.kill_at:
                # The supervisors have ended theirs by now; this end goes too where a host no longer answers.
                killed_at = killed_at or loop.time()
                if loop.time() >= killed_at + _AFTER_GRACE_S:
                    silent = [process for process in self.processes if process.code is None]
                    self.on_note(f"no word of its end from {listed([p.part.host.name for p in silent])}")
                    return
            await asyncio.sleep(POLL_S)

    def _end_others(self) -> None:
        left = [process for process in self.processes if process.code is None]
        assert self.first is not None
        end = f"{self.first.part.host.name}: ended with exit code {self.first.code}"
        self.on_note(end + (f"; the other {len(left)} are ended" if left else ""))
        for process in left:
            process.end()
        self._kill_after_grace()

    def _kill_after_grace(self) -> None:
        if self.kill_at is None:
            self.kill_at = asyncio.get_running_loop().time() + self.options.grace_s

    def _on_signal(self, number: int) -> None:
        """Pass it on; who does not end within the grace is killed, and at once when it comes again."""
        if not noted():
            return
        again = bool(self.signals)
        self.signals.append(number)
        for process in self.processes:
            process.tell(signal.SIGKILL if again else number)
        self._kill_after_grace()
        asyncio.get_running_loop().call_later(self.options.grace_s, self._kill_all)

    def _kill_all(self) -> None:
        for process in self.processes:
            process.tell(signal.SIGKILL)


@contextlib.contextmanager
def _signals_to(handle: Callable[[int], None]) -> Iterator[None]:
    """The signals that end work go to a function of the loop; one that is ignored (nohup) stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in ENDING}
    taken = [number for number, what in before.items() if what is not signal.SIG_IGN]
    for number in taken:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
