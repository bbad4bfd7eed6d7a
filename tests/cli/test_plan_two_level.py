"""``netprobe plan 2lha`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.cli.options.schedules import chunk_bytes_of
from netprobe.core.documents.document import canonical_sha256
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.pipeline import files
from netprobe.plan import load_plan
from tests.maps import made_capacity, made_map


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    map_ = made_map([3, 3, 2], unplaced=1)
    files.save(map_, tmp_path / "map.json")
    files.save(made_capacity(map_), tmp_path / "capacity.json")
    files.save(made_capacity(map_, rates={"up:g1": 0.0}), tmp_path / "zero.json")
    files.save(made_capacity(made_map([3, 3])), tmp_path / "other.json")
    return tmp_path


def test_a_plan_is_written_and_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "2lha", str(folder / "map.json"), "--capacity", str(folder / "capacity.json")]
    assert run([*words, "--size", "8MB", "--chunk", "64KB", "--channels", "2"]) == 0
    said = capsys.readouterr().out
    assert "2lha among 8 hosts in 123 chunks over 2 connections per pair of hosts: proved for eager" in said
    assert "3 groups (natural) of 3, 3, 2" in said and "8 MB take " in said and " by capacity" in said
    assert "left out, since they are not placed on the map: h8" in said
    plan = load_plan(folder / "plan.json")
    assert isinstance(plan, SchedulePlan) and plan.channels == 2 and plan.size_bytes == 8_000_000
    assert run(["show", str(folder / "plan.json")]) == 0
    again = capsys.readouterr().out
    assert all(line in again.splitlines() for line in said.splitlines()[:4])
    # Nothing of ours is replaced unasked.
    assert run(words) == 2
    assert "exists" in capsys.readouterr().err
    assert run([*words, "--force", "--json", "--chunk", "1MB"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (
        data["kind"] == "schedule"
        and data["size_bytes"] == 100_000_000
        and data["file"].endswith("plan.json")
    )
    assert {"grouping", "pieces", "time_s", "busiest", "bytes_across_groups"} <= set(data["tried"][0])
    # As written: with its header, and figures of nine digits.
    assert data["schema"] == "netprobe.plan/1.3" and data["parents"] and "schema_" not in data
    assert data["predictions"][0]["time_s"] == pytest.approx(data["tried"][0]["time_s"], rel=1e-8)
    assert data["unknown"] == []


def test_seeds_repeat_and_quiet_says_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "2lha", str(folder / "map.json"), "--size", "1MB", "--seed", "7", "--quiet"]
    found = []
    for name in ("a.json", "b.json"):
        assert run([*words, "--grouping", "sqrt", "--out", str(folder / name)]) == 0
        found.append(canonical_sha256(load_plan(folder / name)))
    assert found[0] == found[1] and capsys.readouterr() == ("", "")


def test_without_rates_it_says_what_cannot_be_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "2lha", str(folder / "map.json"), "--out", str(folder / "a.json")]) == 0
    said = capsys.readouterr().out
    assert "what 100 MB take is not known: the map knows latencies alone" in said
    assert "not known: how long bytes take" in said and " s " not in said.splitlines()[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--grouping", "auto"], "--grouping 'auto' is not one of natural, sqrt, nested, best"),
        (["--grouping", "nested"], "the map's groups are not nested"),
        (["--size", "0B"], "1 B to"),
        (["--size", "lots"], "a number and one of"),
        (["--chunk", "64"], "--chunk '64' has no unit: 64B is bytes"),
        (["--chunk", "0"], "--chunk '0' is too small: 1 B to 1000 GB are allowed, such as 64kB"),
        (["--chunk=-1MB"], "--chunk '-1MB' is negative"),
        (["--chunk", "0kB"], "is too small: 1 B to"),
        (["--channels", "0"], "Invalid value for '--channels'"),
        (["--size", "1GB", "--chunk", "1B"], "more than a schedule holds: give --chunk"),
        (["--capacity", "zero.json"], "the capacity of up:g1 is 0 bytes/s"),
        (["--capacity", "other.json"], "its hosts differ from those of the map"),
        (["--capacity", "map.json"], "is a map document, and a capacity is needed"),
        (["--hosts", "h0,h1"], "its hosts differ from those of the hosts file"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    words: list[str],
    says: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert run(["plan", "2lha", "map.json", "--out", "out.json", *words]) == 2
    said = capsys.readouterr().err
    assert says in said and len(said.strip().splitlines()) == 1 and not (folder / "out.json").exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("64KiB", 65_536), ("64KB", 65_536), ("64kB", 64_000), ("1MB", 1_000_000), ("auto", None)],
)
def test_a_chunk_is_what_its_unit_says(text: str, size: int | None) -> None:
    assert chunk_bytes_of(text) == size
