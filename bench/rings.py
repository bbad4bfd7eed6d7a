"""Rings: how far above the Held-Karp bound, and in what time, compared with OR-tools; the largest hop and its bound.

unbalanced: raw readings with heavy tails between racks of unequal sizes (bench/_datacentre.py, N3, the family that
nothing was chosen on); one-way times, the larger direction for both, or each its own (directed). balanced: equal
racks of 8, steps of 50, 150, 300 and 600 us, a tenth of noise, and 2 % of the links 1.5 to 4 times as slow. Gaps are
to the bound of the plan itself; of balanced ones also to that of 4,000 steps, which are not in the time. Times are
CPU seconds of one core, bound included.

The kicks are those that fit in 5 s, or 10 s at 1,024 hosts, where numba is installed; the rows named `default plan`
are what `netprobe plan` does by itself, with fewer kicks and, for few hosts, in plain Python.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from _datacentre import REPORTED, make_fleet
from _tables import heading, table
from numpy.typing import NDArray

from netprobe.core.numeric.compiled import numba_is_installed
from netprobe.plan import RingSolution, ring_cost, solve_ring
from netprobe.plan.bounds.rings import sum_lower_bound
from netprobe.plan.search.ring import DIRECTED_SHARE

Matrix = NDArray[np.float64]
CONVERGED = 4000
ROWS = ("unbalanced", "default", "directed", "balanced", "bottleneck")
SIZES = (64, 256, 512, 1024)
KICKS_A_HOST = 100
MOST_KICKS = 51_200
CP_SAT_UP_TO = 64
CP_SAT_S = 20.0
BOTTLENECK_UP_TO = 512


def unbalanced(n: int, seed: int) -> Matrix:
    """(n, n) symmetric seconds one-way."""
    return np.asarray(make_fleet(n, placement="packed", cell="N3", seed=seed, family=REPORTED).larger_s / 2)


def directed(n: int, seed: int) -> Matrix:
    """(n, n) seconds one-way, each direction its own reading."""
    return np.asarray(make_fleet(n, placement="packed", cell="N3", seed=seed, family=REPORTED).rtt_s / 2)


def balanced(n: int, seed: int) -> Matrix:
    """(n, n) symmetric seconds one-way; racks of 8, rows of 4 racks, clusters of 4 rows."""
    rng = np.random.default_rng([seed, n])
    rack = rng.permutation(n) // 8
    same = [label[:, None] == label[None, :] for label in (rack, rack // 4, rack // 16)]
    rtt_us = np.select(same, [50.0, 150.0, 300.0], 600.0) * np.exp(rng.normal(0.0, 0.1, (n, n)))
    slow = rng.random((n, n)) < 0.02
    rtt_us = np.where(slow, rtt_us * rng.uniform(1.5, 4.0, (n, n)), rtt_us)
    rtt_us = np.maximum(rtt_us, rtt_us.T)
    np.fill_diagonal(rtt_us, 0.0)
    return np.asarray(rtt_us * 1e-6 / 2)


def searched(cost: Matrix, **how: Any) -> tuple[RingSolution, float]:
    """The solver's ring after as many kicks as the time allows, and its CPU seconds."""
    kicks = min(KICKS_A_HOST * len(cost), MOST_KICKS)
    if not np.array_equal(cost, cost.T):
        kicks = int(kicks * DIRECTED_SHARE)
    return timed(cost, iterations=kicks, compiled=numba_is_installed(), **how)


def timed(cost: Matrix, **how: Any) -> tuple[RingSolution, float]:
    """The solver's ring, and its CPU seconds."""
    began = time.process_time()
    ring = solve_ring(cost, **how)
    return ring, time.process_time() - began


def routing(cost: Matrix, seconds: float) -> float | None:
    """Cost of OR-tools routing's ring after guided local search, None where it is not installed."""
    try:
        from ortools.constraint_solver import pywrapcp, routing_enums_pb2
    except ImportError:
        return None
    units = np.rint(cost / cost.max() * 1e7).astype(int).tolist()
    manager = pywrapcp.RoutingIndexManager(len(cost), 1, 0)
    model = pywrapcp.RoutingModel(manager)
    model.SetArcCostEvaluatorOfAllVehicles(model.RegisterTransitMatrix(units))
    parameters = pywrapcp.DefaultRoutingSearchParameters()
    parameters.local_search_metaheuristic = routing_enums_pb2.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
    parameters.time_limit.FromMilliseconds(int(seconds * 1000))
    found = model.SolveWithParameters(parameters)
    if found is None:
        return None
    order, at = [], model.Start(0)
    while not model.IsEnd(at):
        order.append(manager.IndexToNode(at))
        at = found.Value(model.NextVar(at))
    return ring_cost(cost, order)


