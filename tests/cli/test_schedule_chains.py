"""From an imported matrix to a schedule or pattern, as a user types it, and what ``verify`` says that it needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.formats.schedules.msccl_reader import read_msccl, run_msccl
from netprobe.plan import load_plan

RACK_OF = (0, 1, 0, 1, 0, 1, 0, 1)


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A map of round trips in us between two racks of four, that somebody else measured."""
    monkeypatch.chdir(tmp_path)
    names = [f"h{i}" for i in range(len(RACK_OF))]
    rows = []
    for i, a in enumerate(RACK_OF):
        times = [0 if i == j else (100 if a == b else 400) + i + j for j, b in enumerate(RACK_OF)]
        rows.append([names[i], *map(str, times)])
    table = [["host", *names], *rows]
    Path("rtt.csv").write_text("".join(",".join(row) + "\n" for row in table), encoding="utf-8")
    assert run(["import", "matrix", "rtt.csv", "--unit", "us", "--out", "scan.json", "--quiet"]) == 0
    assert run(["map", "scan.json", "--quiet"]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("command", "kind"), [("2lha", "schedule"), ("auto", "schedule"), ("ds-sync", "ds_sync")]
)
def test_an_imported_matrix_is_planned_and_verify_says_what_it_needs(
    mapped: Path, command: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", command, "map.json", "--out", "plan.json", "--size", "1kB"]) == 0
    said = capsys.readouterr().out
    assert "wrote plan.json" in said
    # Nobody measured what bytes take, and none of them makes it up.
    assert "cannot" in said or "not known" in said
    plan = load_plan(mapped / "plan.json")
    assert plan.kind == kind and [host.name for host in plan.hosts] == [f"h{i}" for i in range(8)]
    code = run(["verify", "plan.json", "--via", "false {host}", "--quiet"])
    said = capsys.readouterr().err
    if kind == "ds_sync":
        assert code == 2 and "only rank orders and schedules can be run" in said
    else:
        assert code == 4 and "8 of 8 hosts are not up, and all are required" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("hosts", [2, 3, 5, 7])
def test_odd_and_tiny_fleets_are_planned_and_exported(
    hosts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = [["host", *(f"h{i}" for i in range(hosts))]]
    for i in range(hosts):
        table.append(
            [f"h{i}", *(str((100, 400)[(i + j) % 2] + i + j if i != j else 0) for j in range(hosts))]
        )
    Path("rtt.csv").write_text("".join(",".join(row) + "\n" for row in table), encoding="utf-8")
    assert run(["import", "matrix", "rtt.csv", "--unit", "us", "--out", "scan.json", "--quiet"]) == 0
    assert run(["map", "scan.json", "--quiet"]) == 0
    export = ["export", "schedule", "plan.json", "--quiet", "--force", "--format"]
    assert run(["plan", "auto", "map.json", "--out", "plan.json", "--quiet"]) == 0
    assert [run([*export, name]) for name in ("json", "svg", "msccl")] == [0, 0, 0]
    run_msccl(read_msccl(Path("schedule.msccl.xml").read_text(encoding="utf-8")), seed=1)
    assert run(["plan", "ds-sync", "map.json", "--out", "pattern.json", "--quiet"]) == 0
    assert run(["export", "schedule", "pattern.json", "--format", "json"]) == 2
    assert "DSSync of netprobe.runtime" in capsys.readouterr().err
    # 64 KB chunks of 40 MB are more steps than MSCCL has; what the refusal proposes is few enough.
    two_level = ["plan", "2lha", "map.json", "--size", "40MB", "--out", "plan.json", "--quiet", "--force"]
    assert run(two_level) == 0
    assert [run([*export, name]) for name in ("json", "svg", "msccl")] == [0, 0, 2]
    least = re.search(r"--chunk (\d+B)", capsys.readouterr().err)
    assert least is not None
    assert run([*two_level, "--chunk", least[1]]) == 0 and run([*export, "msccl"]) == 0
    run_msccl(read_msccl(Path("schedule.msccl.xml").read_text(encoding="utf-8")), seed=1)
