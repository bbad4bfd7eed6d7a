"""Processes that run a library, one or one per host: lines in, messages out, and a sure end.

A message is a line ``netprobe {JSON object}``; anything else that a process prints is kept, for the reason when it
ends. Everything read is bounded. Each process leads a session of its own, so Ctrl-C reaches netprobe alone
and a process can be ended with all that it started.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from netprobe.core.errors import NothingMeasuredError
from netprobe.core.text import one_line
from netprobe.probe.launchers.child import has_ended, signal_group, start_child
from netprobe.probe.launchers.diagnose import explain
from netprobe.probe.launchers.exec_launcher import DESCRIPTORS_PER_CHILD, SPARE_DESCRIPTORS, allow_descriptors

PREFIX = b"netprobe "
MAX_LINE_BYTES = 1 << 20
MAX_MESSAGES = 1 << 16
NOISE_LINES = 40
READ_BYTES = 1 << 16
POLL_S = 0.02
WAIT_S = 0.25
LAST_WORDS_S = 1.0
"""How long a process that failed may take to report why, and how long one that is to end may take."""
TERM_S = 5.0


_OWN_WORDS = re.compile(r"\w+_allreduce: |[A-Za-z_.]+(Error|Exception): ")
"""What a script of ours says, or Python of it: it goes before what a launcher adds."""


class LibraryError(NothingMeasuredError):
    """The library could not be started, ended early, fell silent, or summed wrongly."""


@dataclass(eq=False)
class _Member:
    name: str
    child: subprocess.Popen[bytes]
    noise: deque[str]
    pending: bytes = b""
    buffers: dict[int, bytes] = field(default_factory=dict)
    messages: deque[dict[str, Any]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        for stream in self.outputs:
            self.buffers[stream.fileno()] = b""

    @property
    def outputs(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self.child.stdout is not None and self.child.stderr is not None
        return self.child.stdout, self.child.stderr

    def take(self, descriptor: int, data: bytes) -> None:
        """Lines out of ``data``; what is longer than a line may be is noise."""
        *lines, rest = (self.buffers[descriptor] + data).split(b"\n")
        self.buffers[descriptor] = rest[:MAX_LINE_BYTES]
        for line in lines:
            message = parse_message(line)
            if message is not None and len(self.messages) < MAX_MESSAGES:
                self.messages.append(message)
            elif line.strip():
                self.noise.append(one_line(line[:4096].decode("utf-8", "replace"), 300))


def reason_of(member: _Member) -> str:
    """Why a process ended, on one line."""
    own = [line for line in member.noise if _OWN_WORDS.match(line)]
    said = "\n".join(own or member.noise)
    cause = "it ended early"
    found = explain(stderr=said, stdout="", code=None, target=member.name, python="python3", cause=cause)
    unknown = re.search(r"Could not resolve hostname ([^\s:]+)", said)
    if member.name == "mpirun" and unknown is not None:
        return (
            f"its ssh cannot resolve {unknown.group(1)}: mpirun reaches the hosts by its own settings, given with "
            "--mca plm_rsh_agent=COMMAND (netprobe docs libraries)"
        )
    return found.reason


def parse_message(line: bytes) -> dict[str, Any] | None:
    """The object of a line ``netprobe {...}``; None for any other line."""
    if not line.startswith(PREFIX) or len(line) > MAX_LINE_BYTES:
        return None
    try:
        found = json.loads(line[len(PREFIX) :])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class ProcessGroup:
    """Starts processes, exchanges messages with them, ends them. Use it as a context manager."""

    def __init__(self, ended: threading.Event | None = None, *, noise_lines: int = NOISE_LINES) -> None:
        self.ended = ended or threading.Event()
        """Once another thread sets it, whoever waits here gets an error."""
        self.noise_lines = noise_lines
        self.members: list[_Member] = []
        self._selector = selectors.DefaultSelector()
        self._lock = threading.RLock()

    def __enter__(self) -> ProcessGroup:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self, name: str, argv: Sequence[str], env: dict[str, str] | None = None) -> int:
        """Start one more process; its number. Raises LibraryError when its program cannot be run."""
        allow_descriptors((len(self.members) + 1) * DESCRIPTORS_PER_CHILD + SPARE_DESCRIPTORS)
        try:
            child = start_child(argv, env)
        except OSError as error:
            raise LibraryError(f"cannot run {argv[0]!r}: {error.strerror}") from None
        member = _Member(name, child, deque(maxlen=self.noise_lines))
        self.members.append(member)
        for stream in member.outputs:
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, member)
        assert child.stdin is not None
        os.set_blocking(child.stdin.fileno(), False)
        return len(self.members) - 1

    def send(self, index: int, data: bytes) -> None:
        """Queue bytes for the standard input of a process."""
        member = self.members[index]
        assert member.child.stdin is not None
        if data and not member.pending:
            with suppress(ValueError, KeyError):
                self._selector.register(member.child.stdin, selectors.EVENT_WRITE, member)
        member.pending += data
        self._pump(0)

    def receive(self, index: int, key: str, deadline: float) -> dict[str, Any]:
        """The next message of a process that has ``key``, by a time of the monotonic clock.

        Raises LibraryError when any process ends first, or the time is up.
        """
        member = self.members[index]
        while True:
            with self._lock:
                while member.messages:
                    message = member.messages.popleft()
                    if key in message:
                        return message
                self._check()
                if time.monotonic() >= deadline:
                    said = f" (last said: {member.noise[-1]})" if member.noise else ""
                    raise LibraryError(f"no answer from {member.name} in time{said}")
                self._wait(deadline)

    def _wait(self, deadline: float) -> None:
        """For something to read, a little while. Raises LibraryError when it was ended."""
        if self.ended.is_set():
            raise LibraryError("it was ended")
        self._pump(min(WAIT_S, max(0.0, deadline - time.monotonic())))

    def _check(self) -> None:
        """Raise LibraryError for a process that has ended, with why, as far as any has said."""
        ended = [member for member in self.members if has_ended(member.child) and not member.messages]
        if not ended:
            return
        self._pump(0)
        until = time.monotonic() + LAST_WORDS_S
        while time.monotonic() < until and not any(member.noise for member in ended):
            self._pump(POLL_S)
        if any(member.messages for member in ended):
            return
        speaker = next((member for member in ended if member.noise), ended[0])
        # Collected by close(): until then its number is surely its own.
        raise LibraryError(f"{speaker.name}: {reason_of(speaker)}")

    def collect(self, index: int, deadline: float) -> list[str]:
        """All lines of a process, once it has ended well. Raises LibraryError when it fails, or takes too long."""
        member = self.members[index]
        with self._lock:
            while not has_ended(member.child):
                if time.monotonic() >= deadline:
                    raise LibraryError(f"{member.name} has not ended in time")
                self._wait(deadline)
            while self._selector.get_map() and self._pump(POLL_S):
                pass
        if member.child.wait() != 0:
            raise LibraryError(f"{member.name}: {reason_of(member)}")
        return list(member.noise)

    def _pump(self, timeout_s: float) -> bool:
        """Read and write what can be; whether there was anything."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            member, descriptor = key.data, key.fd
            if descriptor in member.buffers:
                self._read(key.fileobj, member, descriptor)
            else:
                self._write(key.fileobj, member, descriptor)
        return bool(ready)

    def _read(self, stream: Any, member: _Member, descriptor: int) -> None:
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            member.take(descriptor, data)
        else:
            member.take(descriptor, b"\n")
            self._selector.unregister(stream)

    def _write(self, stream: Any, member: _Member, descriptor: int) -> None:
        try:
            member.pending = member.pending[os.write(descriptor, member.pending) :]
        except BlockingIOError:
            return
        except OSError:
            member.pending = b""
        if not member.pending:
            self._selector.unregister(stream)

    def close(self) -> None:
        """End the input of all, then the processes: by themselves, by SIGTERM, by SIGKILL."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        for member in self.members:
            if member.child.stdin is not None:
                with suppress(KeyError, ValueError):
                    self._selector.unregister(member.child.stdin)
                with suppress(OSError):
                    member.child.stdin.close()
        for wait_s, number in ((LAST_WORDS_S, signal.SIGTERM), (TERM_S, signal.SIGKILL)):
            deadline = time.monotonic() + wait_s
            while time.monotonic() < deadline and not all(has_ended(m.child) for m in self.members):
                if self._selector.get_map():
                    self._pump(POLL_S)
                else:
                    time.sleep(POLL_S)
            for member in self.members:
                if not has_ended(member.child):
                    signal_group(member.child, number)
        for member in self.members:
            signal_group(member.child, signal.SIGKILL)  # what it may have left behind
            member.child.wait()
            for stream in member.outputs:
                stream.close()
        self._selector.close()
        self.members.clear()
