"""Schedules in, times out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError
from netprobe.plan.schedule.program import CollectiveProgram, compile_schedule
from netprobe.plan.schedule.schedule import Block, Schedule
from netprobe.plan.simulate.compiled_run import COMPILED_FROM, compiled_engine, run_compiled
from netprobe.plan.simulate.engine import NOTHING, Engine, Trace, Work
from netprobe.plan.simulate.fair import Floats
from netprobe.plan.simulate.network import Network
from netprobe.plan.simulate.unlimited import nothing_limits, run_unlimited

EXACT_TRANSFERS = 1024
"""Up to so many every event is simulated; above, equal blocks are joined and near ends are one event."""
TRANSFERS_KEPT = 30_000
"""About so many are left when blocks are joined; one block of each template and channel stays in any case."""
MERGE_SHARE, MANY_TRANSFERS = 1e-3, 1_000_000
"""Ends nearer than this share of the least time are one event, where not every one is simulated; more for so many
transfers."""


DRAWS = 5
"""Of uneven shares, for their median: odd."""
COARSE_TRANSFERS, COARSE_MERGE = 600, 5e-3
"""How coarse a schedule is simulated for what uneven shares cost: so many transfers, ends within this share of the
least time one event."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A collective to run: ``order[rank]`` is a host (name), ``size_bytes`` the buffer on each rank."""

    schedule: Schedule
    order: Sequence[str]
    size_bytes: int
    release_s: float = 0.0
    lockstep: bool = False
    """Whether a step begins only when the one before it has ended everywhere."""


@dataclass(frozen=True)
class Background:
    """A flow that goes on for ever, from host to host (names), of at most ``bytes_per_s``."""

    src: str
    dst: str
    bytes_per_s: float = np.inf


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """What came out. ``time_s`` is from the first release to the last end.

    ``critical_path`` are actions in words, first to last, of the job that ended last; empty where events were merged.
    ``utilisation`` (R,) is the share of the time in which each resource would be busy at its full rate.
    """

    time_s: float
    finish_s: tuple[float, ...]
    resources: tuple[str, ...]
    utilisation: Floats
    critical_path: tuple[str, ...]
    exact: bool
    timeline: tuple[tuple[float, float, Floats], ...] = ()
    """(from, to, share of its capacity that each resource carries), where it was asked for."""

    @property
    def busiest(self) -> tuple[str, float] | None:
        """The resource with the highest utilisation, and that."""
        if not len(self.utilisation) or not np.isfinite(self.utilisation).any():
            return None
        at = int(np.nanargmax(self.utilisation))
        return self.resources[at], float(self.utilisation[at])


def simulate(
    network: Network,
    jobs: Sequence[Job],
    background: Sequence[Background] = (),
    *,
    exact: bool | None = None,
    timeline: bool = False,
    merge_s: float | None = None,
    compiled: bool | None = None,
    draw: int | None = None,
) -> Simulation:
    """Run ``jobs`` at once on ``network``. Raises InputError for hosts that it does not have, and for a negative size.

    ``exact`` (default: up to EXACT_TRANSFERS transfers) simulates every event; otherwise blocks of one template are
    joined and events nearer than ``merge_s`` (default: a thousandth of the least possible time) are one. ``compiled``
    (default: where numba is installed and there is enough to do) makes no difference to what comes out.
    ``draw``, a seed, lets connections share as unevenly as the network says, and not evenly.
    """
    if not jobs:
        raise InputError("nothing to simulate: no job")
    total = sum(len(job.schedule.expanded()) for job in jobs)
    exact = total <= EXACT_TRANSFERS and merge_s is None if exact is None else exact
    works = [_work(network, job, exact) for job in jobs]
    if draw is not None and network.unevenness:
        works = [_unevenly(work, network.unevenness, draw, number) for number, work in enumerate(works)]
    flows = [(network.index(f.src), network.index(f.dst), f.bytes_per_s) for f in background]
    if exact:
        merge_s = 0.0
    elif merge_s is None:
        merge_s = MERGE_SHARE * (1 + total / MANY_TRANSFERS) * max(least_s(network, job) for job in jobs)
    kernel, trace = None, None
    plain = not (flows or timeline or any(work.lockstep for work in works))
    if not exact and plain and nothing_limits(network, works):
        trace = run_unlimited(network, works)
    elif compiled is not False and len(works) == 1 and plain:
        kernel = compiled_engine(len(works[0].program) if compiled is None else COMPILED_FROM)
    if kernel is not None:
        trace = run_compiled(kernel, network, works[0], merge_s)
    if trace is None:
        trace = Engine(network, works, flows, merge_s=merge_s, timeline=timeline).run()
    begin = min(job.release_s for job in jobs)
    time_s = max(trace.finish_s) - begin
    with np.errstate(divide="ignore", invalid="ignore"):
        use = np.where(np.isinf(network.capacity), 0.0, trace.carried / (network.capacity * time_s))
    return Simulation(
        time_s=time_s,
        finish_s=tuple(trace.finish_s),
        resources=network.resources,
        utilisation=np.nan_to_num(use),
        critical_path=_critical_path(works, trace) if exact else (),
        exact=exact,
        timeline=tuple((a, b, through / network.capacity) for a, b, through in trace.steps),
    )


