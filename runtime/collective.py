"""A plan as a proved program: what an executor runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.plan import load_plan, proved_schedule
from netprobe.plan.schedule.builders import ON_THE_WIRE, build, proved
from netprobe.plan.schedule.document import digest_of
from netprobe.plan.schedule.program import APPLY, CollectiveProgram
from netprobe.plan.schedule.proof import Proof
from netprobe.plan.schedule.schedule import Schedule


@dataclass(frozen=True, kw_only=True, eq=False)
class Collective:
    """A schedule among ranks, proved, and the host of each rank."""

    schedule: Schedule
    program: CollectiveProgram
    proof: Proof
    hosts: tuple[Host, ...]
    """Rank 0's first."""

    @property
    def ranks(self) -> int:
        """How many ranks."""
        return self.schedule.ranks

    @property
    def digest(self) -> str:
        """Equal for plans that run the same on the same hosts."""
        text = repr(
            (digest_of(self.schedule), self.schedule.weights().tolist(), [h.name for h in self.hosts])
        )
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def all_reduces(self) -> bool:
        """Whether every rank ends with the sum over all ranks."""
        contract = self.schedule.contract
        return contract.collective == "all_reduce" and len(contract.participants) == contract.ranks


def collective_of(plan: Plan | Path | str) -> Collective:
    """The collective of a plan or of the document at a path: a schedule's own, an order's algorithm in that order.

    Raises InputError for other kinds of plans, DocumentError for documents that cannot be used.
    """
    if isinstance(plan, str | Path):
        plan = load_plan(Path(plan))
    if isinstance(plan, OrderPlan):
        schedule = build(ON_THE_WIRE.get(plan.algorithm, plan.algorithm), len(plan.order))
        program, proof = proved(schedule)
    elif isinstance(plan, SchedulePlan):
        schedule, program, proof = proved_schedule(plan)
    else:
        kind = f"a plan of kind {plan.kind!r}" if hasattr(plan, "kind") else f"a {type(plan).__name__}"
        trainer = "; netprobe.runtime.DSSync trains by it" if kind == "a plan of kind 'ds_sync'" else ""
        raise InputError(f"{kind} has no schedule to run: plans of kind order and schedule do{trainer}")
    if (program.kind == APPLY).any():
        raise InputError(f"{schedule.name} applies an optimizer on servers, which an executor cannot run")
    by_name = {host.name: host for host in plan.hosts}
    return Collective(
        schedule=schedule, program=program, proof=proof, hosts=tuple(by_name[name] for name in plan.order)
    )
