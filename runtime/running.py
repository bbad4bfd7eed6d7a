"""The ranks of a job before there is a process group: where they are, and the plan without hosts that do not run.

    plan = netprobe.runtime.running_plan("plan.json")
    dist.init_process_group("gloo", **netprobe.runtime.reorder(plan))

So a job that torchrun starts again without a host that it lost goes on by the same plan.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import InputError, WrongWorldError
from netprobe.plan import build_schedule_plan, load_plan
from netprobe.plan.schedule.builders import ALGORITHMS, ON_THE_WIRE, build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.document import Placement
from netprobe.runtime.collective import Collective, collective_of
from netprobe.runtime.launched import set_rank_variables
from netprobe.runtime.within import checked_timeout
from netprobe.runtime.world import MOST_SHOWN, check_reports, exchange, own_report, places

REPORT_S = 300.0
_PAUSE_S = 0.2
_STORES: list[Any] = []
"""Where rank 0's process serves the store, it goes with the last reference to it."""


@dataclass(frozen=True, kw_only=True)
class Met:
    """All ranks: the plan's collective, of each its host's place there (or None) and name, and a store of theirs."""

    collective: Collective
    found: list[tuple[int | None, str]]
    rank: int
    store: Any


def meet(plan: Plan | Path | str, what: str, timeout_s: float) -> Met:
    """Where all ranks of a job without a process group run. Raises InputError, and WrongWorldError for a silent rank.

    The store is a part of the job's that only these ranks, at this call, have.
    """
    import torch.distributed as dist

    if dist.is_initialized():
        raise InputError(f"the process group is made already: call {what} before init_process_group")
    checked_timeout(timeout_s)
    set_rank_variables()
    fault, digest = "", ""
    collective: Collective | None = None
    try:
        collective = collective_of(plan)
        digest = collective.digest
    except InputError as error:
        fault = str(error)
    store, rank, size = job_store(timeout_s)
    _STORES.append(store)
    own = own_report(plan=digest, fault=fault)
    reports, word = exchange(dist.PrefixStore(f"netprobe/{what}", store), rank, size, own, timeout_s)
    check_reports(reports)
    assert collective is not None
    found = places(collective.hosts, reports)
    return Met(
        collective=collective, found=found, rank=rank, store=dist.PrefixStore(f"netprobe/{word}", store)
    )


def job_store(timeout_s: float) -> tuple[Any, int, int]:
    """The store of the job that the environment tells of, this process's rank and how many there are.

    Rank 0's process serves it, or torchrun's agent. Unlike torch's own rendezvous rank 0 does not wait for the others
    in here, so that `exchange` can say which of them are missing. Raises InputError for variables that are no numbers,
    and WrongWorldError where there is no store in time.
    """
    import torch.distributed as dist

    env = os.environ
    try:
        rank, size, port = (int(env[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    except ValueError:
        raise InputError(
            "RANK, WORLD_SIZE and MASTER_PORT must be whole numbers: mend the environment"
        ) from None
    served_here = rank == 0 and env.get("TORCHELASTIC_USE_AGENT_STORE") != str(True)
    where = f"{env['MASTER_ADDR']}:{port}"
    try:
        if not served_here:
            _await_port(env["MASTER_ADDR"], port, timeout_s)
        store = dist.TCPStore(
            env["MASTER_ADDR"], port, size, served_here, timedelta(seconds=timeout_s),
            wait_for_workers=False, multi_tenant=True,
        )  # fmt: skip
    except (OSError, RuntimeError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise WrongWorldError(
            f"no store of the job at {where}, where rank 0 could serve it: MASTER_ADDR must be an address of its own "
            f"host, and MASTER_PORT a free port there ({said})"
            if served_here
            else f"no store of the job at {where} in {timeout_s:g} s: rank 0 was not started, has ended, or is out of "
            f"reach ({said})",
            ranks=[0],
        ) from None
    return store, rank, size


def _await_port(address: str, port: int, timeout_s: float) -> None:
    """Until something listens there. Raises OSError: torch would show where in its C++ it gave up."""
    deadline = monotonic() + timeout_s
    while True:
        try:
            socket.create_connection((address, port), max(deadline - monotonic(), 1.0)).close()
            return
        except OSError:
            if monotonic() > deadline:
                raise
        sleep(_PAUSE_S)


def one_each(found: Sequence[tuple[int | None, str]]) -> list[int]:
    """The places of ranks that are on hosts of their own. Raises WrongWorldError."""
    taken: set[int] = set()
    wrong = []
    for rank, (at, _) in enumerate(found):
        if at is None or at in taken:
            wrong.append(rank)
        else:
            taken.add(at)
    if wrong:
        shown = "; ".join(f"rank {rank} on {found[rank][1]}" for rank in wrong[:MOST_SHOWN])
        raise WrongWorldError(
            "the plan has one rank on each of its hosts, and these are on none of them, or on one that has a rank "
            f"already: {shown}; start one rank a host (torchrun --nproc-per-node 1), and where a host calls itself "
            "by another name than the plan does, set NETPROBE_HOST there",
            ranks=wrong,
        )
    return [at for at, _ in found if at is not None]


def running_plan(plan: Plan | Path | str, *, timeout_s: float = REPORT_S) -> Plan:
    """``plan`` without those of its hosts on which no rank of this job runs (`without`); as it is where all do.

    Call it on every rank, before the process group is made, as `reorder`, which takes what it returns. Raises as that
    does.
    """
    met = meet(plan, "running_plan", timeout_s)
    given = load_plan(Path(plan)) if isinstance(plan, str | Path) else plan
    running = set(one_each(met.found))
    return without(given, [host.name for at, host in enumerate(met.collective.hosts) if at not in running])


def without(plan: Plan, lost: Sequence[str]) -> Plan:
    """``plan`` without the hosts ``lost``: its algorithm, order and groups, shares of the buffer even.

    Nothing is measured or searched for; what a fleet gains by a new plan, ``netprobe plan`` says. Raises InputError
    for plans of other algorithms, and where fewer than two hosts are left.
    """
    assert isinstance(plan, OrderPlan | SchedulePlan)
    gone = set(lost)
    if not gone:
        return plan
    order = [name for name in plan.order if name not in gone]
    if len(order) < 2:
        raise InputError(
            f"of the plan's {len(plan.order)} hosts {len(order)} are left: two or more are needed"
        )
    at = {name: rank for rank, name in enumerate(order)}
    planned = plan.groups if isinstance(plan, SchedulePlan) else []
    named = [[name for name in group if name in at] for group in planned]
    groups = [[at[name] for name in group] for group in named if group]
    channels = plan.channels if isinstance(plan, SchedulePlan) else 1
    name = ON_THE_WIRE.get(plan.algorithm, plan.algorithm)
    if name == "2lha" and groups:
        made = two_level(groups, int(collective_of(plan).schedule.chunks), channels=channels)
    elif name == "hierarchical" and groups:
        made = hierarchical(groups, channels=channels)
    elif name in ALGORITHMS:
        made = build(name, len(order), channels=channels)
    else:
        raise InputError(
            f"a plan of {plan.algorithm} is for all its hosts, and {', '.join(sorted(gone)[:MOST_SHOWN])} do not run: "
            "plan for those that are left"
        )
    hosts = [host for host in plan.hosts if host.name in at]
    left = [group for group in named if group]
    return build_schedule_plan(made, Placement(hosts=hosts, order=order, groups=left))
