"""Queues of a lab's rates: how much may wait before packets are dropped or marked, read and written out again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer

from netprobe.core.errors import InputError
from netprobe.core.units import exact_delay_text, parse_delay_s, parse_size_bytes

FRAME_BYTES = 1514
"""Of a full Ethernet frame, which a packet of a queue's length counts as."""
QUEUE_MIN_S, QUEUE_MAX_S = 100e-6, 60.0
PACKETS_MAX = 100_000
# A large packet of a sender may be longer than the shortest queue: what finds nothing waiting is never dropped.
QUEUE_MIN_BYTES, QUEUE_MAX_BYTES = FRAME_BYTES, PACKETS_MAX * FRAME_BYTES
WANTED = "a length of a queue, such as 20ms, 1000 packets or 1.5MB"

_PACKETS = re.compile(r"([0-9]{1,9}) ?packets?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class QueueLength:
    """What may wait: seconds, or bytes (whole packets of FRAME_BYTES where it was given so)."""

    seconds: float | None = None
    size_bytes: int | None = None
    unit: Literal["time", "packets", "bytes"] = "time"

    def __str__(self) -> str:
        """As a spec has it."""
        if self.seconds is not None:
            return exact_delay_text(self.seconds)
        size = self.size_bytes or 0
        return f"{size // FRAME_BYTES} packets" if self.unit == "packets" else f"{size}B"

    def at_rate_bytes(self, bytes_per_s: float) -> int:
        """What may wait at a rate, in bytes."""
        if self.seconds is not None:
            return round(self.seconds * bytes_per_s)
        return self.size_bytes or 0

    @property
    def words(self) -> str:
        """As the switch takes it: the unit and a whole number."""
        return f"bytes {self.size_bytes}" if self.seconds is None else f"ns {round(self.seconds * 1e9)}"


DEFAULT_QUEUE = QueueLength(seconds=0.02)


def read_queue(value: object) -> QueueLength:
    """A length of a queue; ValueError when it is not valid or out of range."""
    if isinstance(value, QueueLength):
        return value
    if not isinstance(value, str):
        raise ValueError(f"must be {WANTED}")
    text = value.strip()
    packets = _PACKETS.fullmatch(text)
    if packets:
        if not 1 <= int(packets[1]) <= PACKETS_MAX:
            raise ValueError(f"{value[:32]!r} is out of range: 1 to {PACKETS_MAX} packets")
        return QueueLength(size_bytes=int(packets[1]) * FRAME_BYTES, unit="packets")
    for parse in (_time, _size):
        try:
            return parse(text, value)
        except InputError:
            continue
    raise ValueError(f"{value[:32]!r} is not {WANTED}")


def _time(text: str, given: str) -> QueueLength:
    seconds = parse_delay_s(text)
    if not QUEUE_MIN_S <= seconds <= QUEUE_MAX_S:
        raise ValueError(f"{given[:32]!r} is out of range: queues go from 100us to 60s")
    return QueueLength(seconds=seconds)


def _size(text: str, given: str) -> QueueLength:
    size = parse_size_bytes(text.replace(" ", "", 1))
    if not QUEUE_MIN_BYTES <= size <= QUEUE_MAX_BYTES:
        raise ValueError(
            f"{given[:32]!r} is out of range: queues go from {QUEUE_MIN_BYTES}B to {QUEUE_MAX_BYTES}B"
        )
    return QueueLength(size_bytes=size, unit="bytes")


Queue = Annotated[QueueLength, BeforeValidator(read_queue), PlainSerializer(str, return_type=str)]
