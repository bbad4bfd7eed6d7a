"""The description of a lab: racks of hosts, delays, rates. Checked all at once; reader.py reads it from YAML."""

from __future__ import annotations

import difflib
import math
import re
from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from netprobe.core.errors import SpecError
from netprobe.lab.quantities import delay_s, delay_text, rate_bytes_per_s, rate_text

HOSTS_LIMIT = 512
# Unshuffled addresses number the hosts of a rack in one byte.
RACK_HOSTS_LIMIT = 250
RACKS_LIMIT = 64
SLOTS_LIMIT = 1024
# Below this the switch cannot keep a delay: see docs/lab.md.
DELAY_MIN_S = 25e-6
DELAY_MAX_S = 10.0
RATE_MIN_BYTES_PER_S = 1e6 / 8
RATE_MAX_BYTES_PER_S = 100e9 / 8
FAULTS_LIMIT = 50

NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?", re.ASCII)


def read_delay_s(value: object) -> float:
    """A delay of a lab, in seconds one way; ValueError when it is none or beyond what a lab can do."""
    seconds = delay_s(value)
    if not DELAY_MIN_S <= seconds <= DELAY_MAX_S:
        raise ValueError(f"{value!r} is out of range: one-way delays go from 25us to 10s")
    return seconds


def read_rate_bytes_per_s(value: object) -> float:
    """A rate of a lab, in bytes a second (infinity: no limit); ValueError when it is none or out of range."""
    rate = rate_bytes_per_s(value)
    if not math.isinf(rate) and not RATE_MIN_BYTES_PER_S <= rate <= RATE_MAX_BYTES_PER_S:
        raise ValueError(f"{value!r} is out of range: rates go from 1Mbit/s to 100Gbit/s, or unlimited")
    return rate


def check_name(name: str) -> str:
    """The name of a lab, checked; ValueError when it is none."""
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError(f"{name[:64]!r} is no lab name: 1 to 24 of a-z, 0-9 and -, no - at either end")
    return name


