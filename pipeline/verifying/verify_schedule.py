"""plan -> verify: a schedule against other plans and algorithms, run on the hosts themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import check_same_hosts
from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, plain_host
from netprobe.core.system.interrupts import signals_held
from netprobe.core.text import meant
from netprobe.core.units import count
from netprobe.pipeline import files
from netprobe.pipeline.verifying.verify_case import Baseline, ScheduleCase
from netprobe.pipeline.verifying.verify_document import build_verify
from netprobe.pipeline.verifying.verify_order import NothingVerifiedError
from netprobe.plan import load_plan, proved_schedule
from netprobe.plan.schedule.builders import ALGORITHMS, ON_THE_WIRE, build
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate import Job, simulate
from netprobe.plan.simulate.network import network_of
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.events import OnEvent, ignore
from netprobe.probe.records.options import ScanOptions
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


def verify_schedule(
    plan: SchedulePlan,
    against: str | Path | None = None,
    *,
    launcher: Launcher,
    capacity: Capacity | None = None,
    path: Path | None = None,
    options: ScanOptions | None = None,
    verify: VerifyOptions | None = None,
    on_event: OnEvent = ignore,
) -> Verify:
    """Run a schedule in turn with what it is compared with, and write the document to ``path``.

    ``against`` is an algorithm of ``builders`` in the original order (default: the chunked ring, and halving-doubling
    runs in turn too), or the file of another plan of the same hosts. All hosts of the plan have to be up. With
    ``capacity`` the simulator predicts the time of each.

    Raises InputError for what does not belong together, NothingVerifiedError when no pair of repetitions was made, and
    InterruptedScanError after Ctrl-C. What was measured is written in each case.
    """
    options = options or ScanOptions()
    verify = replace(verify or VerifyOptions(), require_all=True)
    schedule, _, _ = proved_schedule(plan)
    opponents = _opponents(plan, against, verify)
    hosts = [plain_host(host) for host in plan.hosts if host.name in set(plan.order)]
    names = [host.name for host in hosts]
    contenders = _contenders(
        plan, schedule, opponents, names, _times(plan, schedule, opponents, capacity, verify)
    )
    case = ScheduleCase(plan=plan, against=Baseline(name=opponents[0].name), algorithm=plan.algorithm)

    def document(outcome: VerifyOutcome) -> Verify:
        return build_verify(case, [capacity], outcome, verify, plan.algorithm)

    if len(hosts) < LEAST_HOSTS:
        why = f"{count(len(hosts), 'host')}: {LEAST_HOSTS} are needed to compare schedules"
        raise NothingVerifiedError(document(VerifyOutcome(stopped=why)))
    with signals_held() as late:
        outcome = run_verify(
            hosts, BASELINES[0], lambda _: contenders, launcher, options, verify, on_event=on_event
        )
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
    other: Plan = load_plan(path)
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


def _times(
    plan: SchedulePlan,
    schedule: Schedule,
    opponents: Sequence[Opponent],
    capacity: Capacity | None,
    verify: VerifyOptions,
) -> list[float | None]:
    """What the simulator says of the plan and of each opponent. Raises InputError for capacities of other hosts."""
    if capacity is None:
        return [None] * (1 + len(opponents))
    check_same_hosts(
        [plain_host(host) for host in plan.hosts],
        [plain_host(host) for host in capacity.hosts],
        what="the plan",
        source="capacity",
    )
    network = network_of(capacity, plan.order)
    runs = [(schedule, plan.order), *((one.schedule, list(one.order)) for one in opponents)]
    return [
        simulate(network, [Job(schedule=what, order=order, size_bytes=verify.size_bytes)]).time_s
        for what, order in runs
    ]


def _contenders(
    plan: SchedulePlan,
    schedule: Schedule,
    opponents: Sequence[Opponent],
    names: Sequence[str],
    times: Sequence[float | None],
) -> Contenders:
    index = {name: i for i, name in enumerate(names)}

    def contender(name: str, what: Opponent, time_s: float | None) -> Contender:
        return Contender(
            name=name,
            order=tuple(index[host] for host in what.order),
            schedule=what.schedule,
            predicted_s=time_s,
            kind=what.kind,
            algorithm=what.algorithm,
        )

    mine = Opponent(
        name="proposed", kind="schedule", algorithm=plan.algorithm, schedule=schedule, order=tuple(plan.order)
    )
    rest = [contender(one.name, one, time_s) for one, time_s in zip(opponents, times[1:])]
    ratio = times[1] / times[0] if times[0] and times[1] is not None else None
    return Contenders(
        proposed=contender("proposed", mine, times[0]),
        baselines=(rest[0],),
        surveyed=tuple(rest[1:]),
        predicted_ratio=ratio,
    )
