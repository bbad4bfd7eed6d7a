"""What ``lab set`` says, and the switch's commands for it: pure, so that every word of it can be tested."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from netprobe.core.errors import InputError
from netprobe.lab.spec.faults import effect_commands, flow_command, host_index
from netprobe.lab.spec.fields import (
    read_background_bytes_per_s,
    read_delay_s,
    read_extra_delay_s,
    read_loss_ratio,
    read_mtu_bytes,
    read_paths_s,
    read_rate_bytes_per_s,
)
from netprobe.lab.spec.layout import Layout
from netprobe.lab.spec.queues import read_queue
from netprobe.lab.spec.spec import LabSpec
from netprobe.lab.switch.control import delay_command, queue_commands, rate_commands
from netprobe.lab.truth import rack_id

NONE = "none"

_HOST_QUEUES = {"queue": ("tx", "rx")}
_RACK_QUEUES = {"uplink_queue": ("up", "down")}
_HOST_RATES = {"rate": ("tx", "rx"), "tx_rate": ("tx",), "rx_rate": ("rx",)}
_RACK_RATES = {"uplink_rate": ("up", "down"), "up_rate": ("up",), "down_rate": ("down",)}
# The keys of each kind of place; docs/lab.md has the same table.
KEYS: Mapping[str, tuple[str, ...]] = {
    "a host": (*_HOST_RATES, *_HOST_QUEUES, "loss", "duplicate", "delay", "jitter", "down"),
    "a rack": (*_RACK_RATES, *_RACK_QUEUES, "delay", "loss", "duplicate", "jitter", "drop", "paths"),
    "two racks": ("delay", "loss", "duplicate", "jitter", "drop", "paths", "mtu"),
    "two hosts": ("loss", "duplicate", "delay", "jitter", "drop", "paths", "background"),
    "all": (*_HOST_RATES, *_RACK_RATES, *_HOST_QUEUES, *_RACK_QUEUES, "delay", "faults", "background"),
}
_SEPARATOR = re.compile("[:>]")


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where something is set: a kind out of KEYS, and the hosts' names or rack numbers, one direction each."""

    kind: str
    directions: tuple[tuple[str, ...], ...] = ()


def commands(spec: LabSpec, layout: Layout, what: str, key: str, value: str, *, lab: str) -> list[str]:
    """The switch's commands that set a value. Raises InputError: what was given, and what there is."""
    place = _place(spec, layout, what, lab)
    if key not in KEYS[place.kind]:
        places = [f"{name} ({', '.join(keys)})" for name, keys in KEYS.items()]
        takes = f"{place.kind} takes {', '.join(KEYS[place.kind])}"
        raise InputError(
            f"{key[:64]!r} cannot be set for {what[:64]!r}: {takes}"
            if any(key in keys for keys in KEYS.values())
            else f"{key[:64]!r} cannot be set: the keys are those of {'; '.join(places)}"
        )
    try:
        return _commands(spec, layout, place, key, value)
    except ValueError as error:
        raise InputError(f"{key}={value[:64]}: {error}") from error


def some(names: Iterable[str], limit: int = 16) -> str:
    """Names with commas between, the first few of many."""
    every = list(names)
    return ", ".join(every[:limit]) + (f" and {len(every) - limit} more" if len(every) > limit else "")


