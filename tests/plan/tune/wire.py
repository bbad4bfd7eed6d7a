"""Readings as a wire gives them, for tuners to be tried on: made after windows of labs of 8 hosts (flat) and 16 (2LHA).

What was seen there, and is in here: a host without masters reads half of what it could send (0.47 of the others' in
2LHA, 0.78 in flat aggregation), and more with each master that it gets, for it waits for those that it sends to; a host
cut to 40 % reads 0.44 with its share and 0.35 without; uneven masters move every host's reading, by 7 % (standard
deviation) in 2LHA, and for good; a host that is restored needs a window or two; a change falls into the middle of a
window; iterations take 8 % more or less from window to window, with a memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from netprobe.plan.tune.masters import Floats, Masters, carried, even_masters
from netprobe.plan.tune.policy import Reading, Rules, Tuner, Verdict

_FREE = {1: (0.86, 0.8), 4: (0.47, 1.2)}
"""By groups: what others let a host without masters send, and how much more one with its share."""
_SMOOTH = 3.0
_UNEVEN = {1: 0.015, 4: 0.075}


class Wire:
    """A fleet whose ``tuner`` gets a reading a window; ``rates`` (N,) are what its hosts can send, 1 at first."""

    def __init__(
        self,
        groups: Sequence[Sequence[int]],
        seed: int,
        *,
        noise: float = 0.02,
        busy: float = 0.08,
        rules: Rules | None = None,
    ) -> None:
        self.chance = np.random.default_rng(seed)
        chunks = 40 * max(map(len, groups))
        self.even = even_masters(groups, chunks)
        self.work = carried(self.even.groups)
        count = self.even.ranks
        self.tuner = Tuner(self.even, [f"h{i}" for i in range(count)], rules)
        self.rates = np.ones(count)
        self.unknown = 0.0
        """Share of the windows in which a host's rate is not known."""
        self._groups, self._noise, self._busy = len(groups), noise, busy
        self._own = self.chance.normal(0, 1, count)
        self._before = self.rates.copy()
        self._read = self.rates.copy()
        self._slow = 0.0
        self.verdicts: list[Verdict] = []

    def seconds(self, masters: Masters | None = None) -> float:
        """How long an iteration takes, without noise."""
        chosen = masters or self.tuner.masters
        return float((self.work.of(chosen) / self.rates).max() / self.work.of(self.even).max())

    @property
    def spread(self) -> float:
        """Most bytes that a host sends over least."""
        load = self.work.of(self.tuner.masters)
        return float(load.max() / load.min())

    def step(self) -> Verdict:
        """A window and the tuner's verdict."""
        masters, count = self.tuner.masters, len(self.rates)
        part = self.chance.uniform(0, 1)
        rates = np.where(
            self.rates == self._before, self.rates, self._before ** (1 - part) * self.rates**part
        )
        self._before = self.rates.copy()
        seen = self._readable(masters, rates)
        kept = self.chance.uniform(0, 0.5)
        rises = seen > 1.1 * self._read
        seen = np.where(rises, seen ** (1 - kept) * self._read**kept, seen)
        self._read = seen
        seen = seen * np.exp(self.chance.normal(0, self._noise, count)) * 1e7
        between = np.array([float(seen[list(own)].sum()) for own in masters.groups])
        if self._groups == 1:
            between[:] = 0
        self._slow = 0.6 * self._slow + 0.8 * float(self.chance.normal(0, self._busy))
        seconds = float((self.work.of(masters) / rates).max() / self.work.of(self.even).max())
        seen[self.chance.uniform(0, 1, count) < self.unknown] = np.nan
        verdict = self.tuner.step(
            Reading(
                seconds=seconds * float(np.exp(self._slow)),
                size_bytes=4e6,
                rates=seen,
                rtt_s=np.full(count, 2e-4),
                between=between,
            )
        )
        self.verdicts.append(verdict)
        return verdict

    def steps(self, count: int) -> list[str]:
        """The kinds of verdicts that moved masters in so many windows."""
        kinds = [self.step().kind for _ in range(count)]
        return [kind for kind in kinds if kind not in ("wait", "keep")]

    def _readable(self, masters: Masters, rates: Floats) -> Floats:
        """What is read of hosts that can send ``rates``, without noise."""
        share = masters.locals_of() / self.even.locals_of()
        free, more = _FREE[self._groups]
        most = free + more * share
        whole = (1 + (free + more) ** -_SMOOTH) ** (-1 / _SMOOTH)
        seen = (rates**-_SMOOTH + most**-_SMOOTH) ** (-1 / _SMOOTH) / whole
        load = self.work.of(masters)
        uneven = _UNEVEN[self._groups] * min(1.0, (float(load.max() / load.min()) - 1) / 0.05)
        drawn = np.random.default_rng(zlib.crc32(masters.locals_of().tobytes())).normal(0, 1, len(rates))
        return np.asarray(seen * np.exp(uneven * (0.8 * self._own + 0.6 * drawn)))