def interval_s(network: Network, job: Job) -> tuple[float, float | None, float | None]:
    """Seconds of a job: by the capacities as read, at their upper ends, at their lower ends.

    The upper end of a resource that is only known to carry at least so much is unlimited, so that the low time is
    what its true capacity can at best give. None twice where every capacity is certain, and sharing even; the high time
    alone is None where the job's bytes pass what has no lower end. The first is times the median of `uneven_shares`,
    the last times the most; the low time is that of even shares, since messages that are over long before a test of
    the capacity is may still share evenly.
    """
    even = simulate(network, [job]).time_s
    shares = uneven_shares(network, job)
    middle = even * shares.median
    if network.certain:
        return (middle, even, even * shares.most) if network.unevenness else (middle, None, None)
    ends = [simulate(one, [job]).time_s for one in (network.with_capacity(network.high), network.slowest())]
    low, high = min(*ends, even), max(*ends, even) * shares.most
    return middle, low, high if has_end(network, job) else None


def predicted_s(network: Network, job: Job) -> float:
    """Seconds of a job by the capacities as read, and with shares as uneven as the network's are."""
    return simulate(network, [job]).time_s * uneven_shares(network, job).median


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Times where connections share unevenly, over the time where they share evenly: of several draws."""

    median: float = 1.0
    most: float = 1.0


def uneven_shares(network: Network, job: Job) -> Shares:
    """What sharing as unevenly as the network's connections do costs a job: of DRAWS draws, 1 and more.

    A connection gets so many times its even share, in all of a run; the logarithm is normal, its standard deviation the
    network's ``unevenness``. Who gets less is late, those who wait for it leave what they have unused, and what they
    send later meets what the others send. Neighbouring blocks are joined, since only the ratio is wanted.
    """
    if not network.unevenness or not job.size_bytes:
        return Shares()
    coarse = replace(job, schedule=joined(job.schedule, COARSE_TRANSFERS))
    merge_s = COARSE_MERGE * least_s(network, coarse)
    even = simulate(network, [coarse], merge_s=merge_s).time_s
    if not even:
        return Shares()
    found = sorted(
        simulate(network, [coarse], merge_s=merge_s, draw=draw).time_s / even for draw in range(DRAWS)
    )
    return Shares(median=max(1.0, found[len(found) // 2]), most=max(1.0, found[-1]))


def _unevenly(work: Work, unevenness: float, draw: int, number: int) -> Work:
    """The same with a weight of its own for each connection."""
    program = work.program
    key = (
        program.rank_of() * program.ranks + np.maximum(program.peer, 0)
    ) * program.channels + program.channel
    found, place = np.unique(key, return_inverse=True)
    drawn = np.random.default_rng([draw, number]).normal(0.0, unevenness, len(found))
    return replace(work, weight=np.exp(drawn)[place.ravel()])


def least_s(network: Network, job: Job) -> float:
    """A lower bound: the fullest resource alone, of this schedule's own bytes."""
    return float((loads(network, job) / network.capacity).max(initial=0.0))


