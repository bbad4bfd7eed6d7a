"""What each host can send, held still: a level a host, which moves only where measurements have left it for good.

What a host is seen to send is not what it can send. Masters that are shared out unevenly move every host's reading by
up to a fifth, for its links are then busy at other times; and a host with little to send is held up by those that it
sends to: on a lab one without any masters read half of what it could send, and the whole again once it had its share.
So a reading is compared with what was read under the same masters; one with which a host carries its share says what it
can send, and one of a host that carries little says only what it can send at least. Such a host is believed to have
recovered when it is seen to rise, is given its share, and keeps it unless it then sends less than the others. (The
dissertation takes every reading for a capacity.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netprobe.plan.tune.masters import EVEN, Floats

APART = 1.2
"""Rates within this ratio of each other are the same: the dissertation's 20 % for a sudden change."""
TRIED = 1.5
"""A host that is tried is given what suits one whose level is its usual one over this, or a higher one."""

Why = Literal["sends", "tried", "trusted"]


def pooled(rates: Floats, apart: float = APART) -> Floats:
    """``rates`` (N,), those near each other as their median, so that noise favours no host; NaN as that of all.

    The first pool has the most hosts within ``apart`` of one of them, above or below; the next is made of the others.
    """
    known = np.isfinite(rates) & (rates > 0)
    if not known.any():
        return np.ones(len(rates))
    made = rates.copy()
    left = np.flatnonzero(known)
    middle = float(np.median(np.log(rates[known])))
    while len(left):
        values = np.log(rates[left])
        near = np.abs(values[:, None] - values) <= np.log(apart) + 1e-12
        centre = np.lexsort((np.abs(values - middle), -near.sum(axis=0)))[0]
        own = left[near[:, centre]]
        made[own] = np.median(rates[own])
        left = left[~near[:, centre]]
    made[~known] = np.median(made[known])
    return made


def against(recent: Sequence[Floats], usual: Floats) -> Floats:
    """(K, N) the rates of K windows over ``usual`` (N,), NaN where a rate is not known.

    What has become of most hosts alike (a machine that is busy, a link that all share) is left out of account.
    """
    ratio = np.array(recent, dtype=np.float64) / usual
    ratio[~(np.isfinite(ratio) & (ratio > 0))] = np.nan
    for row in ratio:
        if np.isfinite(row).any():
            row /= np.nanmedian(row)
    return ratio


@dataclass(frozen=True, kw_only=True)
class Change:
    """A host's level is another: since it sends ``now`` bytes a second and not ``was``, or to try what it can send."""

    host: int
    why: Why
    was: float
    now: float


