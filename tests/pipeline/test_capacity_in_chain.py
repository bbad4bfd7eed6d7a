"""``--measure rtt,capacity``: capacity as a stage of the chain, and what is left when it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan
from netprobe.pipeline.capacity import ONE_GROUP
from netprobe.pipeline.scanning import measuring
from netprobe.probe.capacity.run import CapacityOptions

QUICK = ["--probes", "10", "--measure", "rtt,capacity"]


@pytest.mark.slow
def test_capacity_stands_beside_the_map_it_was_measured_in_and_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "CapacityOptions", lambda: CapacityOptions(seconds=0.4))
    out = tmp_path / "out"
    scan = ["scan", "--hosts", "a,b", "--via", "local", *QUICK, "--out", str(out)]
    assert run([*scan, "--only", "map"]) == 0
    said = capsys.readouterr().out
    assert f"warning: {ONE_GROUP}" in said and said.count(ONE_GROUP) == 1
    made = load_document(Capacity, out / "capacity.json")
    parents = [
        load_document(kind, out / name).parent() for kind, name in ((Scan, "scan.json"), (Map, "map.json"))
    ]
    assert made.status == "ok" and made.parents == parents
    assert {one.id for one in made.resources} == {"tx:a", "rx:a", "tx:b", "rx:b"}
    assert not (out / "plan.json").exists()
    # The journal says that capacity was asked for; it is complete, and no flow runs again.
    assert run(["scan", "--out", str(out), "--resume", "--via", "local", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["capacity"]["status"] == "ok" and len(data["capacity"]["resources"]) == 4
    # Capacities predict times: the scan ends with the all-reduce that suits them.
    assert " for 100 MB by capacity" in data["schedule"]
    again = load_document(Capacity, out / "capacity.json")
    assert again.tests == made.tests and again.created_at == made.created_at


def test_without_a_reading_the_rest_of_the_chain_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, login = tmp_path / "out", tmp_path / "login"
    # Hosts that die between the scan and its capacity.
    login.write_text(
        f'#!/bin/sh\n[ -e {out}/map.json ] && {{ echo "$1 is gone" >&2; exit 255; }}\nshift\nexec "$@"\n'
    )
    login.chmod(0o755)
    (tmp_path / "hosts").write_text("a 127.0.0.1\nb 127.0.0.2\n")
    scan = [
        "scan",
        "--hosts",
        str(tmp_path / "hosts"),
        "--via",
        f"{login} {{target}}",
        *QUICK,
        "--out",
        str(out),
    ]
    assert run(scan) == 3
    said = capsys.readouterr().out
    assert "no capacity: a: " in said and "b is gone" in said
    made = load_document(Capacity, out / "capacity.json")
    assert made.status == "failed" and made.reason is not None and "a is gone" in made.reason
    assert {host.status for host in made.hosts} == {"unreachable"}
    assert (out / "hostfile").read_text().count("slots") == 2


@pytest.mark.slow
def test_a_run_without_readings_leaves_a_good_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["scan", "--hosts", "a,b", "--via", "local", *QUICK, "--out", str(out), "--quiet"]) == 0
    good = (out / "capacity.json").read_bytes()
    dead = ["--via", "false {target}", "--out", str(out / "capacity.json"), "--force", "--quiet"]
    assert run(["capacity", str(out / "scan.json"), str(out / "map.json"), *dead]) == 4
    assert (out / "capacity.json").read_bytes() == good
    (tmp_path / "config").write_text("")
    capsys.readouterr()
    nobody = ["--ssh-config", str(tmp_path / "config"), "--ssh-option", "ProxyCommand=false", "--force"]
    documents = [str(out / "scan.json"), str(out / "map.json")]
    assert run(["capacity", *documents, *nobody, "--start-timeout", "0.7", "--quiet"]) == 4
    assert "(no --via was given: is it the scan's way in?)" in capsys.readouterr().err
    assert (out / "capacity.json").read_bytes() == good
