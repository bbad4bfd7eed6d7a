"""plan -> verify: a schedule against other plans and algorithms, run on the hosts themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import canonical_sha256, check_same_hosts
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, plain_host
from netprobe.core.system.interrupts import signals_held
from netprobe.core.text import meant
from netprobe.core.units import count, seconds_text
from netprobe.pipeline import files
from netprobe.pipeline.places import find_document
from netprobe.pipeline.planning.predicting import check_own_map
from netprobe.pipeline.verifying.library_compared import add_library
from netprobe.pipeline.verifying.verify_case import Baseline, ScheduleCase
from netprobe.pipeline.verifying.verify_document import build_verify
from netprobe.pipeline.verifying.verify_order import LIBRARY_START_S, NothingVerifiedError
from netprobe.plan import load_plan, proved_schedule
from netprobe.plan.auto.known import network_by
from netprobe.plan.schedule.builders import ALGORITHMS, ON_THE_WIRE, build
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate import Job
from netprobe.plan.simulate.simulate import interval_s
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.events import OnEvent, ScanWarning, ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.verify.libraries.library import Library, check_trial
from netprobe.verify.run import LEAST_HOSTS, Contender, Contenders, VerifyOptions, VerifyOutcome, run_verify

BASELINES = ("chunked-ring", "halving-doubling")
"""In the original order: the first is compared with, the others run in turn with the plan for a table."""


@dataclass(frozen=True, kw_only=True)
class Opponent:
    """What a schedule is compared with: an algorithm, or a plan, in its order of hosts (names)."""

    name: str
    kind: str
    algorithm: str
    schedule: Schedule
    order: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What predicts times: the capacities, and the plan's own map for the latencies."""

    capacity: Capacity | None = None
    map_: Map | None = None


@dataclass(frozen=True, kw_only=True)
class Against:
    """An algorithm or another plan's file (None: `BASELINES`), and a library whose own all-reduce runs after them."""

    name: str | Path | None = None
    library: Library | None = None


def verify_schedule(
    plan: SchedulePlan,
    against: Against | str | Path | None = None,
    *,
    launcher: Launcher,
    measured: Measured | None = None,
    path: Path | None = None,
    options: ScanOptions | None = None,
    verify: VerifyOptions | None = None,
    on_event: OnEvent = ignore,
) -> Verify:
    """Run a schedule in turn with what it is compared with, and write the document to ``path``.

    ``against`` is an algorithm of ``builders`` in the original order (default: the chunked ring, and halving-doubling
    runs in turn too), or the file of another plan of the same hosts; an ``Against`` may name a library too, whose own
    all-reduce runs in the original order after the agents. All hosts of the plan have to be up.
    With the capacities of ``measured`` the simulator predicts the time of each, with the latencies of its map.

    Raises InputError for what does not belong together, NothingVerifiedError when no pair of repetitions was made, and
    InterruptedScanError after Ctrl-C. What was measured is written in each case.
    """
    options, measured = options or ScanOptions(), measured or Measured()
    verify = replace(verify or VerifyOptions(), require_all=True)
    schedule, _, _ = proved_schedule(plan)
    chosen = against if isinstance(against, Against) else Against(name=against)
    opponents = _opponents(plan, chosen.name, verify)
    hosts = [plain_host(host) for host in plan.hosts if host.name in set(plan.order)]
    names = [host.name for host in hosts]
    if chosen.library is not None:
        if plan.contract.collective != "all_reduce":
            raise InputError(f"--with runs all-reduces, and the plan is a {plan.contract.collective}")
        check_trial(range(len(hosts)), len(hosts), verify.size_bytes)

    def arranged(size_bytes: int) -> Contenders:
        times = _times(plan, schedule, opponents, measured, size_bytes)
        return _contenders(plan, schedule, opponents, names, times)

    contenders = arranged(verify.size_bytes)
    case = ScheduleCase(
        plan=plan,
        against=Baseline(name=opponents[0].name),
        algorithm=plan.algorithm,
        size_bytes=verify.size_bytes,
        has_latency=measured.map_ is not None,
    )

    def document(outcome: VerifyOutcome) -> Verify:
        sized = replace(case, size_bytes=outcome.size_bytes or verify.size_bytes)
        return build_verify(sized, [measured.map_, measured.capacity], outcome, verify, plan.algorithm)

    if len(hosts) < LEAST_HOSTS:
        why = f"{count(len(hosts), 'host')}: {LEAST_HOSTS} are needed to compare schedules"
        raise NothingVerifiedError(document(VerifyOutcome(stopped=why)))
    again = [f"{one.name} (for the table; --against NAME leaves it out)" for one in opponents[1:]]
    again += [] if chosen.library is None else [f"{chosen.library.name} (--with)"]
    if again:
        time = seconds_text(verify.comparison.time_s)
        on_event(ScanWarning(text=f"runs for {time} at most, and for as long again each: {'; '.join(again)}"))
    with signals_held() as late:
        outcome = run_verify(
            hosts,
            BASELINES[0],
            lambda _, size: contenders if size == verify.size_bytes else arranged(size),
            launcher,
            options,
            verify,
            on_event=on_event,
        )
        if chosen.library is not None and not late:
            add_library(
                outcome, hosts, chosen.library, verify,
                start_timeout_s=max(options.start_timeout_s, LIBRARY_START_S), on_event=on_event,
            )  # fmt: skip
        result = document(outcome)
        saved = files.save_measured(result, path) if path is not None else None
    if outcome.interrupted or late:
        raise files.interrupted(count(len(result.repetitions), "run"), result.status, saved)
    if result.status == "failed":
        raise NothingVerifiedError(result)
    return result


