"""Orders on a fleet: agents up, the comparison, the survey, agents ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from netprobe.core.errors import InputError, NothingMeasuredError
from netprobe.core.hosts import Host
from netprobe.plan.schedule.builders import build, proved
from netprobe.plan.schedule.program import MAX_CHANNELS, CollectiveProgram
from netprobe.plan.schedule.schedule import Schedule
from netprobe.probe.agent.collective.program import MAX_BYTES
from netprobe.probe.fleet.fleet import Fleet, Member
from netprobe.probe.fleet.stopping import run_stoppable
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.methods.narrow import narrow_links
from netprobe.probe.records.events import OnEvent, Step, ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import HostOutcome
from netprobe.verify.comparison import (
    LEAST_LIMIT_S,
    PROPOSED,
    Clock,
    ComparisonOptions,
    Record,
    compare,
    survey,
)
from netprobe.verify.ratio import Ratio
from netprobe.verify.runner import Runner, StoppedRunError
from netprobe.verify.sizing import LEAST_RUNS, fitted_bytes
from netprobe.verify.wire import Run, WireRunner

DEFAULT_BYTES = 32_000_000
LEAST_HOSTS = 3
"""Of two hosts every order is the same ring, and there is nothing to find out."""


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """What is run, how often, and how well. Raises InputError."""

    size_bytes: int = DEFAULT_BYTES
    """Of the buffer on each rank."""
    fits_time: bool = False
    """Whether a smaller buffer is taken where so large a one leaves too few runs for the time (``sizing``)."""
    channels: int = 1
    """TCP connections per pair, each with its own share of the buffer."""
    comparison: ComparisonOptions = field(default_factory=ComparisonOptions)
    require_all: bool = False
    """Whether a host that is not up ends it."""
    seed: int = 0

    def __post_init__(self) -> None:
        faults = []
        if not 1 <= self.size_bytes <= MAX_BYTES:
            faults.append(f"{self.size_bytes} bytes: 1 to {MAX_BYTES} are allowed (--size)")
        if not 1 <= self.channels <= MAX_CHANNELS:
            faults.append(f"{self.channels} channels: 1 to {MAX_CHANNELS} are allowed")
        if faults:
            raise InputError("verify options: " + "; ".join(faults))


@dataclass(frozen=True, kw_only=True)
class Contender:
    """An order that is run: of indices into the hosts. ``schedule`` runs in it, else the algorithm of the run."""

    name: str
    order: tuple[int, ...]
    schedule: Schedule | None = None
    kind: str | None = None
    algorithm: str | None = None
    predicted_s: float | None = None
    predicted_between_s: tuple[float, float | None] | None = None
    """The least and the most (None: nothing bounds it), where capacities were measured with an interval."""
    percentile: float | None = None


@dataclass(frozen=True, kw_only=True)
class Contenders:
    """All orders: the proposed one, those it is compared with, and those that are surveyed."""

    proposed: Contender
    baselines: tuple[Contender, ...]
    surveyed: tuple[Contender, ...] = ()
    predicted_ratio: float | None = None

    @property
    def all(self) -> tuple[Contender, ...]:
        """In the sequence of their numbers."""
        return (self.proposed, *self.baselines, *self.surveyed)


Arrange = Callable[[Sequence[int], int], Contenders]
"""The orders of the hosts (indices) that are up, for a buffer of so many bytes, of which predictions are."""


@dataclass(kw_only=True)
class VerifyOutcome:
    """What was measured up to the end, normal or not."""

    hosts: list[HostOutcome] = field(default_factory=list)
    contenders: Contenders | None = None
    record: Record = field(default_factory=Record)
    sent_bytes: int | None = None
    size_bytes: int | None = None
    """Of the buffer that was run, where the time asked for a smaller one."""
    proved: int = 0
    duration_s: float = 0.0
    interrupted: bool = False
    library: str | None = None
    """What the library that ran it calls itself; None where the agents did."""
    stopped: str | None = None
    """Why it ended early."""


def run_verify(
    hosts: Sequence[Host],
    algorithm: str,
    arrange: Arrange,
    launcher: Launcher,
    options: ScanOptions,
    verify: VerifyOptions,
    *,
    on_event: OnEvent = ignore,
) -> VerifyOutcome:
    """Measure; ``algorithm`` (of ``builders``) runs where a contender has no schedule of its own.

    No agent is left, however it ends; SIGINT, SIGTERM and SIGHUP end it early and cleanly.

    Raises NothingMeasuredError with ``require_all`` when a host is not up.
    """
    return run_stoppable(
        lambda stop: _verify(hosts, algorithm, arrange, launcher, options, verify, on_event, stop)
    )


async def _verify(
    hosts: Sequence[Host],
    algorithm: str,
    arrange: Arrange,
    launcher: Launcher,
    options: ScanOptions,
    verify: VerifyOptions,
    on_event: OnEvent,
    stop: asyncio.Event,
) -> VerifyOutcome:
    fleet = Fleet(hosts, launcher, options, on_event, time.monotonic)
    outcome = VerifyOutcome()

    async def work() -> None:
        up = sorted(fleet.alive)
        if verify.require_all and len(up) < len(hosts):
            down = next(member.outcome for member in fleet.members if not member.up)
            raise NothingMeasuredError(
                f"{len(hosts) - len(up)} of {len(hosts)} hosts are not up, and all are required: "
                f"{down.host.name}: {down.reason}",
                nobody_up=not up,
            )
        if len(up) < LEAST_HOSTS:
            outcome.stopped = (
                f"{len(up)} of {len(hosts)} hosts are up: {LEAST_HOSTS} are needed to tell orders apart"
            )
            return
        # In a thread: a large program takes seconds, and agents without pings for so long end.
        outcome.contenders = contenders = await asyncio.to_thread(arrange, up, verify.size_bytes)
        runs = await asyncio.to_thread(_runs, contenders, algorithm, up, verify.channels)
        members = [fleet.members[host] for host in up]
        runner = WireRunner(members, runs, size_bytes=verify.size_bytes, ports=options.port_range)
        sized = verify
        try:
            on_event(Step(text="connecting", detail=f"{len(up)} hosts"))
            if verify.fits_time:
                on_event(Step(text="sizing the buffer", detail="a few small runs"))
                sized = await _sized(runner, verify, surveyed=len(contenders.surveyed))
            if sized.size_bytes != verify.size_bytes:
                outcome.size_bytes = sized.size_bytes
                outcome.contenders = contenders = await asyncio.to_thread(arrange, up, sized.size_bytes)
                runs = await asyncio.to_thread(_runs, contenders, algorithm, up, verify.channels)
            runner = WireRunner(members, runs, size_bytes=sized.size_bytes, ports=options.port_range)
            await runner.open()
            await run_comparison(runner, contenders, sized, outcome.record, on_event)
        except StoppedRunError as error:
            narrow = await narrow_links(_ring_links(fleet, contenders), options)
            outcome.stopped = str(error) if narrow is None else f"{error}; {narrow}"
        finally:
            outcome.proved = runner.repetitions
            outcome.sent_bytes = runs[PROPOSED].schedule.sent_bytes(sized.size_bytes)
        await runner.close()

    outcome.interrupted, outcome.duration_s = await fleet.run(work, stop)
    outcome.hosts = [member.outcome for member in fleet.members]
    return outcome


async def _sized(runner: WireRunner, verify: VerifyOptions, *, surveyed: int) -> VerifyOptions:
    """The options with a buffer that fits the time, and with the time that is left. Raises StoppedRunError."""
    began = time.monotonic()

    async def timed(size_bytes: int) -> float:
        # An agent loads a program for one size: small ones have connections of their own.
        small = WireRunner(
            runner.members, runner.runs[: PROPOSED + 2], size_bytes=size_bytes, ports=runner.ports
        )
        limit_s = max(LEAST_LIMIT_S, verify.comparison.time_s)
        sequence = (PROPOSED + 1, PROPOSED) if len(small.runs) > 1 else (PROPOSED,)
        try:
            await small.open()
            batch = await small.repeat([*sequence, *sequence], limit_s)
        finally:
            await small.close()
        if batch.reason is not None:
            raise StoppedRunError(batch.reason)
        # The first run of each finds connections that are new.
        counted = batch.seconds[len(sequence) :]
        return sum(counted) / len(counted)

    given = verify.comparison
    found = await fitted_bytes(verify.size_bytes, timed, surveyed=surveyed, time_s=given.time_s)
    left_s = max(1.0, given.time_s - (time.monotonic() - began))
    return replace(
        verify, size_bytes=found, comparison=replace(given, time_s=left_s, wanted_pairs=LEAST_RUNS)
    )


def _ring_links(fleet: Fleet, contenders: Contenders) -> list[tuple[Member, Member]]:
    """Each host with the next one in each order."""
    members = fleet.members
    return [
        (members[src], members[dst])
        for one in contenders.all
        for src, dst in zip(one.order, (*one.order[1:], one.order[0]), strict=True)
    ]


def _runs(contenders: Contenders, algorithm: str, up: Sequence[int], channels: int) -> list[Run]:
    """What each contender runs, proved, in its order of the members."""
    place = {host: at for at, host in enumerate(up)}
    common = build(algorithm, len(up), channels)
    programs: dict[int, CollectiveProgram] = {}
    runs = []
    for one in contenders.all:
        schedule = one.schedule or common
        if id(schedule) not in programs:
            programs[id(schedule)] = proved(schedule)[0]
        runs.append(Run(schedule, programs[id(schedule)], tuple(place[host] for host in one.order)))
    return runs


async def run_comparison(
    runner: Runner,
    contenders: Contenders,
    verify: VerifyOptions,
    record: Record,
    on_event: OnEvent,
    clock: Clock = time.monotonic,
) -> None:
    """The comparison with baselines, if any, and the survey. Raises StoppedRunError when ``runner`` cannot continue."""
    time_s = verify.comparison.time_s
    after_s = time_s if contenders.surveyed else 0.0

    def compared(done: int, elapsed_s: float, ratio: Ratio | None) -> None:
        so_far = "" if ratio is None else f", {ratio.value:.2f}x so far"
        left_s = max(0.0, time_s - elapsed_s) + after_s
        on_event(Step(text="comparing orders", detail=f"{done} runs{so_far}", left_s=left_s))

    def surveyed(done: int, elapsed_s: float, _ratio: Ratio | None) -> None:
        detail = f"{done} runs of {len(contenders.surveyed)} orders"
        on_event(Step(text="running orders", detail=detail, left_s=max(0.0, time_s - elapsed_s)))

    first = PROPOSED + 1
    baselines = range(first, first + len(contenders.baselines))
    if contenders.baselines:
        await compare(runner, baselines, verify.comparison, record, on_progress=compared, clock=clock)
    if contenders.surveyed:
        rest = range(baselines.stop, len(contenders.all))
        await survey(
            runner,
            rest,
            verify.comparison,
            record,
            seed=verify.seed,
            on_progress=surveyed,
            clock=clock,
        )
