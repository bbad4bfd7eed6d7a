"""What a foreign format is: the record that each format's own module makes of itself, listed in registry.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.hosts import Host


class Writer(Protocol):
    """Hosts in rank order to text; ``slots`` is the ranks of every host, None for the hosts' own."""

    def __call__(self, hosts: Sequence[Host], *, slots: int | None = None) -> str:
        """Raises InputError for what the format cannot say."""


class Reader(Protocol):
    """Text to hosts; ``source`` names the text in errors."""

    def __call__(self, text: str, *, source: str | None = None) -> tuple[Host, ...]:
        """Raises HostsError naming the line."""


class Command(Protocol):
    """The argv under which a launcher keeps the order of a written file."""

    def __call__(self, file: str, ranks: int, program: Sequence[str] = (), /) -> list[str]:
        """``ranks`` is the sum of the slots."""


class TopologyWriter(Protocol):
    """Hosts of each group, and those in none, to text."""

    def __call__(
        self,
        groups: Mapping[str, Sequence[Host]],
        unplaced: Sequence[Host] = (),
        *,
        above: Mapping[str, str] | None = None,
    ) -> str:
        """``above``: the parent of each group, and of each parent. Raises InputError for what the format cannot say."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One foreign format of hosts.

    ``write`` is None for a format that is only read, ``read`` for one that is only written, and ``command`` where no
    command is known that keeps the order; ``naming_flags`` are the options that the command needs besides for hosts of
    these names. ``write_by_node`` places the ranks of hosts with several slots round-robin
    by host; None where the format cannot separate the ranks of a host. ``order`` says under which flags a launcher
    keeps the order of a written file, and what it does otherwise; ``file`` is the default name of such a file, a
    different one for each format.
    """

    name: str
    summary: str
    write: Writer | None = None
    write_by_node: Writer | None = None
    read: Reader | None = None
    command: Command | None = None
    naming_flags: Callable[[Sequence[str]], Sequence[str]] | None = None
    order: str = ""
    file: str = ""


@dataclass(frozen=True, kw_only=True)
class TopologyFormat:
    """One foreign format of groups; ``places`` says what reads it, and what it does not do."""

    name: str
    summary: str
    write: TopologyWriter
    places: str
    file: str


@dataclass(frozen=True, kw_only=True)
class ScheduleFormat:
    """One foreign form of a schedule."""

    name: str
    summary: str
    write: Callable[[SchedulePlan], str]
    """Raises InputError for what the format cannot say."""
    file: str
