"""What the simulator says of a candidate, and a lower bound of its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.documents.schedule_plan import Prediction, TriedCandidate
from netprobe.plan.auto.candidates import Candidate
from netprobe.plan.auto.known import KnownNetwork
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate.fair import Floats
from netprobe.plan.simulate.simulate import (
    Job,
    Shares,
    Simulation,
    has_end,
    joined,
    least_s,
    loads,
    simulate,
    uneven_shares,
)

BOUND = 0.97
"""The simulator is within so much of every event, and so a bound counts only so much."""
ROUGH_MERGE, ROUGH_CHUNK = 5e-3, 0.5
"""A rough run takes events within this share of the bound for one, and within this share of the time of a chunk."""
FEW_TRANSFERS, MANY_CHUNKS = 512, 250
"""A rough run of so few transfers, or of so many chunks, would cost what a full one does."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Seconds: by the capacities as read, at best, and at worst (None: nothing bounds it)."""

    time_s: float
    low_s: float
    high_s: float | None
    ends: tuple[float, float] | None = None
    """At the upper and at the lower ends of all capacities, where they have any; the median of uneven shares."""

    def is_narrow(self, share: float) -> bool:
        """Whether its ends are within so much of each other."""
        return self.high_s is not None and self.high_s <= self.low_s * (1 + share)

    def surely_below(self, other: Interval, share: float = 0.0) -> bool:
        """Whether the two do not overlap, this one being the lower, by such a share of itself at least."""
        return self.high_s is not None and self.high_s * (1 + share) < other.low_s


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A candidate and what the simulator says of it.

    Without a prediction, ``time_s`` by the capacities as read; without that ``at_least_s``, a bound, which was enough.
    """

    candidate: Candidate
    prediction: Prediction | None
    time_s: float | None = None
    at_least_s: float | None = None


def rows_of(tried: Sequence[Tried], size_bytes: int) -> list[TriedCandidate]:
    """As a plan keeps them."""
    return [
        TriedCandidate(
            name=one.candidate.name,
            algorithm=one.candidate.algorithm,
            pieces=one.candidate.pieces(size_bytes),
            channels=one.candidate.channels,
            prediction=one.prediction,
            time_s=None if one.prediction is not None else one.time_s,
            at_least_s=one.at_least_s,
        )
        for one in tried
    ]


def time_of(known: KnownNetwork, candidate: Candidate, size_bytes: int) -> float:
    """Seconds that a buffer of ``size_bytes`` takes."""
    return run_of(known, candidate, size_bytes).time_s * shares_of(known, candidate, size_bytes).median


def shares_of(known: KnownNetwork, candidate: Candidate, size_bytes: int) -> Shares:
    """What it costs a candidate that connections share unevenly."""
    if not known.network.unevenness:
        return Shares()
    return uneven_shares(known.network, _job(candidate, size_bytes))


def has_rough(candidate: Candidate, size_bytes: int) -> bool:
    """Whether a rough run costs less than a full one."""
    return candidate.transfers(size_bytes) > FEW_TRANSFERS and candidate.pieces(size_bytes) < MANY_CHUNKS


def rough_s(
    known: KnownNetwork, candidate: Candidate, size_bytes: int, at_least_s: float, ends: Floats | None = None
) -> float:
    """Seconds, a few percent off, where many events are taken for one; ``ends`` are other capacities.

    ``at_least_s`` is a lower bound of the time.
    """
    network = known.network if ends is None else known.network.with_capacity(ends)
    if not has_rough(candidate, size_bytes):
        return simulate(network, [_job(candidate, size_bytes)]).time_s
    merge_s = at_least_s * min(ROUGH_MERGE, ROUGH_CHUNK / candidate.pieces(size_bytes))
    return simulate(network, [_job(candidate, size_bytes)], merge_s=merge_s).time_s


def interval_of(
    known: KnownNetwork,
    candidate: Candidate,
    size_bytes: int,
    time_s: float | None = None,
    at_least_s: float | None = None,
    rough: float | None = None,
    shares: Shares | None = None,
) -> Interval:
    """The same with what the capacities leave unknown. Above `PACKET_BYTES` latencies alone give no upper bound.

    ``time_s`` is that of `run_of`, where it is known; ``at_least_s`` a lower bound, and ``rough`` the seconds
    of `rough_s`, where they are. The ends are as far off it as those of rough runs are off a rough one: their errors
    have the same sign. All but the low one, which is of even shares, are times what ``shares`` says (`shares_of`).
    """
    network = known.network
    shares = shares_of(known, candidate, size_bytes) if shares is None else shares
    middle = run_of(known, candidate, size_bytes).time_s if time_s is None else time_s
    if not known.decides(size_bytes):
        return Interval(time_s=middle, low_s=middle, high_s=None)
    if network.certain:
        time_s = middle * shares.median
        ends = (time_s, time_s) if network.unevenness else None
        return Interval(time_s=time_s, low_s=middle, high_s=middle * shares.most, ends=ends)
    least = middle if at_least_s is None else at_least_s
    if rough is None:
        full = not has_rough(candidate, size_bytes)
        rough = middle if full else rough_s(known, candidate, size_bytes, least)
    fast, slow = (
        _scaled(rough_s(known, candidate, size_bytes, least, end), middle, rough)
        for end in (network.high, network.slowest().capacity)
    )
    bounded = has_end(network, _job(candidate, size_bytes))
    return Interval(
        time_s=middle * shares.median,
        low_s=min(fast, slow, middle),
        high_s=max(fast, slow, middle) * shares.most if bounded else None,
        ends=(fast * shares.median, slow * shares.median),
    )


def _scaled(at_end: float, middle: float, rough: float) -> float:
    """Seconds at an end, as far off the middle as rough runs of both are apart."""
    return middle * at_end / rough if rough else at_end


@dataclass(frozen=True, kw_only=True)
class Read:
    """A candidate, its interval and a lower bound of its time."""

    candidate: Candidate
    interval: Interval
    at_least_s: float


def surely_faster(known: KnownNetwork, one: Read, other: Read, size_bytes: int, share: float = 0.0) -> bool:
    """Whether ``one`` takes less by ``share`` on the same network, whatever its capacities are within their intervals.

    Both run on one network, so that an error of a capacity that both need is an error of both times: ``one`` is the
    faster one at both ends of all capacities, and on the network that suits it least, where what it loads more than
    ``other`` is at the lower end and all else at the upper one. Capacities without an upper end have no such network,
    and then the intervals of the two times must not overlap.
    """
    if one.interval.surely_below(other.interval, share):
        return True
    net, ours, theirs = known.network, one.interval.ends, other.interval.ends
    if ours is None or theirs is None or one.interval.high_s is None:
        return False
    if any(a * (1 + share) >= b for a, b in zip(ours, theirs)):
        return False
    own, its = (loads(net, _job(each.candidate, size_bytes)) for each in (one, other))
    if np.isinf(net.high[(own > 0) | (its > 0)]).any():
        return False
    worst = np.where(own > its, net.slowest().capacity, net.high)
    took = [
        _scaled(
            rough_s(known, each.candidate, size_bytes, each.at_least_s, worst),
            each.interval.time_s,
            rough_s(known, each.candidate, size_bytes, each.at_least_s),
        )
        for each in (one, other)
    ]
    return took[0] * (1 + share) < took[1]


def bound_s(known: KnownNetwork, candidate: Candidate, size_bytes: int, latency_s: float) -> float:
    """A lower bound of what a buffer takes: its latencies alone (`latency_of`), or the fullest resource alone."""
    return BOUND * max(latency_s, least_s(known.network, _job(candidate, size_bytes)))


def latency_of(known: KnownNetwork, candidate: Candidate, size_bytes: int) -> float:
    """Seconds of an empty buffer: nothing waits for bytes."""
    schedule = joined(candidate.schedule(size_bytes), 1)
    return simulate(known.network, [Job(schedule=schedule, order=candidate.order, size_bytes=0)]).time_s


def run_of(known: KnownNetwork, candidate: Candidate, size_bytes: int) -> Simulation:
    """A run by the capacities as read."""
    return simulate(known.network, [_job(candidate, size_bytes)])


def prediction_of(
    known: KnownNetwork,
    candidate: Candidate,
    size_bytes: int,
    run: Simulation | None = None,
    interval: Interval | None = None,
) -> Prediction:
    """The figures of a candidate, as a document has them; its own `run_of` and `interval_of` where there are some."""
    job = _job(candidate, size_bytes)
    run = simulate(known.network, [job]) if run is None else run
    interval = interval_of(known, candidate, size_bytes, run.time_s) if interval is None else interval
    exact = interval.high_s is not None and interval.low_s == interval.high_s
    busiest = run.busiest
    return Prediction(
        size_bytes=size_bytes,
        time_s=interval.time_s,
        low_s=None if exact else interval.low_s,
        high_s=None if exact else interval.high_s,
        basis=known.basis,
        busiest=None if busiest is None or not busiest[1] else busiest[0],
        utilisation=None if busiest is None or not busiest[1] else busiest[1],
        bytes_on_wire=job.schedule.sent_bytes(size_bytes),
        bytes_across_groups=bytes_across(known, job.schedule, candidate.order, size_bytes),
        steps=job.schedule.steps,
    )


def bytes_across(
    known: KnownNetwork, schedule: Schedule, order: tuple[str, ...], size_bytes: int
) -> int | None:
    """Payload between hosts of different groups of the map; None where there are no two groups."""
    ids = known.network.group_of
    if len(set(ids)) < 2:
        return None
    number = {name: i for i, name in enumerate(sorted(set(ids)))}
    own = np.array([number[ids[known.network.index(name)]] for name in order])
    every, at = schedule.expanded(), schedule.boundaries(size_bytes)
    crosses = own[every.src] != own[every.dst]
    return int((at[every.last] - at[every.first])[crosses].sum())


def _job(candidate: Candidate, size_bytes: int) -> Job:
    return Job(schedule=candidate.schedule(size_bytes), order=candidate.order, size_bytes=size_bytes)
