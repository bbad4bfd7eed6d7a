"""`netprobe capacity`: its options of reach and addresses are those of a scan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a scan and a map of two hosts, whose addresses in the scan are gone since."""
    out = tmp_path_factory.mktemp("scanned") / "out"
    quick = ["--probes", "5", "--interval", "0.001", "--only", "map", "--quiet"]
    assert run(["scan", "--hosts", "a,b", "--via", "local", *quick, "--out", str(out)]) == 0
    data = json.loads((out / "scan.json").read_text())
    for host in data["hosts"]:
        host["address"] = "192.0.2.7"
    (out / "scan.json").write_text(json.dumps(data))
    assert run(["map", str(out / "scan.json"), "--out", str(out / "map.json"), "--force", "--quiet"]) == 0
    return out


@pytest.mark.slow
def test_addresses_are_those_of_the_scan_unless_an_option_chooses_others(
    scanned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["capacity", str(scanned / "scan.json"), str(scanned / "map.json"), "--via", "local"]
    command += ["--seconds", "0.2", "--repeats", "1", "--start-timeout", "60", "--quiet"]
    assert run(command) == 4  # 192.0.2.7, as the scan had it
    assert "its address 192.0.2.7 is that of" in capsys.readouterr().err
    assert run([*command, "--subnet", "127.0.0.0/8", "--out", str(scanned / "c.json")]) == 0
    made = load_document(Capacity, scanned / "c.json")
    assert [host.address for host in made.hosts] == ["127.0.0.1", "127.0.0.2"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--ipv4", "--ipv6"], "--ipv4 and --ipv6 cannot go together"),
        (["--subnet", "10.0.0/300"], "is not a network"),
        (["--interface", "a name of many letters"], "a name of 1 to 15 characters is needed"),
        (["--start-timeout", "0"], "a start time-out of 0.0 s"),
        (["--port-range", "0-9"], "ports from 1 to 65535 are needed"),
    ],
)
@pytest.mark.parametrize("command", ["capacity", "doctor"])
def test_what_contradicts_itself_is_refused(
    command: str, args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {
        "capacity": [str(GOLDEN / "scan-1.0.json"), str(GOLDEN / "map-1.0.json")],
        "doctor": ["--hosts", "a,b"],
    }[command]
    assert run([command, *given, "--via", "local", *args]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_a_dry_run_says_what_the_groups_of_the_map_cost(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["capacity", str(GOLDEN / "scan-1.0.json"), str(GOLDEN / "map-1.0.json"), "--via", "local"]
    assert run([*command, "--dry-run", "--json"]) == 0
    once = json.loads(capsys.readouterr().out)
    assert run([*command, "--dry-run", "--json", "--repeats", "4"]) == 0
    more = json.loads(capsys.readouterr().out)
    assert once["dry_run"] is True and once["links"] > 0 and not (GOLDEN / "capacity.json").exists()
    groups = len(json.loads((GOLDEN / "map-1.0.json").read_text())["groups"])
    assert more["rounds"] - once["rounds"] == 2 * 2 * groups
