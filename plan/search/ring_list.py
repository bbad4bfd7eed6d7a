"""A ring under search as flat lists: its places, the hosts to look at, and what changes and restores them.

These are kernels (`netprobe.core.numeric.compiled`): they run on lists as plain Python and on arrays compiled, and do
the same. So: flat sequences, indices, whole numbers, no objects; and random numbers of their own (Park and
Miller's generator, whose products stay below 2^47). What a reversal costs (the skew: a segment's cost backwards less
its cost forwards) comes from sums along the ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SHORT_SEGMENT = 60

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


def insert(r: Ring, low: int, high: int, behind: int, backwards: bool, delta: int) -> None:
    """Move the segment ``low..high``, turned round or not, behind the host at place ``behind``."""
    ring = r.ring
    if backwards:
        ring[low], ring[high] = ring[high], ring[low]
    if behind > high:
        exchange(r, low, high + 1, behind + 1, delta)
    else:
        exchange(r, behind + 1, low, high + 1, delta)


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
