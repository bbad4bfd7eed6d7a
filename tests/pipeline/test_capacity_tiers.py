"""Capacities of a fabric of two tiers, from the map to the document and to the network that plans are simulated on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.pipeline import map_scan
from netprobe.pipeline.capacity import build_capacity
from netprobe.pipeline.mapping.nesting import outer_groups
from netprobe.pipeline.scanning.estimating import estimate_capacity
from netprobe.plan.simulate.network import network_of
from netprobe.probe.capacity.estimate import Reading
from netprobe.probe.capacity.experiments import experiments
from netprobe.probe.capacity.run import CapacityOptions, CapacityOutcome
from netprobe.probe.flows.flows import FlowResult
from netprobe.probe.records.result import HostOutcome
from netprobe.report.capacity import group_table
from tests.documents import make_scan
from tests.probe.capacity.test_capacity import fair

RACKS, ROWS, HOSTS = 9, 3, 4
ROW_RATE, RACK_RATE, HOST_RATE = 1.5e8, 2e8, 1e8


@pytest.fixture(scope="module")
def measured() -> Capacity:
    """Racks of four under uplinks of 200, three to a row under one of 150, as in the map of their round-trip times."""
    rng = np.random.default_rng(0)
    rack = np.repeat(np.arange(RACKS), HOSTS)
    row = rack // (RACKS // ROWS)
    rtt = np.where(rack[:, None] == rack, 100e-6, np.where(row[:, None] == row, 250e-6, 500e-6))
    rtt = rtt + rng.gamma(2.0, 2e-6, size=rtt.shape)
    np.fill_diagonal(rtt, np.nan)
    scan = make_scan(rtt, names=[f"h{at:02}" for at in range(len(rack))])
    map_ = map_scan(scan)
    index = {host.name: at for at, host in enumerate(scan.hosts)}
    groups = [[index[name] for name in group.hosts] for group in map_.groups]
    outer = list(outer_groups(map_).values())
    assert len(groups) == RACKS and [len(inside) for inside in outer] == [3, 3, 3]
    n = len(rack)
    rates = fair(
        groups, [HOST_RATE] * n, [HOST_RATE] * n, [RACK_RATE] * RACKS, [RACK_RATE] * RACKS,
        [(set(inside), ROW_RATE) for inside in outer],
    )  # fmt: skip
    outcome = CapacityOutcome(hosts=[HostOutcome(host=host) for host in scan.hosts])
    plan = experiments(groups, outer)
    for one in plan:
        got = rates(one)
        slices = tuple(rate * (1 + 0.01 * rng.standard_normal(10)) for rate in got)
        outcome.readings.append(Reading(experiment=one, rates=slices, cpu_bound=(False,) * len(got)))
        nobody: Any = None
        outcome.flows.append([FlowResult(flow=nobody, bytes_per_s=rate) for rate in got])
        outcome.started_s.append(0.0)
    estimated = estimate_capacity([HOSTS] * RACKS, CapacityOptions(), outer)
    assert (estimated.rounds, estimated.links) == (len(plan), sum(len(one.flows) for one in plan))
    return build_capacity(scan, map_, groups, outcome, CapacityOptions())


def test_each_tier_is_in_the_document_with_its_own_rate(measured: Capacity) -> None:
    assert measured.status == "ok"
    ids = {group.id for group in measured.groups}
    racks = [one for one in measured.resources if one.kind == "group_up" and one.id[3:] in ids]
    rows = [one for one in measured.resources if one.kind == "group_up" and one.id[3:] not in ids]
    assert len(racks) == RACKS and len(rows) == ROWS
    for one, true in [*((one, RACK_RATE) for one in racks), *((one, ROW_RATE) for one in rows)]:
        assert one.bytes_per_s == pytest.approx(true, rel=0.05), one.id
        assert one.low_bytes_per_s is not None and one.high_bytes_per_s is not None
        assert one.low_bytes_per_s <= 1.02 * true and one.high_bytes_per_s >= 0.98 * true
    assert {len(one.shared_by) for one in rows} == {12}
    assert all(one.id.startswith("up:netprobe-1-") for one in rows)
    assert len(group_table(measured).rows) == RACKS + ROWS
    assert Capacity.model_validate(measured.model_dump(by_alias=True)).resources == measured.resources


def test_a_simulated_transfer_between_rows_passes_both_tiers(measured: Capacity) -> None:
    names = [host.name for host in measured.hosts]
    network = network_of(measured, names)
    across = {network.resources[at] for at in network.passed[0, -1] if at >= 0}
    assert len(across) == 6  # the sender, its rack and its row; the receiver's row, rack and itself
    within = {network.resources[at] for at in network.passed[0, HOSTS] if at >= 0}
    assert len(within) == 4 and not any("netprobe-" in name for name in within)
