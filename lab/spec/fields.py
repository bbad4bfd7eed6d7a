"""The fields that specs are made of: names, delays, rates, losses, each read, checked and written out again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from netprobe.core.errors import InputError
from netprobe.core.units import (
    exact_delay_text,
    exact_loss_text,
    exact_rate_text,
    parse_delay_s,
    parse_loss_ratio,
    parse_rate_bytes_per_s,
)

# Below this the switch cannot keep a delay: see docs/lab.md.
DELAY_MIN_S = 25e-6
DELAY_MAX_S = 10.0
RATE_MIN_BYTES_PER_S = 1e6 / 8
RATE_MAX_BYTES_PER_S = 100e9 / 8
# Background packets are made one by one: at some rate the switch would do nothing else.
BACKGROUND_MAX_BYTES_PER_S = 10e9 / 8
PATHS_LIMIT = 8
# A host's own interface takes 1500; below 576 (RFC 791) few stacks go.
MTU_MIN_BYTES = 576
MTU_MAX_BYTES = 1499

# The kernel has 15 bytes for it.
_CONGESTION_CONTROL = re.compile(r"[a-z0-9][a-z0-9_-]{0,14}", re.ASCII)
NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?", re.ASCII)


def read_delay_s(value: object) -> float:
    """A delay of a lab, in seconds one way; ValueError when it is not valid or beyond what a lab can do."""
    seconds = _read(parse_delay_s, value)
    if not DELAY_MIN_S <= seconds <= DELAY_MAX_S:
        raise ValueError(f"{value!r} is out of range: one-way delays go from 25us to 10s")
    return seconds


def read_extra_delay_s(value: object) -> float:
    """What a fault adds to a delay, in seconds one way; ValueError when it is not valid or out of range."""
    seconds = _read(parse_delay_s, value)
    if seconds > DELAY_MAX_S:
        raise ValueError(f"{value!r} is out of range: what is added to a delay goes from 0us to 10s")
    return seconds


def read_paths_s(value: object) -> tuple[float, ...]:
    """The extra one-way delays of 2 to 8 paths, in seconds; ValueError when they are not valid."""
    if not isinstance(value, (list, tuple)) or not 2 <= len(value) <= PATHS_LIMIT:
        raise ValueError(f"needs the extra delays of 2 to {PATHS_LIMIT} paths, such as [0us, 200us]")
    return tuple(read_extra_delay_s(one) for one in value)


def read_rate_bytes_per_s(value: object) -> float:
    """A rate of a lab, in bytes a second (infinity: no limit); ValueError when it is not valid or out of range."""
    rate = _read(parse_rate_bytes_per_s, value)
    if not math.isinf(rate) and not RATE_MIN_BYTES_PER_S <= rate <= RATE_MAX_BYTES_PER_S:
        raise ValueError(f"{value!r} is out of range: rates go from 1Mbit/s to 100Gbit/s, or unlimited")
    return rate


def read_background_bytes_per_s(value: object) -> float:
    """The rate of a background flow, in bytes a second; ValueError when it is not valid or out of range."""
    rate = _read(parse_rate_bytes_per_s, value)
    if not RATE_MIN_BYTES_PER_S <= rate <= BACKGROUND_MAX_BYTES_PER_S:
        raise ValueError(f"{value!r} is out of range: background flows go from 1Mbit/s to 10Gbit/s")
    return rate


def read_loss_ratio(value: object) -> float:
    """A loss, as a ratio from 0 to 1; ValueError when it is not valid."""
    return _read(parse_loss_ratio, value)


def read_mtu_bytes(value: object) -> int:
    """The largest IP packet of a path, in bytes; ValueError when it cannot be."""
    return whole(value, "mtu", MTU_MIN_BYTES, MTU_MAX_BYTES)


def check_name(name: str) -> str:
    """The name of a lab, checked; ValueError when it is not valid."""
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError(
            f"{name[:64]!r} is not a valid lab name: 1 to 24 of a-z, 0-9 and -, no - at either end"
        )
    return name


def whole(value: object, what: str, low: int, high: int) -> int:
    """A whole number within limits; ValueError when it is not valid."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{what} must be a whole number from {low} to {high}")
    return value


def _read(parse: Callable[[object], float], value: object) -> float:
    """``parse``, with the ValueError that pydantic collects."""
    try:
        return parse(value)
    except InputError as error:
        raise ValueError(str(error)) from None


def read_congestion_control(value: object) -> str:
    """The name of a TCP congestion control; ValueError when no kernel could have it."""
    if not isinstance(value, str) or not _CONGESTION_CONTROL.fullmatch(value):
        raise ValueError("must be the name of a TCP congestion control, such as reno, cubic or bbr")
    return value


# Written out as text again, so that a dumped spec is a spec, and infinity never meets JSON.
Delay = Annotated[float, BeforeValidator(read_delay_s), PlainSerializer(exact_delay_text, return_type=str)]
ExtraDelay = Annotated[
    float, BeforeValidator(read_extra_delay_s), PlainSerializer(exact_delay_text, return_type=str)
]
Rate = Annotated[
    float, BeforeValidator(read_rate_bytes_per_s), PlainSerializer(exact_rate_text, return_type=str)
]
BackgroundRate = Annotated[
    float, BeforeValidator(read_background_bytes_per_s), PlainSerializer(exact_rate_text, return_type=str)
]
Loss = Annotated[float, BeforeValidator(read_loss_ratio), PlainSerializer(exact_loss_text, return_type=str)]
Paths = Annotated[
    tuple[float, ...],
    BeforeValidator(read_paths_s),
    PlainSerializer(lambda paths: [exact_delay_text(one) for one in paths], return_type=list[str]),
]
Mtu = Annotated[int, BeforeValidator(read_mtu_bytes)]
CongestionControl = Annotated[str, BeforeValidator(read_congestion_control)]


class Part(BaseModel):
    """Base of the parts of a spec: frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
