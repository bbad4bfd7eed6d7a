"""Local search on a ring: 2-opt, Or-opt, exchanges of segments, and kicks, for directed costs.

2-opt and Or-opt with neighbour lists and a work list in place of don't-look bits, as in Johnson and McGeoch,
"The traveling salesman problem: a case study in local optimization" (1997); the 3-opt move that keeps every
direction, since with directed costs a reversed segment costs something of its own; the kick is their
segment-local double bridge. Costs are whole units, so a move either improves the ring exactly or is not made.
What a reversal costs (the skew: a segment's cost backwards less its cost forwards) comes from sums along the
ring, looked up only for moves whose new hops are cheaper by themselves.

These are kernels (`netprobe.plan.search.compiled`): they run on lists as plain Python and on arrays compiled, and do
the same. So: flat sequences, indices, whole numbers, no objects; and random numbers of their own (Park and
Miller's generator, whose products stay below 2^47). And one file: numba's cache keeps a kernel with those that it
calls in it, and only when its own file changes is it compiled anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LONGEST_SEGMENT = 3
LONGEST_KICK = 30
SHORT_SEGMENT = 60
TURN_EVERY = 100

# Places in Ring.state.
SIZE, WIDTH, SYMMETRIC, TOTAL, LOW, HIGH, RANDOM, SUMMED, HEAD, WAITING, KICKS = range(11)
STATES = 11


class Ring(NamedTuple):
    """A ring of N hosts under search: four sequences of whole numbers, lists or arrays of int64.

    cost: N * N, [src * N + dst]. near: 2 * N * WIDTH; for each host the hosts worth following it, nearest
    first, -1 from the end on, and then the same of the hosts worth preceding it. ring: seven blocks of N, see
    below. state: STATES numbers, named above.

    The blocks: ``order``, the hosts round the ring; ``place``, where each host is in it; ``saved``, the order to
    go back to; ``skew``, sums of skews up to each place, of which state[SUMMED] hold; ``queue`` and
    ``waiting``, the hosts to look at; and ``spare``. Few long sequences, since each adds to every call.
    """

    cost: Any
    near: Any
    ring: Any
    state: Any


def random_below(state: Any, limit: int) -> int:
    """A number from 0 to limit - 1."""
    state[RANDOM] = state[RANDOM] * 48271 % 2147483647
    return int(state[RANDOM] % limit)


def push(r: Ring, host: int) -> None:
    """Look at ``host``, unless it waits already."""
    size = r.state[SIZE]
    if r.ring[5 * size + host] == 0:
        r.ring[5 * size + host] = 1
        r.ring[4 * size + (r.state[HEAD] + r.state[WAITING]) % size] = host
        r.state[WAITING] += 1


def push_all(r: Ring, a: int, b: int, c: int, d: int, e: int, f: int) -> None:
    """Look at the hosts a move has touched."""
    push(r, a)
    push(r, b)
    push(r, c)
    push(r, d)
    push(r, e)
    push(r, f)


def placed(r: Ring, low: int, high: int) -> None:
    """The places low .. high - 1 of the order have changed."""
    ring, state = r.ring, r.state
    place = state[SIZE]
    for index in range(low, high):
        ring[place + ring[index]] = index
    state[LOW] = min(state[LOW], low)
    state[HIGH] = max(state[HIGH], high)
    state[SUMMED] = min(state[SUMMED], max(low, 1))


def skew_between(r: Ring, low: int, high: int) -> int:
    """What it costs more to run the places ``low..high`` backwards."""
    cost, ring, state = r.cost, r.ring, r.state
    if state[SYMMETRIC] == 1 or low == high:
        return 0
    size = state[SIZE]
    skew = 3 * size
    if state[SUMMED] <= high:
        if high - low <= SHORT_SEGMENT:
            total = 0
            for index in range(low, high):
                a, b = ring[index], ring[index + 1]
                total += cost[b * size + a] - cost[a * size + b]
            return int(total)
        for index in range(state[SUMMED], size):
            a, b = ring[index - 1], ring[index]
            ring[skew + index] = ring[skew + index - 1] + cost[b * size + a] - cost[a * size + b]
        state[SUMMED] = size
    return int(ring[skew + high] - ring[skew + low])


def reverse(r: Ring, low: int, high: int, delta: int) -> None:
    """Run the places ``low..high`` backwards; or all others, where that is the same and less work."""
    ring, state = r.ring, r.state
    size = state[SIZE]
    state[TOTAL] += delta
    if state[SYMMETRIC] == 1 and 2 * (high - low + 1) > size:
        i, j = high + 1, low - 1 + size
        while i < j:
            ring[i % size], ring[j % size] = ring[j % size], ring[i % size]
            i += 1
            j -= 1
        placed(r, high + 1, size)
        placed(r, 0, low)
        return
    i, j = low, high
    while i < j:
        ring[i], ring[j] = ring[j], ring[i]
        i += 1
        j -= 1
    placed(r, low, high + 1)


def copy(ring: Any, low: int, high: int, to: int) -> None:
    """Copy ``low .. high - 1`` to where it does not reach, from ``to`` on."""
    ring[to : to + high - low] = ring[low:high]


def copy_one_by_one(ring: Any, low: int, high: int, to: int) -> None:
    """`copy` for compilers, for which a slice is fifty times as much work."""
    for index in range(high - low):
        ring[to + index] = ring[low + index]


def exchange(r: Ring, first: int, second: int, end: int, delta: int) -> None:
    """The places first .. second - 1 change places with second .. end - 1."""
    ring, state = r.ring, r.state
    spare = 6 * state[SIZE]
    state[TOTAL] += delta
    copy(ring, first, end, spare + first)
    copy(ring, spare + second, spare + end, first)
    copy(ring, spare + first, spare + second, first + end - second)
    placed(r, first, end)


def two_opt_after(r: Ring, a: int) -> bool:
    """Another host after (or, beyond it, before) ``a`` in place of its successor."""
    cost, near, ring = r.cost, r.near, r.ring
    size, width = r.state[SIZE], r.state[WIDTH]
    i = ring[size + a]
    s = ring[(i + 1) % size]
    hop = cost[a * size + s]
    for at in range(a * width, a * width + width):
        x = near[at]
        if x < 0 or cost[a * size + x] >= hop:
            break
        j = ring[size + x]
        y = ring[(j + 1) % size]
        if y == a:
            continue
        removed = hop + cost[x * size + y]
        if i < j:
            delta = cost[a * size + x] + cost[s * size + y] - removed
            low, high = i + 1, j
        else:
            delta = cost[x * size + a] + cost[y * size + s] - removed
            low, high = j + 1, i
        if delta < 0:
            delta += skew_between(r, low, high)
            if delta < 0:
                reverse(r, low, high, delta)
                push_all(r, a, s, x, y, a, a)
                return True
    return False


def two_opt_before(r: Ring, a: int) -> bool:
    """Another host before (or after) ``a`` in place of its predecessor."""
    cost, near, ring = r.cost, r.near, r.ring
    size, width = r.state[SIZE], r.state[WIDTH]
    i = ring[size + a]
    p = ring[(i - 1) % size]
    hop = cost[p * size + a]
    for at in range((size + a) * width, (size + a) * width + width):
        x = near[at]
        if x < 0 or cost[x * size + a] >= hop:
            break
        j = ring[size + x]
        y = ring[(j - 1) % size]
        if y == a:
            continue
        removed = hop + cost[y * size + x]
        if j < i:
            delta = cost[y * size + p] + cost[x * size + a] - removed
            low, high = j, i - 1
        else:
            delta = cost[p * size + y] + cost[a * size + x] - removed
            low, high = i, j - 1
        if delta < 0:
            delta += skew_between(r, low, high)
            if delta < 0:
                reverse(r, low, high, delta)
                push_all(r, a, p, x, y, a, a)
                return True
    return False


def insert(r: Ring, low: int, high: int, behind: int, backwards: bool, delta: int) -> None:
    """Move the segment ``low..high``, turned round or not, behind the host at place ``behind``."""
    ring = r.ring
    if backwards:
        ring[low], ring[high] = ring[high], ring[low]
    if behind > high:
        exchange(r, low, high + 1, behind + 1, delta)
    else:
        exchange(r, behind + 1, low, high + 1, delta)


def move_between(r: Ring, a: int, low: int, high: int) -> bool:
    """Or-opt: the segment at the places ``low..high``, ``a`` at one end, to where ``a`` has a near neighbour."""
    cost, near, ring = r.cost, r.near, r.ring
    size, width = r.state[SIZE], r.state[WIDTH]
    first, last = ring[low], ring[high]
    p, q = ring[(low - 1) % size], ring[(high + 1) % size]
    gain = cost[p * size + first] + cost[last * size + q] - cost[p * size + q]
    other = last if a == first else first
    for at in range(a * width, a * width + width):  # y, then the segment's other end, ..., a, then x
        x = near[at]
        if x < 0 or cost[a * size + x] >= gain:
            break
        j = ring[size + x]
        if low <= j <= high or x == q:
            continue
        y = ring[(j - 1) % size]
        delta = cost[y * size + other] + cost[a * size + x] - cost[y * size + x] - gain
        if delta < 0:
            if a != last:
                delta += skew_between(r, low, high)
            if delta < 0:
                insert(r, low, high, (j - 1) % size, a != last, delta)
                push_all(r, a, p, q, x, y, other)
                return True
    for at in range((size + a) * width, (size + a) * width + width):  # x, then a, ..., the other end, then y
        x = near[at]
        if x < 0 or cost[x * size + a] >= gain:
            break
        j = ring[size + x]
        if low <= j <= high or x == p:
            continue
        y = ring[(j + 1) % size]
        delta = cost[x * size + a] + cost[other * size + y] - cost[x * size + y] - gain
        if delta < 0:
            if a != first:
                delta += skew_between(r, low, high)
            if delta < 0:
                insert(r, low, high, j, a != first, delta)
                push_all(r, a, p, q, x, y, other)
                return True
    return False


def move_segment(r: Ring, a: int) -> bool:
    """Or-opt: a segment of up to three hosts with ``a`` at one end moves, turned round or not."""
    size = r.state[SIZE]
    i = r.ring[size + a]
    for shift in range(1 - LONGEST_SEGMENT, LONGEST_SEGMENT):
        low, high = min(i, i + shift), max(i, i + shift)
        if low >= 0 and high < size and size > high - low + 3 and move_between(r, a, low, high):
            return True
    return False


def exchange_after(r: Ring, a: int) -> bool:
    """3-opt without a reversal: a x .. w s .. y z in place of a s .. y x .. w z."""
    cost, near, ring = r.cost, r.near, r.ring
    size, width = r.state[SIZE], r.state[WIDTH]
    i = ring[size + a]
    s = ring[(i + 1) % size]
    hop = cost[a * size + s]
    for at in range(a * width, a * width + width):
        x = near[at]
        if x < 0:
            break
        gain = hop - cost[a * size + x]
        if gain <= 0:
            break
        j = ring[size + x]
        y = ring[(j - 1) % size]
        if y == a:
            continue
        gain += cost[y * size + x]
        reach = (j - i) % size
        for to in range(y * width, y * width + width):
            z = near[to]
            if z < 0:
                break
            rest = gain - cost[y * size + z]
            if rest <= 0:
                break
            k = ring[size + z]
            if z == x or (k - i - 1) % size < reach:
                continue
            w = ring[(k - 1) % size]
            rest += cost[w * size + z] - cost[w * size + s]
            if rest <= 0:
                continue
            # The list is cut before s, x and z, and the two parts between the cuts change places.
            cut = (i + 1) % size
            low, top = min(cut, j, k), max(cut, j, k)
            exchange(r, low, cut + j + k - low - top, top, -rest)
            push_all(r, a, s, x, y, z, w)
            return True
    return False


def improve(r: Ring) -> None:
    """Make improving moves round the hosts that wait and round every host a move touches, until none is left."""
    ring, state = r.ring, r.state
    size = state[SIZE]
    while state[WAITING] > 0:
        host = ring[4 * size + state[HEAD]]
        state[HEAD] = (state[HEAD] + 1) % size
        state[WAITING] -= 1
        ring[5 * size + host] = 0
        if (
            two_opt_after(r, host)
            or two_opt_before(r, host)
            or move_segment(r, host)
            or exchange_after(r, host)
        ):
            push(r, host)


def improve_all(r: Ring) -> None:
    """Improve round every host, in the order of the ring; keep the result."""
    for index in range(r.state[SIZE]):
        push(r, r.ring[index])
    improve(r)
    save(r)


def kick(r: Ring) -> None:
    """A double bridge on three neighbouring segments, B C D to D C B; its ends will be looked at."""
    state = r.state
    size = state[SIZE]
    longest = max(1, min(LONGEST_KICK, (size - 2) // 3))
    one = 1 + random_below(state, longest)
    two = 1 + random_below(state, longest)
    three = 1 + random_below(state, longest)
    first = 1 + random_below(state, size - 1 - one - two - three)
    end = first + one + two + three
    state[TOTAL] -= cuts(r, first, first + one, first + one + two, end)
    exchange(r, first, first + one, end, 0)
    exchange(r, first, first + two, first + two + three, 0)
    state[TOTAL] += cuts(r, first, first + three, first + three + two, end)


def cuts(r: Ring, one: int, two: int, three: int, four: int) -> int:
    """What the hops cost that lead to these four places; the hosts at their ends will be looked at."""
    size = r.state[SIZE]
    total = 0
    for place in (one, two, three, four):
        a, b = r.ring[place - 1], r.ring[place % size]
        total += r.cost[a * size + b]
        push(r, a)
        push(r, b)
    return int(total)


def turn(r: Ring, places: int) -> None:
    """Write the same ring from another host on: segments never span the ends of the list."""
    exchange(r, 0, places, r.state[SIZE], 0)
    save(r)


def save(r: Ring) -> None:
    """Keep the ring, to go back to."""
    low, high, saved = r.state[LOW], r.state[HIGH], 2 * r.state[SIZE]
    if low < high:
        copy(r.ring, low, high, saved + low)
    r.state[LOW], r.state[HIGH] = r.state[SIZE], 0


def restore(r: Ring, total: int) -> None:
    """Back to the ring last saved, which cost ``total``."""
    low, high, saved = r.state[LOW], r.state[HIGH], 2 * r.state[SIZE]
    if low < high:
        copy(r.ring, saved + low, saved + high, low)
        placed(r, low, high)
    r.state[TOTAL] = total
    r.state[LOW], r.state[HIGH] = r.state[SIZE], 0


def search(r: Ring, kicks: int, enough: int) -> int:
    """``kicks`` times kick, repair, and keep what is no worse: iterated local search, in place.

    The ring must be improved. Stops early at a total of ``enough`` or less. Returns the kicks made. Two searches
    of k kicks do what one of 2k does.
    """
    state = r.state
    size = state[SIZE]
    for made in range(kicks):
        if state[TOTAL] <= enough or size < 8:
            return made
        state[KICKS] += 1
        if state[KICKS] % TURN_EVERY == 0:
            turn(r, 1 + random_below(state, size - 1))
        total = state[TOTAL]
        kick(r)
        improve(r)
        if state[TOTAL] > total:
            restore(r, total)
        else:
            save(r)
    return kicks


def start(
    cost: NDArray[np.int64],
    near: tuple[NDArray[np.int64], NDArray[np.int64]],
    order: Sequence[int],
    seed: int,
    *,
    as_lists: bool,
) -> Ring:
    """The ring ``order`` on ``cost`` (N, N), with the ``near`` hosts after and before each (N, WIDTH), unimproved.

    Lists for the plain kernels, arrays for the compiled ones.
    """
    size = len(order)
    ring = np.zeros(7 * size, dtype=np.int64)
    ring[:size] = ring[2 * size : 3 * size] = order
    ring[size : 2 * size] = np.argsort(ring[:size])
    state = np.zeros(STATES, dtype=np.int64)
    state[SIZE], state[WIDTH] = size, near[0].shape[1]
    state[SYMMETRIC] = np.array_equal(cost, cost.T)
    state[TOTAL] = cost[ring[:size], np.roll(ring[:size], -1)].sum()
    state[LOW], state[SUMMED] = size, 1
    state[RANDOM] = 1 + seed * 7919 % 2147483646
    parts = (cost.ravel(), np.concatenate(near).ravel(), ring, state)
    return Ring(*(part.tolist() if as_lists else part for part in parts))


KERNELS = (
    "random_below",
    "push",
    "push_all",
    "placed",
    "skew_between",
    "reverse",
    "copy",
    "exchange",
    "two_opt_after",
    "two_opt_before",
    "insert",
    "move_between",
    "move_segment",
    "exchange_after",
    "improve",
    "save",
    "restore",
    "improve_all",
    "cuts",
    "kick",
    "turn",
    "search",
)

ENTRIES = ("improve_all", "turn", "search")
"""Those of them that are called from Python."""

COMPILED = {"copy": copy_one_by_one}
"""What stands for a kernel where it is compiled."""
