"""`netprobe capacity` on a lab of known rates: hosts, uplinks and oversubscription."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan
from netprobe.lab import LabSpec, temporary

pytestmark = [pytest.mark.lab, pytest.mark.quiet]
ATTEMPTS = 3  # the order of two uplinks is a factor of two, which a busy second may hide


def test_hosts_and_uplinks_are_distinguished_by_their_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], attempts: Callable[[int], Iterator[int]]
) -> None:
    """How near the readings are is bench/capacity.py's to say. Slow links take little of this machine's time."""
    spec = {
        "name": "capacity",
        "racks": [{"hosts": 4, "uplink_rate": "20Mbit/s"}, {"hosts": 4, "uplink_rate": "40Mbit/s"}, 3],
        "host_rate": "20Mbit/s",
        "uplink_rate": "unlimited",
        "delay_between": "1ms",
    }
    out = tmp_path / "out"
    with temporary(LabSpec.from_spec(spec), seed=5) as lab:
        reach = ("--via", lab.via_template, "--python", sys.executable)
        given = ("--hosts", str(lab.hosts_path), *reach)
        assert run(["scan", *given, "--only", "map", "--out", str(out), "--probes", "20"]) == 0
        command = ["capacity", str(out / "scan.json"), str(out / "map.json"), *reach]
        for _ in attempts(ATTEMPTS):
            capsys.readouterr()
            code = run([*command, "--seconds", "0.6", "--repeats", "1", "--json", "--force"])
            said = capsys.readouterr()
            assert code == 0, said.err
            capacity = load_document(Capacity, out / "capacity.json")
            racks = {host.name: host.rack for host in lab.truth().hosts}
            behind = {racks[group.hosts[0]]: group.id for group in capacity.groups}
            ratios = {one.group: one.ratio or 0.0 for one in capacity.oversubscription}
            found = {one.id: one for one in capacity.resources}
            # Four hosts of 20 Mbit/s behind 20 and behind 40: 4 and 2. Three without a limit: none of their own.
            distinct = ratios[behind["rack0"]] > 1.3 * ratios[behind["rack1"]] > 1.3
            if distinct and found[f"up:{behind['rack2']}"].limited_by != "itself":
                break
        assert run(command) == 2 and "exists already" in capsys.readouterr().err
    assert ratios[behind["rack0"]] > 1.3 * ratios[behind["rack1"]] > 1.3, ratios
    assert json.loads(said.out)["status"] == capacity.status == "ok"
    scan, map_ = load_document(Scan, out / "scan.json"), load_document(Map, out / "map.json")
    assert capacity.parents == [scan.parent(), map_.parent()]
    # A busy moment makes a reading smaller. It is larger than what the switch lets pass by no more than what was
    # queued in the part of the test that does not count.
    for end in ("tx", "rx"):
        shares = [(found[f"{end}:{name}"].bytes_per_s or 0.0) / (20e6 / 8) for name in racks]
        assert statistics.median(shares) > 0.55 and min(shares) > 0 and max(shares) < 1.3, shares
    for group in capacity.groups:
        rack = racks[group.hosts[0]]
        assert {racks[name] for name in group.hosts} == {rack}
        up = found[f"up:{group.id}"]
        if rack == "rack2":  # 3 hosts of 20 Mbit/s into others' ways in of 20 and 40: less than either
            assert up.limited_by != "itself"
            continue
        limit = {"rack0": 20e6, "rack1": 40e6}[rack]
        assert up.bytes_per_s and 0 < up.bytes_per_s < 1.3 * limit / 8


def test_a_map_of_another_scan_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = Path(__file__).parents[1] / "golden"
    data = json.loads((golden / "scan-1.0.json").read_text())
    data["seed"] = 99
    (tmp_path / "scan.json").write_text(json.dumps(data))
    command = ["capacity", str(tmp_path / "scan.json"), str(golden / "map-1.0.json"), "--via", "local"]
    assert run([*command, "--out", str(tmp_path / "c.json")]) == 2
    assert "made from another scan" in capsys.readouterr().err
