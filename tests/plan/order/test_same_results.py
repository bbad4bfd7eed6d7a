"""The same map, readings and seed give the same plan on every machine and from version to version.

An order hangs on every limit and tie of the search and of the choice. Who changes one on purpose writes down here what
is planned then. Costs are whole numbers of a formula; numbers are compared to seven digits.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.map import Group
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import OrderPlan
from netprobe.plan import Fold, HeldOutReadings, Links
from tests.plan.fleets import groups_of, named, order_plan
from tests.plan.search.test_same_results import town

HOSTS = 11
RACKS = [at * 3 // HOSTS for at in range(HOSTS)]


def read(seed: int, most: int) -> FloatMatrix:
    """Microseconds between places of a town in racks, each reading up to ``most`` hundredths longer."""
    rng = np.random.default_rng([seed, HOSTS])
    cost = town(HOSTS, directed=False) + np.where(np.equal.outer(RACKS, RACKS), 0, 400)
    more = np.triu(rng.integers(0, most + 1, cost.shape), 1)
    return np.asarray(cost * (100 + more + more.T) / 100 * 1e-6)


def readings(most: int, *, slow: bool) -> HeldOutReadings:
    links = [Links(alpha_s=read(seed, most)) for seed in range(1, 4)]
    worst = read(1, most)
    worst[0, 5] = worst[5, 0] = 2e-2
    dear = Links(alpha_s=worst) if slow else None
    folds = tuple(
        Fold(denoised=links[0], search=links[a], unseen=links[b], slow=dear) for a, b in ((1, 2), (2, 1))
    )
    noise = tuple(sorted(at / 10 * most / 100 for at in range(30)))
    return HeldOutReadings(
        search=links[1], slow=dear, slow_repeats=slow, raw_share=0.25, folds=folds, pairs=30, noise=noise,
        text="as drawn",
    )  # fmt: skip


def planned(algorithm: str, objective: str, most: int, how: str) -> OrderPlan:
    """On a map alone, or with readings held out, of which some may be slow."""
    hosts = named(HOSTS)
    groups: list[Group] = groups_of(hosts, RACKS)
    given: HeldOutReadings | None = None if how == "map" else readings(most, slow=how == "slow")
    shuffled = np.random.default_rng(3).permutation(HOSTS).tolist()
    given = None if given is None else given.permuted(shuffled)
    cost = read(0, most)[np.ix_(shuffled, shuffled)]
    return order_plan(
        [hosts[at] for at in shuffled], cost, groups, readings=given, algorithm=algorithm, objective=objective,
        seed=4, iterations=300, maximize=True, left_out=["n4"],
    )  # fmt: skip


def figures(algorithm: str, objective: str, most: int, how: str) -> tuple[list[Any], float]:
    """Words and whole numbers of a plan; and a sum of the logarithms of its costs."""
    plan = planned(algorithm, objective, most, how)
    solver, held = plan.solver, plan.held_out
    assert solver is not None and plan.cost_random is not None
    words = [
        solver.kind, plan.kept_given is not None, plan.crossings, plan.crossings_given, solver.runs, solver.steps,
        zlib.crc32(repr((plan.order, plan.order_worst)).encode()),
        " ".join(re.findall(r"[0-9][0-9.]*", f"{plan.advice} {solver.text}")),
    ]  # fmt: skip
    numbers = [
        plan.cost_s, plan.cost_given_s, plan.cost_worst_s, plan.lower_bound_s, plan.cost_random.mean_s,
        *plan.cost_random.percentiles_s.values(), *solver.candidates_s.values(), *solver.held_out_s.values(),
        1.0 + (plan.gap or 0.0), 1.0 + solver.raw_share,
        *([] if held is None else [held.gain_low, held.gain_high, held.cost_s, held.cost_given_s, held.cost_leaf_s]),
    ]  # fmt: skip
    logs = [np.log(value) * (1 + at % 5) for at, value in enumerate(numbers) if value]
    return words, float(np.sum(logs))


EXPECTED: dict[tuple[str, str, int, str], tuple[list[Any], float]] = {
    ("ring", "sum", 5, "map"): (["ring", False, 3, 6, 1, 0, 1852587316, ""], -211.11983967367956),
    ("ring", "sum", 40, "read"): (
        ["ring", False, 3, 6, 1, 0, 2697650744, "1.47 1.06 2.04"],
        -290.46781948441134,
    ),
    ("ring", "bottleneck", 20, "read"): (
        ["ring", False, 5, 6, 1, 0, 3837984409, "2 5 6"],
        -433.4802385147532,
    ),
    ("chunked-ring", "sum", 10, "read"): (
        ["ring", False, 5, 6, 1, 0, 3837984409, "1.39 1.03 1.88"],
        -240.61954762344746,
    ),
    ("chunked-ring", "sum", 10, "slow"): (
        ["ring", False, 6, 6, 1, 0, 675942240, "1.39 1.03 1.88"],
        -240.67570845169834,
    ),
    ("bcube", "sum", 10, "read"): (["given", True, None, None, 2, 600, 2847972064, ""], -373.03147656199894),
    ("bcube", "sum", 10, "slow"): (["given", True, None, None, 3, 900, 2847972064, ""], -373.03147656199894),
    ("halving-doubling", "sum", 20, "map"): (
        ["annealed", False, None, None, 2, 600, 942431198, ""],
        -214.08074644705286,
    ),
    ("nccl-tree", "sum", 60, "read"): (
        ["given", True, None, None, 2, 600, 2350300115, "1.38 0.73 2.61 1.38 0.73 2.61"],
        -295.787882526585,
    ),
    ("double-binary-tree", "sum", 5, "slow"): (
        ["annealed", False, None, None, 3, 900, 2098678969, "1.38 1.28 1.48"],
        -334.3715394736449,
    ),
}


@pytest.mark.parametrize("case", EXPECTED, ids=str)
def test_plans(case: tuple[str, str, int, str]) -> None:
    words, total = figures(*case)
    assert words == EXPECTED[case][0]
    assert total == pytest.approx(EXPECTED[case][1], rel=1e-7)
