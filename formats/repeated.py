"""Hosts that a batch system lists with their slots, or once a slot: how they add up."""

from __future__ import annotations

from collections.abc import Iterable

from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_HOSTS, MAX_SLOTS, Host, check_hosts, checked_lines, make_host


def add_up(entries: Iterable[tuple[str, int, int | None]], *, source: str | None) -> tuple[Host, ...]:
    """Hosts of ``(name, slots, line)`` entries, in the order in which each first appears, slots added up.

    ``line`` is None where the entries do not come from lines. Raises HostsError.
    """
    slots: dict[str, int] = {}
    first: dict[str, int | None] = {}
    for name, count, line in entries:
        slots[name] = slots.get(name, 0) + count
        first.setdefault(name, line)
        if slots[name] > MAX_SLOTS:
            raise HostsError(f"host {name[:60]!r} has more than {MAX_SLOTS} slots", source=source, line=line)
        if len(slots) > MAX_HOSTS:
            raise HostsError(f"more than {MAX_HOSTS} hosts", source=source)
    hosts = [make_host(n, source=source, line=first[n], slots=count) for n, count in slots.items()]
    return check_hosts(hosts, source=source)


def read_line_a_slot(text: str, *, source: str | None, what: str) -> tuple[Host, ...]:
    """Hosts of a text with one line a slot; ``what`` names the format in errors. ``#`` starts a comment."""
    entries: list[tuple[str, int, int | None]] = []
    for number, line in checked_lines(text.removeprefix("\ufeff"), source=source):
        words = line.partition("#")[0].split()
        if len(words) > 1:
            raise HostsError(
                f"{' '.join(words)[:60]!r} is more than one word: {what} has one host a line, "
                "and as many lines of it as it has slots",
                source=source,
                line=number,
            )
        entries += [(word, 1, number) for word in words]
    return add_up(entries, source=source)
