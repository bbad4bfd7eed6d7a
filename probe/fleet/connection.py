"""The controller's end of one agent: handshake, pings, requests and their answers.

Everything from a host is validated: sizes of frames, types of fields, ranges of numbers. A violation ends that
host's connection with one reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.scan import Agent
from netprobe.core.text import one_line, printable
from netprobe.probe.agent import messages
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.launchers.launch import Channel
from netprobe.probe.records.samples import SampleColumns

MAX_QUEUED_BYTES = 1 << 20
READ_BYTES = 1 << 16
MAX_STRAYS = 256
"""Messages that answer nothing, pongs among them, that an agent may send at once."""
STRAYS_PER_S = 64
"""How many more of them are allowed with each second: some times as many as there are pings."""
_TEXT_LIMIT = 300
_encode = json.JSONEncoder(separators=(",", ":")).encode


class AgentLostError(Exception):
    """The agent is gone, hung, or talks nonsense; the message is the reason."""


class TaskFailedError(Exception):
    """The agent is up and could not do the task; ``code`` is one of ``messages.FAILURE_CODES``."""

    def __init__(self, reason: str, code: str = messages.INTERNAL) -> None:
        self.code = code
        super().__init__(reason)


@dataclass(frozen=True, kw_only=True)
class AddressEntry:
    """An address that an agent reports. ``preferred`` marks the source address of its default route."""

    address: str
    interface: str
    preferred: bool
    prefix: int | None = None
    """Length of the network's prefix in bits; None where the agent does not know it."""


_AFTER_S = 0.01
"""How long after the moment at which an agent counts as hung that is looked at."""


@dataclass(frozen=True, kw_only=True)
class Hello:
    """What an agent says of itself."""

    agent: Agent
    addresses: tuple[AddressEntry, ...]
    pid: int
    boot_id: str = ""
    netns: str = ""
    """Inode of the network namespace; with the boot it tells one network stack from another."""


