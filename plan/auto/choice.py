"""The choice among candidates: the fastest that is surely faster than what would be run otherwise.

A bound that costs little (the fullest resource alone, or latencies alone) comes first, and only who may still win is
simulated. Times are compared with their intervals: a candidate wins where its own lies wholly below that of the
baseline, which is the faster of the chunked ring and halving-doubling in the original order, as libraries run them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from netprobe.core.documents.schedule_plan import Prediction
from netprobe.core.errors import InputError
from netprobe.plan.auto.candidates import GIVEN, Candidate
from netprobe.plan.auto.known import PACKET_BYTES, KnownNetwork
from netprobe.plan.auto.predicting import (
    Interval,
    Tried,
    bound_s,
    interval_of,
    latency_of,
    prediction_of,
    run_of,
)
from netprobe.plan.simulate.simulate import Simulation

BASELINES = ("chunked-ring", "halving-doubling")
CLOSE = 0.02
"""Within this share of the best a time counts as equal: a new order or algorithm is not worth it."""
LEAST_BYTES, MOST_BYTES = 1_000, 1_000_000_000
GRID = tuple(round(10 ** (3 + i / 2)) for i in range(13))
HOLDS = 0.05
"""From one size to the next a choice is kept unless another is faster by more than this share."""
MOST_PIECES, COARSE_PIECES = 512, 128
"""Chunks that a choice is made among; and where only the sizes at which it changes are looked for."""
WITHIN = 1.1
"""A size at which the winner changes is found within a tenth."""
_LOOKED_AT = 6
_SHOWN_TIMES = 1.5
_INTERVALS = 8
Reason = Literal["faster", "close", "cannot_tell"]


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
    """Buffers of ``first_bytes`` to ``last_bytes``, for which one choice holds. ``candidate`` None: nobody can tell."""

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
    _intervals: dict[tuple[Candidate, int], Interval] = field(default_factory=dict)
    _latencies: dict[tuple[Candidate, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InputError where no baseline is among the candidates."""
        if not self._baselines(self.candidates):
            raise InputError(f"none of {', '.join(BASELINES)} in the original order is among the candidates")

    def decide(self, size_bytes: int, among: Sequence[Candidate] | None = None) -> Decision:
        """The choice for a buffer of ``size_bytes``."""
        given = self.candidates if among is None else among
        baselines = self._baselines(given) or self._baselines(self.candidates)
        base = min(baselines, key=lambda one: self.time_s(one, size_bytes))
        if not self.known.decides(size_bytes):
            return Decision(
                size_bytes=size_bytes, candidate=base, baseline=base, reason="cannot_tell", likely=base
            )
        timed = self._timed(distinct(given, size_bytes), size_bytes, self.time_s(base, size_bytes))
        best = timed[0] if timed else base
        goal = self.time_s(base, size_bytes)
        faster = [one for one in timed if self.time_s(one, size_bytes) * (1 + CLOSE) < goal]
        if not faster:
            return Decision(
                size_bytes=size_bytes,
                candidate=base,
                baseline=base,
                reason="close" if self.interval(base, size_bytes).is_narrow(CLOSE) else "cannot_tell",
                likely=best,
            )
        sure = [one for one in faster[:_LOOKED_AT] if self._surely(one, base, size_bytes)]
        own = next((one for one in faster if one.order_name == GIVEN), None)
        if own is not None and own not in sure and self._surely(own, base, size_bytes):
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
        """The first, or one in the original order that is as good, or may be."""
        chosen = sure[0]
        if chosen.order_name == GIVEN or own is None or own not in sure:
            return chosen
        close = self.time_s(own, size_bytes) <= self.time_s(chosen, size_bytes) * (1 + CLOSE)
        return own if close or not self._surely(chosen, own, size_bytes) else chosen

    def table(self, decision: Decision) -> list[Tried]:
        """Every candidate at the size of a decision, the chosen one first, then by time; slow ones by their bound."""
        size = decision.size_bytes
        first = self.time_s(decision.likely, size)
        rows: list[tuple[float, Tried]] = []
        for one in distinct(self.candidates, size, keep=(decision.candidate, decision.baseline)):
            bound = self.bound_s(one, size)
            if (one, size) not in self._runs and bound > _SHOWN_TIMES * first:
                rows.append((bound, Tried(candidate=one, prediction=None, at_least_s=bound)))
            else:
                time_s = self.time_s(one, size)
                rows.append((time_s, Tried(candidate=one, prediction=None, time_s=time_s)))
        wanted = (decision.candidate, decision.baseline)
        rows.sort(key=lambda row: (row[1].candidate is not decision.candidate, row[0]))
        return [
            Tried(candidate=one.candidate, prediction=self._prediction(one.candidate, size))
            if one.at_least_s is None
            and (self.known.network.certain or number < _INTERVALS or one.candidate in wanted)
            else one
            for number, (_, one) in enumerate(rows)
        ]

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
        below = self._walk(decision, sorted((s for s in GRID if s < size), reverse=True))
        above = self._walk(decision, [s for s in GRID if s > size])
        # Each change is (where, what holds beyond it); going down "beyond" is below.
        made: list[Range] = []
        last = MOST_BYTES
        for where, held in reversed(above):
            made.append(_range(where, last, held))
            last = where - 1
        held = decision
        for where, beyond in below:
            made.append(_range(where + 1, last, held))
            last, held = where, beyond
        made.append(_range(LEAST_BYTES, last, held))
        return [one for one in reversed(made) if one.first_bytes <= one.last_bytes]

    def _walk(self, start: Decision, sizes: Sequence[int]) -> list[tuple[int, Decision]]:
        """Where the choice changes along ``sizes``, nearest first, and what it is from there on."""
        changes = []
        held, at = start, start.size_bytes
        for size in sizes:
            found = self._held(held, size)
            if _said(found) != _said(held):
                changes.append((self._change(held, at, found, size), found))
                held = found
            at = size
        return changes

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
        if best.label != found.baseline.label and not self._surely(best, found.baseline, size_bytes):
            return found
        return replace(found, candidate=best)

    def _change(self, held: Decision, at: int, found: Decision, size_bytes: int) -> int:
        """The size, within a tenth, at which ``held`` gives way to ``found`` between ``at`` and ``size_bytes``."""
        wanted = {held.candidate.label, found.candidate.label, held.baseline.label, found.baseline.label}
        wanted |= {found.likely.label}
        among = [one for one in self.candidates if one.label in wanted]
        near, far = at, size_bytes
        while max(near, far) > min(near, far) * WITHIN:
            middle = round((near * far) ** 0.5)
            if _said(self._held(held, middle, among)) == _said(held):
                near = middle
            else:
                far = middle
        return far

    def time_s(self, candidate: Candidate, size_bytes: int) -> float:
        """Seconds by the capacities as read."""
        return self._run(candidate, size_bytes).time_s

    def _run(self, candidate: Candidate, size_bytes: int) -> Simulation:
        key = (candidate, size_bytes)
        if key not in self._runs:
            self._runs[key] = run_of(self.known, candidate, size_bytes)
        return self._runs[key]

    def _prediction(self, candidate: Candidate, size_bytes: int) -> Prediction:
        return prediction_of(self.known, candidate, size_bytes, self._run(candidate, size_bytes))

    def bound_s(self, candidate: Candidate, size_bytes: int) -> float:
        """A lower bound of that."""
        key = (candidate, min(candidate.pieces(size_bytes), len(candidate.order)))
        if key not in self._latencies:
            self._latencies[key] = latency_of(self.known, candidate, size_bytes)
        return bound_s(self.known, candidate, size_bytes, self._latencies[key])

    def interval(self, candidate: Candidate, size_bytes: int) -> Interval:
        """The interval that the capacities leave."""
        key = (candidate, size_bytes)
        if key not in self._intervals:
            time_s = self.time_s(candidate, size_bytes)
            self._intervals[key] = interval_of(self.known, candidate, size_bytes, time_s)
        return self._intervals[key]

    def _surely(self, one: Candidate, other: Candidate, size_bytes: int) -> bool:
        return self.interval(one, size_bytes).surely_below(self.interval(other, size_bytes), CLOSE)

    def _timed(self, among: Iterable[Candidate], size_bytes: int, goal_s: float) -> list[Candidate]:
        """Those that may be the fastest, or the fastest in the original order, simulated; ascending by time."""
        bounds = sorted(((self.bound_s(one, size_bytes), i, one) for i, one in enumerate(among)))
        best = {True: goal_s, False: goal_s}
        certain = self.known.network.certain
        done: list[tuple[float, int, Candidate]] = []
        for bound, _, one in bounds:
            given = one.order_name == GIVEN
            # Where times are uncertain one that is slower by the figures may be the one that is sure.
            if bound > (best[given] if certain else goal_s):
                continue
            time_s = self.time_s(one, size_bytes)
            done.append((time_s, len(done), one))
            best[given] = min(best[given], time_s)
            best[False] = min(best[False], time_s)
        return [one for _, _, one in sorted(done)]

    @staticmethod
    def _baselines(among: Sequence[Candidate]) -> list[Candidate]:
        return [
            one
            for one in among
            if one.algorithm in BASELINES and one.order_name == GIVEN and one.channels == 1
        ]


