"""Who is master of which chunk, and what that gives each host to send and to receive.

Flat aggregation is the case of one group: its only level has global masters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.plan.schedule.builders.two_level import checked_groups, shared_out, two_level, with_masters
from netprobe.plan.schedule.schedule import REDUCE, Ints, Schedule, Template

Floats = NDArray[np.float64]
EVEN = 1.05
"""Hosts carry the same where the most is less than this times the least."""
TUNED = ("2lha", "flat")
"""Algorithms that have masters, by name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Masters:
    """The masters of equal chunks among ``groups`` of ranks 0 to N - 1.

    ``local`` (C, G) is each group's master of a chunk, and ``home`` (C,) the group whose master is the global one. So
    each chunk has one local master in each group, one global master, and that one is a local master: there is no other
    way to write it. Raises ValueError for groups that are no partition, and for a master that is not of its group.
    """

    groups: tuple[tuple[int, ...], ...]
    home: Ints
    local: Ints

    def __post_init__(self) -> None:
        """Raises ValueError."""
        checked_groups(self.groups)
        chunks, count = len(self.home), len(self.groups)
        if not chunks or self.home.shape != (chunks,) or self.local.shape != (chunks, count):
            raise ValueError(f"masters {self.local.shape} and homes {self.home.shape} of {count} groups")
        if (self.home < 0).any() or (self.home >= count).any():
            raise ValueError("the group of a global master is not one of the groups")
        if (self.local < 0).any() or (self.local >= self.ranks).any():
            raise ValueError("a master is not one of the ranks")
        if (self.group_of()[self.local] != np.arange(count)).any():
            raise ValueError("a local master is not of its group")

    @property
    def ranks(self) -> int:
        """How many hosts."""
        return sum(map(len, self.groups))

    @property
    def chunks(self) -> int:
        """How many chunks."""
        return len(self.home)

    @property
    def centre(self) -> Ints:
        """(C,) the global masters."""
        return np.asarray(self.local[np.arange(self.chunks), self.home])

    def group_of(self) -> Ints:
        """(N,) the group of each rank."""
        made = np.zeros(self.ranks, np.int64)
        for g, members in enumerate(self.groups):
            made[list(members)] = g
        return made

    def locals_of(self) -> Ints:
        """(N,) of how many chunks each host is a local master, global or not."""
        return np.bincount(self.local.reshape(-1), minlength=self.ranks)

    def globals_of(self) -> Ints:
        """(N,) of how many chunks each host is the global master."""
        return np.bincount(self.centre, minlength=self.ranks)

    def moved_from(self, other: Masters) -> Ints:
        """The chunks whose masters are not those of ``other``."""
        differ = (self.local != other.local).any(axis=1) | (self.home != other.home)
        return np.flatnonzero(differ)

    def schedule(self, *, channels: int = 1, name: str = "2lha") -> Schedule:
        """2LHA with these masters."""
        return with_masters(
            self.groups, self.home.tolist(), self.local.tolist(), channels=channels, name=name
        )

    def cut(self, chunks: int) -> Masters:
        """Masters of ``chunks`` chunks, in the shares that each host has here."""
        home, local = np.zeros(chunks, np.int64), np.zeros((chunks, len(self.groups)), np.int64)
        hosts = [(g, rank) for g, members in enumerate(self.groups) for rank in members]
        globals_ = self.globals_of()
        for chunk, place in enumerate(shared_out(chunks, [float(globals_[rank]) for _, rank in hosts])):
            home[chunk], local[chunk, hosts[place][0]] = hosts[place]
        only = self.locals_of() - globals_
        for g, members in enumerate(self.groups):
            elsewhere = np.flatnonzero(home != g)
            weights = [float(only[rank]) for rank in members]
            shares = shared_out(len(elsewhere), weights if any(weights) else [1.0] * len(members))
            local[elsewhere, g] = [members[place] for place in shares]
        return Masters(groups=self.groups, home=home, local=local)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What hosts carry each way, in chunks: (N,) for every chunk, more as its local master, more as its global one."""

    every: Floats
    local: Floats
    central: Floats

    def of(self, masters: Masters) -> Floats:
        """(N,) what each host carries with these masters."""
        return np.asarray(
            masters.chunks * self.every
            + self.local * masters.locals_of()
            + self.central * masters.globals_of()
        )


def carried(groups: Sequence[Sequence[int]]) -> Work:
    """What is really sent, and as much received.

    A host sends each chunk on once; the master of a group of n sends n chunks, and the global one of G groups
    n - 1 + G - 1.
    """
    ranks = sum(map(len, groups))
    local = np.zeros(ranks)
    for members in groups:
        local[list(members)] = len(members) - 1
    every = np.ones(ranks)
    return Work(every=every, local=local, central=np.full(ranks, float(len(groups) - 2)))


def printed(groups: Sequence[Sequence[int]]) -> Work:
    """The dissertation's objective: n for a local master, G more for the global one, nothing for other hosts.

    It leaves out what every host sends and receives of each chunk, so it leaves work on a slow host that has too
    much already.
    """
    ranks = sum(map(len, groups))
    local = np.zeros(ranks)
    for members in groups:
        local[list(members)] = len(members)
    return Work(every=np.zeros(ranks), local=local, central=np.full(ranks, float(len(groups))))


def masters_of(schedule: Schedule) -> Masters | None:
    """The masters of a schedule of 2LHA or flat aggregation; None where it is no such schedule of equal chunks."""
    contract = schedule.contract
    whole = contract.collective == "all_reduce" and len(contract.participants) == contract.ranks
    if not whole or len({w for block in schedule.blocks for w in block.weights}) != 1:
        return None
    if schedule.name == "flat":
        return _flat(schedule)
    found = [_of_template(template, schedule.ranks) for template in schedule.templates]
    used = [found[block.template] for block in schedule.blocks]
    partitions = {None if one is None else one[0] for one in used}
    if None in partitions or len(partitions) != 1:
        return None
    groups = next(iter(partitions))
    assert groups is not None
    rows = [one for one in used if one is not None]
    made = Masters(
        groups=groups, home=np.array([one[1] for one in rows]), local=np.array([one[2] for one in rows])
    )
    again = made.schedule(channels=schedule.channels)
    pairs = {(own.template, block.template) for own, block in zip(again.blocks, schedule.blocks)}
    same = all(_rows(again.templates[a]) == _rows(schedule.templates[b]) for a, b in pairs)
    return made if same else None


def _rows(template: Template) -> list[tuple[int, ...]]:
    """A template's transfers in an order of their own: those of a step are concurrent."""
    columns = (template.step, template.src, template.dst, template.first, template.last, template.op)
    return sorted(zip(*(column.tolist() for column in columns)))