def _place(spec: LabSpec, layout: Layout, what: str, lab: str) -> _Place:
    if what == "all":
        return _Place(kind="all")
    racks = {rack_id(rack): str(rack) for rack in range(len(spec.racks))}
    ends = _SEPARATOR.split(what)
    if len(ends) > 2:
        raise InputError(f"{what[:64]!r} is neither one place nor two, such as rack0:rack1 or a>b")
    if all(end in racks for end in ends):
        numbers = tuple(racks[end] for end in ends)
        kind = "a rack" if len(set(numbers)) == 1 else "two racks"
        first = (numbers[0], numbers[-1])
    elif any(re.fullmatch(r"rack\d+", end, re.ASCII) for end in ends):
        raise InputError(f"lab {lab} has no {what[:64]!r}: its racks are {some(racks)}; two are rack0:rack1")
    else:
        names = tuple(_host(layout, end, lab) for end in ends)
        if len(names) == 1:
            return _Place(kind="a host", directions=(names,))
        if names[0] == names[1]:
            raise InputError(f"{what[:64]!r} is one host, and a link needs two")
        kind, first = "two hosts", (names[0], names[1])
    both = ">" not in what and first[0] != first[1]
    return _Place(kind=kind, directions=(first, (first[1], first[0])) if both else (first,))


def _host(layout: Layout, text: str, lab: str) -> str:
    for host in layout.hosts:
        if text in (host.name, host.target, host.address):
            return host.name
    try:
        return layout.at(*host_index(text)).name
    except ValueError:
        known = some(host.name for host in layout.hosts)
        raise InputError(f"lab {lab} has no host {text[:64]!r}: it has {known}") from None


def _commands(spec: LabSpec, layout: Layout, place: _Place, key: str, value: str) -> list[str]:
    racks = [str(rack) for rack in range(len(spec.racks))]
    if spec.host_shaping == "interface" and "tx" in {**_HOST_RATES, **_HOST_QUEUES}.get(key, ()):
        raise ValueError("the hosts' own interfaces have their rate (host_shaping): only rx_rate can be set")
    names = [host.name for host in layout.hosts] if place.kind == "all" else [place.directions[0][0]]
    if key in _HOST_QUEUES:
        queue = read_queue(value)
        return [line for name in names for line in queue_commands("host", name, _HOST_QUEUES[key], queue)]
    if key in _RACK_QUEUES:
        chosen = racks if place.kind == "all" else names
        queue = read_queue(value)
        return [line for rack in chosen for line in queue_commands("uplink", rack, _RACK_QUEUES[key], queue)]
    if key in _HOST_RATES:
        rate = read_rate_bytes_per_s(value)
        return [line for name in names for line in rate_commands("host", name, _HOST_RATES[key], rate)]
    if key in _RACK_RATES:
        chosen = racks if place.kind == "all" else names
        rate = read_rate_bytes_per_s(value)
        return [line for rack in chosen for line in rate_commands("uplink", rack, _RACK_RATES[key], rate)]
    if place.kind == "all" and key in ("faults", "background"):
        if value != NONE:
            raise ValueError(f"all of them can only be taken away: {key}={NONE}")
        return ["clear impair" if key == "faults" else "clear background"]
    if key == "background":
        flow = 0.0 if value == NONE else read_background_bytes_per_s(value)
        return [flow_command(src, dst, flow) for src, dst in place.directions]
    if key == "delay" and place.kind in ("a rack", "two racks", "all"):
        seconds = read_delay_s(value)
        directions = [(a, b) for a in racks for b in racks] if place.kind == "all" else place.directions
        return [delay_command(int(src), int(dst), seconds) for src, dst in directions]
    noun = {"a host": "host", "two hosts": "link"}.get(place.kind, "racks")
    effect = {key: _READERS[key](value)}
    return [line for link in place.directions for line in effect_commands(" ".join((noun, *link)), effect)]


def _flag(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value == "true"


def _paths(value: str) -> tuple[float, ...]:
    return () if value == NONE else read_paths_s(value.split(","))


def _mtu(value: str) -> int:
    if value == NONE:
        return 0
    return read_mtu_bytes(int(value) if value.isascii() and value.isdigit() and len(value) < 9 else value)


_READERS: Mapping[str, Callable[[str], object]] = {
    "loss": read_loss_ratio,
    "duplicate": read_loss_ratio,
    "delay": read_extra_delay_s,
    "jitter": read_extra_delay_s,
    "drop": _flag,
    "down": _flag,
    "paths": _paths,
    "mtu": _mtu,
}
