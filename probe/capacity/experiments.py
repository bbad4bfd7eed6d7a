"""Which flows run at once, to find what hosts and uplinks carry. Hosts are indices, groups lists of them.

Three kinds of tests. ``hosts``: inside every group disjoint pairs, one host of each sending, all groups at
once, so nothing passes an uplink. ``up``: the hosts of one group send to hosts spread over all
other groups, so that its way out is the narrowest place and no other group's way in is. ``down``: the
reverse. Between groups only one test runs at a time.

Where groups are nested (racks in rows) each tier is tested apart: the flows of a rack go to the other racks of its
row, so that they do not pass the row's uplink, and those of a row, of all its racks, to the other rows. The uplinks
are numbered: those of the groups first, then those of the outer groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from netprobe.probe.rounds.chooser import Extent
from netprobe.probe.rounds.circle import Link, one_pass

HOST_PEERS = 3
"""To how many different peers each host sends inside its group: a slow peer must not look like a slow host."""
MAX_FLOWS = 64
"""Of one test of an uplink; hosts beyond that are left out of it."""

Kind = Literal["hosts", "up", "down"]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Flows ``(src, dst)`` that run at once; ``group`` is the number of the uplink that is meant."""

    kind: Kind
    flows: tuple[tuple[int, int], ...]
    group: int | None = None


def experiments(
    groups: Sequence[Sequence[int]],
    outer: Sequence[Sequence[int]] = (),
    *,
    repeats: int = 2,
    at_once: int = 0,
) -> list[Experiment]:
    """All tests, the repeats of an uplink as far apart as they can be; ``at_once`` caps flows inside groups.

    ``outer`` are the outer groups, each as the indices of the groups in it. The second and each further even repeat
    of an uplink uses half of the hosts of a group of four or more: an uplink that is full carries the same from half
    of them.
    """
    found = host_experiments(groups, at_once=at_once)
    uplinks = [[group] for group in range(len(groups))] + [list(members) for members in outer]
    for repeat in range(repeats):
        for number, inside in enumerate(uplinks):
            near = _interleaved([groups[group] for group in inside])
            others = _interleaved([groups[group] for group in peers_of(inside, len(groups), outer)])
            if not near or not others:
                continue
            if repeat % 2 and len(near) >= 4:
                near = near[::2]
            # Peers move on from repeat to repeat, so that one faulty host does not affect all of them.
            far = [others[(i + repeat) % len(others)] for i in range(len(near[:MAX_FLOWS]))]
            ends = list(zip(near[:MAX_FLOWS], far, strict=True))
            found.append(Experiment(kind="up", group=number, flows=tuple(ends)))
            found.append(Experiment(kind="down", group=number, flows=tuple((b, a) for a, b in ends)))
    return found


def peers_of(inside: Sequence[int], groups: int, outer: Sequence[Sequence[int]]) -> list[int]:
    """The groups that flows out of the groups ``inside`` go to: the others of the smallest outer group around them."""
    around = [set(members) for members in outer if set(members) > set(inside)]
    home = min(around, key=len, default=set(range(groups)))
    return sorted(home - set(inside))


def host_experiments(groups: Sequence[Sequence[int]], *, at_once: int = 0) -> list[Experiment]:
    """Tests inside groups, of disjoint pairs: a host that sends does not receive, so that the
    acknowledgements of one flow do not wait in the queue of another."""
    turns = [two_passes_of(members, HOST_PEERS) for members in groups]
    found = []
    for turn in range(max(map(len, turns), default=0)):
        flows = [(link.src, link.dst) for own in turns if turn < len(own) for link in own[turn]]
        step = at_once or max(1, len(flows))
        for start in range(0, len(flows), step):
            found.append(Experiment(kind="hosts", flows=tuple(flows[start : start + step])))
    return found


def extent_of_tests(
    sizes: Sequence[int], outer: Sequence[Sequence[int]] = (), *, repeats: int = 2, at_once: int = 0
) -> Extent:
    """How many ``experiments`` groups of these sizes have, as rounds, and how many flows, as links."""
    tests = flows = 0
    turns = [2 * (min(HOST_PEERS, size - 1) + size % 2) if size > 1 else 0 for size in sizes]
    for turn in range(max(turns, default=0)):
        together = sum(size // 2 for size, own in zip(sizes, turns, strict=True) if turn < own)
        tests += -(-together // (at_once or together))
        flows += together
    for repeat in range(repeats if len(sizes) > 1 else 0):
        tests += 2 * (len(sizes) + len(outer))
        flows += 2 * sum(_ends(size, repeat) for size in [*sizes, *_outer_sizes(sizes, outer)])
    return Extent(rounds=tests, links=flows)


def most_flows(sizes: Sequence[int], outer: Sequence[Sequence[int]] = (), *, at_once: int = 0) -> int:
    """The most flows of any of these experiments."""
    inside = sum(size // 2 for size in sizes)
    uplinks = [*sizes, *_outer_sizes(sizes, outer)]
    across = max((_ends(size, 0) for size in uplinks), default=0) if len(sizes) > 1 else 0
    return max(min(inside, at_once or inside), across)


def _outer_sizes(sizes: Sequence[int], outer: Sequence[Sequence[int]]) -> list[int]:
    return [sum(sizes[group] for group in members) for members in outer]


def _ends(size: int, repeat: int) -> int:
    return min(-(-size // 2) if repeat % 2 and size >= 4 else size, MAX_FLOWS)


def two_passes_of(members: Sequence[int], peers: int) -> list[list[Link]]:
    """The first rounds of the circle method in which each host meets ``peers`` others, then all reversed."""
    wanted = peers + len(members) % 2  # with odd numbers one host is idle in each round
    first = list(itertools.islice(one_pass(members), wanted))
    return first + [[Link(link.dst, link.src) for link in links] for links in first]


def _interleaved(groups: Sequence[Sequence[int]]) -> list[int]:
    """The hosts of several groups, one of each in turn."""
    longest = max(map(len, groups), default=0)
    return [group[i] for i in range(longest) for group in groups if i < len(group)]
