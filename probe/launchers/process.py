"""A channel over a child process of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Sequence

from netprobe.core.hosts import Host
from netprobe.core.text import one_line
from netprobe.probe.launchers.bootstrap import READY, Payload
from netprobe.probe.launchers.child import (
    STDERR_BYTES,
    Tail,
    has_ended,
    kill_child,
    signal_group,
    start_child,
    wait_for_end,
)
from netprobe.probe.launchers.launch import NoiseError, skip_to_marker

STREAM_LIMIT = 1 << 16
END_POLL_S = 0.1
LAST_WORDS_S = 0.5


class ProcessChannel:
    """A running child; ``open`` makes one. Implements ``launch.Channel``."""

    def __init__(self, host: Host, child: subprocess.Popen[bytes]) -> None:
        self.host = host
        self.child = child
        self.reader = asyncio.StreamReader(limit=STREAM_LIMIT)
        self.noise = b""
        self.is_asked = False
        """Whether what was started has asked for the agent's code."""
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def open(cls, host: Host, argv: Sequence[str], env: dict[str, str] | None) -> ProcessChannel:
        """Start ``argv``, and send nothing yet. Raises OSError when the program cannot be run."""
        child = start_child(argv, env)
        channel = cls(host, child)
        try:
            await channel._connect()
        except BaseException:
            channel.kill()
            raise
        return channel

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        output, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.reader), self.child.stdout
        )
        self._transports.append(output)
        errors, self._tail = await loop.connect_read_pipe(Tail, self.child.stderr)
        self._transports.append(errors)
        self._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self.child.stdin)
        self._transports.append(self._input)

    async def handshake(self, payload: Payload) -> None:
        """Send each part of the payload when it is asked for, and wait for the agent's marker.

        Raises NoiseError when it cannot come any more.
        """
        reading = asyncio.ensure_future(self._converse(payload))
        try:
            while not has_ended(self.child):
                done, _ = await asyncio.wait({reading}, timeout=END_POLL_S)
                if done:
                    break
            # Something the child left behind may hold its output open: that is not an agent.
            self.noise = (await asyncio.wait_for(reading, LAST_WORDS_S))[-STDERR_BYTES:]
        except (asyncio.TimeoutError, TimeoutError):
            raise NoiseError("the command ended before the agent answered", b"") from None
        finally:
            reading.cancel()

    async def _converse(self, payload: Payload) -> bytes:
        noise = b""
        for part in payload.parts():
            noise += await skip_to_marker(self.reader, READY)
            self.is_asked = True
            self.write(part)
        return noise + await skip_to_marker(self.reader, payload.marker)

    def write(self, data: bytes) -> None:
        if not self._input.is_closing():
            self._input.write(data)

    def queued_bytes(self) -> int:
        return 0 if self._input.is_closing() else self._input.get_write_buffer_size()

    @property
    def stderr(self) -> str:
        """The end of what it wrote to standard error."""
        return self._tail.text

    def diagnosis(self) -> str | None:
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return one_line(lines[-1], 300) if lines else None

    def close(self) -> None:
        if not self._input.is_closing():
            self._input.abort()  # an agent that reads no more must not hold back the end

    async def exit_code(self, timeout_s: float) -> int | None:
        """The exit code once the process has ended and its standard error is read; None after the time."""
        if not await wait_for_end(self.child, timeout_s):
            return None
        signal_group(self.child, signal.SIGKILL)  # what it may have left behind
        await self._tail.wait_ended(1.0)
        return self.child.wait()

    async def reap(self, grace_s: float) -> None:
        try:
            await self.exit_code(grace_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the whole group, then collect the child."""
        kill_child(self.child, self._transports)
