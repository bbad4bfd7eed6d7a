"""Both sides of the limits that planning decides by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.map import DIRECTED, Map
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError
from netprobe.pipeline import map_scan
from netprobe.pipeline.planning import plan_order as module
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.pipeline.planning.predicting import check_own_map
from netprobe.plan.order.strategy import CLOSE
from tests.documents import make_scan, rack_rtt
from tests.maps import made_map


@pytest.mark.parametrize("ratio", [1.0, 1 + 0.9 * CLOSE, 1 + 1.1 * CLOSE, 1.5, 4.0])
def test_a_gain_by_direction_is_one_beyond_what_counts_as_close(ratio: float) -> None:
    """A ring whose one way round costs so many times the other: as fast as the faster ones both ways are alike."""
    map_ = made_map([4])
    assert map_.layers.rtt is not None
    cost = np.full((4, 4), 9e-3)
    for host in range(4):
        cost[host, (host + 1) % 4], cost[host, (host + 3) % 4] = 1e-4 * ratio, 1e-4
    np.fill_diagonal(cost, 0.0)
    layer = map_.layers.rtt.model_copy(update={"distance_s": cost})
    layers = map_.layers.model_copy(update={"rtt": layer})
    directed = map_.model_copy(update={"layers": layers, "requires": [DIRECTED]})
    found = plan_order(map_, PlanRequest(held_out=False)).model_copy(
        update={"order": ["h0", "h3", "h2", "h1"], "cost_given_s": 2e-4 * ratio, "cost_s": 2e-4}
    )
    assert module._Problem.of(directed, PlanRequest()).gains_by_direction(found) == (ratio > 1 + CLOSE)


def test_a_plan_belongs_to_its_own_map_and_to_its_hosts() -> None:
    map_, alike, other = made_map([2, 2], seed=1), made_map([2, 2], seed=2), made_map([2, 3], seed=1)
    plan = plan_order(map_, PlanRequest(held_out=False))
    bare = plan.model_copy(update={"parents": []})
    check_own_map(plan, map_)
    check_own_map(bare, map_)
    alike = alike.model_copy(update={"seed": (map_.seed or 0) + 1})
    assert alike.parent().sha256 != map_.parent().sha256
    check_own_map(bare, alike)  # nothing says that it is another
    for given, of in ((plan, alike), (plan, other), (bare, other)):
        with pytest.raises(DocumentError):
            check_own_map(given, of)


class Asked(Exception):
    """What followed is not run."""


def test_readings_are_asked_for_as_the_plan_is(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = make_scan(rack_rtt([3, 3], seed=0), visits=False)
    asked: list[dict[str, Any]] = []

    def readings(_map: Map, of: Scan, **options: Any) -> None:
        asked.append(options)
        assert of is scan
        raise Asked

    monkeypatch.setattr(module, "readings_of", readings)
    monkeypatch.setattr(module._Problem, "of", lambda *_given: None)
    map_ = map_scan(scan)
    for request in (PlanRequest(size_bytes=1000, held_out=True, seed=7), PlanRequest()):
        with pytest.raises(Asked):
            plan_order(map_, request, scan=scan)
    assert asked == [
        {"size_bytes": 1000, "held_out": True, "seed": 7}, {"size_bytes": None, "held_out": None, "seed": 0}
    ]  # fmt: skip
