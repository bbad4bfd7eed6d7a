"""A channel over a child process: pipes, a bounded tail of its standard error, and a sure end.

Each child is the leader of its own session, so that Ctrl-C in the terminal reaches the controller alone,
and so that it can be ended with everything it started. Plain ``subprocess`` rather than asyncio's own
child watching: it needs no thread a child, and its end can be forced when the event loop is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

from netprobe.core.hosts import Host
from netprobe.core.text import one_line
from netprobe.probe.launchers.bootstrap import Payload
from netprobe.probe.launchers.launch import NoiseError, skip_to_marker

STREAM_LIMIT = 1 << 16
STDERR_BYTES = 8192
MAX_STDERR_BYTES = 4 << 20
"""What is read of one command's standard error, of which the end is kept."""
POLL_S = 0.005
END_POLL_S = 0.1
LAST_WORDS_S = 0.5


class Tail(asyncio.Protocol):
    """Keeps the end of a stream, and closes it after ``most`` bytes (None: reads on)."""

    def __init__(self, limit: int = STDERR_BYTES, most: int | None = MAX_STDERR_BYTES) -> None:
        self.data = b""
        self._limit = limit
        self._left = most
        self._transport: asyncio.BaseTransport | None = None
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.data = (self.data + data)[-self._limit :]
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0 and self._transport is not None:
                self._transport.close()  # whoever writes on gets an error

    def connection_lost(self, _exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class ProcessChannel:
    """A running child; ``open`` makes one. Implements ``launch.Channel``."""

    def __init__(self, host: Host, child: subprocess.Popen[bytes]) -> None:
        self.host = host
        self.child = child
        self.reader = asyncio.StreamReader(limit=STREAM_LIMIT)
        self.noise = b""
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def open(
        cls, host: Host, argv: Sequence[str], payload: Payload, env: dict[str, str] | None
    ) -> ProcessChannel:
        """Start ``argv``. Raises OSError when the program cannot be run."""
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=env,
            bufsize=0,
        )
        channel = cls(host, child)
        try:
            await channel._connect()
            channel.write(payload.stream())
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

    async def handshake(self, marker: bytes) -> None:
        """Wait for the agent's marker. Raises NoiseError when it cannot come any more."""
        reading = asyncio.ensure_future(skip_to_marker(self.reader, marker))
        try:
            while not self._has_ended():
                done, _ = await asyncio.wait({reading}, timeout=END_POLL_S)
                if done:
                    break
            # Something the child left behind may hold its output open: that is no agent.
            self.noise = (await asyncio.wait_for(reading, LAST_WORDS_S))[-STDERR_BYTES:]
        except (asyncio.TimeoutError, TimeoutError):
            raise NoiseError("the command ended before the agent answered", b"") from None
        finally:
            reading.cancel()

    def write(self, data: bytes) -> None:
        if not self._input.is_closing():
            self._input.write(data)

    def queued_bytes(self) -> int:
        return 0 if self._input.is_closing() else self._input.get_write_buffer_size()

    @property
    def stderr(self) -> str:
        """The end of what it wrote to standard error."""
        return self._tail.data.decode("utf-8", "replace")

    def diagnosis(self) -> str | None:
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return one_line(lines[-1], 300) if lines else None

    def close(self) -> None:
        if not self._input.is_closing():
            self._input.abort()  # an agent that reads no more must not hold back the end

    async def exit_code(self, timeout_s: float) -> int | None:
        """The exit code once the process has ended and its standard error is read; None after the time."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not self._has_ended():
            if asyncio.get_running_loop().time() >= deadline:
                return None
            await asyncio.sleep(POLL_S)
        self._kill_group()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._tail.ended), 1.0)
        return self.child.wait()

    def _has_ended(self) -> bool:
        """Whether the child has ended, without collecting it: its number must stay ours until then."""
        return has_ended(self.child)

    def _kill_group(self) -> None:
        """Kill the child and all that it started, as long as the group's number is surely theirs."""
        signal_group(self.child, signal.SIGKILL)

    async def reap(self, grace_s: float) -> None:
        try:
            await self.exit_code(grace_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the whole group, then collect the child."""
        self._kill_group()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(1.0)
        for transport in self._transports:
            if not transport.is_closing():
                transport.abort() if isinstance(transport, asyncio.WriteTransport) else transport.close()
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            if stream is not None and not self._transports:
                stream.close()


def has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended, without collecting it: its number stays ours until then."""
    if child.returncode is not None:
        return True
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def signal_group(child: subprocess.Popen[bytes], number: int) -> None:
    """Signal a child that leads a session and all that it started, as long as the number is surely theirs."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
