"""Every planner on capacities that carry nothing or were not measured, and on names that are none: one line, exit 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.pipeline import files
from tests.maps import made_capacity, made_map


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    map_ = made_map([3, 3, 2])
    files.save(map_, tmp_path / "map.json")
    for name, link, rate in (("zero", "tx:h1", 0.0), ("null", "down:g2", None), ("tiny", "up:g0", 1e-300)):
        files.save(made_capacity(map_, rates={link: rate}), tmp_path / f"{name}.json")
    data = json.loads((tmp_path / "null.json").read_text())
    data["resources"] = [one for one in data["resources"] if one["id"] != "rx:h2"]
    (tmp_path / "missing.json").write_text(json.dumps(data))
    return tmp_path


@pytest.mark.parametrize("planner", ["2lha", "auto", "ds-sync", "order"])
@pytest.mark.parametrize(
    ("capacity", "named"), [("zero", "tx:h1"), ("null", "down:g2"), ("tiny", "up:g0"), ("missing", "rx:h2")]
)
def test_no_planner_takes_a_link_that_carries_nothing(
    folder: Path, planner: str, capacity: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", planner, str(folder / "map.json"), "--capacity", str(folder / f"{capacity}.json")]
    assert run([*words, "--out", str(folder / "plan.json")]) == 2
    said = capsys.readouterr()
    assert f"the capacity of {named} " in said.err and said.err.endswith(
        "measure it again (netprobe capacity)\n"
    )
    assert len(said.err.splitlines()) == 1 and said.out == "" and not (folder / "plan.json").exists()


@pytest.mark.parametrize(
    "word",
    ["host:\x1b[2J", "host:" + "x" * 100_000, "group:", "group:h0", "host:g0", "", "host:h0\nh1", "host:;rm"],
)
def test_contended_names_that_are_none_are_one_short_line(
    folder: Path, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "ds-sync", str(folder / "map.json"), "--contended", word]
    assert run([*words, "--out", str(folder / "plan.json")]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and len(said) < 300 and "\x1b" not in said


@pytest.mark.parametrize("chunk", ["0", "-5", "-1MB", "nan", "1e30B", "1B"])
def test_chunks_that_cannot_be(folder: Path, chunk: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "2lha", str(folder / "map.json"), f"--chunk={chunk}"]
    assert run([*words, "--out", str(folder / "plan.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
