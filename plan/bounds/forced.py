"""Hops that a ring cannot do without: a proof that an undirected graph holds no ring through all its hosts.

A host with two edges needs both. A host with two needed edges uses no other, and the ends of a path of needed edges
may not be joined before the path holds every host. What these rules take away makes others needed in turn, and
where they contradict each other there is no ring. Where they do not, there may still be none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def contradicts_a_ring(graph: NDArray[np.bool_]) -> bool:
    """Whether the rules prove that ``graph`` (N, N), symmetric, diagonal ignored, N >= 3, has no Hamiltonian cycle."""
    return not _Needs(graph).agree()


class _Needs:
    """Edges left and edges needed, a whole number a host whose bits are the hosts at the other ends."""

    def __init__(self, graph: NDArray[np.bool_]) -> None:
        size = len(graph)
        packed = np.packbits(graph & ~np.eye(size, dtype=bool), axis=1, bitorder="little")
        self.size = size
        self.left = [int.from_bytes(row.tobytes(), "little") for row in packed]
        self.needed = [0] * size
        # Of the path of needed edges that ends at a host: its other end, and how many hosts it holds.
        self.end, self.length = list(range(size)), [1] * size
        self.waiting = list(range(size))

    def agree(self) -> bool:
        """Apply the rules until nothing changes, or they contradict each other."""
        while self.waiting:
            host = self.waiting.pop()
            count = self.left[host].bit_count()
            if count < 2:
                return False
            if count == 2 and not all(self._need(host, other) for other in _bits(self.left[host])):
                return False
        return True

    def _need(self, a: int, b: int) -> bool:
        if self.needed[a] >> b & 1:
            return True
        if not self.left[a] >> b & 1:
            return False
        self.needed[a] |= 1 << b
        self.needed[b] |= 1 << a
        if self.end[a] == b:
            return self.length[a] == self.size
        first, last = self.end[a], self.end[b]
        length = self.length[first] + self.length[last]
        self.end[first], self.end[last] = last, first
        self.length[first] = self.length[last] = length
        for host in (a, b):
            if self.needed[host].bit_count() == 2:
                for other in _bits(self.left[host] & ~self.needed[host]):
                    self._drop(host, other)
        if 2 < length < self.size:
            self._drop(first, last)
        return True

    def _drop(self, a: int, b: int) -> None:
        self.left[a] &= ~(1 << b)
        self.left[b] &= ~(1 << a)
        self.waiting += [a, b]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
