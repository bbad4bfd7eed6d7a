"""Scans and maps held against labels, Slurm topologies and the truth of labs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netprobe.core.documents.document import write_document
from netprobe.core.documents.map import Group, Grouping, Layers, Map, RttLayer, Verdict
from netprobe.core.documents.scan import Measurement, Scan
from netprobe.core.errors import DocumentError, InputError, NothingMeasuredError
from netprobe.lab.spec.layout import lay_out
from netprobe.lab.spec.spec import LabSpec
from netprobe.lab.truth import Truth, make_truth
from netprobe.pipeline.truth.evaluating import judge, load_judged, scan_distance, with_labels
from netprobe.pipeline.truth.placement import placement_of_labels, placement_of_truth, read_placement
from tests.documents import make_scan, permuted, rack_labels, rack_rtt, rack_scan

RACKS = (5, 4, 3)


def labelled() -> Scan:
    scan, racks = rack_scan(RACKS, seed=4)
    hosts = [
        host.model_copy(update={"labels": {"zone": f"z{rack // 2}", "rack": f"r{rack}"}})
        for host, rack in zip(scan.hosts, racks)
    ]
    return scan.model_copy(update={"hosts": hosts})


def map_of(scan: Scan, labels: list[str], unplaced: tuple[str, ...] = ()) -> Map:
    distance = np.fmax(scan.rtt_s.p10, scan.rtt_s.p10.T)
    for i, host in enumerate(scan.hosts):
        if host.name in unplaced:
            distance[i, :] = distance[:, i] = np.nan
        else:
            distance[i, i] = 0.0
    names = [host.name for host in scan.hosts]
    groups = {
        label: [n for n, x in zip(names, labels) if x == label and n not in unplaced] for label in labels
    }
    return Map(
        hosts=scan.hosts,
        unplaced=list(unplaced),
        layers=Layers(
            rtt=RttLayer(
                distance_s=distance, coordinates=[[]] * len(names), heights_s=[0.0] * len(names), method="x"
            )
        ),
        grouping=Grouping(method="x", k=len(groups)),
        groups=[
            Group(id=key, hosts=members, leader=members[0]) for key, members in groups.items() if members
        ],
        verdict=Verdict(locality="found", text=""),
    )


def test_a_scan_is_judged_by_its_readings_and_their_natural_groups() -> None:
    scan = labelled()
    judged = judge(scan, placement_of_labels(scan.hosts, ["rack"]), clusterings=4)
    assert (judged.kind, judged.measurement) == ("scan", "rtt")
    assert judged.evaluation.paia.paia == 1.0
    assert judged.evaluation.groups == 3
    assert judged.evaluation.grouping[0].ari == judged.evaluation.grouping[0].ami == 1.0
    order = list(np.random.default_rng(0).permutation(len(scan.hosts)))
    assert judge(permuted(scan, order), placement_of_labels(scan.hosts, ["rack"]), clusterings=4) == judged


def test_a_map_is_judged_by_its_own_groups() -> None:
    scan = labelled()
    placement = placement_of_labels(scan.hosts, ["zone", "rack"])
    zones = [host.labels["zone"] for host in scan.hosts]
    found = judge(map_of(scan, zones), placement, clusterings=0).evaluation
    assert [(entry.level, entry.ari == 1.0) for entry in found.grouping] == [("zone", True), ("rack", False)]
    assert found.groups == 2 and found.run_to_run is None


def test_an_unplaced_host_is_alone_and_its_triplets_are_missing() -> None:
    scan = labelled()
    placement = placement_of_labels(scan.hosts, ["rack"])
    racks = [host.labels["rack"] for host in scan.hosts]
    found = judge(map_of(scan, racks, (scan.hosts[0].name,)), placement, clusterings=3).evaluation
    assert found.groups == 4 and found.grouping[0].purity == 1.0 > found.grouping[0].ari
    assert found.paia.missing > 0 and found.paia.right + found.paia.missing == found.paia.triplets


def test_the_larger_direction_counts_and_goodput_is_turned_into_time() -> None:
    rtt = np.array([[np.nan, 1.0, 2.0], [3.0, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    scan = make_scan(rtt, visits=False)
    assert scan_distance(scan, None)[1][0, 1] == 3.0
    assert scan_distance(scan, "rtt")[1][2, 0] == 2.0
    measured = [
        Measurement(id=name, key="goodput_bytes_per_s", method="tcp", unit="bytes/s", statistic="median")
        for name in ("goodput", "empty")
    ]
    both = scan.model_copy(
        update={
            "measurements": [*scan.measurements, *measured],
            "goodput_bytes_per_s": {"goodput": rtt * 0 + 4.0, "empty": np.full((3, 3), np.nan)},
        }
    )
    assert scan_distance(both, "goodput")[1][1, 0] == 0.25
    with pytest.raises(DocumentError, match="of measurement 'loss': there are rtt, goodput, empty"):
        scan_distance(both, "loss")
    with pytest.raises(NothingMeasuredError, match="no reading"):
        scan_distance(both, "empty")


def test_a_slurm_topology_knows_more_hosts_than_the_scan(tmp_path: Path) -> None:
    scan = labelled()
    path = tmp_path / "topology.conf"
    by_rack = {f"r{k}": [h.name for h in scan.hosts if h.labels["rack"] == f"r{k}"] for k in range(3)}
    path.write_text(
        "SwitchName=top Switches=s[0-2]\n"
        + "".join(f"SwitchName=s{k[1]} Nodes={','.join(names)},more{k}\n" for k, names in by_rack.items())
    )
    placement = read_placement(path)
    assert (placement.kind, placement.levels) == ("slurm", ("level 1", "switch"))
    found = judge(scan, placement, clusterings=0).evaluation
    assert found.paia.paia == 1.0 and found.grouping[0].ari == 1.0

    renamed = scan.model_copy(
        update={
            "hosts": [
                h.model_copy(update={"name": f"vm-{h.name}", "launcher_name": h.name}) for h in scan.hosts
            ]
        }
    )
    assert judge(renamed, placement, clusterings=0).evaluation.paia == found.paia

    path.write_text(
        path.read_text().replace("SwitchName=s1 Nodes=", f"SwitchName=s1 Nodes={by_rack['r0'][0]},")
    )
    with pytest.raises(DocumentError, match="does not say where .*: it hangs on s0 and on s1"):
        judge(scan, read_placement(path))
    path.write_text("SwitchName=s Nodes=other\n")
    with pytest.raises(DocumentError, match=r"does not say where .* is \(and 11 more\)"):
        judge(scan, read_placement(path))
    path.write_text("a b c\n")
    with pytest.raises(InputError, match="neither a truth document"):
        read_placement(path)


def truth_of(spec: dict[str, object]) -> Truth:
    lab = LabSpec.from_spec(spec)
    return make_truth(lab, lay_out(lab, seed=1), lab="x", seed=1)


def test_a_lab_with_two_tiers_has_them_above_its_racks(tmp_path: Path) -> None:
    flat = placement_of_truth(truth_of({"racks": [3, 3, 2]}), source="truth.json")
    assert flat.levels == ("rack",) and set(flat.positions.values()) == {("rack0",), ("rack1",), ("rack2",)}
    pairs = [{"racks": [0, 2], "delay": "100us"}, {"racks": [1, 3], "delay": "100us"}]
    truth = truth_of({"racks": [3, 3, 2, 2], "delay_between": "300us", "delay_pairs": pairs})
    tiers = placement_of_truth(truth, source="truth.json")
    assert tiers.levels == ("tier 1", "rack")
    assert set(tiers.positions.values()) == {
        ("tier1.0", "rack0"),
        ("tier1.0", "rack2"),
        ("tier1.1", "rack1"),
        ("tier1.1", "rack3"),
    }
    # The configured round trips say the same, and are right about every triplet.
    scan = make_scan(truth.rtt_s, names=[host.name for host in truth.hosts], visits=False)
    write_document(truth, tmp_path / "truth.json")
    assert judge(scan, read_placement(tmp_path / "truth.json"), clusterings=0).evaluation.paia.paia == 1.0


def test_delays_that_make_no_tree_make_no_tier() -> None:
    chain = [{"racks": [0, 1], "delay": "100us"}, {"racks": [1, 2], "delay": "100us"}]
    truth = truth_of({"racks": [2, 2, 2, 2], "delay_between": "300us", "delay_pairs": chain})
    assert placement_of_truth(truth, source="t").levels == ("rack",)


def test_labels_that_are_not_there_are_named() -> None:
    scan = labelled()
    with pytest.raises(InputError, match=r"no label 'row' on .* and 9 more \(labels there are: rack, zone\)"):
        placement_of_labels(scan.hosts, ["zone", "row"])
    for keys in ([], ["rack", "rack"], [""]):
        with pytest.raises(InputError, match="outermost first"):
            placement_of_labels(scan.hosts, keys)
    with pytest.raises(DocumentError, match="host .* of the 1 hosts given"):
        with_labels(scan, scan.hosts[:1])


def test_only_scans_and_maps_are_judged(tmp_path: Path) -> None:
    write_document(truth_of({"racks": [2, 2]}), tmp_path / "truth.json")
    with pytest.raises(DocumentError, match="a truth document, and a scan or a map"):
        load_judged(tmp_path / "truth.json")
    write_document(labelled(), tmp_path / "scan.json")
    assert isinstance(load_judged(tmp_path / "scan.json"), Scan)


def test_hosts_that_nothing_ties_to_the_rest_do_not_stop_it() -> None:
    rtt = rack_rtt((4, 4), seed=1)
    rtt[7, :] = rtt[:, 7] = np.nan
    scan = make_scan(rtt)
    hosts = [
        h.model_copy(update={"labels": {"rack": str(r)}}) for h, r in zip(scan.hosts, rack_labels((4, 4)))
    ]
    scan = scan.model_copy(update={"hosts": hosts})
    found = judge(scan, placement_of_labels(hosts, ["rack"]), clusterings=2).evaluation
    assert found.linkage is None and found.paia.missing > 0 and found.groups == 3
