"""From an imported matrix to a schedule or pattern, as a user types it, and what ``verify`` says that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from netprobe.cli.entry import run
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
