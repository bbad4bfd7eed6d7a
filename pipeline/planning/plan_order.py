"""map -> plan: the rank order."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import check_same_hosts
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import Objective, OrderPlan
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError
from netprobe.core.hosts import Host
from netprobe.pipeline.planning.held_out import is_parent, readings_of
from netprobe.pipeline.planning.predicting import by_capacity
from netprobe.plan import HeldOutReadings, build_order_plan, links_of
from netprobe.plan.order.candidates import CLOSE
from netprobe.plan.order.order import gap
from netprobe.report.units import seconds

PRICED_BYTES = 32_000_000
"""A large buffer, where no other is named."""


def plan_order(
    map_: Map,
    *,
    scan: Scan | None = None,
    capacity: Capacity | None = None,
    hosts: Sequence[Host] | None = None,
    algorithm: str = "ring",
    size_bytes: int | None = None,
    objective: Objective = "sum",
    root: str | None = None,
    seed: int = 0,
    held_out: bool | None = None,
    readings: HeldOutReadings | None = None,
    time_s: float | None = None,
    maximize: bool = False,
    exact_s: float | None = None,
) -> OrderPlan:
    """Order the ranks for an algorithm on the denoised RTT/2, and with ``size_bytes`` on the time of its bytes too.

    A map that knows goodput only is priced by that, at a megabyte unless a size is given. With the ``scan`` that
    the map was made from orders are judged by readings held out (``held_out`` None: up to 256 hosts), and a
    given order that is within 2 % of the best found is kept. ``readings`` are those of `readings_of` (or
    `readings_beside`), made before, in the place of a scan.

    ``capacity`` says what hosts and uplinks carry, which no cost of single links knows: where a large buffer takes
    longer in the order found than in the given one by that, the given one is kept. Raises InputError where it is
    of other hosts or lacks a reading.

    ``hosts`` (default: the map's own) says in which order the hosts were given, and with which slots and
    launcher names; it must hold the same hosts as the map. The first given host stays rank 0 unless
    ``root`` names another. Where the map found no locality the given order is kept: an order tuned to
    noise would only look better.
    """
    if hosts is not None:
        check_same_hosts(list(hosts), list(map_.hosts), what="the hosts file", source="map")
    given = list(hosts if hosts is not None else map_.hosts)
    index = {host.name: i for i, host in enumerate(map_.hosts)}
    where = [index[host.name] for host in given]
    links = links_of(map_, size_bytes).permuted(where)
    found = map_.verdict.locality != "none"
    if readings is None and scan is not None and found:
        if not is_parent(map_, scan):
            raise DocumentError("the scan is not the one that the map was made from", source="scan")
        readings = readings_of(map_, scan, size_bytes=size_bytes, held_out=held_out, seed=seed)
    build = functools.partial(
        build_order_plan,
        given,
        links.alpha_s,
        map_.groups,
        algorithm=algorithm,
        objective=objective,
        root=root,
        seed=seed,
        parents=[map_.parent()],
        left_out=map_.unplaced,
        beta_s_per_byte=links.beta_s_per_byte,
        size_bytes=links.size_bytes,
        readings=None if readings is None else readings.permuted(where),
        time_s=time_s,
        maximize=maximize,
        exact_s=exact_s,
    )
    planned = build(keep_given=None if found else "no usable locality")
    if capacity is None:
        return planned
    parents = [*planned.parents, capacity.parent()]
    if planned.kept_given is not None:
        shared_times_s([planned], capacity)
        return planned.model_copy(update={"parents": parents})
    kept = build(keep_given="in place of the order found")
    took_s, given_s = shared_times_s([planned, kept], capacity)
    size = f"{(planned.size_bytes or PRICED_BYTES) / 1e6:g} MB"
    said = (
        f"by the measured capacities {size} take {seconds(given_s)} as given, {seconds(took_s)} in this order"
    )
    if took_s > given_s and planned.order != kept.order:
        why = f"by the measured capacities {size} take {seconds(given_s)} in it, {seconds(took_s)} in the order found"
        return _with_figures(build(keep_given=why), planned).model_copy(update={"parents": parents})
    advice = f"{planned.advice}; {said}" if planned.advice else said
    if took_s * (1 + CLOSE) < given_s and not (planned.advice or "").startswith("use this order"):
        # What costs alike link by link does not where links are shared.
        advice = f"use this order: {said}"
    return planned.model_copy(update={"parents": parents, "advice": advice})


def _with_figures(kept: OrderPlan, found: OrderPlan) -> OrderPlan:
    """``kept``, whose order is the given one, with what ``found``, which is not taken, was compared with."""
    bound, solver, held = found.lower_bound_s, found.solver, found.held_out
    bound = None if bound is None else min(bound, kept.cost_s)
    figures = {
        "cost_random": found.cost_random,
        "lower_bound_s": bound,
        "gap": None if bound is None else gap(kept.cost_s, bound),
        "solver": solver and solver.model_copy(update={"kind": "given", "text": f"{solver.text}; not taken"}),
        "held_out": held and held.model_copy(update={"cost_s": held.cost_given_s}),
        "advice": f"keep your order: {kept.kept_given}",
    }
    return kept.model_copy(update=figures)


def shared_times_s(plans: Sequence[OrderPlan], capacity: Capacity) -> list[float]:
    """Seconds that a large buffer takes in the order of each of ``plans``, which differ in nothing else.

    Raises InputError for capacities of other hosts, or without a reading of one that is needed.
    """
    plan = plans[0]
    predicted = by_capacity(plan, capacity, plan.algorithm, plan.size_bytes or PRICED_BYTES)
    place = {host.name: at for at, host in enumerate(plan.hosts)}
    return [float(time) for time in predicted.costs([[place[name] for name in one.order] for one in plans])]
