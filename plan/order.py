"""Plans of kind ``order``: which host takes which rank, for an all-reduce round a ring.

The ring is sought in natural name order of the hosts and turned so that the root is rank 0; the order in
which hosts were given decides the root, the cost it is compared with, and ties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from netprobe.core.document import Parent, canonical_sha256, check_same_hosts
from netprobe.core.errors import DocumentError, InputError
from netprobe.core.hosts import Host, natural_order
from netprobe.core.map import Group, Map
from netprobe.core.matrix import FloatMatrix, round_float
from netprobe.core.plan import Objective, OrderPlan, Plan
from netprobe.plan.registry import PlanKind, register, verify_plan
from netprobe.plan.ring import crossings, ring_cost, solve_ring

DIGITS = 1e-8
"""Relative: a document keeps 9 significant digits of each cost it was computed from."""


MESSAGE_BYTES = 1_000_000
"""The message whose time is the cost of a hop where only goodput was measured."""


def one_way_cost_s(document: Map) -> FloatMatrix:
    """Cost [src, dst] of a hop, in seconds; NaN for unplaced hosts.

    Half the denoised round-trip time, or where the map's groups are those of goodput the time that
    `message_bytes` take (beta of Hockney's model, its alpha not known).
    """
    size = message_bytes(document)
    return document.distance / 2.0 if size is None else document.distance * size


def message_bytes(document: Map) -> int | None:
    """Size of the message whose time is the cost of a hop; None where the cost is half a round trip."""
    return None if document.grouped_by == "rtt" else MESSAGE_BYTES


def build_order_plan(
    hosts: Sequence[Host],
    cost_s: FloatMatrix,
    groups: Sequence[Group] = (),
    *,
    objective: Objective = "sum",
    root: str | None = None,
    seed: int = 0,
    parents: Sequence[Parent] = (),
    left_out: Sequence[str] = (),
    iterations: int | None = None,
    keep_given: str | None = None,
    size_bytes: int | None = None,
) -> OrderPlan:
    """The plan for ``hosts`` (as given) on ``cost_s`` [src, dst], seconds one-way, in the order of ``hosts``.

    Hosts in ``left_out`` get no rank, and their rows and columns are ignored. ``groups`` are only counted
    against. ``root`` is the name of rank 0 (default: the first given host that has a rank).

    ``keep_given`` is a reason not to search: the given order is kept, turned to the root, and priced.
    ``size_bytes`` is written down: the costs are of a message of that size (`message_bytes`).

    Raises InputError for a missing or impossible cost, an unknown root, or when no host is left.
    """
    names = [host.name for host in hosts]
    if len(set(names)) != len(names):
        raise InputError("a host is listed twice")
    unknown = sorted(set(left_out) - set(names))
    if unknown:
        raise InputError(f"host {unknown[0]!r} is to be left out, and is none of the {len(names)} hosts")
    if cost_s.shape != (len(hosts), len(hosts)):
        raise InputError(f"costs of shape {cost_s.shape} for {len(hosts)} hosts")
    ranked = [name for name in names if name not in set(left_out)]
    if not ranked:
        raise InputError("no host is left to order: none has a reading")
    first = ranked[0] if root is None else root
    if first not in ranked:
        why = "has no reading" if first in names else f"is none of the {len(names)} hosts"
        raise InputError(f"root {first!r} {why}")
    kept = [i for i in natural_order(hosts) if names[i] in set(ranked)]
    cost = cost_s[np.ix_(kept, kept)]
    _check_costs(cost, [names[i] for i in kept])
    index = {names[i]: at for at, i in enumerate(kept)}
    costs: tuple[float, float, float | None]
    if keep_given is None:
        ring = solve_ring(
            cost,
            objective=objective,
            seed=seed,
            start=[index[name] for name in ranked],
            root=index[first],
            iterations=iterations,
        )
        order = [names[kept[at]] for at in ring.order]
        costs = (ring.cost_s, ring.cost_given_s, ring.lower_bound_s)
    else:
        order = _from(ranked, first)
        price = ring_cost(cost, [index[name] for name in order], objective)
        costs = (price, price, None)
    group_of = group_by_host(groups) if groups else None
    plan = OrderPlan(
        seed=seed,
        parents=list(parents),
        hosts=[plain_host(host) for host in hosts],
        objective=objective,
        size_bytes=size_bytes,
        order=order,
        kept_given=keep_given,
        cost_s=round_float(costs[0]),
        cost_given_s=round_float(costs[1]),
        lower_bound_s=None if costs[2] is None else round_float(costs[2]),
        crossings=_crossings(order, group_of),
        crossings_given=_crossings(ranked, group_of),
        left_out=[name for name in names if name in set(left_out)],
    )
    verify_plan(plan)
    return plan


def verify_order_plan(plan: Plan) -> None:
    """Prove what a plan says of itself. Raises ValueError naming the first fault.

    The model has already checked the permutation and the range of each number.
    """
    if not isinstance(plan, OrderPlan):
        raise ValueError("is no order plan")
    if not plan.order:
        raise ValueError("order is empty")
    count = len(plan.order)
    slack = 1 + DIGITS
    for key in ("cost_s", "cost_given_s", "lower_bound_s"):
        value = getattr(plan, key)
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{key} is {value}")
    if plan.cost_s > plan.cost_given_s * slack:
        raise ValueError("cost_s is above cost_given_s: an order plan never makes the given order worse")
    given = [host.name for host in plan.hosts if host.name not in set(plan.left_out)]
    if plan.kept_given is not None and _from(given, plan.order[0]) != list(plan.order):
        raise ValueError("kept_given says the given order was kept, and order is another")
    if plan.lower_bound_s is not None and plan.lower_bound_s > plan.cost_s * slack:
        raise ValueError("lower_bound_s is above cost_s")
    for key in ("crossings", "crossings_given"):
        value = getattr(plan, key)
        if value is not None and (value > count or value == 1):
            raise ValueError(f"{key} is {value}: a ring of {count} hosts has 0 or 2 to {count}")


def verify_against_map(plan: OrderPlan, document: Map, *, source: str | None = None) -> None:
    """Recompute the plan's costs and crossings on the map it was made from.

    Raises DocumentError when the hosts differ, when the plan names another map as its parent, or when
    a number does not come out again within the digits a document keeps.
    """
    check_same_hosts(list(plan.hosts), list(document.hosts), what="the map", source=source)
    maps = [parent for parent in plan.parents if parent.schema_.startswith("netprobe.map/")]
    if maps and canonical_sha256(document) not in {parent.sha256 for parent in maps}:
        raise DocumentError("was made from another map than this one", source=source)
    if plan.size_bytes != message_bytes(document):
        raise DocumentError(
            f"size_bytes is {plan.size_bytes}, and of this map it is {message_bytes(document)}", source=source
        )
    index = {host.name: at for at, host in enumerate(document.hosts)}
    cost = one_way_cost_s(document)
    given = [host.name for host in plan.hosts if host.name not in set(plan.left_out)]
    group_of = group_by_host(document.groups)
    for what, order, stated in (
        ("cost_s", plan.order, plan.cost_s),
        ("cost_given_s", given, plan.cost_given_s),
    ):
        true = ring_cost(cost, [index[name] for name in _from(order, plan.order[0])], plan.objective)
        if not math.isclose(true, stated, rel_tol=DIGITS, abs_tol=0.0):
            raise DocumentError(f"{what} is {stated:.9g}, and on this map it is {true:.9g}", source=source)
    for what, order, count in (
        ("crossings", plan.order, plan.crossings),
        ("crossings_given", given, plan.crossings_given),
    ):
        if count is not None and count != _crossings(order, group_of):
            raise DocumentError(f"{what} is {count}, which is not what this map says", source=source)


def group_by_host(groups: Sequence[Group]) -> dict[str, str]:
    """Group id of each grouped host."""
    return {name: group.id for group in groups for name in group.hosts}


def plain_host(host: Host) -> Host:
    """``host`` without what a scan found out about it."""
    return Host.model_validate({key: getattr(host, key) for key in Host.model_fields})


def _crossings(order: Sequence[str], group_of: dict[str, str] | None) -> int | None:
    """Crossings; a host in no group is a group of its own."""
    if group_of is None:
        return None
    return crossings(range(len(order)), [group_of.get(name, f"\0{name}") for name in order])


def _from(order: Sequence[str], first: str) -> list[str]:
    place = list(order).index(first)
    return [*order[place:], *order[:place]]


def _check_costs(cost: FloatMatrix, names: Sequence[str]) -> None:
    work = cost.copy()
    np.fill_diagonal(work, 0.0)
    bad = np.argwhere(~np.isfinite(work) | (work < 0))
    if len(bad):
        src, dst = bad[0].tolist()
        value = work[src, dst]
        what = "is missing" if np.isnan(value) else f"is {value}"
        raise InputError(
            f"the cost from {names[src]} to {names[dst]} {what}: a number of at least 0 is needed"
        )


register(
    PlanKind(
        kind="order",
        model=OrderPlan,
        verify=verify_order_plan,
        summary="hosts in rank order for a ring all-reduce",
    )
)
