"""Local search on a ring: 2-opt, Or-opt, and kicks, for directed costs.

2-opt and Or-opt with neighbour lists and a work list in place of don't-look bits, as in Johnson and McGeoch,
"The traveling salesman problem: a case study in local optimization" (1997); the kick is their segment-local
double bridge, which keeps every segment's direction. Costs are whole units, so a move either improves
the ring exactly or is not made. With directed costs a reversed segment costs something of its own: the skew
(its cost backwards less its cost forwards) comes from prefix sums along the ring, looked up only for moves
whose new hops are cheaper by themselves.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

LONGEST_SEGMENT = 3
LONGEST_KICK = 30
SHORT_SEGMENT = 60
TURN_EVERY = 100


class Ring:
    """A ring under search: hosts in ``order``, their places in ``place``, its cost in ``total``."""

    def __init__(
        self,
        cost: Sequence[Sequence[int]],
        after: Sequence[Sequence[int]],
        before: Sequence[Sequence[int]],
        order: Sequence[int],
        *,
        symmetric: bool,
    ) -> None:
        self.cost, self.after, self.before = cost, after, before
        self.symmetric = symmetric
        self.size = len(order)
        self.order = list(order)
        self.place = [0] * self.size
        self.skew: list[int] = []
        self.total = sum(cost[a][b] for a, b in zip(self.order, [*self.order[1:], self.order[0]]))
        self._low, self._high = 0, self.size
        self._placed(0, self.size)
        self._low, self._high = self.size, 0

    def improve(self, hosts: Iterable[int]) -> None:
        """Make improving moves round ``hosts`` and round every host a move touches, until none is left."""
        work = deque(hosts)
        waiting = bytearray(self.size)
        for host in work:
            waiting[host] = 1
        while work:
            host = work.popleft()
            waiting[host] = 0
            touched = self._improve_after(host) or self._improve_before(host) or self._move_segment(host)
            if touched:
                for other in (host, *touched):
                    if not waiting[other]:
                        waiting[other] = 1
                        work.append(other)

    def kick(self, rng: random.Random) -> tuple[int, ...]:
        """A double bridge on three neighbouring segments (B C D to D C B); returns the hosts at its ends."""
        size = self.size
        longest = max(1, min(LONGEST_KICK, (size - 2) // 3))
        lengths = [1 + int(rng.random() * longest) for _ in range(3)]
        first = 1 + int(rng.random() * (size - 1 - sum(lengths)))
        second, third, end = first + lengths[0], first + lengths[0] + lengths[1], first + sum(lengths)
        order, cost = self.order, self.cost
        a, b, b2 = order[first - 1], order[first], order[second - 1]
        c, c2 = order[second], order[third - 1]
        d, d2, e = order[third], order[end - 1], order[end - size]
        self.total += cost[a][d] + cost[d2][c] + cost[c2][b] + cost[b2][e]
        self.total -= cost[a][b] + cost[b2][c] + cost[c2][d] + cost[d2][e]
        order[first:end] = order[third:end] + order[second:third] + order[first:second]
        self._placed(first, end)
        return (a, b, b2, c, c2, d, d2, e)

    def save(self) -> tuple[list[int], int]:
        """What ``restore`` needs."""
        self._low, self._high = self.size, 0
        return self.order[:], self.total

    def restore(self, saved: tuple[list[int], int]) -> None:
        """Back to the ring last saved."""
        low, high = self._low, self._high
        self.order, self.total = saved[0], saved[1]
        if low < high:
            self._placed(low, high)

    def turn(self, places: int) -> None:
        """Write the same ring from another host on: segments never span the ends of the list."""
        self.order = self.order[places:] + self.order[:places]
        self._placed(0, self.size)

    def _placed(self, low: int, high: int) -> None:
        order, place = self.order, self.place
        for index in range(low, high):
            place[order[index]] = index
        self._low, self._high = min(self._low, low), max(self._high, high)
        self.skew = []

    def _skew(self, low: int, high: int) -> int:
        """What it costs more to run the places ``low..high`` backwards."""
        if self.symmetric or low == high:
            return 0
        if not self.skew:
            cost, order = self.cost, self.order
            if high - low <= SHORT_SEGMENT:
                part = order[low : high + 1]
                return sum([cost[b][a] - cost[a][b] for a, b in pairwise(part)])
            hops = [cost[b][a] - cost[a][b] for a, b in pairwise(order)]
            self.skew = list(accumulate(hops, initial=0))
        return self.skew[high] - self.skew[low]

    def _reverse(self, low: int, high: int, delta: int) -> None:
        self.order[low : high + 1] = self.order[low : high + 1][::-1]
        self.total += delta
        self._placed(low, high + 1)

    def _improve_after(self, a: int) -> tuple[int, ...]:
        """2-opt: another host after (or, beyond it, before) ``a`` in place of its successor."""
        order, place, cost, size = self.order, self.place, self.cost, self.size
        i = place[a]
        s = order[i + 1 - size]
        hop = cost[a][s]
        for x in self.after[a]:
            if cost[a][x] >= hop:
                break
            j = place[x]
            y = order[j + 1 - size]
            if y == a:
                continue
            removed = hop + cost[x][y]
            if i < j:
                delta = cost[a][x] + cost[s][y] - removed
                low, high = i + 1, j
            else:
                delta = cost[x][a] + cost[y][s] - removed
                low, high = j + 1, i
            if delta < 0 and (delta := delta + self._skew(low, high)) < 0:
                self._reverse(low, high, delta)
                return (s, x, y)
        return ()

    def _improve_before(self, a: int) -> tuple[int, ...]:
        """2-opt: another host before (or after) ``a`` in place of its predecessor."""
        order, place, cost = self.order, self.place, self.cost
        i = place[a]
        p = order[i - 1]
        hop = cost[p][a]
        for x in self.before[a]:
            if cost[x][a] >= hop:
                break
            j = place[x]
            y = order[j - 1]
            if y == a:
                continue
            removed = hop + cost[y][x]
            if j < i:
                delta = cost[y][p] + cost[x][a] - removed
                low, high = j, i - 1
            else:
                delta = cost[p][y] + cost[a][x] - removed
                low, high = i, j - 1
            if delta < 0 and (delta := delta + self._skew(low, high)) < 0:
                self._reverse(low, high, delta)
                return (p, x, y)
        return ()

    def _move_segment(self, a: int) -> tuple[int, ...]:
        """Or-opt: a segment of up to three hosts with ``a`` at one end moves, turned round or not."""
        i, size = self.place[a], self.size
        for length in range(1, LONGEST_SEGMENT + 1):
            for low in (i,) if length == 1 else (i, i - length + 1):
                high = low + length - 1
                if low >= 0 and high < size and size > length + 2:
                    touched = self._move_between(a, low, high)
                    if touched:
                        return touched
        return ()

    def _move_between(self, a: int, low: int, high: int) -> tuple[int, ...]:
        order, place, cost, size = self.order, self.place, self.cost, self.size
        first, last = order[low], order[high]
        p, q = order[low - 1], order[high + 1 - size]
        gain = cost[p][first] + cost[last][q] - cost[p][q]
        other = last if a == first else first
        for x in self.after[a]:  # y, then the segment's other end, ..., a, then x
            if cost[a][x] >= gain:
                break
            j = place[x]
            if low <= j <= high or x == q:
                continue
            y = order[j - 1]
            delta = cost[y][other] + cost[a][x] - cost[y][x] - gain
            backwards = a != last
            if delta < 0 and backwards:
                delta += self._skew(low, high)
            if delta < 0:
                self._insert(low, high, (j - 1) % size, backwards, delta)
                return (p, q, x, y, other)
        for x in self.before[a]:  # x, then a, ..., the segment's other end, then y
            if cost[x][a] >= gain:
                break
            j = place[x]
            if low <= j <= high or x == p:
                continue
            y = order[j + 1 - size]
            delta = cost[x][a] + cost[other][y] - cost[x][y] - gain
            backwards = a != first
            if delta < 0 and backwards:
                delta += self._skew(low, high)
            if delta < 0:
                self._insert(low, high, j, backwards, delta)
                return (p, q, x, y, other)
        return ()

    def _insert(self, low: int, high: int, behind: int, backwards: bool, delta: int) -> None:
        """Move the segment ``low..high`` behind the host at place ``behind``."""
        order = self.order
        segment = order[low : high + 1]
        if backwards:
            segment.reverse()
        self.total += delta
        if behind > high:
            order[low : behind + 1] = order[high + 1 : behind + 1] + segment
            self._placed(low, behind + 1)
        else:
            order[behind + 1 : high + 1] = segment + order[behind + 1 : low]
            self._placed(behind + 1, high + 1)


def search(ring: Ring, *, rng: random.Random, kicks: int, enough: int = -1) -> int:
    """Iterated local search in place: improve, then ``kicks`` times kick, repair, and keep what is no worse.

    Stops early at a total of ``enough`` or less. Returns the kicks made.
    """
    ring.improve(ring.order[:])
    for kick in range(kicks):
        if ring.total <= enough or ring.size < 8:
            return kick
        if kick % TURN_EVERY == TURN_EVERY - 1:
            ring.turn(1 + int(rng.random() * (ring.size - 1)))
        saved = ring.save()
        ring.improve(ring.kick(rng))
        if ring.total > saved[1]:
            ring.restore(saved)
    ring.turn(ring.size // 2)
    ring.improve(ring.order[:])
    return kicks