def distinct(
    candidates: Sequence[Candidate], size_bytes: int, keep: Sequence[Candidate] = ()
) -> list[Candidate]:
    """Each schedule of a size once: chunk sizes that cut it into equally many count once, too small ones not at all."""
    made: dict[tuple[object, ...], Candidate] = {}
    for one in (*keep, *candidates):
        pieces = one.pieces(size_bytes)
        if pieces > MOST_PIECES and one not in keep:
            continue
        made.setdefault((one.algorithm, one.order, one.groups, pieces, one.channels), one)
    return list(made.values())


def coarse(candidates: Sequence[Candidate], size_bytes: int) -> list[Candidate]:
    """Of each label those that cut a buffer into few pieces: fewer than COARSE_PIECES, or the fewest there are."""
    least: dict[str, int] = {}
    for one in candidates:
        pieces = one.pieces(size_bytes)
        least[one.label] = min(pieces, least.get(one.label, pieces))
    return [one for one in candidates if one.pieces(size_bytes) <= max(COARSE_PIECES, least[one.label])]


def _range(first: int, last: int, held: Decision) -> Range:
    candidate = None if held.reason == "cannot_tell" else held.candidate
    return Range(first_bytes=first, last_bytes=last, candidate=candidate, reason=held.reason)


def _said(decision: Decision) -> tuple[str, bool]:
    """What a user reads about a size: its candidate without chunks, or that nobody can tell."""
    open_ = decision.reason == "cannot_tell"
    return ("" if open_ else decision.candidate.label, open_)
