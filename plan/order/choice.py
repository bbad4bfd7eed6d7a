"""Which of the candidates to take, by what each costs on the map and on readings held out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netprobe.plan.order.cross_validation import Gain
from netprobe.plan.order.strategy import CLOSE

SURELY = 0.1
"""An annealed order is taken only if it costs less than the leaf order by this share, on readings held out.

Two folds cannot tell a smaller difference: with passing outliers the held-out costs of equally good orders differ by up
to half. With persistently slow links annealed orders were a third to three fifths below (64 hosts in racks of 8, six
fleets a case).
"""
ORIGINAL, LEAF, ANNEALED, POLISHED, RING = "given", "leaf", "annealed", "polished", "ring"
"""Kinds of candidates, as documents name them."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The kind of order that was chosen, and why. ``kept_original`` is a reason to keep the original order."""

    kind: str
    why: str
    kept_original: str | None = None


def judged_as(kind: str) -> str:
    """The kind whose held-out cost counts for ``kind``: a polished order is an annealed one, improved once more."""
    return ANNEALED if kind == POLISHED else kind


def choose(
    costs: Mapping[str, float],
    search_costs: Mapping[str, float],
    held_out: Mapping[str, float],
    *,
    gains: Mapping[str, Gain] | None = None,
    hop_sums: Mapping[str, Gain] | None = None,
    may_keep: bool = True,
    slow_repeats: bool = False,
) -> Choice:
    """Which candidate to take, by kind, of those whose ``costs`` are not higher than the original order's.

    That with the lowest held-out cost. An annealed order is taken before the leaf order only where it is `SURELY`
    better: on readings held out, or, where ``slow_repeats``, on all of them and no more expensive on those held out.
    Without held-out costs that with the lowest ``search_costs``. An original order whose held-out cost is within
    `CLOSE` of the lowest is kept; without ``may_keep`` (`OrderStrategy.may_keep_original`) only one that is as much
    below it. It is kept too where the gain over it is not sure (`Gain.is_sure`), for a largest hop neither by its own
    cost nor by the sum of the hops: a search on noise finds orders that look better on what it saw.
    """
    # A plan never makes the original order more expensive on the map itself.
    able = [kind for kind in costs if costs[kind] <= costs[ORIGINAL]]
    others = able if may_keep else [kind for kind in able if kind != ORIGINAL] or able
    if not held_out:
        return _by_map(able, others, search_costs, may_keep)
    judged = {kind: held_out.get(judged_as(kind), math.inf) for kind in able}
    best, sure = _by_readings(able, others, judged, search_costs, slow_repeats)
    least = judged[best]
    original = held_out[ORIGINAL]
    if original <= least * (1 + CLOSE if may_keep else 1 - CLOSE):
        why = _why_kept(original / least - 1 if least else 0.0, sure)
        return Choice(kind=ORIGINAL, why=why, kept_original=why)
    gain, by_sum = ((table or {}).get(judged_as(best)) for table in (gains, hop_sums))
    if gain is not None and not gain.is_sure and (may_keep or by_sum is None or not by_sum.is_sure):
        noise = f", and by their noise {gain.interval_text}" if gain.interval_text else ""
        why = f"on readings held out it costs {gain.ratio:.2f}x the best found{noise}"
        return Choice(kind=ORIGINAL, why=why, kept_original=why)
    if not sure:
        return Choice(kind=best, why=f"nothing costs {SURELY:.0%} less on readings held out")
    return Choice(kind=best, why="least cost on readings held out")


def _by_map(
    able: Sequence[str], others: Sequence[str], search_costs: Mapping[str, float], may_keep: bool
) -> Choice:
    if may_keep:
        best = min(able, key=lambda kind: (search_costs[kind], kind != ORIGINAL))
    else:
        best = min(others, key=lambda kind: (search_costs[kind], kind != RING))
        if search_costs[ORIGINAL] <= search_costs[best] * (1 - CLOSE):
            best = ORIGINAL
    return Choice(kind=best, why="least cost on the map; no reading was held out")


def _by_readings(
    able: Sequence[str],
    others: Sequence[str],
    judged: Mapping[str, float],
    search_costs: Mapping[str, float],
    slow_repeats: bool,
) -> tuple[str, bool]:
    """The best kind, and whether it is surely better than the leaf order; the leaf order where none is."""
    best = min(others, key=lambda kind: (judged[kind], search_costs[kind]))
    near = ANNEALED in able and best == LEAF and judged[ANNEALED] <= judged[LEAF] * (1 + CLOSE)
    if slow_repeats and near:
        best = min(able, key=lambda kind: (kind == ORIGINAL, kind == LEAF, search_costs[kind]))
    sure = (
        best not in (ANNEALED, POLISHED)
        or LEAF not in able
        or judged[best] <= judged[LEAF] * (1 - SURELY)
        or (slow_repeats and search_costs[best] <= search_costs[LEAF] * (1 - SURELY))
    )
    return (best if sure else LEAF), sure


def _why_kept(above: float, sure: bool) -> str:
    """``above``: by how much of the best cost the original order is above it."""
    if above <= 0:
        return f"no other costs {'' if sure else f'{SURELY:.0%} '}less on readings held out"
    best = "the best found" if sure else "the leaf order"
    return f"it is within {CLOSE:.0%} of {best} ({above:.1%}) on readings held out"