def cp_sat(cost: Matrix, seconds: float) -> float | None:
    """Cost of the ring of CP-SAT's circuit constraint on one worker, None where it is not installed or finds none."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return None
    units = np.rint(cost / cost.max() * 1e6).astype(int)
    model = cp_model.CpModel()
    pairs = [(a, b) for a in range(len(cost)) for b in range(len(cost)) if a != b]
    arcs = [(a, b, model.new_bool_var("")) for a, b in pairs]
    model.add_circuit(arcs)
    model.minimize(sum(int(units[a, b]) * used for a, b, used in arcs))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    after = {a: b for a, b, used in arcs if solver.value(used)}
    order = [0]
    while len(order) < len(cost):
        order.append(after[order[-1]])
    return ring_cost(cost, order)


def percent(values: Sequence[float]) -> tuple[str, str]:
    """Mean and largest."""
    return f"{100 * np.mean(values):.2f} %", f"{100 * max(values):.2f} %"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=10, help="unbalanced instances a size")
    parser.add_argument("--others", type=int, default=2, help="instances a size of every other row")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS, help="a part of the table")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    heading(f"Rings, seeds 0 to {max(options.instances, options.others) - 1}")
    if numba_is_installed():
        began = time.process_time()
        solve_ring(unbalanced(64, 0), iterations=1, compiled=True)
        print(
            f"Compiling, or reading the cache: {time.process_time() - began:.1f} s of CPU, not counted below.\n"
        )
    rows, peer_rows, hops = [], [], []
    kinds: list[tuple[str, Any, Any, int]] = [
        ("unbalanced", unbalanced, searched, options.instances),
        ("default plan, unbalanced", unbalanced, timed, options.others),
        ("directed", directed, searched, options.others),
        ("balanced", balanced, searched, options.others),
    ]
    for n in options.sizes:
        for name, kind, solve, count in kinds:
            if count and name.split()[0] in options.rows:
                rows.append((n, name, count, *over_the_bound(n, kind, solve, count)))
                print(*rows[-1], sep=", ", file=sys.stderr, flush=True)
        if not options.no_peers:
            peer_rows.append(peers(n))
            print(*peer_rows[-1], sep=", ", file=sys.stderr, flush=True)
        if n <= BOTTLENECK_UP_TO and options.instances and "bottleneck" in options.rows:
            hops.append(largest_hops(n, options.instances))
            print(*hops[-1], sep=", ", file=sys.stderr, flush=True)
    if rows:
        columns = [
            "N",
            "kind",
            "instances",
            "over the bound, mean",
            "most",
            "settled, most",
            "CPU s, mean",
            "most",
        ]
        table([*columns, "kicks"], rows)
    if peer_rows:
        columns = [
            "N, first instance",
            "ours",
            "plain Python, default plan",
            "OR-tools routing, same time",
            f"CP-SAT, {CP_SAT_S:.0f} s",
        ]
        table(columns, peer_rows)
    if hops:
        table(["N", "largest hop equal to its bound", "over it, most", "CPU s, mean", "most"], hops)


def over_the_bound(n: int, kind: Any, solve: Any, count: int) -> tuple[object, ...]:
    """Gaps, CPU seconds and kicks of the seeds from 0 on."""
    gaps, settled, spent, kicks = [], [], [], 0
    for seed in range(count):
        cost = kind(n, seed)
        ring, seconds = solve(cost)
        gaps.append(ring.cost_s / ring.lower_bound_s - 1)
        if kind is balanced:
            bound = max(ring.lower_bound_s, sum_lower_bound(cost, ring.cost_s, CONVERGED))
            settled.append(ring.cost_s / bound - 1)
        spent.append(seconds)
        kicks = ring.iterations
    most = percent(settled)[1] if settled else ""
    return *percent(gaps), most, f"{np.mean(spent):.1f}", f"{max(spent):.1f}", kicks


def peers(n: int) -> tuple[str, ...]:
    """What others reach on the first unbalanced instance: per cent over the bound."""
    cost = unbalanced(n, 0)
    ring, seconds = searched(cost)
    bound = ring.lower_bound_s

    def over(found: float | None) -> str:
        return "-" if found is None else f"{100 * (found / bound - 1):.2f} %"

    plain, its_time = timed(cost, compiled=False)
    return (
        str(n),
        f"{over(ring.cost_s)}, {seconds:.1f} s",
        f"{over(plain.cost_s)}, {its_time:.1f} s",
        over(routing(cost, seconds)),
        over(cp_sat(cost, CP_SAT_S)) if n <= CP_SAT_UP_TO else "-",
    )


def largest_hops(n: int, count: int) -> tuple[object, ...]:
    """The bottleneck ring of each unbalanced instance against its bound."""
    found = [searched(unbalanced(n, seed), objective="bottleneck") for seed in range(count)]
    equal = sum(ring.cost_s == ring.lower_bound_s for ring, _ in found)
    most = max(ring.cost_s / ring.lower_bound_s - 1 for ring, _ in found)
    spent = [seconds for _, seconds in found]
    return n, f"{equal} of {count}", f"{100 * most:.2f} %", f"{np.mean(spent):.1f}", f"{max(spent):.1f}"


if __name__ == "__main__":
    main()
