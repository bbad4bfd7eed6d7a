"""The best order of a few hosts, by constraint programming (CP-SAT of OR-tools, where it is installed)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from netprobe.core.errors import InputError
from netprobe.plan.costs import CostModel, LinkCost
from netprobe.plan.costs.model import RoundModel, cached_phases
from netprobe.plan.costs.tree import HALF, TreeModel, both_trees

MOST_HOSTS = 32
GRID = float(1 << 20)
"""Whole units of the most expensive transfer: what is proven is proven to a millionth."""


@dataclass(frozen=True, kw_only=True)
class Polished:
    """An order under the root of the one it came from; ``proven``: none under that root costs less."""

    order: tuple[int, ...]
    proven: bool


def polish(
    model: CostModel, link_cost: LinkCost, start: Sequence[int], *, seconds: float, seed: int = 0
) -> Polished:
    """The best order found in so many seconds, from ``start`` on, whose rank 0 stays.

    With a limit of time what is found depends on the machine, but for what is proven. Raises InputError where
    OR-tools is not installed, for more than MOST_HOSTS hosts, and for a limit of no time.
    """
    size = len(start)
    if not (np.isfinite(seconds) and seconds > 0):
        raise InputError(f"an exact search of {seconds:g} s: a number above 0 is needed")
    check_polish(size)
    from ortools.sat.python import cp_model

    if size < 3:
        return Polished(order=tuple(start), proven=True)
    problem = cp_model.CpModel()
    host = [problem.new_int_var(0, size - 1, f"host{rank}") for rank in range(size)]
    problem.add_all_different(host)
    problem.add(host[0] == start[0])
    for variable, its in zip(host, start):
        problem.add_hint(variable, its)
    problem.minimize(_objective(problem, host, model, link_cost))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.random_seed = seed % (1 << 31)
    solver.parameters.num_workers = 1
    status = solver.solve(problem)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Polished(order=tuple(start), proven=False)
    order = tuple(int(solver.value(variable)) for variable in host)
    return Polished(order=order, proven=status == cp_model.OPTIMAL)


def check_polish(hosts: int) -> None:
    """Raises InputError where OR-tools is not installed, and for more than MOST_HOSTS hosts."""
    if hosts > MOST_HOSTS:
        raise InputError(f"an exact search of {hosts} hosts: {MOST_HOSTS} at most can be tried; leave it out")
    if find_spec("ortools") is None:
        raise InputError(
            "an exact search needs OR-tools, which is not installed: pip install ortools, or leave it out"
        )


def _objective(problem: Any, host: list[Any], model: CostModel, link_cost: LinkCost) -> Any:
    """The cost as an expression in whole units."""
    size = len(host)
    scale = GRID / max(float(link_cost.matrix(1.0).max()), 1e-300)
    tables: dict[float, list[int]] = {}
    places: dict[tuple[int, int], Any] = {}
    most = int(GRID) + 1

    def transfer(src: int, dst: int, share: float) -> Any:
        if share not in tables:
            tables[share] = np.rint(link_cost.matrix(share) * scale).astype(np.int64).ravel().tolist()
        if (src, dst) not in places:
            place = problem.new_int_var(0, size * size - 1, f"link{src},{dst}")
            problem.add(place == host[src] * size + host[dst])
            places[(src, dst)] = place
        value = problem.new_int_var(0, most, f"cost{src},{dst},{share:g}")
        problem.add_element(places[(src, dst)], tables[share], value)
        return value

    if isinstance(model, TreeModel):
        slower = problem.new_int_var(0, 4 * most * size, "slower")
        for tree in both_trees(model, size):
            arrivals = []
            for direction in ("up", "down"):
                depth = [
                    problem.new_int_var(0, 2 * most * size, f"{direction}{rank}") for rank in range(size)
                ]
                for rank, parent in enumerate(tree.parent):
                    if parent >= 0:
                        link = (rank, parent) if direction == "up" else (parent, rank)
                        problem.add(depth[parent] >= depth[rank] + transfer(*link, HALF))
                arrivals.append(depth[tree.root])
            problem.add(slower >= arrivals[0] + arrivals[1])
        return slower
    if not isinstance(model, RoundModel):
        raise InputError(f"no exact search is known for {model.name}")
    phases = cached_phases(model, size)
    bounds = np.append(phases.starts, len(phases.src)).tolist()
    total = 0
    for number, times in enumerate(phases.times):
        values = [
            transfer(int(phases.src[t]), int(phases.dst[t]), float(phases.share[t]))
            for t in range(bounds[number], bounds[number + 1])
        ]
        if phases.adds:
            total += times * sum(values)
        else:
            worst = problem.new_int_var(0, most, f"worst{number}")
            for value in values:
                problem.add(worst >= value)
            total += times * worst
    return total
