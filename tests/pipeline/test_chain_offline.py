"""map, plan and export from made-up scans: no network, the stages as a user re-runs them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.core.documents.document import canonical_sha256
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError, InfeasibleError, InputError, NothingMeasuredError
from netprobe.core.hosts import Host
from netprobe.pipeline import export_hostfile, export_topology, map_scan, plan_order
from netprobe.pipeline.mapping.map_scan import MapOptions, connected
from netprobe.pipeline.planning.plan_order import PlanRequest
from netprobe.probe.methods.latency import latency_method
from netprobe.probe.records.options import ScanOptions
from tests.documents import INSIDE_S, make_scan, permuted, rack_labels, rack_rtt, rack_scan


def found_labels(scan: Scan, map_: Map) -> list[str]:
    group = {name: g.id for g in map_.groups for name in g.hosts}
    return [group[host.name] for host in scan.hosts]


@pytest.mark.slow
@pytest.mark.parametrize("racks", [(6, 6, 4), (3, 6, 9), (4, 4, 4, 4)])
@pytest.mark.parametrize("seed", range(3))
def test_racks_become_groups_and_the_ring_crosses_once_a_rack(racks: tuple[int, ...], seed: int) -> None:
    scan, truth = rack_scan(racks, seed=seed)
    map_ = map_scan(scan)
    assert adjusted_rand_index(truth, found_labels(scan, map_)) == 1.0
    assert map_.verdict.locality == "found"
    plan = plan_order(map_)
    rack_of = {host.name: rack for host, rack in zip(scan.hosts, truth)}
    ring = [rack_of[name] for name in plan.order]
    assert sum(a != b for a, b in zip(ring, ring[1:] + ring[:1])) == len(racks)
    assert plan.crossings == len(racks)
    assert plan.order[0] == scan.hosts[0].name
    assert plan.cost_s < plan.cost_given_s


def test_the_order_of_the_hosts_changes_no_group_and_no_distance() -> None:
    scan, _ = rack_scan((3, 6, 9), seed=5)
    one, other = map_scan(scan), map_scan(permuted(scan, range(17, -1, -1)))
    assert one.groups == other.groups
    assert np.array_equal(one.distance, other.distance[::-1, ::-1])
    assert one.verdict == other.verdict
    again = plan_order(one, PlanRequest(root=one.hosts[4].name))
    turned = plan_order(other, PlanRequest(root=one.hosts[4].name))
    assert again.order == turned.order
    assert again.cost_s == turned.cost_s


def test_the_same_seed_gives_the_same_documents() -> None:
    scan, _ = rack_scan((6, 6, 4), seed=2)
    one, other = map_scan(scan, seed=3), map_scan(scan, seed=3)
    assert canonical_sha256(one) == canonical_sha256(other)
    assert canonical_sha256(plan_order(one, PlanRequest(seed=3))) == canonical_sha256(
        plan_order(other, PlanRequest(seed=3))
    )
    assert one.parents[0].sha256 == canonical_sha256(scan)


def test_a_fleet_without_racks_keeps_its_order_and_says_so() -> None:
    scan, _ = rack_scan((16,), seed=4)
    map_ = map_scan(scan)
    assert map_.verdict.locality == "none"
    assert "no usable locality" in map_.verdict.text
    assert len(map_.groups) == 1
    plan = plan_order(map_)
    assert plan.order == [host.name for host in scan.hosts]
    assert plan.cost_s == plan.cost_given_s


@pytest.mark.parametrize("size", [1, 2])
def test_one_and_two_hosts_give_trivial_documents(size: int) -> None:
    rtt = np.full((size, size), INSIDE_S)
    np.fill_diagonal(rtt, np.nan)
    scan = make_scan(rtt)
    map_ = map_scan(scan)
    assert map_.verdict.locality == "cannot_tell"
    assert sum(len(group.hosts) for group in map_.groups) == size
    plan = plan_order(map_)
    assert plan.order == [host.name for host in scan.hosts]
    assert export_hostfile(plan, format_name="plain").text.split() == plan.order
    exported = export_hostfile(plan, format_name="mpich", slots=2)
    lines = [line for line in exported.text.splitlines() if not line.startswith("#")]
    assert lines == [f"{name}:2" for name in plan.order]
    assert exported.command == f"mpiexec.hydra -machinefile hostfile -n {2 * len(lines)} PROGRAM"
    assert export_hostfile(plan, format_name="deepspeed").command is None
    with pytest.raises(InputError, match="only read"):
        export_hostfile(plan, format_name="ansible")


@pytest.mark.parametrize("groups", ["natural", "sqrt"])
def test_more_groups_than_hosts_are_refused_before_anything_is_denoised(
    groups: Literal["natural", "sqrt"], monkeypatch: pytest.MonkeyPatch
) -> None:
    rtt = rack_rtt((4, 4), seed=7)
    rtt[3, :] = rtt[:, 3] = np.nan

    def denoised(*_given: object, **_options: object) -> None:
        pytest.fail("denoised first")

    monkeypatch.setattr("netprobe.pipeline.mapping.map_scan.fit_embedding", denoised)
    with pytest.raises(InfeasibleError, match="cannot form 8 groups of 7 hosts"):
        map_scan(make_scan(rtt, status="partial"), options=MapOptions(groups=groups, k=8))


def test_missing_cells_are_completed() -> None:
    rtt = rack_rtt((6, 6, 4), seed=6)
    rtt[0, 5] = rtt[5, 0] = rtt[2, 9] = rtt[9, 2] = np.nan
    map_ = map_scan(make_scan(rtt))
    distance = map_.distance
    assert not np.isnan(distance).any()
    assert distance[0, 5] == pytest.approx(100e-6, rel=0.1)
    assert distance[2, 9] == pytest.approx(300e-6, rel=0.1)


def test_a_host_without_a_reading_is_unplaced_and_left_out() -> None:
    rtt = rack_rtt((4, 4), seed=7)
    rtt[3, :] = rtt[:, 3] = np.nan
    map_ = map_scan(make_scan(rtt, status="partial"))
    assert map_.unplaced == ["h3"]
    assert all("h3" not in group.hosts for group in map_.groups)
    assert np.isnan(map_.distance[3]).all()
    plan = plan_order(map_)
    assert plan.left_out == ["h3"]
    assert "h3" not in plan.order
    assert len(plan.order) == 7
    exported = export_hostfile(plan)
    assert "h3" not in exported.text
    assert exported.warnings == ("not in the file, since it has no rank: h3",)
    topology = export_topology(map_)
    assert "# Under no switch: h3\n" in topology.text
    assert topology.warnings == ("not in the file, since it has no reading and is in no group: h3",)
    with pytest.raises(InputError, match="h3"):
        plan_order(map_, PlanRequest(root="h3"))


def test_of_a_torn_fleet_the_larger_part_is_mapped() -> None:
    rtt = rack_rtt((5, 3), seed=8)
    rtt[:5, 5:] = rtt[5:, :5] = np.nan
    assert connected(rtt) == [0, 1, 2, 3, 4]
    map_ = map_scan(make_scan(rtt, status="partial"))
    assert map_.unplaced == ["h5", "h6", "h7"]


def test_a_scan_without_a_reading_is_refused() -> None:
    with pytest.raises(NothingMeasuredError, match="no measured link"):
        map_scan(make_scan(np.full((4, 4), np.nan), status="failed"))


def test_a_scan_without_latency_is_refused() -> None:
    scan, _ = rack_scan((2, 2))
    with pytest.raises(DocumentError, match="no measurement rtt"):
        map_scan(scan.model_copy(update={"measurements": []}))


def test_a_hosts_file_of_other_hosts_is_refused_everywhere() -> None:
    scan, _ = rack_scan((3, 3), seed=9)
    map_ = map_scan(scan)
    others = [*(Host(name=host.name) for host in scan.hosts[1:]), Host(name="stranger")]
    with pytest.raises(DocumentError, match="stranger"):
        plan_order(map_, PlanRequest(hosts=others))
    with pytest.raises(DocumentError, match="stranger"):
        export_hostfile(plan_order(map_), hosts=others)


def test_slots_and_launcher_names_of_a_hosts_file_reach_the_hostfile() -> None:
    scan, _ = rack_scan((3, 3), seed=9)
    hosts = [Host(name=h.name, launcher_name=f"node-{h.name}", slots=2) for h in scan.hosts]
    plan = plan_order(map_scan(scan), PlanRequest(hosts=hosts))
    exported = export_hostfile(plan)
    assert all(f"node-{name}" in exported.text for name in plan.order)
    assert exported.command is not None
    assert "-np 12" in exported.command


def test_the_given_order_of_a_hosts_file_decides_rank_0() -> None:
    scan, _ = rack_scan((3, 3), seed=9)
    hosts = [Host(name=h.name) for h in reversed(scan.hosts)]
    assert plan_order(map_scan(scan), PlanRequest(hosts=hosts)).order[0] == scan.hosts[-1].name


def test_an_unknown_format_is_refused() -> None:
    scan, _ = rack_scan((2, 2))
    with pytest.raises(InputError, match="known are"):
        export_hostfile(plan_order(map_scan(scan)), format_name="bogus")


@pytest.mark.slow
@pytest.mark.parametrize("racks", [(6, 6), (6, 6, 4), (8, 8)])
@pytest.mark.parametrize("seed", range(3))
def test_one_slow_host_does_not_hide_the_racks(racks: tuple[int, ...], seed: int) -> None:
    rtt = rack_rtt(racks, seed=seed)
    rtt[4, :] += 1e-3
    rtt[:, 4] += 1e-3
    map_ = map_scan(make_scan(rtt))
    assert map_.verdict.locality == "found", map_.verdict.text
    assert adjusted_rand_index(rack_labels(racks), found_labels(make_scan(rtt), map_)) == 1.0


def test_slow_hosts_alone_are_no_locality() -> None:
    found = 0
    for seed in range(10):
        rtt = rack_rtt((12,), seed=seed, noise_s=20e-6)
        rtt[4, :] += 1e-3
        rtt[:, 4] += 1e-3
        found += map_scan(make_scan(rtt, visits=False)).verdict.locality == "found"
    assert found <= 1


def test_every_scan_that_can_be_asked_for_can_be_mapped() -> None:
    for options in (ScanOptions(), ScanOptions(source_ports=4), ScanOptions(latency="tcp", source_ports=2)):
        measurement = latency_method(options).measurement
        scan = make_scan(rack_rtt([4, 4], seed=2)).model_copy(update={"measurements": [measurement]})
        assert map_scan(scan).verdict.locality == "found"
