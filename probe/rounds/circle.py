"""Rounds of disjoint pairs: the circle method, that is a 1-factorisation of the complete graph.

N hosts (even) give N - 1 rounds of N / 2 pairs; odd N gives N rounds with one idle host in each. One pass
holds each unordered pair once; the second pass is the first with the ends exchanged, so the two visits of a
pair lie a whole pass apart.

A round is computed from its number when it is looked at: the links of 4,096 hosts are sixteen million, and
no more than a round of them need be in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

_EMPTY = -1
"""The seat that an odd number of hosts leaves empty."""


@dataclass(frozen=True, order=True)
class Link:
    """``src`` probes ``dst``; both are indices into the list of hosts."""

    src: int
    dst: int


class Rounds(Sequence[list[Link]]):
    """The rounds of one pass or two over ``hosts``, in order; each is made when it is looked at.

    Which end probes alternates, so that in a pass every host probes about as often as it is probed.
    """

    def __init__(self, hosts: Sequence[int], *, passes: int = 1) -> None:
        self._count = len(hosts)
        seated = np.array(hosts, dtype=np.int64)
        if self._count % 2:
            seated = np.append(seated, _EMPTY)
        self._half = len(seated) // 2
        self._one_pass = len(seated) - 1 if self._count > 1 else 0
        self._passes = passes
        self._fixed = seated[:1]
        self._moving = np.tile(seated[1:], 2)

    @property
    def links(self) -> int:
        """How many links all rounds have together."""
        return self._passes * (self._count * (self._count - 1) // 2)

    def __len__(self) -> int:
        return self._passes * self._one_pass

    @overload
    def __getitem__(self, index: int) -> list[Link]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Link]]: ...
    def __getitem__(self, index: int | slice) -> list[Link] | list[list[Link]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return [Link(src, dst) for src, dst in self.ends(index).tolist()]

    def ends(self, index: int) -> NDArray[np.int64]:
        """(L, 2) the round's links as rows ``src, dst``. Raises IndexError."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"round {index} of {len(self)}")
        late, turn = divmod(index % len(self), self._one_pass)
        # The first seat stays, and the others move on by one a round; those opposite each other are a pair.
        moved = self._moving[self._one_pass - turn : 2 * self._one_pass - turn]
        one = np.concatenate([self._fixed, moved[: self._half - 1]])
        other = moved[::-1][: self._half]
        pairs = np.empty((self._half, 2), dtype=np.int64)
        even, odd = (0, 1) if late % 2 == 0 else (1, 0)
        pairs[::2, even], pairs[::2, odd] = one[::2], other[::2]
        pairs[1::2, odd], pairs[1::2, even] = one[1::2], other[1::2]
        if turn % 2:
            pairs[0] = pairs[0, ::-1].copy()
        return pairs[(pairs != _EMPTY).all(axis=1)] if self._count % 2 else pairs


def one_pass(hosts: Sequence[int]) -> Rounds:
    """Each unordered pair of ``hosts`` once, no host twice in a round."""
    return Rounds(hosts)


def two_passes(hosts: Sequence[int]) -> Rounds:
    """Each ordered pair once: a pass, then the same pass with the roles exchanged."""
    return Rounds(hosts, passes=2)