class Levels:
    """Levels ``now`` (N,) of hosts, first those of ``rates``.

    ``apart``: the ratio from which rates differ; ``rejoins``: that within which they are surely alike. A host that has
    been put down and shows nothing is tried with more after ``retry`` windows (it may have recovered before it was
    known what it sends without masters), and after twice as many each time that it fails; 0: never.
    """

    def __init__(
        self, rates: Floats, *, apart: float = APART, rejoins: float = 1.1, confirm: int = 2, retry: int = 0
    ) -> None:
        self._apart, self._rejoins, self._confirm, self._retry = apart, rejoins, confirm, retry
        self.now = pooled(rates, apart)
        levels, hosts = np.unique(self.now, return_counts=True)
        self._home = np.maximum(self.now, levels[np.argmax(hosts)])
        """What a host is believed to send when it recovers: what it sent at first, or what most did."""
        count = len(rates)
        self._load = np.ones(count)
        self._usual = np.full(count, np.nan)
        self._stood = np.zeros(count, np.int64)
        """Windows since a host's level or what it carries was last changed."""
        self._least = np.full(count, np.inf)
        self._least_load = np.zeros(count)
        """Of a host that was put down: the least that it was seen to send then, as a level, and what it carried."""
        self._age = np.zeros(count, np.int64)
        """Windows since a host's level last changed."""
        self._wait = np.zeros(count, np.int64)
        """Of a host that was put down: windows until it is tried again."""
        self._trial: NDArray[np.bool_] = np.zeros(count, bool)
        """Hosts whose level was raised on trust, and that have not shown yet that they can send so much."""
        self._tried_load = np.zeros(count)
        """What they carried then: with no more than that they cannot show it."""

    def moved(self, load: Floats, *, anew: bool) -> None:
        """Hosts carry ``load`` (N,) from now on; ``anew``: nothing is as it was, and the windows before do not count.

        What a host usually sends is not known yet where it carries something else than when that was read.
        """
        other = np.maximum(load / self._load, self._load / load) > EVEN
        other |= anew
        self._load[other] = load[other]
        self._usual[other], self._stood[other] = np.nan, self._confirm - 1 if anew else 0

    def take_back(self, before: Floats) -> None:
        """What was raised since levels were ``before`` (N,) is so no more; what fell stays."""
        for host in np.flatnonzero(self.now > before).tolist():
            self._set(host, float(before[host]), trial=False)
            self._wait[host] = max(self._retry, 2 * self._wait[host])

    def raise_again(self, raised: Floats) -> None:
        """What was taken back of ``raised`` (N,) is trusted again."""
        for host in np.flatnonzero(raised > self.now).tolist():
            self._set(host, float(raised[host]), trial=True)

    def step(self, recent: Sequence[Floats]) -> list[Change]:
        """What the rates (N,) of the last ``confirm`` windows change."""
        self._age += 1
        self._stood += 1
        own = against(recent, self.now)
        found = self._fallen_or_risen(recent, own)
        stands = self._stood >= self._confirm
        stands[[one.host for one in found]] = False
        found += self._trusted(own, stands)
        changed = [one.host for one in found]
        self._usual[changed] = recent[-1][changed]
        new = stands & ~(self._usual > 0)
        self._usual[new] = _middle(np.array(recent, dtype=np.float64))[new]
        self._remember(_middle(own) * self.now, new)
        return found

    def _remember(self, seen: Floats, new: NDArray[np.bool_]) -> None:
        """What hosts that are down were ``seen`` (N,) to send, where it is ``new`` and the least so far."""
        least = new & (self.now < self._home) & ~self._trial & (seen < self._least)
        self._least[least], self._least_load[least] = seen[least], self._load[least]

    def _fallen_or_risen(self, recent: Sequence[Floats], own: Floats) -> list[Change]:
        """Hosts whose readings are off what was usual, or so far off their level that no masters explain it."""
        gross = self._apart**2
        judged = self._load > EVEN * self._tried_load
        low = (own < 1 / np.where(self._trial, self._apart, gross)).all(axis=0) & (judged | ~self._trial)
        # Connections that were idle need a window or two to be quick again: who still rises has not failed.
        low &= ~self._trial | (own[-1] < self._rejoins * own[0])
        high = (own > gross).all(axis=0)
        since = against(recent, self._usual)
        off = 1 / self._apart
        less = low | ((since < off).all(axis=0) & (own < off).all(axis=0) & ~self._trial)
        # A host that was put down need not be seen to send more than its level: it carries too little for that.
        down = self.now < self._home
        more = high | ((since > self._apart).all(axis=0) & down)
        seen = own * self.now
        as_little = self._load < EVEN * self._least_load
        more |= down & as_little & (seen > self._apart * self._least).all(axis=0) & ~less & ~self._trial
        usual = np.where(self._usual > 0, self._usual, self.now)
        found = []
        for host in np.flatnonzero(less | more).tolist():
            level = self._snapped(host, float(self.now[host]) * self._agreed(own[:, host]))
            if more[host] and down[host]:
                # Should it fail, it has to show more than this the next time.
                self._least[host], self._least_load[host] = float(seen[:, host].max()), self._load[host]
                self._set(host, float(self._home[host]), trial=True)
            else:
                if less[host]:
                    failed = self._trial[host] or self._age[host] <= 4 * self._wait[host]
                    self._wait[host] = max(self._retry, 2 * self._wait[host] if failed else 0)
                self._set(host, level, trial=False)
            found.append(Change(host=host, why="sends", was=float(usual[host]), now=float(recent[-1][host])))
        return found

    def _trusted(self, own: Floats, stands: NDArray[np.bool_]) -> list[Change]:
        """Hosts that did what they were tried with, that are like they were, or that it is time to try."""
        found = []
        below = self.now < self._home
        as_before = (own * self.now / self._home > 1 / self._rejoins).all(axis=0)
        for host in np.flatnonzero((below | self._trial) & stands & np.isfinite(own).all(axis=0)).tolist():
            level, home = float(self.now[host]), float(self._home[host])
            due = self._retry > 0 and self._age[host] >= self._wait[host] > 0
            why: Why = "trusted"
            more = self._load[host] > EVEN * self._tried_load[host]
            if self._trial[host]:
                if not more or own[-1, host] * self._apart <= 1:
                    continue
                self._trial[host] = False
                if not below[host]:
                    self._least[host] = np.inf
                    continue
            elif not (as_before[host] and (due or self._wait[host] <= self._retry)):
                # Who carries more than half of its share shows what it can send; no need to try it.
                if not due or level * self._apart**2 >= home:
                    continue
                home, why = max(float(np.sqrt(level * home)), home / TRIED), "tried"
            self._set(host, home, trial=True)
            found.append(Change(host=host, why=why, was=level, now=home))
        return found

    def _set(self, host: int, level: float, *, trial: bool) -> None:
        self.now[host], self._trial[host] = level, trial
        self._age[host] = self._stood[host] = 0
        self._tried_load[host] = self._load[host]

    def _agreed(self, ratio: Floats) -> float:
        """The last window's, and those that agree with it: the one before may have begun earlier than the change."""
        last = ratio[-1]
        same = np.maximum(ratio / last, last / ratio) < self._rejoins
        return float(np.median(ratio[same]))

    def _snapped(self, host: int, level: float) -> float:
        """The level of other hosts where one is the same."""
        others = np.delete(self.now, host)
        off = np.maximum(others / level, level / others)
        near = off < self._apart
        return float(others[np.argmin(np.where(near, off, np.inf))]) if near.any() else level


def _middle(rates: Floats) -> Floats:
    """(N,) the median of windows (K, N), NaN where none is known."""
    rates = np.where(rates > 0, rates, np.nan)
    known = np.isfinite(rates).any(axis=0)
    made = np.full(rates.shape[1], np.nan)
    made[known] = np.nanmedian(rates[:, known], axis=0)
    return made
