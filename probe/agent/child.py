"""A program run for a task: bounded in time and output, and ended when the agent ends.

It is the leader of its own process group, which is killed whole. PR_SET_PDEATHSIG kills it when the agent
dies, however it dies. That is set by a small Python between fork and exec, which is what keeps the agent's
own threads out of it. The signal comes when the *thread* that started it ends: a child that outlives its
task has to be started from the main thread.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_TRAMPOLINE = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(3)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.stderr.write("cannot run %s: %s" % (sys.argv[2], error.strerror))
    sys.stderr.flush()
    os._exit(127)
"""
NOT_FOUND = 127
_READ_BYTES = 1 << 16


class Child:
    """A running program; its two outputs are read as one."""

    def __init__(self, argv: Sequence[str]) -> None:
        python = sys.executable or "python3"
        trampoline = [python, "-ISB", "-c", _TRAMPOLINE, str(os.getpid())]
        self.process = subprocess.Popen(
            [*trampoline, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ, LC_ALL="C"),
        )

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self.process.poll() is not None

    def read(self, limit: int, until: float) -> bytes:
        """All it prints to its end. ``until`` is a moment of the monotonic clock in seconds.

        Raises ValueError when it prints more than ``limit`` bytes, or is not done by then. It is gone
        afterwards.
        """
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        parts, total = [], 0
        try:
            while True:
                left = until - time.monotonic()
                if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                    raise ValueError("it did not end in time, and was killed")
                part = os.read(descriptor, _READ_BYTES)
                if not part:
                    break
                total += len(part)
                if total > limit:
                    raise ValueError("it printed more than %d bytes, and was killed" % limit)
                parts.append(part)
            self.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise ValueError("it closed its output, did not end, and was killed") from None
        finally:
            self.kill()
        return b"".join(parts)

    def kill(self) -> None:
        """End it and all that it started; may be called twice."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