def parse_hello(message: dict[str, Any]) -> Hello:
    """Check an agent's first message. Raises ProtocolError, with both versions when they differ."""
    if message.get("type") != "hello":
        raise ProtocolError(f"the first message is {_text(message.get('type'))!r}, and hello is needed")
    version = message.get("protocol")
    if version != messages.PROTOCOL:
        raise ProtocolError(
            f"the agent has version {_text(version)} of the protocol and this netprobe version "
            f"{messages.PROTOCOL}: use the same netprobe at both ends"
        )
    entries = message.get("addresses")
    if not isinstance(entries, list) or len(entries) > 4096:
        raise ProtocolError("a hello without a list of addresses")
    addresses = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("address"), str):
            raise ProtocolError("a hello with an invalid address")
        addresses.append(
            AddressEntry(
                address=_text(entry["address"]),
                interface=_text(entry.get("interface", "")),
                preferred=entry.get("preferred") is True,
                prefix=whole_field(entry, "prefix", 128) if "prefix" in entry else None,
            )
        )
    return Hello(
        agent=Agent(
            version=_text(message.get("agent")),
            python=_text(message.get("python")),
            hostname=_text(message.get("hostname")),
            kernel=_text(message.get("kernel")),
            addresses=[entry.address for entry in addresses],
            boot_id=text_field(message, "boot_id") or None,
        ),
        addresses=tuple(addresses),
        pid=_whole(message.get("pid"), "pid", 1 << 31),
        boot_id=text_field(message, "boot_id") or "",
        netns=text_field(message, "netns") or "",
    )


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One frame. Raises ProtocolError for an invalid frame, IncompleteReadError at the end."""
    kind, length = messages.parse_header(await reader.readexactly(messages.HEADER_BYTES))
    return kind, await reader.readexactly(length)


class Connection:
    """One agent after its marker. ``start`` reads the hello and begins pinging."""

    def __init__(self, channel: Channel, *, lease_s: float, silence_s: float) -> None:
        self.channel = channel
        self.lost: str | None = None
        self._ping_s = min(lease_s / 4, silence_s / 4)
        self._silence_s = silence_s
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Pending] = {}
        self._fresh: list[_Pending] = []
        self._strays: float = MAX_STRAYS
        self._strays_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._on_lost: Callable[[str], None] | None = None
        self._heard_at = 0.0
        self._pinged_at: float | None = None

    async def start(self, timeout_s: float, on_lost: Callable[[str], None]) -> Hello:
        """Shake hands. Raises AgentLostError; afterwards ``on_lost`` tells of an agent that goes."""
        try:
            kind, body = await asyncio.wait_for(read_frame(self.channel.reader), timeout_s)
            if kind != messages.JSON_FRAME:
                raise ProtocolError("the first frame is not a message")
            hello = parse_hello(messages.parse_json(body))
        except ProtocolError as error:
            raise AgentLostError(f"no netprobe agent answers: {error}") from None
        except (asyncio.TimeoutError, TimeoutError):
            raise AgentLostError(f"the agent did not say hello within {timeout_s:.0f} s") from None
        except (asyncio.IncompleteReadError, OSError):
            raise AgentLostError(self._with_diagnosis("the agent ended before its hello")) from None
        self._on_lost = on_lost
        self._heard_at = asyncio.get_running_loop().time()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._keep_pinging())]
        return hello

    async def request(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send the agent a task and wait for its answer; ``samples`` are (S, 3): sequence number, sent at, RTT (ns).

        Raises AgentLostError when the agent goes, TaskFailedError when it cannot, TimeoutError.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[dict[str, Any]] = loop.create_future()
        settle = functools.partial(_settle, future)
        within_ns = round(timeout_s * 1e9)
        task = self.submit(
            _encode(message)[:-1], settle, samples=int(message.get("count", 0)), within_ns=within_ns
        )
        # A timer of its own costs a third of what asyncio.wait_for does.
        timer = loop.call_later(timeout_s, settle, TimeoutError())
        try:
            answer = await future
        finally:
            timer.cancel()
            self.cancel(task)
        try:
            answer["samples"] = _checked_rows(answer["samples"], within_ns)
        except ProtocolError as error:
            self.lose(f"the agent sent {error}")
            raise AgentLostError(self.lost) from None
        return answer

    def submit(
        self,
        message: str,
        take: Callable[[dict[str, Any] | Exception], None],
        *,
        samples: int,
        within_ns: int,
    ) -> int:
        """Send the agent a task, and return the task's number.

        ``message`` is JSON without its closing brace, ASCII, and without an ``id``. ``take`` is called once, when
        the answer is there: a dict, or AgentLostError or TaskFailedError. Its ``samples`` are the bytes of at most
        ``samples`` records as they came, whose values are for ``take`` to look at: none may be longer than
        ``within_ns``. There is no time-out: see ``cancel``.
        Raises AgentLostError.
        """
        if self.lost is not None:
            raise AgentLostError(self.lost)
        task = next(self._ids)
        self._waiting[task] = _Pending(take=take, samples=samples, within_ns=within_ns)
        self.channel.write(messages.text_frame(f'{message},"id":{task}}}'))
        return task

    def cancel(self, task: int) -> None:
        """Drop the answer of a task: the caller no longer waits for it."""
        self._waiting.pop(task, None)

    def ping(self) -> None:
        """Ping the agent now: it answers at once, also in the middle of a task."""
        if self.lost is None:
            self._pinged_at = self._pinged_at or asyncio.get_running_loop().time()
            self.channel.write(messages.json_frame({"type": "ping"}))

    @property
    def unanswered_s(self) -> float:
        """For how long a ping has been without any answer; 0 when none is."""
        return 0.0 if self._pinged_at is None else asyncio.get_running_loop().time() - self._pinged_at

    def lose(self, reason: str) -> None:
        """Drop the agent: every pending request fails with ``reason``, and its process is ended."""
        if self.lost is not None:
            return
        self.lost = reason = one_line(reason)
        for pending in list(self._waiting.values()):
            pending.take(AgentLostError(reason))
        self._waiting.clear()
        self.channel.kill()
        if self._on_lost is not None:
            self._on_lost(reason)

    async def stop(self) -> None:
        """End the connection; the agent is sent a quit, and not waited for."""
        self._on_lost = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.lost is None:
            self.channel.write(messages.json_frame({"type": "quit"}))

    async def _read(self) -> None:
        frames = messages.FrameBuffer()
        try:
            while data := await self.channel.reader.read(READ_BYTES):
                self._heard_at = asyncio.get_running_loop().time()
                self._pinged_at = None
                for kind, body in frames.feed(data):
                    self._take(kind, body)
                if self._fresh:
                    self._check_fresh()
            ended = True
        except ProtocolError as error:
            ended = False
            self.lose(f"the agent sent {error}")
        except OSError:
            ended = True
        if ended:
            await asyncio.sleep(0.02)  # its last words come on another pipe
            self.lose(self._with_diagnosis("the agent ended"))

    def _take(self, kind: int, body: bytes) -> None:
        if kind == messages.SAMPLES_FRAME:
            self._take_samples(body)
            return
        message = messages.parse_json(body)
        pending = None
        if message["type"] != "pong":
            pending = self._waiting.pop(_whole(message.get("id"), "id", 1 << 53), None)
        if pending is None:
            self._count_stray()
        elif message["type"] == "failed":
            code = text_field(message, "code")
            known = code if code in messages.FAILURE_CODES else messages.INTERNAL
            pending.take(TaskFailedError(_text(message.get("reason")), known))
        else:
            pending.answered = True
            message["samples"] = pending.came or b""
            pending.take(message)

    def _take_samples(self, body: bytes) -> None:
        """Of a request under way, and as many as were requested."""
        pending = self._waiting.get(messages.samples_task(body))
        if pending is None:
            self._count_stray()  # of a request that was given up
            return
        most = messages.SAMPLES_HEADER_BYTES + pending.samples * messages.SAMPLE_BYTES
        if len(body) > most or pending.came is not None:
            raise ProtocolError(f"more samples than the {pending.samples} it was requested to send")
        pending.came = body[messages.SAMPLES_HEADER_BYTES :]
        self._fresh.append(pending)

    def _check_fresh(self) -> None:
        """Look at samples whose answer did not come along with them: it may never come. All others are looked at
        with their answers."""
        fresh, self._fresh = self._fresh, []
        for pending in fresh:
            if not pending.answered and pending.came is not None:
                _checked_rows(pending.came, pending.within_ns)

    def _count_stray(self) -> None:
        """A message that answers nothing. Some are in order; a flood would cost the other hosts their controller."""
        now = asyncio.get_running_loop().time()
        grown = self._strays + (now - self._strays_at) * STRAYS_PER_S
        self._strays, self._strays_at = min(MAX_STRAYS, grown) - 1, now
        if self._strays < 0:
            raise ProtocolError("more messages than it was requested to send")

    async def _keep_pinging(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            # Not a ping later than the moment at which it counts as hung: then the fleet waits for nothing else.
            pause_s = min(self._ping_s, max(self._heard_at + self._silence_s - before + _AFTER_S, _AFTER_S))
            await asyncio.sleep(pause_s)
            if loop.time() - before > pause_s + self._silence_s / 2:
                self._heard_at = loop.time()  # it was this process that slept (suspended, say)
            silent = loop.time() - self._heard_at
            if silent > self._silence_s:
                self.lose(f"the agent hangs: it has not answered for {silent:.1f} s")
                return
            if self.channel.queued_bytes() > MAX_QUEUED_BYTES:
                self.lose("the agent hangs: it does not read its input")
                return
            self.ping()

    def _with_diagnosis(self, reason: str) -> str:
        said: str | None = None
        with contextlib.suppress(Exception):
            said = self.channel.diagnosis()
        return f"{reason} ({said})" if said else reason


@dataclass(kw_only=True, slots=True)
class _Pending:
    """A task under way: whom its answer goes to, how many samples it may have, and those that came."""

    take: Callable[[dict[str, Any] | Exception], None]
    samples: int
    within_ns: int
    came: bytes | None = None
    answered: bool = False


def _settle(future: asyncio.Future[dict[str, Any]], outcome: dict[str, Any] | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _checked_rows(records: bytes, within_ns: int) -> NDArray[np.int64]:
    """(S, 3) the samples of an answer. Raises ProtocolError."""
    columns = SampleColumns.of_bytes(records)
    if not columns.possible(within_ns).all():
        raise ProtocolError("a sample that cannot be")
    return np.column_stack([columns.seq, columns.sent_at_ns, columns.rtt_ns])


def _text(value: object) -> str:
    """A string from a host, cut and made printable; of a list or an object only what it is."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__}"
    return printable(str(value)[:_TEXT_LIMIT])


def _whole(value: object, what: str, limit: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise ProtocolError(f"a message whose {what} is {_text(value)!r}")
    return value


def whole_field(message: dict[str, Any], key: str, limit: int) -> int:
    """A whole number 0..``limit`` of a message. Raises ProtocolError."""
    value = message.get(key)
    return value if type(value) is int and 0 <= value <= limit else _whole(value, key, limit)


def text_field(message: dict[str, Any], key: str) -> str | None:
    """A printable string of a message, or None."""
    value = message.get(key)
    return None if value is None else _text(value)
