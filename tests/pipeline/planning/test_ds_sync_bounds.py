"""DS-Sync where some capacities are only known to be at least so much."""

from __future__ import annotations

import pytest

from netprobe.core.documents.document import dump
from netprobe.core.documents.ds_sync_plan import DsSyncPlan
from netprobe.core.units import seconds_text
from netprobe.pipeline.planning.plan_ds_sync import DsSyncRequest, plan_ds_sync
from tests.maps import made_capacity, made_map


def test_what_is_only_known_from_below_is_named_and_leaves_an_interval() -> None:
    map_ = made_map([2, 2, 2])
    size = 10**7
    request = DsSyncRequest(size_bytes=size)
    rates: dict[str, float | None] = {"up:g1": 5e6, "down:g1": 5e6}
    sure = plan_ds_sync(map_, request, capacity=made_capacity(map_, host=2e7, rates=rates))
    assert sure.contended_groups == ["g1"] and sure.known_from_below == []
    assert sure.predicted_low_s is None and sure.predicted_high_s is None
    below = made_capacity(map_, host=2e7, rates=rates, at_least=["up:g1", "down:g1"])
    plan = plan_ds_sync(map_, request, capacity=below)
    # The same readings, as bounds: nothing says that the uplink is contended.
    assert plan.contended_groups == [] and plan.known_from_below == ["up:g1", "down:g1"]
    assert "up:g1" in (plan.advice or "") and plan.predicted_s is not None
    # At best the uplink is no limit and the hosts are; at worst it carries what was measured.
    free = plan_ds_sync(map_, request, capacity=made_capacity(map_, host=2e7))
    assert free.pattern == plan.pattern and free.predicted_s is not None
    assert plan.predicted_low_s == pytest.approx(free.predicted_s) and free.predicted_s < plan.predicted_s
    assert plan.predicted_high_s == pytest.approx(plan.predicted_s)
    assert seconds_text(plan.predicted_low_s) in (plan.advice or "")
    resources = [
        one.model_copy(update={"low_bytes_per_s": 0.0}) if one.id == "up:g1" else one
        for one in below.resources
    ]
    endless = plan_ds_sync(map_, request, capacity=below.model_copy(update={"resources": resources}))
    assert endless.predicted_high_s is None and endless.predicted_low_s == plan.predicted_low_s
    with pytest.raises(ValueError, match="is not within predicted_low_s"):
        DsSyncPlan.model_validate(dump(plan) | {"predicted_s": 1e-6})
