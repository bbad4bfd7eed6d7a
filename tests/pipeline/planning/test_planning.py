"""Plans where it is measured what hosts and uplinks carry: no order is taken that makes a large buffer slower."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import NetprobeError
from netprobe.pipeline import files, map_scan, plan_order
from netprobe.pipeline.planning.plan_order import PlanRequest, shared_times_s
from netprobe.plan import load_plan, prove_against_map
from tests.documents import capacity_of, rack_scan
from tests.properties import LONG


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "nccl-tree", "double-binary-tree"])
def test_no_order_is_taken_that_takes_longer_than_the_given_one(algorithm: str, tmp_path: Path) -> None:
    _, map_ = mapped((3, 3, 2), 2)
    capacity = capacity_of(map_)
    for seed in range(2 if LONG or algorithm == "ring" else 1):
        hosts = random.Random(seed).sample(list(map_.hosts), len(map_.hosts))
        alone = plan_order(map_, PlanRequest(hosts=hosts, algorithm=algorithm))
        planned = plan_order(map_, PlanRequest(hosts=hosts, algorithm=algorithm), capacity=capacity)
        given = planned.model_copy(update={"order": [host.name for host in hosts]})
        found_s, took_s, given_s = shared_times_s([alone, planned, given], capacity)
        assert took_s <= min(found_s, given_s) * (1 + 1e-9) or (alone.kept_given and took_s == given_s)
        assert planned.parents == [map_.parent(), capacity.parent()]
        if planned.kept_given is None:
            assert planned.solver is not None
            assert planned.order == alone.order or planned.solver.kind == "capacity"
            assert planned.solver.kind != "capacity" or took_s * 1.02 < min(found_s, given_s)
            assert planned.advice is not None and "by the measured capacities 32 MB take " in planned.advice
        elif alone.kept_given is None:
            assert took_s == given_s and "by the measured capacities 32 MB take " in planned.kept_given
            assert planned.cost_random == alone.cost_random and planned.solver is not None
        files.save(planned, tmp_path / f"{seed}.json")
        assert load_plan(tmp_path / f"{seed}.json") == planned.as_written()
        prove_against_map(planned, map_)


def test_capacities_that_do_not_belong_to_the_plan_are_refused() -> None:
    scan, _ = rack_scan([3, 3], seed=2)
    map_ = map_scan(scan, seed=1)
    other, _ = rack_scan([4, 3], seed=2)
    with pytest.raises(NetprobeError, match="its hosts differ from those of the plan: it has n6 besides"):
        plan_order(map_, capacity=capacity_of(map_scan(other, seed=1)))
    without = f"down:{map_.groups[0].id}"
    with pytest.raises(NetprobeError, match=f"the capacity of {without} was not measured"):
        plan_order(map_, capacity=capacity_of(map_, without=without))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["halving-doubling", "recursive-doubling"])
def test_random_orders_have_the_rank_0_of_the_order_that_they_are_compared_with(algorithm: str) -> None:
    """Of 13 hosts rank 0 does more than others: a thousand orders that may change it would beat the plan's."""
    _, map_ = mapped((7, 6), 3)
    hosts = random.Random(0).sample(list(map_.hosts), len(map_.hosts))
    planned = plan_order(map_, PlanRequest(hosts=hosts, algorithm=algorithm))
    assert planned.cost_random is not None and planned.cost_random.least_s > 0.999 * planned.cost_s


@cache
def mapped(racks: tuple[int, ...], seed: int) -> tuple[Scan, Map]:
    """A scan of a fleet in racks, and its map."""
    scan, _ = rack_scan(racks, seed=seed)
    return scan, map_scan(scan, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [True, False])
@pytest.mark.parametrize("asked", [{"algorithm": "chunked-ring"}, {"objective": "bottleneck"}])
def test_of_rings_alike_to_the_largest_hop_the_one_that_crosses_least_is_taken(
    asked: dict[str, Any], held_out: bool
) -> None:
    """Links between racks differ by noise: no ring crosses once more for the fastest of them, none is kept for it."""
    for seed in range(8 if LONG else 2):
        racks = (6, 6, 4) if seed % 2 else (4, 4, 4, 4)
        scan, map_ = mapped(racks, seed)
        hosts = random.Random(seed).sample(list(map_.hosts), len(map_.hosts))
        planned = plan_order(map_, PlanRequest(hosts=hosts, **asked), scan=scan if held_out else None)
        assert planned.crossings == len(racks) and planned.kept_given is None
        bound, spread = planned.lower_bound_s, planned.cost_random
        assert bound is not None and spread is not None and planned.gap is not None
        assert bound <= min(planned.cost_s, spread.least_s) and planned.gap <= 0.02
