"""``netprobe plan ds-sync`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.pipeline import files
from tests.maps import made_map


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files.save(made_map([3, 3, 2], unplaced=1), tmp_path / "map.json")
    files.save(made_map([4]), tmp_path / "one.json")
    return tmp_path


def test_a_pattern_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "ds-sync", str(folder / "map.json"), "--contended", "group:g1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["pattern_length"] == len(said["pattern"]) and said["rho"] < 1
    assert said["left_out"] == ["h8"]
    for iteration in said["pattern"]:
        assert sorted(host for group in iteration["groups"] for host in group) == [
            f"h{number}" for number in range(8)
        ]


def test_all_contended_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for group in ("g0", "g1", "g2") for word in ("--contended", f"group:{group}")]
    assert run(["plan", "ds-sync", str(folder / "map.json"), *words]) == 0
    said = capsys.readouterr().out
    assert "every group is contended: planned as if none were" in said
    assert "left out, since they are not placed on the map: h8" in said


@pytest.mark.parametrize(
    ("name", "contended"), [("map", "group:no"), ("map", "host:h8"), ("map", "h0"), ("one", "host:h0")]
)
def test_bad_input(folder: Path, capsys: pytest.CaptureFixture[str], name: str, contended: str) -> None:
    assert run(["plan", "ds-sync", str(folder / f"{name}.json"), "--contended", contended]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
