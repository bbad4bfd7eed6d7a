"""Rounds of goodput tests in which no test can slow another one down.

Two rules. No host is in two tests of a round, neither as sender nor as receiver. Of the links between groups
at most one touches each group, in or out, so that a group's uplink carries one flow at the most; links
inside groups run concurrently. Then a reading does not depend on its round, however oversubscribed the
uplinks are, as long as the groups are those that share them.

With n_g hosts in group g of N, the links between groups need at least max 2 n_g (N - n_g) rounds (each
touches its two groups) and at least their number over floor(groups / 2): colouring the edges of the
multigraph of groups. Each round is a greedy matching, the groups with the most work left first, which comes
within a few rounds of that bound.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from netprobe.probe.rounds.chooser import Extent, Results
from netprobe.probe.rounds.circle import Link, two_passes

FindGroups = Callable[[Results], Sequence[Collection[int]]]
_LOOK_AHEAD = 4


class GoodputRounds:
    """A Chooser: every ordered link once, or those of ``links``, in rounds that keep the two rules.

    ``find_groups`` is called at the first round and gives sets of indices of hosts; a host that is in none is
    a group of its own.
    """

    def __init__(self, find_groups: FindGroups, links: Iterable[Link] | None = None) -> None:
        self._find_groups = find_groups
        self._links = None if links is None else list(links)
        self._plan: _Plan | None = None

    def next_round(self, results: Results) -> Sequence[Link] | None:
        """The next round. Links to hosts that died since come along and take no place."""
        if self._plan is None:
            self._plan = _Plan(self._find_groups(results), self._links, sorted(results.alive))
        return self._plan.next_round(results.alive)

    def extent(self) -> Extent | None:
        """All links, and the least number of rounds they need; None before the first round."""
        return None if self._plan is None else self._plan.extent


def least_extent(sizes: Sequence[int]) -> Extent:
    """All links of groups of these sizes, and the least number of rounds they need under the two rules."""
    hosts, groups = sum(sizes), len(sizes)
    links = hosts * (hosts - 1)
    across = links - sum(size * (size - 1) for size in sizes)
    rounds = max(
        -(-across // max(1, groups // 2)),
        max((2 * size * (hosts - size) for size in sizes), default=0),
        max((2 * (size - 1 + size % 2) for size in sizes if size > 1), default=0),
    )
    return Extent(rounds=rounds, links=links)


class _Queue:
    """Links still to be tested between two groups, or inside one. ``held`` are those put back."""

    def __init__(self, links: Iterator[Link], count: int) -> None:
        self._links = links
        self._held: deque[Link] = deque()
        self.left = count

    def take(self) -> Link | None:
        """The next link."""
        link = self._held.popleft() if self._held else next(self._links, None)
        if link is not None:
            self.left -= 1
        return link

    def put_back(self, links: Iterable[Link]) -> None:
        """To come first, in this order."""
        links = list(links)
        self._held.extendleft(reversed(links))
        self.left += len(links)


class _Plan:
    def __init__(
        self, groups: Sequence[Collection[int]], links: Sequence[Link] | None, hosts: Sequence[int]
    ) -> None:
        self._members = _partition(groups, hosts)
        self._group_of = {host: place for place, members in enumerate(self._members) for host in members}
        if links is None:
            self._inside, self._between = self._all_queues()
        else:
            self._inside, self._between = self._queues(links)
        self._work = [0] * len(self._members)
        for (one, other), queue in self._between.items():
            self._work[one] += queue.left
            self._work[other] += queue.left
        self.extent = self._bound()

    def next_round(self, alive: frozenset[int]) -> Sequence[Link] | None:
        """Links between groups first, then inside the groups with the hosts that are left."""
        chosen: list[Link] = []
        busy: set[int] = set()
        touched: set[int] = set()
        pairs = [pair for pair, queue in self._between.items() if queue.left]
        work = self._work
        pairs.sort(
            key=lambda pair: (
                -max(work[pair[0]], work[pair[1]]),
                -min(work[pair[0]], work[pair[1]]),
                -self._between[pair].left,
                pair,
            )
        )
        for pair in pairs:
            if touched.isdisjoint(pair) and self._take(
                self._between[pair], 1, chosen, busy, alive, between=pair
            ):
                touched.update(pair)
        for group, queue in self._inside.items():
            if queue.left:
                free = len(self._members[group]) - sum(host in busy for host in self._members[group])
                self._take(queue, free // 2, chosen, busy, alive)
        return chosen or None

    def _take(
        self,
        queue: _Queue,
        wanted: int,
        chosen: list[Link],
        busy: set[int],
        alive: frozenset[int],
        between: tuple[int, int] | None = None,
    ) -> int:
        """Up to ``wanted`` links whose hosts are free; how many it were.

        A link to a lost host costs no time: it is taken as well, and gets its reason. No link is
        looked for beyond a few rounds' worth of the queue.
        """
        taken = 0
        unfit: list[Link] = []
        looks = _LOOK_AHEAD * max(wanted, 1) + _LOOK_AHEAD
        while taken < wanted and len(unfit) < looks and (link := queue.take()) is not None:
            ends = {link.src, link.dst}
            if not ends <= alive:
                chosen.append(link)
            elif ends & busy:
                unfit.append(link)
                continue
            else:
                chosen.append(link)
                busy |= ends
                taken += 1
            if between is not None:
                self._work[between[0]] -= 1
                self._work[between[1]] -= 1
        queue.put_back(unfit)
        return taken

    def _all_queues(self) -> tuple[dict[int, _Queue], dict[tuple[int, int], _Queue]]:
        inside = {
            place: _Queue(
                itertools.chain.from_iterable(two_passes(members)), len(members) * (len(members) - 1)
            )
            for place, members in enumerate(self._members)
            if len(members) > 1
        }
        between = {
            (one, other): _Queue(
                _across(self._members[one], self._members[other]),
                2 * len(self._members[one]) * len(self._members[other]),
            )
            for one, other in itertools.combinations(range(len(self._members)), 2)
        }
        return inside, between

    def _queues(self, links: Sequence[Link]) -> tuple[dict[int, _Queue], dict[tuple[int, int], _Queue]]:
        inside: dict[int, list[Link]] = {}
        between: dict[tuple[int, int], list[Link]] = {}
        for link in links:
            one, other = self._group_of.get(link.src), self._group_of.get(link.dst)
            if one is None or other is None or link.src == link.dst:
                continue  # of a host that was not up at the start
            if one == other:
                inside.setdefault(one, []).append(link)
            else:
                between.setdefault((min(one, other), max(one, other)), []).append(link)
        return (
            {place: _Queue(iter(those), len(those)) for place, those in inside.items()},
            {pair: _Queue(iter(those), len(those)) for pair, those in between.items()},
        )

    def _bound(self) -> Extent:
        across = sum(queue.left for queue in self._between.values())
        inside = sum(queue.left for queue in self._inside.values())
        at_once = max(1, len(self._members) // 2)
        rounds = max(
            -(-across // at_once),
            max(self._work, default=0),
            max(
                (-(-q.left // max(1, len(self._members[g]) // 2)) for g, q in self._inside.items()), default=0
            ),
        )
        return Extent(rounds=rounds, links=across + inside)


def _partition(groups: Sequence[Collection[int]], hosts: Sequence[int]) -> list[list[int]]:
    """The groups' hosts among ``hosts``, each once, and the others each alone."""
    left = dict.fromkeys(hosts)
    parts = []
    for group in groups:
        members = [host for host in sorted(group) if host in left]
        for host in members:
            del left[host]
        if members:
            parts.append(members)
    return parts + [[host] for host in left]


def _across(ones: Sequence[int], others: Sequence[int]) -> Iterator[Link]:
    """Every link between two groups, first in one direction, then in the other; successive ones share no host."""
    longer, shorter = (ones, others) if len(ones) >= len(others) else (others, ones)
    for forth in (True, False):
        for turn in range(len(longer)):
            for place, near in enumerate(shorter):
                far = longer[(turn + place) % len(longer)]
                yield Link(near, far) if forth else Link(far, near)
