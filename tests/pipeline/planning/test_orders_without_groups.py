"""Orders where hosts form no groups: readings held out decide, and where there are none nobody can tell."""

from __future__ import annotations

import numpy as np
import pytest

from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.scan import Scan
from netprobe.core.hosts import make_host
from netprobe.pipeline import map_scan
from netprobe.pipeline.planning.held_out import readings_of
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.plan import ring_cost, solve_ring
from tests.documents import make_scan
from tests.properties import LONG

COORDINATES = np.random.default_rng(6).uniform(0, 1, (10, 2))


def far_apart(noise: float = 0.02, seed: int = 0) -> FloatMatrix:
    """Round trips of ten hosts all over the place, two readings a pair, in no order."""
    apart = 10e-3 + 80e-3 * np.linalg.norm(COORDINATES[:, None] - COORDINATES[None, :], axis=2)
    rtt: FloatMatrix = apart * np.exp(np.random.default_rng(seed).normal(0.0, noise, apart.shape))
    np.fill_diagonal(rtt, np.nan)
    return rtt


def mapped(rtt: FloatMatrix) -> tuple[Scan, Map]:
    scan = make_scan(rtt, visits=False)
    return scan, map_scan(scan)


def over_the_best(rtt: FloatMatrix, order: list[int]) -> float:
    cost = np.where(np.isnan(rtt), 0.0, (rtt + rtt.T) / 4)
    return ring_cost(cost, order) / solve_ring(cost, seed=0).cost_s


def test_an_order_that_surely_costs_less_is_written_though_there_are_no_groups() -> None:
    rtt = far_apart()
    scan, map_ = mapped(rtt)
    assert map_.verdict.locality == "none"
    assert over_the_best(rtt, list(range(10))) > 1.4
    plan = plan_order(map_, scan=scan)
    assert plan.kept_given is None and plan.held_out is not None and plan.held_out.gain_low is not None
    assert over_the_best(rtt, [int(name[1:]) for name in plan.order]) < 1.05
    low, high = plan.held_out.gain_low, plan.held_out.gain_high
    assert high is not None and 1.3 < low < over_the_best(far_apart(noise=0.0), list(range(10))) < high < 1.7


def test_noise_gets_no_order_of_its_own() -> None:
    """Of 12 matrices (24 in long runs) one may get one, as chance has it; `bench/neworders.py` counts them over 400."""
    new = []
    for seed in range(24 if LONG else 12):
        n = (6, 8, 10)[seed % 3]
        noise = (0.05, 0.3)[seed // 3 % 2]
        rtt = 1e-4 * np.exp(np.random.default_rng([5, seed]).normal(0.0, noise, (n, n)))
        np.fill_diagonal(rtt, np.nan)
        scan, map_ = mapped(rtt)
        plan = plan_order(map_, scan=scan)
        new.append(plan.order != [host.name for host in plan.hosts])
        assert plan.held_out is not None and plan.held_out.folds == 2
    assert sum(new) <= 1


def test_one_number_for_both_directions_is_no_second_reading() -> None:
    rtt = far_apart(noise=0.0)
    scan, map_ = mapped(rtt)
    readings = readings_of(map_, scan)
    assert readings.folds == () and readings.pairs == 0
    assert readings.text.startswith("cannot tell: both directions are one number in 45 of 45 pairs")
    plan = plan_order(map_, scan=scan)
    assert plan.held_out is not None and plan.held_out.folds == 0 and plan.held_out.cost_s is None
    assert "did not see" not in f"{plan.advice} {plan.kept_given}"
    # Nobody can tell, so the order stays; who trusts the readings says so.
    assert plan.kept_given is not None and "nobody can tell" in plan.kept_given
    trusted = plan_order(map_, PlanRequest(held_out=False), scan=scan)
    assert trusted.kept_given is None and over_the_best(rtt, [int(n[1:]) for n in trusted.order]) < 1.05
    assert "no reading was held out" in (trusted.advice or "")


def test_without_its_scan_a_map_without_groups_keeps_the_order_and_says_why() -> None:
    _, map_ = mapped(far_apart())
    plan = plan_order(map_)
    assert plan.order == [host.name for host in plan.hosts]
    assert plan.kept_given is not None and "the scan of the map was not given" in plan.kept_given
    assert plan.solver is not None and plan.solver.candidates_s["ring"] < plan.cost_given_s / 1.2


@pytest.mark.parametrize(
    ("share", "step", "folds"),
    [(0.0, 0.0, 2), (0.03, 0.0, 2), (0.5, 0.0, 0), (1.0, 0.0, 0), (0.0, 1e-3, 2), (1.0, 1e-3, 0)],
)
def test_equal_readings_by_rounding_are_told_from_one_reading_that_was_copied(
    share: float, step: float, folds: int
) -> None:
    """``share`` of the pairs is copied from one triangle to the other, and all are rounded to ``step`` seconds."""
    rtt = far_apart(noise=0.04)
    upper = np.triu(np.random.default_rng(3).random(rtt.shape) < share, 1)
    rtt = np.where(upper.T, rtt.T, rtt)
    if step:
        rtt = np.round(rtt / step) * step
        assert share or 0.05 < float((rtt == rtt.T)[np.triu_indices(10, 1)].mean()) < 0.5
    scan, map_ = mapped(rtt)
    assert len(readings_of(map_, scan).folds) == folds


def test_the_gain_depends_neither_on_the_order_of_the_document_nor_on_the_unit() -> None:
    rtt = far_apart(noise=0.1)
    hosts = [make_host(f"h{i}") for i in range(10)]
    order = np.random.default_rng(1).permutation(10)
    scans = (
        make_scan(rtt, visits=False),
        make_scan(rtt[np.ix_(order, order)] / 8, names=[f"h{i}" for i in order], visits=False),
    )
    plans = [plan_order(map_scan(scan), PlanRequest(hosts=hosts), scan=scan) for scan in scans]
    assert plans[0].order == plans[1].order
    held = [(plan.held_out.gain_low, plan.held_out.gain_high) for plan in plans if plan.held_out is not None]
    assert held[0] == pytest.approx(held[1], rel=1e-6) and None not in held[0]
