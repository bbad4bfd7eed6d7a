"""Child processes of launchers and libraries: how one is started, its bounded last output, and its sure end.

Each child leads a session of its own, so that Ctrl-C in the terminal reaches the controller alone, and so that it can
be ended with everything it started. Plain ``subprocess`` rather than asyncio's own child watching: it needs no thread
for each child, and its end can be forced when the event loop is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence

STDERR_BYTES = 8192
MAX_STDERR_BYTES = 4 << 20
"""What is read of one command's standard error, of which the end is kept."""
POLL_S = 0.005


class Tail(asyncio.Protocol):
    """Keeps the end of a stream, and closes it after ``most`` bytes (None: reads on)."""

    def __init__(self, limit: int = STDERR_BYTES, most: int | None = MAX_STDERR_BYTES) -> None:
        self.data = b""
        self._limit = limit
        self._left = most
        self._transport: asyncio.BaseTransport | None = None
        self.ended = asyncio.get_running_loop().create_future()

    @property
    def text(self) -> str:
        """What is kept, as text."""
        return self.data.decode("utf-8", "replace")

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

    async def wait_ended(self, timeout_s: float) -> None:
        """Wait until the stream has ended, or the time is over."""
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.ended), timeout_s)


def start_child(
    argv: Sequence[str], env: dict[str, str] | None, *, stderr: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start ``argv`` in a session of its own with pipes to it. Raises OSError when the program cannot be run."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
        env=env,
        bufsize=0,
    )


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


async def wait_for_end(child: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait until a child has ended; False when it has not by then."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not has_ended(child):
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def kill_child(child: subprocess.Popen[bytes], transports: Iterable[asyncio.BaseTransport]) -> None:
    """Kill the whole group, collect the child, and close its pipes; needs no event loop, may be called twice."""
    signal_group(child, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(1.0)
    transports = list(transports)
    for transport in transports:
        with contextlib.suppress(RuntimeError, AttributeError):  # the event loop, or it, is closed
            transport.abort() if isinstance(transport, asyncio.WriteTransport) else transport.close()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None and not transports:
            stream.close()