def has_end(network: Network, job: Job) -> bool:
    """Whether all that a job's bytes pass is known to carry something, so that they surely arrive."""
    return not ((loads(network, job) > 0) & network.endless).any()


def loads(network: Network, job: Job) -> Floats:
    """(R,) bytes that pass each resource."""
    every = job.schedule.expanded()
    at = job.schedule.boundaries(job.size_bytes)
    host = np.array([network.index(name) for name in job.order], dtype=np.intp)
    moved = every.src != every.dst
    size = (at[every.last] - at[every.first])[moved].astype(np.float64)
    passed = network.passed[host[every.src[moved]], host[every.dst[moved]]]
    count = len(network.resources)
    load = np.bincount(
        np.where(passed < 0, count, passed).ravel(), np.repeat(size, passed.shape[1]), minlength=count + 1
    )
    return np.asarray(load[:-1])


def joined(schedule: Schedule, transfers: int = TRANSFERS_KEPT) -> Schedule:
    """The schedule with about so many transfers at most: neighbouring blocks of a template and channel in one."""
    same: dict[tuple[int, int], list[Block]] = {}
    for block in schedule.blocks:
        same.setdefault((block.template, block.channel), []).append(block)
    total = len(schedule.expanded())
    most = max(1, max(map(len, same.values()), default=1) * transfers // max(total, 1))
    if total <= transfers or all(len(blocks) <= most for blocks in same.values()):
        return schedule
    made: list[Block] = []
    for blocks in same.values():
        count = min(most, len(blocks))
        ends = [len(blocks) * i // count for i in range(count + 1)]
        for number, (first, last) in enumerate(itertools.pairwise(ends)):
            run = blocks[first:last]
            weights = tuple(map(sum, zip(*(block.weights for block in run))))
            made.append(replace(run[0], weights=weights, start=number))
    made.sort(key=lambda block: block.start)
    chunks = sum(len(block.weights) for block in made)
    contract = schedule.contract
    if len(contract.parts) == 1:
        contract = replace(contract, chunks=chunks, parts=(replace(contract.parts[0], first=0, last=chunks),))
    else:
        return schedule
    return Schedule(
        name=schedule.name, contract=contract, templates=schedule.templates, blocks=tuple(made),
        channels=schedule.channels, phases=schedule.phases,
    )  # fmt: skip


def _work(network: Network, job: Job, exact: bool) -> Work:
    if job.size_bytes < 0 or not np.isfinite(job.release_s) or job.release_s < 0:
        raise InputError(
            f"a buffer of {job.size_bytes} bytes, released after {job.release_s:g} s: 0 or more is needed"
        )
    if len(job.order) != job.schedule.ranks:
        raise InputError(f"an order of {len(job.order)} hosts for {job.schedule.ranks} ranks")
    schedule = job.schedule if exact else joined(job.schedule)
    host: NDArray[np.intp] = np.array([network.index(name) for name in job.order], dtype=np.intp)
    return Work(
        program=compile_schedule(schedule),
        host=host,
        boundaries=schedule.boundaries(job.size_bytes),
        release_s=job.release_s,
        lockstep=job.lockstep,
    )


def _critical_path(works: Sequence[Work], trace: Trace) -> tuple[str, ...]:
    """What the last end waited for, and that in turn."""
    number = int(np.argmax(trace.finish_s))
    program: CollectiveProgram = works[number].program
    ends = trace.end_s[number]
    if not len(ends):
        return ()
    at, path = int(np.argmax(ends)), []
    while at != NOTHING:
        path.append(f"{ends[at]:.6g} s: {program.text(at)}")
        at = int(trace.cause[number][at])
    return tuple(reversed(path))
