"""The document of a run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import ScannedHost
from netprobe.core.documents.verify import (
    Comparison,
    RankCorrelation,
    VerifiedOrder,
    VerifiedRepetition,
    Verify,
)
from netprobe.core.hosts import plain_host
from netprobe.core.text import listed
from netprobe.core.units import count
from netprobe.pipeline.verifying.verify_case import Case, ScheduleCase
from netprobe.verify.comparison import LEAST_PAIRS
from netprobe.verify.correlate import correlate
from netprobe.verify.ratio import outcome_of
from netprobe.verify.run import VerifyOptions, VerifyOutcome
from netprobe.verify.sizing import LEAST_RUNS

LEFT_OUT = "the plan leaves it out: it had no reading"
SAME_ORDER = "the plan's order is the one it would be compared with: there is nothing to run"


def build_verify(
    case: Case | ScheduleCase,
    parents: Sequence[Map | Capacity | None],
    outcome: VerifyOutcome,
    options: VerifyOptions,
    ran: str,
    method: str = "tcp",
) -> Verify:
    """The document; pure."""
    plan = case.plan
    by_name = {one.host.name: one for one in outcome.hosts}
    hosts = []
    for host in plan.hosts:
        one = by_name.get(host.name)
        fields = plain_host(host).model_dump()
        if one is not None:
            fields |= one.host.model_dump() | {"status": one.status, "reason": one.reason, "agent": one.agent}
        elif host.name in set(plan.left_out):
            fields |= {"status": "failed", "reason": LEFT_OUT}
        hosts.append(ScannedHost.model_validate(fields))
    names = [host.name for host in plan.hosts if host.name in set(plan.order)]
    every = outcome.contenders.all if outcome.contenders is not None else ()
    ratio = outcome.record.ratio()
    trivial = outcome.contenders is not None and not outcome.hosts
    faults = [f"{one.host.name}: {one.reason}" for one in outcome.hosts if one.status != "ok"]
    parts = ["interrupted"] if outcome.interrupted else []
    parts += [outcome.stopped] if outcome.stopped is not None else []
    parts += [text for text in faults[:4] if text not in parts]
    parts += [f"and {len(faults) - 4} more hosts"] if len(faults) > 4 else []
    parts += [SAME_ORDER] if trivial else []
    cut = _cut_short(outcome, options)
    parts += [cut] if cut is not None else []
    whole = not (faults or outcome.interrupted or outcome.stopped or cut)
    return Verify(
        status=("ok" if whole else "partial") if ratio is not None or trivial else "failed",
        reason="; ".join(parts) or None,
        seed=options.seed,
        parents=[plan.parent(), *(one.parent() for one in parents if one is not None)],
        hosts=hosts,
        algorithm=case.algorithm,
        ran=ran,
        method=method,
        size_bytes=outcome.size_bytes or options.size_bytes,
        parameters={
            "channels": options.channels,
            "time_s": options.comparison.time_s,
            "precision": options.comparison.precision,
            **({} if outcome.size_bytes is None else {"full_size_bytes": options.size_bytes}),
            **({} if outcome.library is None else {"library": outcome.library}),
            **case.predicted_by(outcome),
        },
        orders=[
            VerifiedOrder(
                name=one.name,
                order=[names[host] for host in one.order],
                predicted_s=one.predicted_s,
                predicted_low_s=None if one.predicted_between_s is None else one.predicted_between_s[0],
                predicted_high_s=None if one.predicted_between_s is None else one.predicted_between_s[1],
                kind=one.kind,
                algorithm=one.algorithm,
                percentile=one.percentile,
            )
            for one in every
        ],
        repetitions=_repetitions(outcome),
        sent_bytes=outcome.sent_bytes,
        proved=outcome.proved,
        comparison=Comparison(
            against=case.against.name,
            ratio=1.0 if trivial else None if ratio is None else ratio.value,
            low=None if ratio is None else ratio.low,
            high=None if ratio is None else ratio.high,
            pairs=0 if ratio is None else ratio.pairs,
            predicted_ratio=None if outcome.contenders is None else outcome.contenders.predicted_ratio,
            verdict="same" if trivial else outcome_of(ratio, options.comparison.precision),
        ),
        correlation=_correlation(case, outcome),
        warnings=_warnings(case, outcome, options),
        duration_s=outcome.duration_s,
    )


def _repetitions(outcome: VerifyOutcome) -> list[VerifiedRepetition]:
    compared = [
        VerifiedRepetition(
            order=one.order, seconds=one.seconds, part="warm_up" if one.warm_up else "comparison"
        )
        for one in outcome.record.comparison
    ]
    return compared + [
        VerifiedRepetition(order=one.order, seconds=one.seconds, part="orders")
        for one in outcome.record.survey
    ]


def _correlation(case: Case | ScheduleCase, outcome: VerifyOutcome) -> RankCorrelation | None:
    if not case.orders or outcome.contenders is None:
        return None
    times: dict[int, list[float]] = {}
    for one in outcome.record.survey:
        times.setdefault(one.order, []).append(one.seconds)
    every = outcome.contenders.all
    predicted = [every[number].predicted_s or 0.0 for number in times]
    found = correlate(predicted, [statistics.median(own) for own in times.values()])
    return RankCorrelation(
        tau_b=found.tau_b, ceiling=found.ceiling, spearman=found.spearman, orders=found.orders
    )


def _cut_short(outcome: VerifyOutcome, options: VerifyOptions) -> str | None:
    """Which time would have been needed where it was up before each of the further orders had run once."""
    if outcome.contenders is None or not outcome.hosts or outcome.stopped or outcome.interrupted:
        return None
    chosen, ran = len(outcome.contenders.surveyed), len({one.order for one in outcome.record.survey})
    if ran >= chosen:
        return None
    needed_s = math.ceil(options.comparison.time_s * chosen / max(ran, 1))
    return (
        f"{ran} of {chosen} further orders were run before the time was up: give --time {needed_s}s or more"
    )


def _warnings(case: Case | ScheduleCase, outcome: VerifyOutcome, options: VerifyOptions) -> list[str]:
    found = []
    size_bytes = outcome.size_bytes or options.size_bytes
    priced = case.priced_bytes
    if priced is not None and priced != size_bytes:
        found.append(
            f"buffers of {size_bytes} bytes were run, and predictions are of the plan's {priced} bytes"
        )
    if case.plan.left_out:
        found.append(f"left out by the plan, for they had no reading: {listed(case.plan.left_out, 8)}")
    if outcome.contenders is not None and outcome.hosts and case.orders:
        chosen, ran = len(outcome.contenders.surveyed), len({one.order for one in outcome.record.survey})
        why = "there are no more" if chosen else "all orders cost the same by the map"
        if ran < chosen:
            why = "it ended early" if outcome.stopped or outcome.interrupted else "the time was up (--time)"
        if ran < case.orders:
            found.append(f"{ran} of {case.orders} orders were run: {why}")
    return found + _few_runs(outcome, options)


def _few_runs(outcome: VerifyOutcome, options: VerifyOptions) -> list[str]:
    """That runs got slower than those by which the buffer was chosen, and the time was up before six of each."""
    ratio, wanted = outcome.record.ratio(), options.comparison
    if not options.fits_time or ratio is None or outcome.stopped or outcome.interrupted:
        return []
    if ratio.pairs >= LEAST_RUNS or (ratio.pairs >= LEAST_PAIRS and ratio.width <= wanted.precision):
        return []
    needed_s = math.ceil(wanted.time_s * LEAST_RUNS / ratio.pairs)
    return [
        f"{count(ratio.pairs, 'run')} of each order, not {LEAST_RUNS}: they took longer than those by which the "
        f"size was chosen: give --time {needed_s}s or more, or a smaller --size"
    ]
