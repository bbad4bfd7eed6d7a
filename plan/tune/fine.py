"""Finetune: some masters moved from the host that is most to blame to the one that is least.

Blame is beta * imbalance + gamma * time, normalised as the dissertation prints it: t(i) is the largest round trip plus
what i carries over what it can send a second, over the mean of all; l(i) is what i carries, from 0 (least of all) to
1 (most of all). Two things are added, without which it would never come to rest: bytes that differ by less than
`EVEN` count as equal, and a move must relieve the host and shorten the longest time among all that it touches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from netprobe.plan.schedule.schedule import Ints
from netprobe.plan.tune.masters import EVEN, Floats, Masters, Work

_LEAST = 1e-9


@dataclass(frozen=True, kw_only=True)
class Blame:
    """Of each host (N,): its time in seconds, what it carries in bytes, and its blame."""

    time_s: Floats
    load_bytes: Floats
    blame: Floats

    @property
    def worst(self) -> int:
        """The host with most blame."""
        return int(np.argmax(self.blame))

    @property
    def ratio(self) -> float:
        """The most over the least."""
        return float(self.blame.max() / max(float(self.blame.min()), _LEAST))


def blame_of(load_bytes: Floats, rates: Floats, rtt_s: Floats, *, beta: float, gamma: float) -> Blame:
    """The blame of hosts that carry ``load_bytes`` (N,) at ``rates`` (N,) bytes a second, ``rtt_s`` (N,) away."""
    time_s = rtt_s + load_bytes / rates
    low, high = float(load_bytes.min()), float(load_bytes.max())
    uneven = high > EVEN * low
    imbalance = (load_bytes - low) / (high - low) if uneven else np.zeros(len(load_bytes))
    blame = beta * imbalance + gamma * time_s / max(float(time_s.mean()), _LEAST)
    return Blame(time_s=time_s, load_bytes=load_bytes, blame=np.asarray(blame))


@dataclass(frozen=True, kw_only=True)
class Network:
    """What hosts can send a second (N,), their largest round trips (N,), and the bytes of a chunk."""

    rates: Floats
    rtt_s: Floats
    chunk_bytes: float


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Masters after ``count`` moves away from host ``worst``, of ``globals_`` global masters and of local ones."""

    masters: Masters
    worst: int
    count: int
    globals_: int


def finetune(masters: Masters, work: Work, network: Network, blame: Blame, most: int) -> Moved:
    """Up to ``most`` moves away from the host with most blame. ``masters`` with count 0 where none helps.

    A global master goes first, to the host with least blame that gains; a local one goes to a member of its own group.
    Each move shortens the longest time among the hosts that it touches, so that with the same ``network`` there is
    an end to them.
    """
    worst, count, globals_ = blame.worst, 0, 0
    order = [int(i) for i in np.argsort(blame.blame, kind="stable") if i != worst]
    now = masters
    seconds = _seconds(now, work, network)
    for _ in range(most):
        for made, is_global in _moves(now, worst, order):
            after = _seconds(made, work, network)
            touched = np.flatnonzero(after != seconds)
            relieved = after[worst] < seconds[worst]
            if relieved and after[touched].max() < seconds[touched].max() * (1 - _LEAST):
                now, seconds = made, after
                count, globals_ = count + 1, globals_ + is_global
                break
        else:
            break
    return Moved(masters=now, worst=worst, count=count, globals_=globals_)


def _seconds(masters: Masters, work: Work, network: Network) -> Floats:
    return np.asarray(network.rtt_s + work.of(masters) * network.chunk_bytes / network.rates)


def _moves(masters: Masters, worst: int, order: list[int]) -> Iterator[tuple[Masters, bool]]:
    """Single moves away from ``worst``, best first: (masters, whether a global one moved)."""
    group_of = masters.group_of()
    g = int(group_of[worst])
    own = np.flatnonzero(masters.centre == worst)
    if len(own):
        for to in order:
            h = int(group_of[to])
            # A chunk whose local master there is ``to`` already leaves all others as they are.
            ready = own[masters.local[own, h] == to]
            for chunk in (_middle(ready), _middle(own)):
                if chunk is not None:
                    yield _moved(masters, chunk, h, to), True
    only = np.flatnonzero((masters.local[:, g] == worst) & (masters.home != g))
    chunk = _middle(only)
    if chunk is not None:
        for to in order:
            if group_of[to] == g:
                local = masters.local.copy()
                local[chunk, g] = to
                yield Masters(groups=masters.groups, home=masters.home, local=local), False


def _middle(chunks: Ints) -> int | None:
    return int(chunks[len(chunks) // 2]) if len(chunks) else None


def _moved(masters: Masters, chunk: int, group: int, to: int) -> Masters:
    """Chunk ``chunk`` with global master ``to``, of ``group``."""
    home, local = masters.home.copy(), masters.local.copy()
    home[chunk], local[chunk, group] = group, to
    return Masters(groups=masters.groups, home=home, local=local)
