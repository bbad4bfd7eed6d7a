"""The wire format between controller and agent: frames, message types, sample records.

A frame is ``kind`` (1 byte), ``length`` (4 bytes, network order) and ``length`` bytes. A JSON frame is one
object with a ``type``; a samples frame carries the readings of one task in binary. The same definitions
serve both ends; docs/protocol.md tells them in words.
"""

from __future__ import annotations

import json
import struct

TYPE_CHECKING = False  # importing typing would cost the agent a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

PROTOCOL = 3
"""Raised whenever an agent and a controller of different versions would misunderstand each other."""

AGENT_VERSION = "1.0"

PERMISSION, OS_ERROR, BAD_REQUEST, INTERNAL = "permission", "os_error", "bad_request", "internal"
FAILURE_CODES = (PERMISSION, OS_ERROR, BAD_REQUEST, INTERNAL)
"""``code`` of a ``failed`` answer: why a task could not be done, for programs; ``reason`` says it for people."""

CONNECTION, PEER, TIMEOUT, STOPPED, RUN = "connection", "peer", "timeout", "stopped", "run"
RUN_CODES = (CONNECTION, PEER, TIMEOUT, STOPPED, RUN)
"""``code`` of a ``ran`` answer with a ``reason``: a lost connection, a peer that sent something invalid, out of time,
closed by the controller, or an error in this rank's own run."""

JSON_FRAME = 1
SAMPLES_FRAME = 2
MAX_JSON_BYTES = 1 << 20
MAX_SAMPLES_BYTES = 1 << 21
"""MAX_PROBES samples fit in."""
MARKER_PREFIX = b"\nnetprobe-agent "

STAMP_LEVELS = ("kernel", "kernel_rx", "user")
"""Best first: kernel stamps at both ends, kernel stamps on receipt only, user space."""

MAX_PROBES = 100000
MIN_INTERVAL_NS = 50000
TOKEN_BYTES = 16

_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode
_HEADER = struct.Struct("!BI")
_SAMPLES_HEADER = struct.Struct("!II")
_SAMPLE = struct.Struct("!Iqq")
_LIMITS = {JSON_FRAME: MAX_JSON_BYTES, SAMPLES_FRAME: MAX_SAMPLES_BYTES}
HEADER_BYTES = _HEADER.size
SAMPLES_HEADER_BYTES = _SAMPLES_HEADER.size
SAMPLE_BYTES = _SAMPLE.size


class ProtocolError(Exception):
    """Bytes that are not a frame, or a frame that is not a message."""


def marker(nonce: str) -> bytes:
    """The line an agent writes before its first frame; anything a login shell printed comes before it."""
    return MARKER_PREFIX + nonce.encode("ascii") + b"\n"


def parse_header(header: bytes) -> tuple[int, int]:
    """Kind and length of the frame that follows; raises ProtocolError outside the bounds."""
    kind, length = _HEADER.unpack(header)
    limit = _LIMITS.get(kind)
    if limit is None:
        raise ProtocolError("frame of unknown kind %d" % kind)
    if length > limit:
        raise ProtocolError("frame of %d bytes: at most %d are allowed" % (length, limit))
    return kind, length


def json_frame(message: dict[str, Any]) -> bytes:
    """One message as a frame."""
    return text_frame(_encode(message))


def text_frame(text: str) -> bytes:
    """A message whose JSON, all of it ASCII, is made already, as a frame."""
    body = text.encode("ascii")
    return _HEADER.pack(JSON_FRAME, len(body)) + body


def parse_json(body: bytes) -> dict[str, Any]:
    """The message in a JSON frame; raises ProtocolError when it is not a valid one."""
    try:
        message = _decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ProtocolError("a frame that is not JSON") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ProtocolError("a JSON frame that is not a message")
    return message


def samples_frame(task: int, samples: Iterable[tuple[int, int, int]]) -> bytes:
    """The readings of a task: (sequence number, sent at, RTT), in ns, ``sent at`` from the series' start."""
    records = [_SAMPLE.pack(*sample) for sample in samples]
    body = _SAMPLES_HEADER.pack(task, len(records)) + b"".join(records)
    return _HEADER.pack(SAMPLES_FRAME, len(body)) + body


def samples_task(body: bytes) -> int:
    """The task that a samples frame belongs to; raises ProtocolError when the sizes do not agree."""
    if len(body) < _SAMPLES_HEADER.size:
        raise ProtocolError("a samples frame without its header")
    task, count = _SAMPLES_HEADER.unpack_from(body)
    if len(body) != _SAMPLES_HEADER.size + count * _SAMPLE.size:
        raise ProtocolError("a samples frame of %d bytes for %d samples" % (len(body), count))
    return int(task)


def parse_samples(body: bytes) -> tuple[int, list[tuple[int, int, int]]]:
    """Task and readings of a samples frame; raises ProtocolError when the sizes do not agree."""
    return samples_task(body), list(_SAMPLE.iter_unpack(body[_SAMPLES_HEADER.size :]))


class FrameBuffer:
    """Frames out of bytes as they come, for who reads without blocking."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The frames that ``data`` completes; raises ProtocolError at a header outside the bounds."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return  # nothing is copied however small the pieces are in which a frame comes
            data = bytes(self._rest)
            self._rest.clear()
        at, end = 0, HEADER_BYTES
        while len(data) >= end:
            kind, length = parse_header(data[at:end])
            body, end = end, end + length
            if len(data) < end:
                break
            yield kind, data[body:end]
            at, end = end, end + HEADER_BYTES
        self._rest += data[at:]
        self._needed = end - at


def read_frames(read: Callable[[int], bytes]) -> Iterator[tuple[int, bytes]]:
    """Frames from ``read(n)``, which gives 1..n bytes or b"" at the end; blocking, for the agent."""
    while True:
        header = _exactly(read, HEADER_BYTES)
        if header is None:
            return
        kind, length = parse_header(header)
        body = _exactly(read, length)
        if body is None:
            return
        yield kind, body


def _exactly(read: Callable[[int], bytes], count: int) -> bytes | None:
    parts = []
    while count:
        part = read(min(count, 1 << 16))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
