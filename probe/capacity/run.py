"""The capacity probe on a fleet: agents up, experiment after experiment, agents ended."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.probe.capacity.estimate import Reading
from netprobe.probe.capacity.experiments import Experiment, experiments
from netprobe.probe.fleet.fleet import Fleet
from netprobe.probe.fleet.stopping import run_stoppable
from netprobe.probe.flows.flows import Flow, FlowResult, close_flows, ramp_of, run_flows
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.events import OnEvent, RoundDone, ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import HostOutcome

SLICES = 10
MOST_AT_ONCE = 4096
MEASUREMENT = "capacity"


@dataclass(frozen=True, kw_only=True)
class CapacityOptions:
    """How capacities are measured. Raises InputError."""

    seconds: float = 1.0
    """Of each test; its first part (``ramp_of``) is slow start and does not count."""
    streams: int = 2
    """TCP connections per flow: clouds cap a single one below the host's rate."""
    repeats: int = 2
    """Tests of each group's uplink, in each direction."""
    at_once: int = 0
    """Cap of flows at once inside groups; 0 is no cap."""

    def __post_init__(self) -> None:
        faults = []
        if not 0.2 <= self.seconds <= 60:
            faults.append(f"{self.seconds} s a test: 0.2 to 60 are allowed")
        if not 1 <= self.streams <= 64:
            faults.append(f"{self.streams} streams: 1 to 64 are allowed")
        if not 1 <= self.repeats <= 20:
            faults.append(f"{self.repeats} repeats: 1 to 20 are allowed")
        if not 0 <= self.at_once <= MOST_AT_ONCE:
            faults.append(f"{self.at_once} flows at once: 0 (no cap) to {MOST_AT_ONCE} are allowed")
        if faults:
            raise InputError("capacity options: " + "; ".join(faults))


@dataclass(kw_only=True)
class CapacityOutcome:
    """What was measured; ``flows[i]`` are the results of ``readings[i]``."""

    hosts: list[HostOutcome] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    flows: list[list[FlowResult]] = field(default_factory=list)
    started_s: list[float] = field(default_factory=list)
    duration_s: float = 0.0
    interrupted: bool = False


def run_capacity(
    hosts: Sequence[Host],
    groups: Sequence[Sequence[int]],
    launcher: Launcher,
    options: ScanOptions,
    capacity: CapacityOptions,
    *,
    outer: Sequence[Sequence[int]] = (),
    on_event: OnEvent = ignore,
) -> CapacityOutcome:
    """Measure; ``groups`` are lists of indices into ``hosts``, ``outer`` of indices of groups. No agent is left,
    however it ends.

    SIGINT and SIGTERM end it early and cleanly: the outcome is ``interrupted`` then.
    """

    fleet = Fleet(hosts, launcher, options, on_event, time.monotonic)

    def plan() -> list[Experiment]:
        # Groups keep their places: one without a host that is up has no tests.
        alive = fleet.alive
        up = [[host for host in members if host in alive] for members in groups]
        return experiments(up, outer, repeats=capacity.repeats, at_once=capacity.at_once)

    return run_stoppable(lambda stop: _measure(fleet, plan, options, capacity, on_event, stop))


async def _measure(
    fleet: Fleet,
    planned: Callable[[], list[Experiment]],
    options: ScanOptions,
    capacity: CapacityOptions,
    on_event: OnEvent,
    stop: asyncio.Event,
) -> CapacityOutcome:
    outcome = CapacityOutcome()

    async def work() -> None:
        began = time.monotonic()
        plan = planned()
        for number, experiment in enumerate(plan):
            await _run(fleet, experiment, options, capacity, outcome, began)
            elapsed = time.monotonic() - began
            on_event(
                RoundDone(
                    measurement=MEASUREMENT, rounds_done=number + 1, rounds_total=len(plan),
                    links_done=number + 1, links_total=len(plan), elapsed_s=elapsed,
                    left_s=(len(plan) - number - 1) * elapsed / (number + 1),
                )
            )  # fmt: skip
        await close_flows([member for member in fleet.members if member.up])

    outcome.interrupted, outcome.duration_s = await fleet.run(work, stop)
    outcome.hosts = [member.outcome for member in fleet.members]
    return outcome


async def _run(
    fleet: Fleet,
    experiment: Experiment,
    options: ScanOptions,
    capacity: CapacityOptions,
    outcome: CapacityOutcome,
    began: float,
) -> None:
    flows = [
        Flow(src=fleet.members[src], dst=fleet.members[dst], streams=capacity.streams)
        for src, dst in experiment.flows
    ]
    started = time.monotonic() - began
    results = await run_flows(flows, capacity.seconds, ports=options.port_range)
    outcome.started_s.append(started)
    outcome.flows.append(results)
    outcome.readings.append(
        Reading(
            experiment=experiment,
            rates=tuple(_slices(result, capacity.seconds) for result in results),
            cpu_bound=tuple(result.cpu_bound for result in results),
        )
    )


def _slices(result: FlowResult, seconds: float) -> NDArray[np.float64] | None:
    """Bytes a second in equal parts of the window; None for a flow that failed."""
    if result.progress is None or result.reason is not None:
        return None
    edges = np.linspace(ramp_of(seconds), seconds, SLICES + 1)
    parts = [result.progress.between(a, b) for a, b in itertools.pairwise(edges.tolist())]
    rates: NDArray[np.float64] = np.array(parts) * SLICES / (edges[-1] - edges[0])
    return rates
