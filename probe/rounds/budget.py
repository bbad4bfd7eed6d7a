"""Which pairs to probe when not all can be: a budget of pairs, or of time.

A fleet of two levels (near hosts in a rack, far ones elsewhere) is known once every host has been seen near
one other host of its rack. So the readings so far are split into near and far ones, hosts that are near are
joined into components, and the next pairs are those most likely to join two more: pairs of components that
no reading tells apart yet, weighed by how many hosts are still possible partners. Where the near readings
are themselves of two levels (racks in rows), the same is done inside each component. What is left of the
budget goes to pairs of components that hang on a single reading, then to hosts with few readings.

The order is seeded; the same readings give the same pairs. Every pair is visited from one end first and from
the other in a second pass, far apart, so that what is chosen depends on the first pass alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError
from netprobe.core.units import parse_duration_s, plain_number
from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.chooser import Extent, Results, disjoint_rounds
from netprobe.probe.rounds.circle import Link

EXPLORING_ROUNDS = 2
"""Rounds of random pairs before anything is known."""
LEAST_STEP = 1.15
"""Two levels closer than this ratio are one level."""
CLEAR_SPLIT = 0.85
"""Near readings are of two levels where these explain this share of their spread: of a uniform one it is 0.75."""
WORTH = 0.3
"""While components have not all met, a round takes no pair that is less likely than this share of the likeliest."""
LEAST_ROUND = 16
"""But at least this part of the hosts, in pairs."""
_FIRST_PASS_SHARE = 0.47
"""Of a budget of time alone: the second pass takes as long as the first one, and ending takes a little."""
_TRIES = 8


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many pairs may be probed, as a number or as a share of all, and how long it may take; None: no limit."""

    pairs: int | None = None
    share: float | None = None
    seconds: float | None = None

    def pairs_of(self, hosts: int) -> int:
        """How many pairs of ``hosts`` hosts. Raises InputError when they cannot tie all hosts together."""
        every = hosts * (hosts - 1) // 2
        wanted = every if self.pairs is None else self.pairs
        if self.share is not None:
            wanted = math.ceil(every * self.share)
        if wanted < hosts - 1:
            # Rounded up to a tenth of a percent, and tried: so many pairs it is.
            least = math.ceil(1000 * (hosts - 1) / every) / 10
            raise InputError(
                f"--pairs: {wanted} pairs cannot tie {hosts} hosts together, at least {hosts - 1} are needed, which "
                f"is --pairs {least:g}%"
            )
        return min(wanted, every)


def parse_budget(pairs: str | None, time: str | None) -> Budget | None:
    """``5%`` or ``20000`` pairs, ``60s`` or ``5m``. None without either. Raises InputError."""
    if pairs is None and time is None:
        return None
    seconds = None if time is None else _seconds(time)
    if pairs is None:
        return Budget(seconds=seconds)
    number = plain_number(pairs.removesuffix("%"))
    if pairs.endswith("%"):
        if number is None or not 0 < number <= 100:
            raise InputError(f"--pairs {pairs!r}: a share above 0% and up to 100% is needed")
        return Budget(share=number / 100, seconds=seconds)
    if number is None or number < 1 or number != int(number):
        raise InputError(f"--pairs {pairs!r} is neither a number of pairs nor a share such as 5%")
    return Budget(pairs=int(number), seconds=seconds)


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration_s(text)
    except InputError:
        seconds = math.nan
    if not 1 <= seconds <= 86400:
        raise InputError(f"--time {text!r}: 1s to 24h is needed, such as 60s or 5m")
    return seconds


