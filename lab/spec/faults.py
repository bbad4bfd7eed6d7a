"""Faults and background flows of a lab, as a spec says them, and the commands that make the switch have them.

Names are shuffled, so a spec says ``rack0/2`` for the third host of the first rack, in the order of the
hosts file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, field_validator, model_validator

from netprobe.lab.spec.fields import BackgroundRate, ExtraDelay, Loss, Mtu, Part, Paths, whole

FAULTS_LIMIT = 256
FLOWS_LIMIT = 64
RACK_NUMBER_MAX = 63

_HOST = re.compile(r"rack(0|[1-9][0-9]?)/(0|[1-9][0-9]{0,2})", re.ASCII)
_EFFECTS = {
    "host": ("loss", "duplicate", "delay", "jitter", "down"),
    "link": ("loss", "duplicate", "delay", "jitter", "drop", "paths"),
    "src and dst": ("loss", "duplicate", "delay", "jitter", "drop", "paths"),
    "racks": ("loss", "duplicate", "jitter", "drop", "paths", "mtu"),
}
_EVERY_EFFECT = ("loss", "duplicate", "delay", "jitter", "drop", "down", "paths", "mtu")


def host_index(text: str) -> tuple[int, int]:
    """Rack and place of ``rack0/2``; ValueError when it says neither."""
    match = _HOST.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text[:32]!r} is not a host such as rack0/2: the rack, and the host's place in it from 0"
        )
    return int(match[1]), int(match[2])


def _host(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a host such as rack0/2")
    host_index(value)
    return value


def _two(values: tuple[str, str]) -> tuple[str, str]:
    if values[0] == values[1]:
        raise ValueError("the two hosts must be different")
    return values


HostAt = Annotated[str, BeforeValidator(_host)]


class Fault(Part):
    """A fault at one place: a host, a link (both directions), a link in one direction, or the path between racks.

    ``delay`` and ``jitter`` are seconds added one way, ``loss`` and ``duplicate`` ratios, ``mtu`` bytes.
    """

    host: HostAt | None = None
    link: Annotated[tuple[HostAt, HostAt], AfterValidator(_two)] | None = None
    src: HostAt | None = None
    dst: HostAt | None = None
    racks: tuple[int, int] | None = None
    loss: Loss | None = None
    duplicate: Loss | None = None
    delay: ExtraDelay | None = None
    jitter: ExtraDelay | None = None
    drop: bool | None = None
    down: bool | None = None
    paths: Paths | None = None
    mtu: Mtu | None = None

    @field_validator("link", mode="before")
    @classmethod
    def _link(cls, value: object) -> object:
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise ValueError("must be two hosts, such as [rack0/0, rack1/0]")
        return tuple(value)

    @field_validator("racks", mode="before")
    @classmethod
    def _racks(cls, value: object) -> tuple[int, int]:
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise ValueError("must be two rack numbers, counted from 0, such as [0, 2]")
        low, high = (whole(one, "a rack", 0, RACK_NUMBER_MAX) for one in value)
        return low, high

    @field_validator("drop", "down", mode="before")
    @classmethod
    def _flag(cls, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value

    @model_validator(mode="after")
    def _one_place_and_what_can_be_there(self) -> Fault:
        place = self.place
        effects = [name for name in _EVERY_EFFECT if getattr(self, name) is not None]
        if not effects:
            raise ValueError(f"says a place and nothing that is wrong: one of {', '.join(_EFFECTS[place])}")
        odd = [name for name in effects if name not in _EFFECTS[place]]
        if odd:
            hint = (
                " (delay_pairs has the delay between racks)" if (place, odd[0]) == ("racks", "delay") else ""
            )
            raise ValueError(
                f"{odd[0]} is nothing that {place} can have: {', '.join(_EFFECTS[place])} are{hint}"
            )
        if self.mtu is not None and self.racks is not None and self.racks[0] == self.racks[1]:
            raise ValueError("mtu needs two different racks: there is no router inside one")
        return self

    @property
    def place(self) -> str:
        """Which of the kinds of places it is at."""
        places = [name for name in ("host", "link", "racks") if getattr(self, name) is not None]
        places += ["src and dst"] if self.src is not None or self.dst is not None else []
        half = (self.src is None) != (self.dst is None)
        if len(places) != 1 or half or (self.src is not None and self.src == self.dst):
            raise ValueError("needs one place: host, link, racks, or src and dst, which are two hosts")
        return places[0]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts it names."""
        return tuple(one for one in (self.host, *(self.link or ()), self.src, self.dst) if one is not None)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The links that it is on, ``(src, dst)``; none for a host or for racks."""
        if self.link is not None:
            return self.link, (self.link[1], self.link[0])
        return () if self.src is None or self.dst is None else ((self.src, self.dst),)

    @property
    def rack_links(self) -> tuple[tuple[int, int], ...]:
        """The pairs of racks that it is between, one direction each."""
        if self.racks is None:
            return ()
        return tuple(dict.fromkeys((self.racks, (self.racks[1], self.racks[0]))))

    @property
    def settings(self) -> tuple[str, ...]:
        """What it sets where, as texts that two faults must not have in common."""
        names = [name for name in _EVERY_EFFECT if getattr(self, name) is not None]
        places = [*((self.host,) if self.host else ()), *self.links, *self.rack_links]
        return tuple(f"{name} of {place}" for name in names for place in places)


class BackgroundFlow(Part):
    """Traffic that other people cause: it takes room on links and arrives nowhere. ``rate`` in bytes a second."""

    src: HostAt
    dst: HostAt
    rate: BackgroundRate

    @model_validator(mode="after")
    def _two_hosts(self) -> BackgroundFlow:
        if self.src == self.dst:
            raise ValueError("src and dst must be two different hosts")
        return self


def check_places(faults: Sequence[Fault], flows: Sequence[BackgroundFlow], racks: Sequence[int]) -> list[str]:
    """What is wrong with where faults and flows are, in a lab of racks of so many hosts; empty: nothing."""
    wrong: list[str] = []
    for what, named in (
        *((f"faults.{at}", fault.hosts) for at, fault in enumerate(faults)),
        *((f"background.{at}", (flow.src, flow.dst)) for at, flow in enumerate(flows)),
    ):
        for text in named:
            rack, place = host_index(text)
            if rack >= len(racks):
                wrong.append(f"{what}: {text} is in no rack of this lab (there are {len(racks)}, from 0)")
            elif place >= racks[rack]:
                wrong.append(f"{what}: rack{rack} has no host {place} (there are {racks[rack]}, from 0)")
    for at, fault in enumerate(faults):
        if fault.racks is not None and max(fault.racks) >= len(racks):
            wrong.append(
                f"faults.{at}: rack {max(fault.racks)} does not exist (there are {len(racks)}, from 0)"
            )
    seen: set[str] = set()
    for at, fault in enumerate(faults):
        wrong += [f"faults.{at}: sets {one} a second time" for one in fault.settings if one in seen][:1]
        seen.update(fault.settings)
    links = [(flow.src, flow.dst) for flow in flows]
    wrong += [
        f"background.{at}: a second flow from {link[0]} to {link[1]}"
        for at, link in enumerate(links)
        if link in links[:at]
    ]
    return wrong


def effect_commands(place: str, effects: dict[str, object]) -> list[str]:
    """The switch's commands for effects at a place such as ``host NAME``, values as in Fault."""
    return [f"impair {place} {_KEYS.get(key, key)} {_value(key, value)}" for key, value in effects.items()]


def fault_commands(fault: Fault, names: dict[str, str]) -> list[str]:
    """The switch's commands for a fault; ``names`` has a name for each ``rack0/2``."""
    places = [f"host {names[fault.host]}"] if fault.host else []
    places += [f"link {names[src]} {names[dst]}" for src, dst in fault.links]
    places += [f"racks {src} {dst}" for src, dst in fault.rack_links]
    effects = {name: getattr(fault, name) for name in _EVERY_EFFECT if getattr(fault, name) is not None}
    return [command for place in places for command in effect_commands(place, effects)]


def flow_command(src: str, dst: str, rate_bytes_per_s: float) -> str:
    """The switch's command for a background flow between two names; 0 ends it."""
    return f"background {src} {dst} {round(rate_bytes_per_s)}"


_KEYS = {"drop": "blocked", "down": "blocked"}


def _value(key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return ",".join(str(round(one * 1e9)) for one in value) or "0"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # Shares in parts of a billion, times in nanoseconds.
        return str(round(value * 1e9))
    raise TypeError(f"{key} cannot be {value!r}")