def _flat(schedule: Schedule) -> Masters:
    """Of every block chunk r is rank r's."""
    ranks = schedule.ranks
    local = np.resize(np.arange(ranks), schedule.chunks)
    home = np.zeros(schedule.chunks, np.int64)
    return Masters(groups=(tuple(range(ranks)),), home=home, local=local.reshape(-1, 1))


_Found = tuple[tuple[tuple[int, ...], ...], int, list[int]]


def _of_template(template: Template, ranks: int) -> _Found | None:
    """(groups by their lowest rank, group of the global master, master of each group) of one chunk."""
    if template.chunks != 1:
        return None
    inside = (template.step == 0) & (template.op == REDUCE)
    between = (template.step == 1) & (template.op == REDUCE)
    master = np.arange(ranks)
    master[template.src[inside]] = template.dst[inside]
    centres = np.unique(template.dst[between]) if between.any() else np.unique(master)
    if len(centres) != 1:
        return None
    members: dict[int, list[int]] = {}
    for rank, own in enumerate(master.tolist()):
        members.setdefault(own, []).append(rank)
    by_lowest = sorted(members.items(), key=lambda pair: pair[1][0])
    groups = tuple(tuple(own) for _, own in by_lowest)
    homes = [g for g, (own, _) in enumerate(by_lowest) if own == int(centres[0])]
    return (groups, homes[0], [own for own, _ in by_lowest]) if homes else None


def even_masters(groups: Sequence[Sequence[int]], chunks: int) -> Masters:
    """The masters of ``two_level`` with equal weights."""
    found = masters_of(two_level(groups, chunks))
    assert found is not None
    return found
