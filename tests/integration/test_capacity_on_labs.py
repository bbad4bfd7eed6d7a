"""`netprobe capacity` on a lab of known rates: hosts, uplinks and oversubscription."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from netprobe.core.capacity import Capacity
from netprobe.core.document import load_document
from netprobe.core.map import Map
from netprobe.core.scan import Scan
from netprobe.lab import LabSpec, temporary

pytestmark = pytest.mark.lab
GOODPUT_RATIO = 0.95  # of a rate that counts frames; the rest is headers


def run(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "netprobe", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120)


def test_rates_of_hosts_and_uplinks_are_read_within_a_tenth(tmp_path: Path) -> None:
    spec = {
        "name": "capacity",
        "racks": [{"hosts": 4, "uplink_rate": "50Mbit/s"}, {"hosts": 4, "uplink_rate": "100Mbit/s"}, 3],
        "host_rate": "50Mbit/s",
        "uplink_rate": "unlimited",
    }
    out = tmp_path / "out"
    with temporary(LabSpec.from_spec(spec), seed=5) as lab:
        reach = ("--via", lab.via_template, "--python", sys.executable)
        assert (
            run(
                "scan",
                "--hosts",
                str(lab.hosts_path),
                *reach,
                "--only",
                "map",
                "--out",
                str(out),
                "--probes",
                "40",
            ).returncode
            == 0
        )
        done = run(
            "capacity", str(out / "scan.json"), str(out / "map.json"), *reach, "--seconds", "0.6", "--json"
        )
        assert done.returncode == 0, done.stderr
        again = run("capacity", str(out / "scan.json"), str(out / "map.json"), *reach)
        assert again.returncode == 2 and "exists already" in again.stderr
        racks = {host.name: host.rack for host in lab.truth().hosts}
    capacity = load_document(Capacity, out / "capacity.json")
    assert json.loads(done.stdout)["status"] == capacity.status == "ok"
    scan, map_ = load_document(Scan, out / "scan.json"), load_document(Map, out / "map.json")
    assert capacity.parents == [scan.parent(), map_.parent()]
    found = {one.id: one for one in capacity.resources}
    for name in racks:
        for end in ("tx", "rx"):
            assert found[f"{end}:{name}"].bytes_per_s == pytest.approx(50e6 / 8 * GOODPUT_RATIO, rel=0.1)
    ratios = {one.group: one for one in capacity.oversubscription}
    for group in capacity.groups:
        rack = racks[group.hosts[0]]
        assert {racks[name] for name in group.hosts} == {rack}
        up = found[f"up:{group.id}"]
        if rack == "rack2":  # 3 hosts of 50 Mbit/s into others' ways in of 50 and 100: less than either
            assert up.limited_by in ("hosts", "one_of")
            continue
        limit = {"rack0": 50e6, "rack1": 100e6}[rack]
        assert up.bytes_per_s == pytest.approx(limit / 8 * GOODPUT_RATIO, rel=0.1)
        assert ratios[group.id].ratio == pytest.approx(200e6 / limit, rel=0.1)


def test_a_map_of_another_scan_is_refused(tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "golden"
    data = json.loads((golden / "scan-1.0.json").read_text())
    data["seed"] = 99
    (tmp_path / "scan.json").write_text(json.dumps(data))
    done = run(
        "capacity",
        str(tmp_path / "scan.json"),
        str(golden / "map-1.0.json"),
        "--via",
        "local",
        "--out",
        str(tmp_path / "c.json"),
    )
    assert done.returncode == 2
    assert "made from another scan" in done.stderr
