"""Reading hostfiles: lines without comments, numbers of slots, and slots of a host that is listed several times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_HOSTS, MAX_SLOTS, Host, check_hosts, checked_lines, make_host


def content_lines(text: str, *, source: str | None) -> Iterator[tuple[int, str]]:
    """Lines of a hostfile by number, without ``#`` comments and surrounding blanks; empty ones are skipped.

    Raises HostsError as ``checked_lines`` does.
    """
    for number, line in checked_lines(text.removeprefix("\ufeff"), source=source):
        content = line.partition("#")[0].strip()
        if content:
            yield number, content


def slots_number(text: str) -> int | None:
    """The number of slots, 1 to MAX_SLOTS, that a text is; None for any other text."""
    digits = text.isascii() and text.isdigit() and len(text) <= 7
    return int(text) if digits and 1 <= int(text) <= MAX_SLOTS else None


@dataclass(kw_only=True)
class Listed:
    """A host of a launcher's file, listed on one or more lines: its slots add up, and a line without
    slots counts one."""

    name: str
    line: int
    """The first one."""
    user: str | None = None
    lines: int = 0
    slots: int = 0
    stated: bool = False
    """Whether any line said its slots."""

    def add(self, slots: int | None, user: str | None, *, source: str | None, line: int) -> None:
        """A line more. Raises HostsError for another user, and for slots out of range."""
        if user is not None and self.user not in (None, user):
            raise HostsError(
                f"host {self.name!r} has two users, {self.user!r} and {user!r}", source=source, line=line
            )
        self.user = user or self.user
        self.lines += 1
        self.slots += 1 if slots is None else slots
        self.stated = self.stated or slots is not None
        if self.slots > MAX_SLOTS:
            raise HostsError(f"host {self.name!r} has more than {MAX_SLOTS} slots", source=source, line=line)

    def host(self, *, source: str | None) -> Host:
        """Its slots are None where its only line has none."""
        slots = self.slots if self.stated or self.lines > 1 else None
        target = self.name if self.user is None else f"{self.user}@{self.name}"
        return make_host(self.name, source=source, line=self.line, target=target, slots=slots)


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


def read_line_a_slot(
    text: str,
    *,
    source: str | None,
    what: str,
    split: Callable[[str, str | None, int], list[tuple[str, int]]] = lambda word, _source, _line: [(word, 1)],
) -> tuple[Host, ...]:
    """Hosts of a text with one line a slot; ``what`` names the format in errors. ``#`` starts a comment.

    ``split`` gives the names and slots of a line's word, from its source and number.
    """
    entries: list[tuple[str, int, int | None]] = []
    for number, content in content_lines(text, source=source):
        words = content.split()
        if len(words) > 1:
            raise HostsError(
                f"{' '.join(words)[:60]!r} is more than one word: {what} has one host a line, "
                "and as many lines of it as it has slots",
                source=source,
                line=number,
            )
        entries += [(name, slots, number) for word in words for name, slots in split(word, source, number)]
    return add_up(entries, source=source)
