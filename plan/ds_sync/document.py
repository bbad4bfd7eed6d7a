"""DS-Sync patterns as plan documents; loading one proves it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from netprobe.core.documents.ds_sync_plan import AveragingIteration, DsSyncPlan
from netprobe.core.documents.plan import Plan
from netprobe.plan.ds_sync.consensus import check_pattern, eigenvalue_of, rho_of, steps_until_close
from netprobe.plan.ds_sync.patterns import MOST_LENGTH
from netprobe.plan.registry import PlanKind, register

DIGITS = 1e-6
MOST_HOSTS = 2048
"""The proof multiplies matrices of all hosts."""


@dataclass(frozen=True)
class Averages:
    """An iteration with hosts by number."""

    groups: tuple[tuple[int, ...], ...]


def numbered(pattern: Sequence[AveragingIteration], racks: Sequence[Sequence[str]]) -> list[Averages]:
    """The iterations with hosts numbered rack by rack. Raises ValueError for a host in no rack."""
    place = {name: i for i, name in enumerate(name for rack in racks for name in rack)}
    made = []
    for number, iteration in enumerate(pattern):
        unknown = [name for group in iteration.groups for name in group if name not in place]
        if unknown or not set(iteration.leaders) <= set(place):
            raise ValueError(f"iteration {number} names a host that is in no rack")
        made.append(Averages(tuple(tuple(place[name] for name in group) for group in iteration.groups)))
    return made


def prove_ds_sync_plan(plan: Plan) -> None:
    """Prove a plan of kind ``ds_sync``. Raises ValueError with the first thing that does not hold."""
    if not isinstance(plan, DsSyncPlan):
        raise ValueError("is not a DS-Sync pattern")
    hosts = sum(map(len, plan.racks))
    if hosts > MOST_HOSTS or len(plan.pattern) > MOST_LENGTH:
        raise ValueError(
            f"{hosts} hosts and {len(plan.pattern)} iterations: at most {MOST_HOSTS} and {MOST_LENGTH}"
        )
    pattern = numbered(plan.pattern, plan.racks)
    ends = [sum(map(len, plan.racks[:i])) for i in range(len(plan.racks) + 1)]
    check_pattern(pattern, [range(a, b) for a, b in itertools.pairwise(ends)])
    _check_leaders(plan)
    rho = rho_of(pattern, hosts)
    for what, stated, true in (
        ("rho", plan.rho, rho),
        ("rho_per_iteration", plan.rho_per_iteration, rho ** (1 / len(pattern))),
        ("eigenvalue", plan.eigenvalue, eigenvalue_of(pattern, hosts)),
    ):
        if not math.isclose(stated, true, rel_tol=DIGITS, abs_tol=DIGITS):
            raise ValueError(f"{what} is {stated:.9g}, and of this pattern it is {true:.9g}")
    steps = steps_until_close(rho, len(pattern))
    if plan.iterations_to_a_thousandth != steps:
        raise ValueError(
            f"iterations_to_a_thousandth is {plan.iterations_to_a_thousandth}, and by rho it is {steps}"
        )


def _check_leaders(plan: DsSyncPlan) -> None:
    """Who averages with another rack's host leads its own, and a rack has one leader at most."""
    rack_of = {name: number for number, rack in enumerate(plan.racks) for name in rack}
    for number, iteration in enumerate(plan.pattern):
        led = [rack_of[name] for name in iteration.leaders]
        across = {
            name for group in iteration.groups if len({rack_of[name] for name in group}) > 1 for name in group
        }
        if len(set(led)) != len(led) or not across <= set(iteration.leaders):
            raise ValueError(
                f"iteration {number}: leaders are not one of each rack that averages with others"
            )


register(
    PlanKind(
        kind="ds_sync",
        model=DsSyncPlan,
        prove=prove_ds_sync_plan,
        summary="which hosts average their parameters with which, iteration by iteration",
    )
)
