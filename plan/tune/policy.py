"""What to do with each window of measurements: share all masters out anew, move a few, or leave everything as it is.

    tuner = Tuner(masters, names)
    verdict = tuner.step(reading)      # one reading a window, of ten iterations, say

A sudden change (the collectives' time, or a host's rate, more than 20 % off in every one of the last `Rules.confirm`
windows) leads to Quicktune, after which Finetune moves a little at each step until no host has `Rules.epsilon`
times the blame of another, or no move helps. What hosts can send is held still between changes (`levels`), so that
noise moves nothing. Masters with which the collectives take longer than before are taken back, and nothing more is
tried until the next sudden change.
Nothing here reads a clock: the same readings give the same verdicts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from netprobe.plan.tune.fine import Blame, Network, blame_of, finetune
from netprobe.plan.tune.levels import APART, departed, pooled
from netprobe.plan.tune.masters import Floats, Masters, carried
from netprobe.plan.tune.quick import quicktune, times

Kind = Literal["wait", "keep", "quick", "fine", "back"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """``beta`` and ``gamma`` weigh imbalance and time in the blame (the dissertation publishes neither).

    ``apart`` is the ratio from which rates and times differ, ``rejoins`` that within which a host is like others again.
    ``least_gain``: by how much Quicktune must shorten the longest time, as a share of it, for masters to be moved.
    ``most_harm``: how much longer than before the collectives may take, as a share, before masters are taken back.
    """

    apart: float = APART
    rejoins: float = 1.1
    confirm: int = 2
    beta: float = 0.2
    gamma: float = 1.0
    epsilon: float = 1.1
    least_gain: float = 0.02
    most_harm: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Of one window: seconds of an iteration's collectives, the bytes that they reduce, and of each host (N,) what it
    could send a second (NaN: not known) and its largest round trip; of each group (G,) what it could send to others.
    """

    seconds: float
    size_bytes: float
    rates: Floats
    rtt_s: Floats
    between: Floats


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was decided, and why; ``masters`` are those from now on."""

    kind: Kind
    masters: Masters
    text: str


class Tuner:
    """Decides for hosts called ``names`` (rank 0 first), beginning with ``masters``.

    Without ``moves`` it only says when the network has changed: for plans that have no masters.
    """

    def __init__(
        self, masters: Masters, names: Sequence[str], rules: Rules | None = None, *, moves: bool = True
    ) -> None:
        self.masters = masters
        self._moves = moves
        self.rules = rules or Rules()
        self._names = list(names)
        self._work = carried(masters.groups)
        self._recent: deque[Reading] = deque(maxlen=self.rules.confirm)
        self._levels: Floats | None = None
        self._usual_s: float | None = None
        self._ends: tuple[int, int] | None = None
        self._most = 1
        self._undo: tuple[Masters, float] | None = None
        self._since = 0
        self._rests = False

    def step(self, reading: Reading) -> Verdict:
        """The verdict on a window that has just ended."""
        self._recent.append(reading)
        self._since += 1
        if len(self._recent) < self.rules.confirm:
            return self._verdict("wait", "first windows after a change")
        if self._levels is None:
            self._levels = pooled(self._latest(), self.rules.apart)
        changed = departed([one.rates for one in self._recent], self._levels, self.rules.apart)
        if changed:
            was, now = self._levels, self._latest()
            # Of those that changed the last window alone: the one before may have begun earlier than the change.
            last = reading.rates[changed]
            now[changed] = np.where(np.isfinite(last), last, now[changed])
            self._levels = pooled(now, self.rules.apart)
            return self._quick(self._told(changed, was, now))
        if self._undo is not None and self._since >= self.rules.confirm:
            masters, before_s = self._undo
            self._undo = None
            if min(one.seconds for one in self._recent) > (1 + self.rules.most_harm) * before_s:
                return self._back(masters, before_s)
        if self._usual_s is None:
            self._usual_s = self._seconds()
        ratios = [one.seconds / self._usual_s for one in self._recent]
        if min(ratios) > self.rules.apart or max(ratios) < 1 / self.rules.apart:
            text = f"{self._seconds():.3g} s an iteration, {self._usual_s:.3g} s before"
            self._levels = pooled(self._latest(), self.rules.apart)
            return self._quick(text)
        if not self._moves:
            return self._keep("as before")
        again = self._follow()
        if again:
            return self._quick(f"{self._names[again[0]]} sends as much as others")
        return self._keep("a move did harm") if self._rests else self._fine(reading)

    def _verdict(self, kind: Kind, text: str) -> Verdict:
        return Verdict(kind=kind, masters=self.masters, text=text)

    def _keep(self, text: str) -> Verdict:
        self._ends, self._most = None, 1
        return self._verdict("keep", text)

    def _adopt(self, kind: Kind, masters: Masters, text: str) -> Verdict:
        if self._undo is None:
            self._undo = (self.masters, self._seconds())
        self.masters, self._usual_s, self._since = masters, None, 0
        return self._verdict(kind, text)

    def _back(self, masters: Masters, before_s: float) -> Verdict:
        """Take back what did harm."""
        text = f"{self._seconds():.3g} s an iteration, {before_s:.3g} s before masters were moved: taken back"
        self._rests = True
        verdict = self._adopt("back", masters, text)
        self._undo = None
        self._recent.clear()
        return verdict

    def _seconds(self) -> float:
        return float(np.median([one.seconds for one in self._recent]))

    def _latest(self) -> Floats:
        """(N,) the median of the last windows' rates."""
        rates = np.array([one.rates for one in self._recent])
        known = np.isfinite(rates).any(axis=0)
        made = np.full(rates.shape[1], np.nan)
        made[known] = np.nanmedian(rates[:, known], axis=0)
        return made

    def _told(self, changed: Sequence[int], was: Floats, now: Floats) -> str:
        shown = [
            f"{self._names[i]} sends {now[i] / 1e6:.3g} MB/s, {was[i] / 1e6:.3g} before" for i in changed[:4]
        ]
        more = f", and {len(changed) - 4} more" if len(changed) > 4 else ""
        return "; ".join(shown) + more

    def _follow(self) -> list[int]:
        """A host that is like no other is measured anew at each step; the others' levels stay.

        Returns those that have become like others: nearer to them than a host has to be to leave them.
        """
        assert self._levels is not None
        values, place, counts = np.unique(self._levels, return_inverse=True, return_counts=True)
        alone = counts[place] == 1
        if not alone.any():
            return []
        latest, again = self._latest(), []
        for host in np.flatnonzero(alone & np.isfinite(latest) & (latest > 0)).tolist():
            self._levels[host] = latest[host]
            pools = values[counts > 1]
            near = np.maximum(pools / latest[host], latest[host] / pools) < self.rules.rejoins
            if near.any():
                self._levels[host] = pools[np.argmax(near)]
                again.append(host)
        return again

    def _quick(self, why: str) -> Verdict:
        """Share the masters out anew for the present levels."""
        assert self._levels is not None
        levels = self._levels
        self._usual_s, self._ends, self._most = None, None, 1
        self._undo, self._rests = None, False
        if not self._moves:
            self._usual_s = self._seconds()
            return self._verdict("keep", f"{why}: plan anew (netprobe plan auto)")
        made = quicktune(self.masters, self._work, levels, self._between())
        before = float(times(self.masters, self._work, levels).max())
        after = float(times(made, self._work, levels).max())
        moved = made.moved_from(self.masters)
        if not len(moved) or after > before * (1 - self.rules.least_gain):
            self._usual_s = self._seconds()
            return self._verdict("keep", f"{why}: other masters would not help")
        text = f"{why}: {self._shares(made)}; the longest transfer {before / after:.2f} times shorter"
        verdict = self._adopt("quick", made, text)
        self._recent.clear()
        return verdict

    def _between(self) -> list[float] | None:
        """(G,) what groups can send to others; where hosts of a pool make up a group, such groups have equal shares."""
        latest = np.median([one.between for one in self._recent], axis=0)
        if not np.isfinite(latest).all() or not (latest > 0).all():
            return None
        sizes = np.array([len(own) for own in self.masters.groups])
        return [float(x) for x in pooled(latest / sizes, self.rules.apart) * sizes]

    def _fine(self, reading: Reading) -> Verdict:
        """Move a little away from the host that is to blame."""
        assert self._levels is not None
        rules, chunk_bytes = self.rules, reading.size_bytes / self.masters.chunks
        rtt_s = np.full(len(self._levels), float(np.nanmax(reading.rtt_s, initial=0.0)))
        blame: Blame = blame_of(
            self._work.of(self.masters) * chunk_bytes,
            self._levels,
            rtt_s,
            beta=rules.beta,
            gamma=rules.gamma,
        )
        if blame.ratio <= rules.epsilon:
            return self._keep(f"blame within {blame.ratio:.2f}")
        ends = (blame.worst, int(np.argmin(blame.blame)))
        same = self._ends is not None and any(a == b for a, b in zip(ends, self._ends))
        self._most, self._ends = 2 * self._most if same else 1, ends
        network = Network(rates=self._levels, rtt_s=rtt_s, chunk_bytes=chunk_bytes)
        moved = finetune(self.masters, self._work, network, blame, self._most)
        who = self._names[blame.worst]
        if not moved.count:
            return self._keep(f"{who} has {blame.ratio:.2f} times the least blame: no move helps")
        text = (
            f"{who} has {blame.ratio:.2f} times the least blame: {moved.globals_} global and "
            f"{moved.count - moved.globals_} local masters moved away; {self._shares(moved.masters)}"
        )
        return self._adopt("fine", moved.masters, text)

    def _shares(self, made: Masters) -> str:
        """How many chunks got other masters, and of whom."""
        was, now = self.masters.locals_of(), made.locals_of()
        most = sorted(np.flatnonzero(was != now).tolist(), key=lambda i: -abs(int(now[i] - was[i])))[:4]
        hosts = ", ".join(f"{self._names[i]} {was[i]} -> {now[i]}" for i in most)
        count = len(made.moved_from(self.masters))
        return f"{count} of {made.chunks} chunks get other masters" + (f" ({hosts})" if hosts else "")
