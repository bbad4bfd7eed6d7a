"""One host's processes of a job: the command that leads there, and what it prints."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from importlib import resources

from netprobe.pipeline.launching.parts import Part
from netprobe.probe.agent.supervise import BEAT, END
from netprobe.probe.launchers.bootstrap import READY, Payload
from netprobe.probe.launchers.child import has_ended, kill_child, start_child
from netprobe.probe.launchers.diagnose import Diagnosis
from netprobe.probe.launchers.exec_launcher import ChildLauncher
from netprobe.probe.launchers.launch import NoiseError, skip_to_marker

LEASE_S = 300.0
"""A host that hears nothing for so long ends its part: its controller is gone, and nobody told it."""
BEAT_S = 20.0
LONGEST_LINE = 1 << 15
_TAIL = 8192
_LAST_WORDS_S = 0.5

OnOutput = Callable[[Part, int, bytes], None]
"""A line that a host printed: on which stream (1 or 2), and its bytes without the line's end."""


class HostProcess:
    """The command that leads to a host, once it is started, and the supervisor at its end.

    ``code`` is the exit code of the host's part, None until it has ended.
    """

    def __init__(self, part: Part, launcher: ChildLauncher, on_output: OnOutput) -> None:
        self.part = part
        self.code: int | None = None
        self.started = False
        self._launcher = launcher
        self._on_output = on_output
        self._errors = b""
        self._transports: list[asyncio.BaseTransport] = []
        self._pumps: list[asyncio.Task[None]] = []

    async def open(self, payload: Payload, timeout_s: float) -> Diagnosis | None:
        """Lead to the host up to where its Python waits for code; why that failed, or None."""
        self._errors, self._transports, self._pumps = b"", [], []
        command = payload.command(self._launcher.python)
        argv = self._launcher.argv(self.part.host, command)
        try:
            self._child = start_child(argv, self._launcher.env)
        except OSError as error:
            return Diagnosis(f"cannot run {argv[0]!r}: {error.strerror}")
        await self._connect()
        reading = asyncio.ensure_future(self._converse(payload))
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            while not has_ended(self._child) and asyncio.get_running_loop().time() < deadline:
                done, _ = await asyncio.wait({reading}, timeout=0.1)
                if done:
                    break
            if not reading.done() and not has_ended(self._child):
                said = self._errors.decode("utf-8", "replace").strip().splitlines()[-1:]
                last = f" (last said: {said[0]})" if said else ""
                why = await self._launcher.why_silent(self.part.host)
                return Diagnosis(f"no answer within {timeout_s:.0f} s{last}: {why}")
            await asyncio.wait_for(reading, _LAST_WORDS_S)
            return None
        except (NoiseError, asyncio.TimeoutError, TimeoutError) as error:
            return await self._why(error, command[0])
        finally:
            reading.cancel()

    async def _why(self, error: BaseException, python: str) -> Diagnosis:
        for _ in range(20):
            if has_ended(self._child):
                break
            await asyncio.sleep(0.05)
        await self._finish_pumps()
        noise = error.noise if isinstance(error, NoiseError) else b""
        return self._launcher.explain(
            self.part.host,
            stderr=self._errors.decode("utf-8", "replace"),
            stdout=noise.decode("utf-8", "replace"),
            code=self._child.wait() if has_ended(self._child) else None,
            python=python,
            cause=str(error) or "the command ended before Python answered",
        )

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        self._out = asyncio.StreamReader(limit=1 << 16)
        errors = asyncio.StreamReader(limit=1 << 16)
        for reader, pipe in ((self._out, self._child.stdout), (errors, self._child.stderr)):
            transport, _ = await loop.connect_read_pipe(
                lambda reader=reader: asyncio.StreamReaderProtocol(reader),  # type: ignore[misc]
                pipe,
            )
            self._transports.append(transport)
        self._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._child.stdin)
        self._transports.append(self._input)
        self._pumps.append(asyncio.ensure_future(self._pump(errors, 2)))

    async def _converse(self, payload: Payload) -> None:
        for lines in payload.parts(b"")[:-1]:
            await skip_to_marker(self._out, READY)
            self._input.write(lines)
        await skip_to_marker(self._out, READY)

    def start(self, *, grace_s: float, folder: str | None, folder_needed: bool) -> None:
        """Send what is to run; from here on what the host prints is the job's."""
        order = {
            "argv": list(self.part.argv),
            "env": dict(self.part.env),
            "each": [dict(own) for own in self.part.each],
            "grace_s": grace_s,
            "lease_s": LEASE_S,
            "folder": folder,
            "folder_needed": folder_needed,
        }
        code = resources.files("netprobe.probe.agent").joinpath("supervise.py").read_bytes()
        text = json.dumps(order).encode("ascii")
        self._input.write(b"%08x" % len(code) + code + b"%08x" % len(text) + text)
        self.started = True
        for line in self._errors.splitlines():
            self._on_output(self.part, 2, line)
        self._pumps.append(asyncio.ensure_future(self._pump(self._out, 1)))

    async def _pump(self, reader: asyncio.StreamReader, stream: int) -> None:
        """Pass lines on as they come. A carriage return ends one too: bars of progress are drawn with it."""
        held = b""
        while data := await reader.read(1 << 16):
            if not self.started:
                self._errors = (self._errors + data)[-_TAIL:]
                continue
            *lines, held = (held + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            while len(held) > LONGEST_LINE:
                lines.append(held[:LONGEST_LINE])
                held = held[LONGEST_LINE:]
            for line in lines:
                self._on_output(self.part, stream, line)
        if held:
            self._on_output(self.part, stream, held)

    def tell(self, message: int) -> None:
        """A message for the supervisor: a signal's number, ``BEAT`` or ``END``."""
        if self.code is None and not self._input.is_closing():
            self._input.write(bytes([message]))

    def beat(self) -> None:
        self.tell(BEAT)

    def end(self) -> None:
        """Ask the processes to end."""
        self.tell(END)

    async def look(self) -> bool:
        """Whether the part has ended; its last words are passed on, and ``code`` is set, then."""
        if self.code is None and has_ended(self._child):
            await self._finish_pumps()
            code = self._child.wait()
            self.code = code if code >= 0 else 128 - code
        return self.code is not None

    async def _finish_pumps(self) -> None:
        """Something that ssh left in the background may hold the pipes: no reason to wait for it."""
        if self._pumps:
            _, late = await asyncio.wait(self._pumps, timeout=_LAST_WORDS_S)
            for pump in late:
                pump.cancel()

    async def close(self, patience_s: float) -> None:
        """End the input, which ends the supervisor and all below it; kill the command when that takes too long."""
        if not hasattr(self, "_child"):
            return
        try:
            if hasattr(self, "_input"):
                self._input.close()
            deadline = asyncio.get_running_loop().time() + patience_s
            while not has_ended(self._child) and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(0.02)
        finally:
            for pump in self._pumps:
                pump.cancel()
            kill_child(self._child, self._transports)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
