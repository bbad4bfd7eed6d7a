"""The choice among candidates: the fastest that is surely faster than what would be run otherwise.

A bound that costs little (the fullest resource alone, or latencies alone) comes first, and only who may still win is
simulated. Times are compared as far as capacities are known: a candidate wins where it is faster whatever these are
within their intervals, and, of what is only known to be carried at least, where its own interval lies wholly below that
of the baseline, which is the faster of the chunked ring and halving-doubling in the original order, as libraries run
them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from netprobe.core.documents.schedule_plan import PACKET_BYTES, Prediction
from netprobe.core.errors import InputError
from netprobe.plan.auto.candidates import GIVEN, MANY_HOSTS, Candidate, coarse, distinct
from netprobe.plan.auto.known import KnownNetwork
from netprobe.plan.auto.predicting import (
    BOUND,
    Interval,
    Read,
    Tried,
    bound_s,
    has_rough,
    interval_of,
    latency_of,
    prediction_of,
    rough_s,
    run_of,
    shares_of,
    surely_faster,
)
from netprobe.plan.simulate.simulate import Shares, Simulation

BASELINES = ("chunked-ring", "halving-doubling")
CLOSE = 0.02
"""Within this share of the best a time counts as equal: a new order or algorithm is not worth it."""
LEAST_BYTES, MOST_BYTES = 1_000, 1_000_000_000
GRID = tuple(round(10 ** (3 + i / 2)) for i in range(13))
HOLDS = 0.05
"""From one size to the next a choice is kept unless another is faster by more than this share."""
WITHIN = 1.1
"""A size at which the winner changes is found within a tenth."""
WITHIN_MANY = 1.5
"""Above MANY_HOSTS only every second size is looked at, and where the winner changes is found within a half."""
MOST_SIMULATED = 10_000_000
"""Transfers that are simulated while sizes are looked through, half of them below the size of the plan and half above:
the sizes beyond are left out, and said to be. 64 hosts need a fifth of it, with capacities that all differ."""
MAY_BE = 0.05
"""An order is kept that may be as good as a new one, unless it is expected to take so much longer."""
_LOOKED_AT = 6
Reason = Literal["faster", "close", "cannot_tell", "left_out"]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """For one size: the candidate, the baseline it is compared with, and the reason."""

    size_bytes: int
    candidate: Candidate
    baseline: Candidate
    reason: Reason
    likely: Candidate
    """The fastest by the capacities as read, sure or not."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Buffers of ``first_bytes`` to ``last_bytes``, for which one choice holds.

    ``candidate`` None: nobody can tell, or (reason ``left_out``) looking would have taken too long.
    """

    first_bytes: int
    last_bytes: int
    candidate: Candidate | None
    reason: Reason


@dataclass(kw_only=True, eq=False)
class Chooser:
    """Candidates on a network, and all that was found out about them."""

    known: KnownNetwork
    candidates: Sequence[Candidate]
    _runs: dict[tuple[Candidate, int], Simulation] = field(default_factory=dict)
    _rough: dict[tuple[Candidate, int], float] = field(default_factory=dict)
    _roughly: bool = False
    """Whether rough times are enough: while `ranges` looks for who wins where."""
    _shares: dict[tuple[Candidate, int] | str, Shares] = field(default_factory=dict)
    """What uneven sharing costs, of a candidate at a size; of a label while `ranges` looks."""
    _intervals: dict[tuple[Candidate, int], Interval] = field(default_factory=dict)
    _latencies: dict[tuple[Candidate, int], float] = field(default_factory=dict)
    _sure: dict[tuple[Candidate, Candidate, int], bool] = field(default_factory=dict)
    simulated: int = 0
    """Transfers of all runs."""

    def __post_init__(self) -> None:
        """Raises InputError where no baseline is among the candidates."""
        if not self._baselines(self.candidates):
            raise InputError(f"none of {', '.join(BASELINES)} in the original order is among the candidates")

    def decide(self, size_bytes: int, among: Sequence[Candidate] | None = None) -> Decision:
        """The choice for a buffer of ``size_bytes``."""
        given = self.candidates if among is None else among
        baselines = self._baselines(given) or self._baselines(self.candidates)
        if not self.known.decides(size_bytes):
            # Latency says nothing of bytes; libraries run a ring for what is large.
            base = next((one for one in baselines if one.algorithm == BASELINES[0]), baselines[0])
            return Decision(
                size_bytes=size_bytes, candidate=base, baseline=base, reason="cannot_tell", likely=base
            )
        base = next(self._ascending(baselines, size_bytes))
        every = distinct(given, size_bytes)
        goal = self.time_s(base, size_bytes)
        best, sure = base, list[Candidate]()
        for number, one in enumerate(self._ascending(every, size_bytes)):
            best = one if not number else best
            if self.time_s(one, size_bytes) * (1 + CLOSE) >= goal or number == _LOOKED_AT:
                break
            if self.surely(one, base, size_bytes):
                sure.append(one)
                break
        if self.time_s(best, size_bytes) * (1 + CLOSE) >= goal:
            return Decision(
                size_bytes=size_bytes,
                candidate=base,
                baseline=base,
                reason="close" if self.interval(base, size_bytes).is_narrow(CLOSE) else "cannot_tell",
                likely=best,
            )
        own = next(self._ascending([one for one in every if one.order_name == GIVEN], size_bytes), None)
        if own is not None and self.time_s(own, size_bytes) * (1 + CLOSE) >= goal:
            own = None
        if own is not None and own not in sure and self.surely(own, base, size_bytes):
            sure.append(own)
        if not sure:
            return Decision(
                size_bytes=size_bytes, candidate=base, baseline=base, reason="cannot_tell", likely=best
            )
        chosen = self._without_new_order(sure, own, size_bytes)
        return Decision(size_bytes=size_bytes, candidate=chosen, baseline=base, reason="faster", likely=best)

    def _without_new_order(
        self, sure: Sequence[Candidate], own: Candidate | None, size_bytes: int
    ) -> Candidate:
        """The first, or one in the original order that is as good, or may be and is not expected to be much slower."""
        chosen = sure[0]
        if chosen.order_name == GIVEN or own is None or own not in sure:
            return chosen
        close = self.time_s(own, size_bytes) <= self.time_s(chosen, size_bytes) * (1 + CLOSE)
        near = self.time_s(own, size_bytes) <= self.time_s(chosen, size_bytes) * (1 + MAY_BE)
        return own if close or (near and not self.surely(chosen, own, size_bytes)) else chosen

    def table(self, decision: Decision) -> list[Tried]:
        """Every candidate at the size of a decision, the chosen one first, then by time.

        What was simulated for the decision has its time, the others a bound of theirs; nothing is simulated for it.
        """
        size = decision.size_bytes
        wanted = (decision.candidate, decision.baseline, decision.likely)
        rows: list[tuple[bool, float, int, Tried]] = []
        for number, one in enumerate(distinct(self.candidates, size, keep=wanted)):
            key = (one, size)
            if one in wanted or (
                key in self._runs and (self.known.network.certain or key in self._intervals)
            ):
                row = Tried(candidate=one, prediction=self._prediction(one, size))
            elif key in self._runs or key in self._rough:
                time_s = self.time_s(one, size) if key in self._runs else self._rough[key]
                row = Tried(candidate=one, prediction=None, time_s=time_s)
            else:
                row = Tried(candidate=one, prediction=None, at_least_s=self.bound_s(one, size))
            told = row.prediction.time_s if row.prediction else row.time_s or row.at_least_s or 0.0
            rows.append((one is not decision.candidate, told, number, row))
        return [row for *_, row in sorted(rows, key=lambda row: row[:3])]

    def ranges(self, decision: Decision) -> list[Range]:
        """From `LEAST_BYTES` to `MOST_BYTES`: which choice holds where; ``decision`` is that of the size of the plan.

        From that size outwards a choice holds until another is surely, and by more than HOLDS, faster: two that are
        equally fast do not take turns. Chunks are coarse here, since only who wins counts.
        """
        if not self.known.decides(MOST_BYTES):
            small = self.decide(LEAST_BYTES)
            least = Range(
                first_bytes=LEAST_BYTES,
                last_bytes=PACKET_BYTES,
                candidate=small.candidate,
                reason=small.reason,
            )
            return [least, replace(least, first_bytes=PACKET_BYTES + 1, last_bytes=MOST_BYTES, candidate=None,
                                   reason="cannot_tell")]  # fmt: skip
        size = decision.size_bytes
        grid = GRID if self._size <= MANY_HOSTS else GRID[::2]
        self._roughly = True
        below, lowest = self._walk(decision, sorted((s for s in grid if s < size), reverse=True))
        above, highest = self._walk(decision, [s for s in grid if s > size])
        self._roughly = False
        # Each change is (where, what holds beyond it); going down "beyond" is below.
        made = [] if highest == MOST_BYTES else [_left_out(highest + 1, MOST_BYTES)]
        last = highest
        for where, held in reversed(above):
            made.append(_range(where, last, held))
            last = where - 1
        held = decision
        for where, beyond in below:
            made.append(_range(where + 1, last, held))
            last, held = where, beyond
        made.append(_range(max(lowest, LEAST_BYTES), last, held))
        made += [] if lowest <= LEAST_BYTES else [_left_out(LEAST_BYTES, lowest - 1)]
        return [one for one in reversed(made) if one.first_bytes <= one.last_bytes]

    def _walk(self, start: Decision, sizes: Sequence[int]) -> tuple[list[tuple[int, Decision]], int]:
        """Where the choice changes along ``sizes``, nearest first, and what it is from there on; how far it looked."""
        changes: list[tuple[int, Decision]] = []
        held, at = start, start.size_bytes
        most = self.simulated + MOST_SIMULATED // 2
        for size in sizes:
            if self.simulated > most:
                return changes, at
            found = self._held(held, size)
            if _said(found) != _said(held):
                changes.append((self._change(held, at, found, size), found))
                held = found
            at = size
        return changes, at

    def _held(self, held: Decision, size_bytes: int, among: Sequence[Candidate] | None = None) -> Decision:
        """The choice for a size, ``held`` unless another is clearly better."""
        given = coarse(self.candidates if among is None else among, size_bytes)
        found = self.decide(size_bytes, given)
        if _said(found) == _said(held) or "cannot_tell" in (found.reason, held.reason):
            return found
        same = [one for one in given if one.label == held.candidate.label]
        if not same:
            return found
        best = min(same, key=lambda one: self.time_s(one, size_bytes))
        if self.time_s(best, size_bytes) > self.time_s(found.candidate, size_bytes) * (1 + HOLDS):
            return found
        if best.label != found.baseline.label and not self.surely(best, found.baseline, size_bytes):
            return found
        return replace(found, candidate=best)

    def _change(self, held: Decision, at: int, found: Decision, size_bytes: int) -> int:
        """The size, within a tenth, at which ``held`` gives way to ``found`` between ``at`` and ``size_bytes``."""
        wanted = {held.candidate.label, found.candidate.label, held.baseline.label, found.baseline.label}
        wanted |= {found.likely.label}
        among = [one for one in self.candidates if one.label in wanted]
        near, far = at, size_bytes
        within = WITHIN if self._size <= MANY_HOSTS else WITHIN_MANY
        while max(near, far) > min(near, far) * within:
            middle = round((near * far) ** 0.5)
            if _said(self._held(held, middle, among)) == _said(held):
                near = middle
            else:
                far = middle
        return far

    @property
    def _size(self) -> int:
        return len(self.known.network.hosts)

    def time_s(self, candidate: Candidate, size_bytes: int) -> float:
        """Seconds by the capacities as read; a few percent off while sizes are looked through."""
        key, shares = (candidate, size_bytes), self._shares_of(candidate, size_bytes).median
        if self._roughly and key not in self._runs and has_rough(candidate, size_bytes):
            return self.rough_s(candidate, size_bytes) * shares
        return self._run(candidate, size_bytes).time_s * shares

    def _shares_of(self, candidate: Candidate, size_bytes: int) -> Shares:
        """Of one size, or, while sizes are looked through, of whichever was the first."""
        key: tuple[Candidate, int] | str = (candidate, size_bytes)
        if self._roughly and key not in self._shares:
            key = candidate.label
        if key not in self._shares:
            self._shares[key] = shares_of(self.known, candidate, size_bytes)
        return self._shares[key]

    def _run(self, candidate: Candidate, size_bytes: int) -> Simulation:
        key = (candidate, size_bytes)
        if key not in self._runs:
            self._runs[key] = run_of(self.known, candidate, size_bytes)
            self.simulated += _transfers(candidate, size_bytes)
        return self._runs[key]

    def _prediction(self, candidate: Candidate, size_bytes: int) -> Prediction:
        run, interval = self._run(candidate, size_bytes), self.interval(candidate, size_bytes)
        return prediction_of(self.known, candidate, size_bytes, run, interval)

    def bound_s(self, candidate: Candidate, size_bytes: int) -> float:
        """A lower bound of that."""
        key = (candidate, min(candidate.pieces(size_bytes), len(candidate.order)))
        if key not in self._latencies:
            self._latencies[key] = latency_of(self.known, candidate, size_bytes)
            self.simulated += _transfers(candidate, size_bytes)
        return bound_s(self.known, candidate, size_bytes, self._latencies[key])

    def rough_s(self, candidate: Candidate, size_bytes: int) -> float:
        """About `time_s`, for less."""
        key = (candidate, size_bytes)
        if key not in self._rough:
            self._rough[key] = rough_s(self.known, candidate, size_bytes, self.bound_s(candidate, size_bytes))
            self.simulated += _transfers(candidate, size_bytes)
        return self._rough[key]

    def interval(self, candidate: Candidate, size_bytes: int) -> Interval:
        """The interval that the capacities leave."""
        key = (candidate, size_bytes)
        if key not in self._intervals:
            shares = self._shares_of(candidate, size_bytes)
            time_s = self.time_s(candidate, size_bytes) / shares.median
            bound = self.bound_s(candidate, size_bytes)
            self.simulated += 2 * _transfers(candidate, size_bytes)
            self._intervals[key] = interval_of(
                self.known, candidate, size_bytes, time_s, bound, self._rough.get(key), shares
            )
        return self._intervals[key]

    def surely(self, one: Candidate, other: Candidate, size_bytes: int) -> bool:
        """Whether the first is faster by more than CLOSE, as far as the capacities are known."""
        key = (one, other, size_bytes)
        if key not in self._sure:
            self.simulated += sum(_transfers(each, size_bytes) for each in (one, other))
            self._sure[key] = surely_faster(
                self.known, self._read(one, size_bytes), self._read(other, size_bytes), size_bytes, CLOSE
            )
        return self._sure[key]

    def _read(self, one: Candidate, size_bytes: int) -> Read:
        interval = self.interval(one, size_bytes)
        return Read(candidate=one, interval=interval, at_least_s=self.bound_s(one, size_bytes))

    def _ascending(self, among: Iterable[Candidate], size_bytes: int) -> Iterator[Candidate]:
        """All by ascending time, each simulated only when no bound or rough time says that another comes before it."""
        bounds = sorted(((self.bound_s(one, size_bytes), i, one) for i, one in enumerate(among)))
        heap = [(bound, 0, i, one) for i, (bound, _, one) in enumerate(bounds)]
        while heap:
            _, stage, i, one = heapq.heappop(heap)
            if stage == 2:
                yield one
            elif (
                stage == 1
                or (one, size_bytes) in self._runs
                or not has_rough(one, size_bytes)
                or self._roughly
            ):
                heapq.heappush(heap, (self.time_s(one, size_bytes), 2, i, one))
            else:
                heapq.heappush(heap, (BOUND * self.rough_s(one, size_bytes), 1, i, one))

    @staticmethod
    def _baselines(among: Sequence[Candidate]) -> list[Candidate]:
        return [
            one
            for one in among
            if one.algorithm in BASELINES and one.order_name == GIVEN and one.channels == 1
        ]


def _transfers(candidate: Candidate, size_bytes: int) -> int:
    return len(candidate.schedule(size_bytes).expanded())


def _left_out(first: int, last: int) -> Range:
    return Range(first_bytes=first, last_bytes=last, candidate=None, reason="left_out")


def _range(first: int, last: int, held: Decision) -> Range:
    candidate = None if held.reason == "cannot_tell" else held.candidate
    return Range(first_bytes=first, last_bytes=last, candidate=candidate, reason=held.reason)


def _said(decision: Decision) -> tuple[str, bool]:
    """What a user reads about a size: its candidate without chunks, or that nobody can tell."""
    open_ = decision.reason == "cannot_tell"
    return ("" if open_ else decision.candidate.label, open_)