def _opponents(plan: SchedulePlan, against: str | Path | None, verify: VerifyOptions) -> list[Opponent]:
    """What it is compared with, the first of them with an interval. Raises InputError."""
    if plan.contract.collective != "all_reduce" and against is None:
        raise InputError(
            f"the plan is a {plan.contract.collective}: name a plan of the same collective (--against)"
        )
    original = tuple(host.name for host in plan.hosts if host.name in set(plan.order))
    names = list(BASELINES) if against is None else [str(against)]
    if against is not None and str(against) not in ALGORITHMS:
        return [_other_plan(plan, Path(against), verify)]
    if against is not None and Path(against).exists():
        raise InputError(f"--against {against}: is an algorithm and a file here: the file is ./{against}")
    made = []
    for name in names:
        algorithm = ON_THE_WIRE.get(name, name)
        if ALGORITHMS[algorithm].scatters:
            raise InputError(f"--against {name}: it is a reduce-scatter, and the plan is an all-reduce")
        schedule = build(algorithm, len(original), verify.channels)
        made.append(
            Opponent(
                name=f"{algorithm}, given",
                kind="order",
                algorithm=algorithm,
                schedule=schedule,
                order=original,
            )
        )
    return made


def _other_plan(plan: SchedulePlan, path: Path, verify: VerifyOptions) -> Opponent:
    if not path.is_file():
        raise InputError(
            f"--against {str(path)[:200]!r} is neither a plan's file nor an algorithm: {', '.join(ALGORITHMS)}"
            f"{meant(str(path), ALGORITHMS)}"
        )
    other: Plan = load_plan(find_document(path, "plan"))
    if canonical_sha256(other) == canonical_sha256(plan):
        raise InputError(f"--against {path}: this is the same plan: name another one")
    mine = [plain_host(host) for host in plan.hosts if host.name in set(plan.order)]
    if isinstance(other, SchedulePlan):
        schedule, algorithm = proved_schedule(other)[0], other.algorithm
    elif isinstance(other, OrderPlan):
        algorithm = ON_THE_WIRE.get(other.algorithm, other.algorithm)
        schedule = build(algorithm, len(other.order), verify.channels)
    else:
        raise InputError(f"{path}: is a plan of kind {other.kind}, which cannot be run")
    check_same_hosts(mine, _ranked(other, other.order), what="the plan", source=path.name)
    if schedule.contract.collective != plan.contract.collective:
        raise InputError(
            f"{path}: is a {schedule.contract.collective}, and the plan is a {plan.contract.collective}"
        )
    return Opponent(
        name=path.name, kind=other.kind, algorithm=algorithm, schedule=schedule, order=tuple(other.order)
    )


def _ranked(plan: Plan, order: Sequence[str]) -> list[Host]:
    return [plain_host(host) for host in plan.hosts if host.name in set(order)]


Times = tuple[float, float, "float | None"]
"""Seconds by the capacities as read, the least and the most by both ends of what was measured."""


def _times(
    plan: SchedulePlan,
    schedule: Schedule,
    opponents: Sequence[Opponent],
    measured: Measured,
    size_bytes: int,
) -> list[Times | None]:
    """What the simulator says of the plan and of each opponent.

    Raises InputError for a map that the plan was not made from, and for capacities of other hosts.
    """
    capacity, map_ = measured.capacity, measured.map_
    if map_ is not None:
        check_own_map(plan, map_)
    if capacity is None:
        return [None] * (1 + len(opponents))
    check_same_hosts(
        [plain_host(host) for host in plan.hosts],
        [plain_host(host) for host in capacity.hosts],
        what="the plan",
        source="capacity",
    )
    network = network_by(capacity, plan.order, map_)
    runs = [(schedule, plan.order), *((one.schedule, list(one.order)) for one in opponents)]
    found: list[Times | None] = []
    for what, order in runs:
        time_s, low, high = interval_s(network, Job(schedule=what, order=order, size_bytes=size_bytes))
        found.append((time_s, time_s, time_s) if low is None else (time_s, low, high))
    return found


def _contenders(
    plan: SchedulePlan,
    schedule: Schedule,
    opponents: Sequence[Opponent],
    names: Sequence[str],
    times: Sequence[Times | None],
) -> Contenders:
    index = {name: i for i, name in enumerate(names)}

    def contender(name: str, what: Opponent, time: Times | None) -> Contender:
        return Contender(
            name=name,
            order=tuple(index[host] for host in what.order),
            schedule=what.schedule,
            predicted_s=None if time is None else time[0],
            predicted_between_s=None if time is None else time[1:],
            kind=what.kind,
            algorithm=what.algorithm,
        )

    mine = Opponent(
        name="proposed", kind="schedule", algorithm=plan.algorithm, schedule=schedule, order=tuple(plan.order)
    )
    rest = [contender(one.name, one, time) for one, time in zip(opponents, times[1:])]
    own, base = times[0], times[1]
    ratio = base[0] / own[0] if own is not None and base is not None and own[0] else None
    return Contenders(
        proposed=contender("proposed", mine, times[0]),
        baselines=(rest[0],),
        surveyed=tuple(rest[1:]),
        predicted_ratio=ratio,
    )
