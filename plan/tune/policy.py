"""What to do with each window of measurements: share all masters out anew, move a few, or leave everything as it is.

    tuner = Tuner(masters, names)
    verdict = tuner.step(reading)      # one reading a window, of ten iterations, say

A sudden change (the collectives' time, or a host's rate, more than 20 % off in every one of the last `Rules.confirm`
windows) leads to Quicktune, after which Finetune moves a little at each step until no host has `Rules.epsilon`
times the blame of another, or no move helps. What hosts can send is held still between changes (`levels`, which also
says why a host that recovers has its whole share at once), so that noise moves nothing. Masters with which the
collectives take longer than before are taken back, and nothing more is tried until the next sudden change; where the
collectives then take as long all the same, it was not the masters, and they come again.
Nothing here reads a clock: the same readings give the same verdicts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from netprobe.plan.tune.fine import Blame, Network, blame_of, finetune
from netprobe.plan.tune.levels import APART, Change, Levels, pooled
from netprobe.plan.tune.masters import EVEN, Floats, Masters, carried
from netprobe.plan.tune.quick import quicktune, times

Kind = Literal["wait", "keep", "quick", "fine", "back"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """``beta`` and ``gamma`` weigh imbalance and time in the blame (the dissertation publishes neither).

    ``apart`` is the ratio from which rates and times differ, ``rejoins`` that within which a host is like it was again,
    ``retry`` the windows after which a host that was put down and shows nothing is tried with more.
    ``near``: a host with the most blame over this has as much as the one with most.
    ``least_gain``: by how much Quicktune must shorten the longest time, as a share of it, for masters to be moved.
    ``most_harm``: how much longer than before the collectives may take, as a share, before masters are taken back.
    """

    apart: float = APART
    rejoins: float = 1.1
    retry: int = 8
    confirm: int = 2
    beta: float = 0.2
    gamma: float = 1.0
    epsilon: float = 1.1
    near: float = 1.03
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
        self._levels: Levels | None = None
        self._usual_s: float | None = None
        self._ends: tuple[int, int] | None = None
        self._most = 1
        self._undo: tuple[Masters, float, Floats] | None = None
        self._redo: tuple[Masters, float, Floats] | None = None
        self._since = 0
        self._rests = False

    def step(self, reading: Reading) -> Verdict:
        """The verdict on a window that has just ended."""
        self._recent.append(reading)
        self._since += 1
        if len(self._recent) < self.rules.confirm:
            return self._verdict("wait", "first windows after a change")
        rules, rates = self.rules, [one.rates for one in self._recent]
        if self._levels is None:
            retry = rules.retry if self._moves else 0
            self._levels = Levels(
                self._latest(), apart=rules.apart, rejoins=rules.rejoins, confirm=rules.confirm, retry=retry
            )
            self._levels.moved(self._work.of(self.masters), anew=True)
        before = self._levels.now.copy()
        changes = self._levels.step(rates)
        if changes:
            return self._quick(self._told(changes), before, [one.host for one in changes])
        if self._undo is not None and self._since >= rules.confirm:
            masters, before_s, before = self._undo
            self._undo = None
            if min(one.seconds for one in self._recent) > (1 + rules.most_harm) * before_s:
                return self._back(masters, before_s, before)
        if self._redo is not None and self._since >= rules.confirm:
            masters, limit_s, raised = self._redo
            self._redo = None
            if self._seconds() > limit_s:
                return self._again(masters, raised)
        if self._usual_s is None:
            self._usual_s = self._seconds()
        ratios = [one.seconds / self._usual_s for one in self._recent]
        if min(ratios) > self.rules.apart or max(ratios) < 1 / self.rules.apart:
            return self._quick(
                f"{self._seconds():.3g} s an iteration, {self._usual_s:.3g} s before", before, []
            )
        if not self._moves:
            return self._keep("as before")
        return self._keep("a move did harm") if self._rests else self._fine(reading)

    def _verdict(self, kind: Kind, text: str) -> Verdict:
        return Verdict(kind=kind, masters=self.masters, text=text)

    def _keep(self, text: str) -> Verdict:
        self._ends, self._most = None, 1
        return self._verdict("keep", text)

    def _adopt(self, kind: Kind, masters: Masters, text: str, before: Floats) -> Verdict:
        """Go on with ``masters``; levels were ``before`` (N,)."""
        assert self._levels is not None
        if self._undo is None:
            self._undo = (self.masters, self._seconds(), before)
        self._levels.moved(self._work.of(masters), anew=kind != "fine")
        self.masters, self._usual_s, self._since = masters, None, 0
        return self._verdict(kind, text)

    def _back(self, masters: Masters, before_s: float, before: Floats) -> Verdict:
        """Take back what did harm."""
        assert self._levels is not None
        text = f"{self._seconds():.3g} s an iteration, {before_s:.3g} s before masters were moved: taken back"
        self._rests = True
        redo = self.masters, float(np.sqrt(self._seconds() * before_s)), self._levels.now.copy()
        verdict = self._adopt("back", masters, text, before)
        self._levels.take_back(before)
        self._undo, self._redo = None, redo
        self._recent.clear()
        return verdict

    def _again(self, masters: Masters, raised: Floats) -> Verdict:
        """It was not the masters: what was taken back did no harm."""
        assert self._levels is not None
        text = f"{self._seconds():.3g} s an iteration with the masters before too: what was taken back comes again"
        self._rests = False
        verdict = self._adopt("quick", masters, text, self._levels.now.copy())
        self._levels.raise_again(raised)
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

    def _told(self, changes: Sequence[Change]) -> str:
        shown = []
        for one in changes[:4]:
            name = self._names[one.host]
            if one.why == "sends":
                shown.append(f"{name} sends {one.now / 1e6:.3g} MB/s, {one.was / 1e6:.3g} before")
            else:
                shown.append(f"{name} is {one.why} with more")
        more = f", and {len(changes) - 4} more" if len(changes) > 4 else ""
        return "; ".join(shown) + more

    def _quick(self, why: str, before: Floats, changed: Sequence[int]) -> Verdict:
        """Share the masters out anew for the present levels; those of ``changed`` hosts were ``before`` (N,)."""
        assert self._levels is not None
        levels, own = self._levels.now, list(changed)
        self._usual_s, self._ends, self._most = None, None, 1
        self._undo, self._redo, self._rests = None, None, False
        if not self._moves:
            self._usual_s = self._seconds()
            return self._verdict("keep", f"{why}: plan anew (netprobe plan auto)")
        made = quicktune(self.masters, self._work, levels, self._between())
        was_s = float(times(self.masters, self._work, levels).max())
        now_s = float(times(made, self._work, levels).max())
        moved = made.moved_from(self.masters)
        # In a large fleet one host's share is little to each of the others, and yet it shall have it.
        shift = self._work.of(made)[own] / self._work.of(self.masters)[own]
        due = bool((np.maximum(shift, 1 / shift) > EVEN).any())
        if not len(moved) or (now_s > was_s * (1 - self.rules.least_gain) and not due):
            self._usual_s = self._seconds()
            return self._verdict("keep", f"{why}: other masters would not help")
        text = f"{why}: {self._shares(made)}; the longest transfer {was_s / now_s:.2f} times shorter"
        verdict = self._adopt("quick", made, text, before)
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
        levels = self._levels.now
        rtt_s = np.full(len(levels), float(np.nanmax(reading.rtt_s, initial=0.0)))
        blame: Blame = blame_of(
            self._work.of(self.masters) * chunk_bytes,
            levels,
            rtt_s,
            beta=rules.beta,
            gamma=rules.gamma,
        )
        if blame.ratio <= rules.epsilon:
            return self._keep(f"blame within {blame.ratio:.2f}")
        ends = (blame.worst, int(np.argmin(blame.blame)))
        # Hosts of a group share their masters evenly, and take turns at being the worst: it counts as the same one.
        same = self._ends is not None and (
            ends[1] == self._ends[1] or blame.blame[self._ends[0]] * rules.near > blame.blame[blame.worst]
        )
        self._most, self._ends = 2 * self._most if same else 1, ends
        network = Network(rates=levels, rtt_s=rtt_s, chunk_bytes=chunk_bytes)
        moved = finetune(self.masters, self._work, network, blame, self._most)
        who = self._names[blame.worst]
        if not moved.count:
            return self._keep(f"{who} has {blame.ratio:.2f} times the least blame: no move helps")
        text = (
            f"{who} has {blame.ratio:.2f} times the least blame: {moved.globals_} global and "
            f"{moved.count - moved.globals_} local masters moved away; {self._shares(moved.masters)}"
        )
        return self._adopt("fine", moved.masters, text, levels.copy())

    def _shares(self, made: Masters) -> str:
        """How many chunks got other masters, and of whom."""
        was, now = self.masters.locals_of(), made.locals_of()
        most = sorted(np.flatnonzero(was != now).tolist(), key=lambda i: -abs(int(now[i] - was[i])))[:4]
        hosts = ", ".join(f"{self._names[i]} {was[i]} -> {now[i]}" for i in most)
        count = len(made.moved_from(self.masters))
        return f"{count} of {made.chunks} chunks get other masters" + (f" ({hosts})" if hosts else "")