class Budgeted:
    """A chooser that stays within a budget."""

    def __init__(self, budget: Budget, *, seed: int = 0) -> None:
        self._budget = budget
        self._hosts = 0
        self._pairs = 0
        self._random = np.random.default_rng(seed)
        self._first: list[list[Link]] = []
        self._explored = 0
        self._second: list[list[Link]] | None = None
        self._chosen = np.zeros((0, 0), dtype=bool)
        self._rtt_s = np.zeros((0, 0))
        self._used = 0
        self._read = 0

    def extent(self) -> Extent | None:
        """Both passes of the whole budget in full rounds, once the number of hosts is known."""
        return self.extent_of(self._hosts) if self._hosts else None

    def extent_of(self, hosts: int) -> Extent:
        """The same for so many hosts."""
        pairs = self._budget.pairs_of(hosts)
        return Extent(rounds=2 * math.ceil(pairs / max(1, hosts // 2)), links=2 * pairs)

    def next_round(self, results: Results) -> Sequence[Link] | None:
        """A round of the first pass while the budget lasts, then those of the second pass."""
        if not self._hosts:
            self._start(results)
        if self._second is None:
            links = self._explore(results)
            if links:
                self._first.append(links)
                self._explored += 1
                return links
            self._second = [[Link(link.dst, link.src) for link in links] for links in self._first]
        seconds = self._budget.seconds
        if not self._second or (seconds is not None and results.elapsed_s >= seconds):
            return None
        return self._second.pop(0)

    def _start(self, results: Results) -> None:
        """Visits that are there already are those of a resumed scan: they count."""
        self._hosts = results.hosts
        self._pairs = self._budget.pairs_of(results.hosts)
        self._chosen = np.zeros((results.hosts, results.hosts), dtype=bool)
        self._rtt_s = np.full((results.hosts, results.hosts), np.nan)
        seen = dict.fromkeys(Link(visit.src, visit.dst) for visit in results.visits if visit.has_reading)
        half = [link for link in seen if Link(link.dst, link.src) not in seen]
        for link in seen:
            self._chosen[link.src, link.dst] = self._chosen[link.dst, link.src] = True
        self._used = int(self._chosen.sum()) // 2
        self._first = disjoint_rounds(half)

    def _explore(self, results: Results) -> list[Link]:
        left, seconds = self._pairs - self._used, self._budget.seconds
        spent = seconds is not None and results.elapsed_s >= self._first_pass_share() * seconds
        alive = np.array(sorted(results.alive), dtype=np.int64)
        if left <= 0 or spent or len(alive) < 2:
            return []
        self._take_in(results.visits)
        wanted: Iterable[tuple[int, int]]
        if self._explored < EXPLORING_ROUNDS:
            wanted = self._at_random(alive)
        else:
            wanted = self._unsure(alive)
        links = self._matched(wanted, min(left, len(alive) // 2))
        room = min(left, max(1, len(alive) // LEAST_ROUND)) - len(links)
        if room > 0:
            taken = {end for link in links for end in (link.src, link.dst)}
            rest = [host for host in alive.tolist() if host not in taken]
            links += self._matched(self._at_random(np.array(rest, dtype=np.int64)), room)
        self._used += len(links)
        return links

    def _first_pass_share(self) -> float:
        """Of the time: where a number of pairs is given as well, they come before their second readings."""
        requested = self._budget.pairs is not None or self._budget.share is not None
        return 1.0 if requested else _FIRST_PASS_SHARE

    def _take_in(self, visits: Sequence[VisitResult]) -> None:
        for visit in visits[self._read :]:
            p10 = visit.p10_s
            if p10 is not None:
                self._rtt_s[visit.src, visit.dst] = self._rtt_s[visit.dst, visit.src] = p10
        self._read = len(visits)

    def _matched(self, pairs: Iterable[tuple[int, int]], most: int) -> list[Link]:
        """Disjoint pairs, the first ones first, that were not chosen before."""
        busy: set[int] = set()
        links: list[Link] = []
        for one, other in pairs:
            if len(links) >= most:
                break
            if one in busy or other in busy or self._chosen[one, other]:
                continue
            busy |= {one, other}
            self._chosen[one, other] = self._chosen[other, one] = True
            # Which end probes first is random, so that no host is always the sender of the first pass.
            links.append(Link(one, other) if self._random.random() < 0.5 else Link(other, one))
        return links

    def _at_random(self, alive: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Hosts with the fewest pairs so far first, each with one it has no pair with."""
        order = self._random.permutation(alive)
        order = order[np.argsort(self._chosen[order].sum(axis=1), kind="stable")].tolist()
        free = dict.fromkeys(order)
        for one in order:
            if one not in free:
                continue
            del free[one]
            other = next((host for host in free if not self._chosen[one, host]), None)
            if other is not None:
                del free[other]
                yield one, other

    def _unsure(self, alive: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Pairs of components that least evidence tells apart, the likeliest to be one first; the outer level first."""
        nested = [np.zeros(self._hosts, dtype=np.int64), *nested_components(self._rtt_s)]
        for needed in (1, 2, 3):
            for outer, inner in itertools.pairwise(nested):
                wanted = self._lacking(outer, inner, needed, alive)
                if wanted is not None:
                    yield from wanted
                    return

    def _lacking(
        self, outer: NDArray[np.int64], labels: NDArray[np.int64], needed: int, alive: NDArray[np.int64]
    ) -> Iterator[tuple[int, int]] | None:
        """The pairs of components that fewer than ``needed`` readings tell apart, None without such.

        outer, labels: (N,); this distinguishes components of different outer ones.
        """
        count = int(labels.max()) + 1
        member = np.zeros((count, self._hosts), dtype=np.float64)
        member[labels, np.arange(self._hosts)] = 1.0
        evidence = member @ self._chosen @ member.T
        here = np.zeros(self._hosts)
        here[alive] = 1.0
        size = member @ here
        around = np.zeros(count, dtype=np.int64)
        around[labels] = outer
        together = around[:, None] == around[None, :]
        one, other = np.triu_indices(count, 1)
        keep = (size[one] > 0) & (size[other] > 0) & together[one, other]
        one, other = one[keep], other[keep]
        lacking = evidence[one, other] < np.minimum(needed, size[one] * size[other])
        if not lacking.any():
            return None
        open_ = (evidence < needed) & together
        return self._between(one[lacking], other[lacking], member, open_, size, alive, first=needed == 1)

    def _between(
        self,
        one: NDArray[np.int64],
        other: NDArray[np.int64],
        member: NDArray[np.float64],
        open_: NDArray[np.bool_],
        size: NDArray[np.float64],
        alive: NDArray[np.int64],
        *,
        first: bool,
    ) -> Iterator[tuple[int, int]]:
        """For pairs of components, the likeliest first, a few pairs of their hosts."""
        possible = open_ @ size - size  # hosts that may still turn out to be of the same group
        chance = np.maximum(
            size[other] / np.maximum(possible[one], 1.0), size[one] / np.maximum(possible[other], 1.0)
        )
        order = np.argsort(-chance + 1e-6 * self._random.random(len(chance)), kind="stable")
        if len(order) and first:
            # The others wait: when they come up again, more is known. A round need not be full.
            order = order[: max(int((chance >= WORTH * chance[order[0]]).sum()), 1)]
        loads = self._chosen.sum(axis=1)
        living = set(alive.tolist())
        hosts: dict[int, list[int]] = {}

        def of(component: int) -> list[int]:
            # Those with the fewest pairs carry the next ones; where all are equal, chance decides.
            if component not in hosts:
                found = [h for h in np.flatnonzero(member[component]).tolist() if h in living]
                shuffled = self._random.permutation(len(found)).tolist()
                hosts[component] = [found[i] for i in sorted(shuffled, key=lambda i: loads[found[i]])]
            return hosts[component]

        for place in order.tolist():
            a, b = of(int(one[place])), of(int(other[place]))
            # Turned by one from pair to pair, so that one component's hosts serve many pairs of a round.
            for step in range(min(_TRIES, max(len(a), len(b)))):
                yield a[(step + place) % len(a)], b[(step + place) % len(b)]


def nested_components(rtt_s: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """(N,) labels a level, the outer level first: hosts joined by near readings, then by the nearest of these.

    rtt_s: (N, N) symmetric readings, NaN where there is none. Near is below the split of the log readings into
    two levels that explains most of their spread (Otsu's method); without two levels nobody is near. Near
    readings are split again while two levels are clearly there.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    hosts = len(rtt_s)
    one, other = np.nonzero(np.triu(np.isfinite(rtt_s) & (rtt_s > 0), 1))
    level = np.log(rtt_s[one, other])
    threshold = split_of(level) if len(one) else None
    if threshold is None:
        return [np.arange(hosts, dtype=np.int64)]
    found: list[NDArray[np.int64]] = []
    while threshold is not None:
        near = level < threshold
        one, other, level = one[near], other[near], level[near]
        joined = coo_matrix((np.ones(len(one)), (one, other)), shape=(hosts, hosts))
        found.append(np.asarray(connected_components(joined, directed=False)[1], dtype=np.int64))
        threshold = split_of(level, least_explained=CLEAR_SPLIT)
    return found


def split_of(levels: NDArray[np.float64], *, least_explained: float = 0.0) -> float | None:
    """Where to split values so that the two parts' means explain most of the spread; None for one level.

    least_explained: the share of the variance that they must explain.
    """
    values = np.sort(levels)
    count = len(values)
    if count < 4 or values[-1] - values[0] < math.log(LEAST_STEP):
        return None
    below = np.arange(1, count)
    sums = np.cumsum(values)
    low = sums[:-1] / below
    high = (sums[-1] - sums[:-1]) / (count - below)
    explained = below * (count - below) * (high - low) ** 2
    place = int(np.argmax(explained))
    if high[place] - low[place] < math.log(LEAST_STEP):
        return None
    if explained[place] < least_explained * count**2 * float(values.var()):
        return None
    return float((values[place] + values[place + 1]) / 2)
