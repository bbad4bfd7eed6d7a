"""Local search on a ring: 2-opt, Or-opt, exchanges of segments, and kicks, for directed costs.

2-opt and Or-opt with neighbour lists and a work list in place of don't-look bits, as in Johnson and McGeoch,
"The traveling salesman problem: a case study in local optimization" (1997); the 3-opt move that keeps every
direction, since with directed costs a reversed segment costs something of its own; the kick is their
segment-local double bridge. Costs are whole units, so a move either improves the ring exactly or is not made.
The skew is looked up only for moves whose new hops are cheaper by themselves.

Kernels, like those of `netprobe.plan.search.ring_list`, with which they are compiled.
"""

from __future__ import annotations

from netprobe.plan.search import ring_list
from netprobe.plan.search.ring_list import (
    HEAD,
    KICKS,
    SIZE,
    TOTAL,
    WAITING,
    WIDTH,
    Ring,
    copy_one_by_one,
    cuts,
    exchange,
    insert,
    push,
    push_all,
    random_below,
    restore,
    reverse,
    save,
    skew_between,
    turn,
)

LONGEST_SEGMENT = 3
LONGEST_KICK = 30
TURN_EVERY = 100


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


def search(r: Ring, kicks: int, enough: int) -> int:
    """``kicks`` times kick, repair, and keep what is not worse: iterated local search, in place.

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
"""The name of a kernel where it is compiled."""

PARTS = (ring_list,)
"""Modules that hold more of the kernels."""
