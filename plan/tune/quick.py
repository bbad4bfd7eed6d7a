"""Quicktune: all masters shared out anew, so that the host that takes longest takes as short as can be.

The dissertation minimises the largest t_i = (what host i carries) / (what it can send a second), where a global master
is a local master, each chunk has one, and one local master in each group. Its approximation is followed: global masters
are dealt out to groups in proportion to what these can send to the others, and roles inside a group to its members.
The second step is the longest processing time rule on machines of different speeds (Graham 1969): the larger roles
first, each to who would then be done first, on top of what every host carries anyway. Then as few chunks as possible
change their masters.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from netprobe.plan.schedule.builders.two_level import shared_out
from netprobe.plan.schedule.schedule import Ints
from netprobe.plan.tune.masters import Floats, Masters, Work


def times(masters: Masters, work: Work, rates: Floats) -> Floats:
    """(N,) how long each host sends, for chunks of one byte; ``rates`` (N,) are bytes a second, above 0."""
    return np.asarray(work.of(masters) / rates)


def quicktune(masters: Masters, work: Work, rates: Floats, between: Sequence[float] | None = None) -> Masters:
    """Masters with which the host that takes longest is sooner done; ``masters`` themselves where none are found.

    Where that host is done as soon either way the next one counts: one host that can do no better must not keep the
    others' masters where they are. Global masters may also stay in their groups: Finetune has put them there.

    ``rates`` (N,) is what each host can send a second, ``between`` (G,) what each group can send to the others (the sum
    over its hosts without). Raises ValueError for a rate that is not above 0.
    """
    rates = np.asarray(rates, dtype=np.float64)
    if rates.shape != (masters.ranks,) or not (np.isfinite(rates).all() and (rates > 0).all()):
        raise ValueError(f"{masters.ranks} rates above 0 are needed")
    shares = [float(rates[list(own)].sum()) for own in masters.groups] if between is None else list(between)
    homes = np.bincount(shared_out(masters.chunks, shares), minlength=len(masters.groups))
    best = masters
    for home in (_home(masters, homes), masters.home):
        made = _inside(masters, home, work, rates)
        if _sooner(times(made, work, rates), times(best, work, rates)):
            best = made
    return best


def _inside(masters: Masters, home: Ints, work: Work, rates: Floats) -> Masters:
    """Roles dealt out inside the groups, ``home`` (C,) those of the global masters."""
    local = masters.local.copy()
    for g, members in enumerate(masters.groups):
        inside = np.flatnonzero(home == g)
        outside = np.flatnonzero(home != g)
        own = list(members)
        central, only = _dealt(
            work.every[own] * masters.chunks,
            (work.local[own] + work.central[own], work.local[own]),
            (len(inside), len(outside)),
            rates[own],
        )
        for chunks, counts in ((inside, central), (outside, only)):
            local[chunks, g] = reassigned(local[chunks, g], own, counts)
    return Masters(groups=masters.groups, home=home, local=local)


def _sooner(some: Floats, others: Floats) -> bool:
    """Whether the longest of ``some`` times (N,) is shorter than that of ``others``; where they are alike, the next."""
    one, other = np.sort(some)[::-1], np.sort(others)[::-1]
    differ = np.flatnonzero(np.abs(one - other) > 1e-9 * other)
    return bool(len(differ)) and bool(one[differ[0]] < other[differ[0]])


def _dealt(
    base: Floats, roles: tuple[Floats, Floats], counts: tuple[int, int], rates: Floats
) -> tuple[list[int], list[int]]:
    """How many roles of each of two kinds every member gets; ``roles`` is what one adds to a member's ``base``."""
    order = sorted((0, 1), key=lambda kind: -float(roles[kind].max()))
    load = base.astype(np.float64)
    given = [[0] * len(rates), [0] * len(rates)]
    for kind in order:
        heap = [((load[i] + roles[kind][i]) / rates[i], i) for i in range(len(rates))]
        heapq.heapify(heap)
        for _ in range(counts[kind]):
            _, i = heap[0]
            given[kind][i] += 1
            load[i] += roles[kind][i]
            heapq.heapreplace(heap, ((load[i] + roles[kind][i]) / rates[i], i))
    return given[0], given[1]


def _home(masters: Masters, wanted: Ints) -> Ints:
    """(C,) groups of global masters, ``wanted`` (G,) of each."""
    return reassigned(masters.home, list(range(len(masters.groups))), wanted.tolist())


def reassigned(held: Ints, owners: Sequence[int], wanted: Sequence[int]) -> Ints:
    """``held`` (K,) with ``wanted`` pieces for each of ``owners``, as few changed as can be.

    What an owner has too many of it gives away evenly over its list, so that pieces of an owner stay apart.
    """
    made = np.array(held, dtype=np.int64)
    free: list[int] = []
    short: list[float] = []
    for owner, count in zip(owners, wanted):
        own = np.flatnonzero(made == owner)
        extra = len(own) - count
        if extra > 0:
            free.extend(own[(np.arange(extra) * len(own)) // extra].tolist())
        short.append(float(max(-extra, 0)))
    free.sort()
    if free:
        made[free] = [owners[place] for place in _apportioned(len(free), short)]
    return made


def _apportioned(count: int, wanted: Sequence[float]) -> list[int]:
    """Who gets each of ``count`` pieces, ``wanted`` of each in all, evenly mixed."""
    left = [int(w) for w in wanted]
    made = []
    for place in shared_out(count, wanted):
        own = place if left[place] else next(i for i, n in enumerate(left) if n)
        left[own] -= 1
        made.append(own)
    return made
