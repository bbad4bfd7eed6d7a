"""The description of a lab: racks of hosts, delays, rates. Checked all at once; reader.py reads it from YAML."""

from __future__ import annotations

import difflib
import math
from typing import Literal

from pydantic import ValidationError, ValidationInfo, field_validator

from netprobe.core.errors import SpecError
from netprobe.lab.spec.faults import FAULTS_LIMIT, FLOWS_LIMIT, BackgroundFlow, Fault, check_places
from netprobe.lab.spec.fields import CongestionControl, Delay, Part, Rate, check_name, whole
from netprobe.lab.spec.queues import DEFAULT_QUEUE, Queue, QueueLength

HOSTS_LIMIT = 512
# Unshuffled addresses number the hosts of a rack in one byte.
RACK_HOSTS_LIMIT = 250
RACKS_LIMIT = 64
SLOTS_LIMIT = 1024
ERRORS_LIMIT = 50


class RackSpec(Part):
    """One rack. Rates are bytes a second; None takes the lab's own, of queues too."""

    hosts: int
    host_rate: Rate | None = None
    uplink_rate: Rate | None = None
    host_queue: Queue | None = None
    uplink_queue: Queue | None = None

    @field_validator("hosts", mode="before")
    @classmethod
    def _hosts(cls, value: object) -> int:
        return whole(value, "hosts", 1, RACK_HOSTS_LIMIT)


class PairDelay(Part):
    """A one-way delay, in seconds, between two racks (numbered from 0), both directions."""

    racks: tuple[int, int]
    delay: Delay

    @field_validator("racks", mode="before")
    @classmethod
    def _racks(cls, value: object) -> tuple[int, int]:
        wanted = "two different rack numbers, counted from 0, such as [0, 2]"
        if not isinstance(value, list) or len(value) != 2 or value[0] == value[1]:
            raise ValueError(f"racks must be {wanted}")
        return whole(value[0], "a rack", 0, RACKS_LIMIT), whole(value[1], "a rack", 0, RACKS_LIMIT)


class LabSpec(Part):
    """A whole lab. Delays are one-way seconds, rates bytes a second (infinity: no limit)."""

    name: str = "lab"
    racks: tuple[RackSpec, ...]
    delay_inside: Delay = 50e-6
    delay_between: Delay = 150e-6
    delay_pairs: tuple[PairDelay, ...] = ()
    host_rate: Rate = math.inf
    uplink_rate: Rate = math.inf
    host_queue: Queue = DEFAULT_QUEUE
    uplink_queue: Queue = DEFAULT_QUEUE
    host_shaping: Literal["fabric", "interface"] = "fabric"
    ecn_mark: Queue | None = None
    congestion_control: CongestionControl | None = None
    slots: int = 1
    shuffle: bool = True
    sshd: bool = False
    routers: bool = False
    faults: tuple[Fault, ...] = ()
    background: tuple[BackgroundFlow, ...] = ()

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
        """What each host of a rack can send, and receive, in bytes a second; infinity means no limit."""
        own = self.racks[rack].host_rate
        return self.host_rate if own is None else own

    def uplink_rate_bytes_per_s(self, rack: int) -> float:
        """What a rack's hosts together can send out, and take in, in bytes a second; infinity means no limit."""
        own = self.racks[rack].uplink_rate
        return self.uplink_rate if own is None else own

    def host_queue_length(self, rack: int) -> QueueLength:
        """What may wait to be sent by a host of a rack, and to be received by it."""
        own = self.racks[rack].host_queue
        return self.host_queue if own is None else own

    def uplink_queue_length(self, rack: int) -> QueueLength:
        """What may wait to leave a rack, and to enter it."""
        own = self.racks[rack].uplink_queue
        return self.uplink_queue if own is None else own

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

    @field_validator("host_shaping", mode="before")
    @classmethod
    def _host_shaping(cls, value: object) -> object:
        if value not in ("fabric", "interface"):
            raise ValueError(
                "must be fabric (the switch holds packets back) or interface (the host's own does)"
            )
        return value

    @field_validator("slots", mode="before")
    @classmethod
    def _slots(cls, value: object) -> int:
        return whole(value, "slots", 1, SLOTS_LIMIT)

    @field_validator("racks", mode="before")
    @classmethod
    def _racks(cls, value: object) -> tuple[object, ...]:
        if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= RACKS_LIMIT:
            raise ValueError(f"must be a list of 1 to {RACKS_LIMIT} racks, such as [6, 6, 4]")
        # 6 is short for {hosts: 6}
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
    def _as_list(cls, value: object, info: ValidationInfo) -> object:
        limit = FAULTS_LIMIT if info.field_name == "faults" else FLOWS_LIMIT
        if not isinstance(value, (list, tuple)) or len(value) > limit:
            raise ValueError(f"must be a list of at most {limit}")
        return tuple(value)

    @field_validator("faults")
    @classmethod
    def _faults_fit(cls, faults: tuple[Fault, ...], info: ValidationInfo) -> tuple[Fault, ...]:
        cls._check_places(faults, (), info)
        return faults

    @field_validator("background")
    @classmethod
    def _flows_fit(
        cls, flows: tuple[BackgroundFlow, ...], info: ValidationInfo
    ) -> tuple[BackgroundFlow, ...]:
        cls._check_places((), flows, info)
        return flows

    @staticmethod
    def _check_places(
        faults: tuple[Fault, ...], flows: tuple[BackgroundFlow, ...], info: ValidationInfo
    ) -> None:
        racks = info.data.get("racks")
        wrong = [] if racks is None else check_places(faults, flows, [rack.hosts for rack in racks])
        if wrong:
            raise ValueError("; ".join(wrong[:8]))


_PARTS: dict[str, type[Part]] = {
    "racks": RackSpec,
    "delay_pairs": PairDelay,
    "faults": Fault,
    "background": BackgroundFlow,
}


def _faults(error: ValidationError) -> list[str]:
    items = error.errors(include_url=False, include_input=False, include_context=False)
    faults = []
    for item in items[:ERRORS_LIMIT]:
        where = ".".join(str(part)[:32] for part in item["loc"])
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            part = _PARTS.get(str(item["loc"][0]), LabSpec) if "." in where else LabSpec
            message = f"unknown key{_meant(str(item['loc'][-1]), list(part.model_fields))}"
        elif item["type"] == "missing":
            message = "is missing"
        faults.append(f"{where}: {message}")
    if len(items) > ERRORS_LIMIT:
        faults.append(f"and {len(items) - ERRORS_LIMIT} more")
    return faults


def _meant(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key[:32], known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