def _whole(value: object, what: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{what} must be a whole number from {low} to {high}")
    return value


# Written out as text again, so that a dumped spec is a spec, and infinity never meets JSON.
Delay = Annotated[float, BeforeValidator(read_delay_s), PlainSerializer(delay_text, return_type=str)]
Rate = Annotated[float, BeforeValidator(read_rate_bytes_per_s), PlainSerializer(rate_text, return_type=str)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class RackSpec(_Part):
    """One rack. Rates are bytes a second; None takes the lab's own."""

    hosts: int
    host_rate: Rate | None = None
    uplink_rate: Rate | None = None

    @field_validator("hosts", mode="before")
    @classmethod
    def _hosts(cls, value: object) -> int:
        return _whole(value, "hosts", 1, RACK_HOSTS_LIMIT)


class PairDelay(_Part):
    """A one-way delay, in seconds, between two racks (numbered from 0), both directions."""

    racks: tuple[int, int]
    delay: Delay

    @field_validator("racks", mode="before")
    @classmethod
    def _racks(cls, value: object) -> tuple[int, int]:
        wanted = "two different rack numbers, counted from 0, such as [0, 2]"
        if not isinstance(value, list) or len(value) != 2 or value[0] == value[1]:
            raise ValueError(f"racks must be {wanted}")
        return _whole(value[0], "a rack", 0, RACKS_LIMIT), _whole(value[1], "a rack", 0, RACKS_LIMIT)


class LabSpec(_Part):
    """A whole lab. Delays are one-way seconds, rates bytes a second (infinity: no limit)."""

    name: str = "lab"
    racks: tuple[RackSpec, ...]
    delay_inside: Delay = 50e-6
    delay_between: Delay = 150e-6
    delay_pairs: tuple[PairDelay, ...] = ()
    host_rate: Rate = math.inf
    uplink_rate: Rate = math.inf
    slots: int = 1
    shuffle: bool = True
    sshd: bool = False
    faults: tuple[object, ...] = ()
    background: tuple[object, ...] = ()

    @property
    def host_count(self) -> int:
        """Hosts in all racks together."""
        return sum(rack.hosts for rack in self.racks)

    def one_way_delay_s(self, src_rack: int, dst_rack: int) -> float:
        """The configured one-way delay between hosts of two racks (numbered from 0), in seconds."""
        if src_rack == dst_rack:
            return self.delay_inside
        for pair in self.delay_pairs:
            if set(pair.racks) == {src_rack, dst_rack}:
                return pair.delay
        return self.delay_between

    def host_rate_bytes_per_s(self, rack: int) -> float:
        """What each host of a rack can send, and receive, in bytes a second; infinity is no limit."""
        own = self.racks[rack].host_rate
        return self.host_rate if own is None else own

    def uplink_rate_bytes_per_s(self, rack: int) -> float:
        """What a rack's hosts together can send out, and take in, in bytes a second; infinity is no limit."""
        own = self.racks[rack].uplink_rate
        return self.uplink_rate if own is None else own

    def as_spec(self) -> dict[str, object]:
        """The spec as plain data that reads back as the same spec."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def from_spec(cls, document: object) -> LabSpec:
        """Back from ``as_spec``, or from a mapping of one's own. Raises SpecError with every fault."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise SpecError(_faults(error)) from error

    @field_validator("name", mode="before")
    @classmethod
    def _name(cls, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError("must be text (put digits in quotes)")
        return check_name(value)

    @field_validator("slots", mode="before")
    @classmethod
    def _slots(cls, value: object) -> int:
        return _whole(value, "slots", 1, SLOTS_LIMIT)

    @field_validator("racks", mode="before")
    @classmethod
    def _racks(cls, value: object) -> tuple[object, ...]:
        if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= RACKS_LIMIT:
            raise ValueError(f"must be a list of 1 to {RACKS_LIMIT} racks, such as [6, 6, 4]")
        # 6 stands for {hosts: 6}
        return tuple({"hosts": rack} if isinstance(rack, int) else rack for rack in value)

    @field_validator("racks")
    @classmethod
    def _not_too_many(cls, racks: tuple[RackSpec, ...]) -> tuple[RackSpec, ...]:
        total = sum(rack.hosts for rack in racks)
        if total > HOSTS_LIMIT:
            raise ValueError(f"{total} hosts in all, and a lab has at most {HOSTS_LIMIT}")
        return racks

    @field_validator("delay_pairs", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("delay_pairs")
    @classmethod
    def _pairs_exist(cls, pairs: tuple[PairDelay, ...], info: ValidationInfo) -> tuple[PairDelay, ...]:
        faults: list[str] = []
        seen: set[frozenset[int]] = set()
        racks = info.data.get("racks")
        for pair in pairs:
            if racks is not None and max(pair.racks) >= len(racks):
                faults.append(f"rack {max(pair.racks)} does not exist (there are {len(racks)}, from 0)")
            if frozenset(pair.racks) in seen:
                faults.append(f"racks {pair.racks[0]} and {pair.racks[1]} have two delays")
            seen.add(frozenset(pair.racks))
        if faults:
            raise ValueError(", ".join(faults))
        return pairs

    @field_validator("faults", "background", mode="before")
    @classmethod
    def _reserved(cls, value: object) -> tuple[object, ...]:
        if value is not None and not isinstance(value, (list, tuple)):
            raise ValueError("must be a list")
        if value:
            raise ValueError("is reserved and cannot be used yet: leave it out, or leave its list empty")
        return ()


def _faults(error: ValidationError) -> list[str]:
    items = error.errors(include_url=False, include_input=False, include_context=False)
    faults = []
    for item in items[:FAULTS_LIMIT]:
        where = ".".join(str(part)[:32] for part in item["loc"])
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            part = RackSpec if where.startswith("racks.") else PairDelay if "." in where else LabSpec
            message = f"unknown key{_meant(str(item['loc'][-1]), list(part.model_fields))}"
        elif item["type"] == "missing":
            message = "is missing"
        faults.append(f"{where}: {message}")
    if len(items) > FAULTS_LIMIT:
        faults.append(f"and {len(items) - FAULTS_LIMIT} more")
    return faults


def _meant(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key[:32], known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
