"""Rounds as arrays, so that many orders are priced by a few numpy calls."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.costs.link import LinkCost, Ranks
from netprobe.plan.schedule.builders.rounds import Triple


@dataclass(frozen=True, kw_only=True, eq=False)
class Phases:
    """Transfers (T,) of all rounds in a row; round i is ``starts[i]`` to ``starts[i + 1]`` - 1, made ``times[i]``
    times. A round costs its slowest transfer, or with ``adds`` the sum of its transfers."""

    ranks: int
    src: Ranks
    dst: Ranks
    share: FloatMatrix
    starts: Ranks
    times: tuple[int, ...]
    adds: bool = False

    @cached_property
    def touching(self) -> tuple[tuple[int, ...], ...]:
        """For each rank, the transfers it sends or receives."""
        lists: list[list[int]] = [[] for _ in range(self.ranks)]
        for number, (src, dst) in enumerate(zip(self.src.tolist(), self.dst.tolist())):
            lists[src].append(number)
            lists[dst].append(number)
        return tuple(map(tuple, lists))

    @cached_property
    def round_of(self) -> Ranks:
        """Round of each transfer."""
        sizes = np.diff(np.append(self.starts, len(self.src)))
        return np.repeat(np.arange(len(self.starts)), sizes)

    def values(self, orders: Ranks, link_cost: LinkCost) -> FloatMatrix:
        """Cost (..., T) of every transfer under ``orders`` (..., N)."""
        return link_cost.seconds(orders[..., self.src], orders[..., self.dst], self.share)

    def totals(self, values: FloatMatrix) -> FloatMatrix:
        """Seconds (K,) of ``values`` (K, T)."""
        total = np.zeros(len(values))
        if not self.times:
            return total
        if self.adds:
            # Exactly rounded, so a ring turned round costs the same.
            return np.array([math.fsum(row) for row in values.tolist()])
        slowest = np.maximum.reduceat(values, self.starts, axis=1)
        for number, times in enumerate(self.times):
            total += times * slowest[:, number]
        return total


def merged(rounds: Iterable[list[Triple]], ranks: int) -> Phases:
    """The phases of ``rounds``: rounds with the same transfers are one, made as often as they come."""
    count: dict[tuple[Triple, ...], int] = {}
    for transfers in rounds:
        key = tuple(sorted(transfers))
        count[key] = count.get(key, 0) + 1
    flat = [triple for key in count for triple in key]
    sizes = [len(key) for key in count]
    return Phases(
        ranks=ranks,
        src=np.array([t[0] for t in flat], dtype=np.intp),
        dst=np.array([t[1] for t in flat], dtype=np.intp),
        share=np.array([t[2] for t in flat], dtype=np.float64),
        starts=np.array([sum(sizes[:i]) for i in range(len(sizes))], dtype=np.intp),
        times=tuple(count.values()),
    )


def ring_phases(ranks: int, share: float, times: int, *, adds: bool) -> Phases:
    """One round in which every rank sends to the next."""
    size = ranks if ranks > 1 else 0
    src = np.arange(size)
    return Phases(
        ranks=ranks,
        src=src,
        dst=(src + 1) % max(size, 1),
        share=np.full(size, share),
        starts=np.zeros(min(size, 1), dtype=np.intp),
        times=(times,) if size else (),
        adds=adds,
    )
