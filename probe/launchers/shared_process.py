"""One command that started many agents, and the channels of those that dialled back."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence

from netprobe.core.hosts import Host
from netprobe.probe.launchers.child import (
    POLL_S,
    Tail,
    has_ended,
    kill_child,
    signal_group,
    start_child,
    wait_for_end,
)
from netprobe.probe.launchers.listener import Arrival

OUTPUT_BYTES = 1 << 17
END_S = 1.0
TERM_S = 0.7

LinesAbout = Callable[[str, Host], list[str]]


class SharedProcess:
    """The launcher's command. It is ended when the last channel that belongs to it has gone."""

    def __init__(self, child: subprocess.Popen[bytes], lines_about: LinesAbout) -> None:
        self.child = child
        self.lines_about = lines_about
        self.channels: set[DialChannel] = set()
        self._tail = Tail(
            OUTPUT_BYTES, most=None
        )  # of many agents: whoever floods it must not end the others
        self._seen = b""
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def open(
        cls, argv: Sequence[str], stream: bytes, env: dict[str, str] | None, lines_about: LinesAbout
    ) -> SharedProcess:
        """Start ``argv`` with ``stream`` as its whole standard input. Raises OSError."""
        child = start_child(argv, env, stderr=subprocess.STDOUT)
        shared = cls(child, lines_about)
        try:
            loop = asyncio.get_running_loop()
            output, _ = await loop.connect_read_pipe(lambda: shared._tail, child.stdout)
            shared._transports.append(output)
            into, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, child.stdin)
            shared._transports.append(into)
            into.write(stream)
            into.close()  # once it is written
        except BaseException:
            shared.kill()
            raise
        return shared

    @property
    def output(self) -> str:
        """The end of what it and the agents printed."""
        return self._tail.text

    def says_more(self) -> bool:
        """Whether it has printed anything since this was last asked."""
        seen, self._seen = self._seen, self._tail.data
        return seen is not self._seen

    def has_ended(self) -> bool:
        """Whether the command has ended."""
        return has_ended(self.child)

    async def read_up(self, timeout_s: float) -> None:
        """Wait until its output has ended."""
        await self._tail.wait_ended(timeout_s)

    async def finish(self, grace_s: float) -> None:
        """Let it end by itself, then ask it to (engines clean up after SIGTERM), then kill it."""
        for wait_s, number in ((max(grace_s, END_S), signal.SIGTERM), (TERM_S, signal.SIGKILL)):
            if await wait_for_end(self.child, wait_s):
                break
            signal_group(self.child, number)
        kill_child(self.child, self._transports)

    def kill(self) -> None:
        """End it now, needing no event loop."""
        if self.child.returncode is None:
            signal_group(self.child, signal.SIGTERM)
            deadline = time.monotonic() + TERM_S
            while not self.has_ended() and time.monotonic() < deadline:
                time.sleep(POLL_S)
        kill_child(self.child, self._transports)


def lines_naming(lines: Iterable[str], names: Iterable[str]) -> list[str]:
    """Those lines in which one of the names is a word of its own."""
    word = "|".join(re.escape(name) for name in sorted(names))
    pattern = re.compile(rf"(?<![\w.])(?:slurmstepd-)?(?:{word})(?![\w-]|\.\w)")
    return [line.strip() for line in lines if pattern.search(line)]


class DialChannel:
    """The connection of an agent that dialled back. Implements ``launch.Channel``."""

    def __init__(self, arrival: Arrival, shared: SharedProcess) -> None:
        self.host = arrival.host
        self.reader = arrival.reader
        self._writer = arrival.writer
        self._shared = shared
        shared.channels.add(self)

    def write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    def queued_bytes(self) -> int:
        return 0 if self._writer.is_closing() else self._writer.transport.get_write_buffer_size()

    def diagnosis(self) -> str | None:
        lines = self._shared.lines_about(self._shared.output, self.host)
        return lines[-1][:300] if lines else None

    def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            if not self._writer.is_closing():
                self._writer.write_eof()

    async def reap(self, grace_s: float) -> None:
        try:
            with contextlib.suppress(asyncio.TimeoutError, TimeoutError, OSError):
                await asyncio.wait_for(self._to_the_end(), grace_s)
        finally:
            self._cut()
            self._shared.channels.discard(self)
            if not self._shared.channels:
                await self._shared.finish(grace_s)

    async def _to_the_end(self) -> None:
        while await self.reader.read(1 << 16):
            pass

    def kill(self) -> None:
        """Cut the connection, which ends the agent; the command too when no other agent is left."""
        self._cut()
        if self in self._shared.channels:
            self._shared.channels.discard(self)
            if not self._shared.channels:
                self._shared.kill()

    def _cut(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self._writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(RuntimeError):
            self._writer.transport.abort()
