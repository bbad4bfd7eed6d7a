"""``netprobe plan ds-sync`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.errors import DocumentError
from netprobe.pipeline import files
from netprobe.plan import load_plan
from tests.documents import capacity_of
from tests.maps import made_map


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files.save(made_map([3, 3, 2], unplaced=1), tmp_path / "map.json")
    files.save(made_map([4]), tmp_path / "one.json")
    return tmp_path


def with_capacity(folder: Path) -> list[str]:
    """``plan ds-sync`` of the map and the capacities in a folder."""
    return [
        "plan", "ds-sync", str(folder / "map.json"), "--capacity", str(folder / "capacity.json"), "--json",
    ]  # fmt: skip


def test_a_pattern_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "ds-sync", str(folder / "map.json"), "--contended", "group:g1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["pattern_length"] == len(said["pattern"]) and said["rho"] < 1
    assert said["left_out"] == ["h8"] and said["schema"] == "netprobe.plan/1.3" and "schema_" not in said
    plan = load_plan(folder / "plan.json")
    assert plan.kind == "ds_sync" and said["file"] == str(folder / "plan.json")
    other = ["--out", str(folder / "other.json"), "--size", "1MB", "--seed", "3", "--quiet"]
    assert run(["plan", "ds-sync", str(folder / "map.json"), *other]) == 0
    assert run(["plan", "ds-sync", str(folder / "map.json"), *other]) == 2
    assert run(["plan", "ds-sync", str(folder / "map.json"), *other, "--force"]) == 0
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
    ("name", "contended"), [("map", "group:no"), ("map", "host:h8"), ("map", "h0"), ("one", "group:g9")]
)
def test_bad_input(folder: Path, capsys: pytest.CaptureFixture[str], name: str, contended: str) -> None:
    assert run(["plan", "ds-sync", str(folder / f"{name}.json"), "--contended", contended]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_capacities_tell_contention_and_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The uplink of one group of three carries a tenth: its leader then averages with one other leader only."""
    map_ = load_document(Map, folder / "map.json")
    capacity = capacity_of(map_)
    slow = [
        one.model_copy(update={"bytes_per_s": one.bytes_per_s / 10})
        if one.id in ("up:g1", "down:g1")
        else one
        for one in capacity.resources
        if one.bytes_per_s is not None
    ]
    files.save(capacity.model_copy(update={"resources": slow}), folder / "capacity.json")
    words = with_capacity(folder)
    assert run(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["contended_groups"] == ["g1"] and said["contended_share"] == 0.7
    rack = {name: number for number, names in enumerate(said["racks"]) for name in names}
    for iteration in said["pattern"]:
        for group in iteration["groups"]:
            crossed = {rack[name] for name in group}
            assert len(crossed) == 1 or 1 not in crossed or len(group) == 2
    assert 0 < said["predicted_s"] < said["all_reduce_s"]


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (["rho"], 0.0, "rho is 0"),
        (["pattern_length"], 9, "pattern_length is 9"),
        (["pattern", 0, "groups", 0], ["h0"], "each host once"),
        (["pattern", 0, "groups", 0, 0], "nobody", "in no rack"),
        (["racks", 0], [], "each host once"),
        (["iterations_to_a_thousandth"], 1, "iterations_to_a_thousandth is 1, and by rho it is"),
        (["pattern", 0, "leaders"], [], "iteration 0: leaders are not"),
        (["pattern", 1, "leaders"], ["h0", "h1", "h2"], "iteration 1: leaders are not"),
    ],
)
def test_an_edited_pattern_is_refused_when_it_is_loaded(
    folder: Path, path: list[str | int], value: object, text: str
) -> None:
    assert run(["plan", "ds-sync", str(folder / "map.json"), "--quiet"]) == 0
    data = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    (folder / "plan.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(DocumentError, match=text):
        load_plan(folder / "plan.json")


def test_contention_says_what_it_costs_to_mix(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its exchanges may be quicker while differences take longer to shrink: iterations times seconds tell."""
    map_ = made_map([3, 3, 2])
    files.save(map_, folder / "map.json")
    files.save(capacity_of(map_), folder / "capacity.json")
    words = with_capacity(folder)
    assert run([*words, "--out", str(folder / "none.json")]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert run([*words, "--contended", "group:g0"]) == 0
    said = json.loads(capsys.readouterr().out)
    whole = [one["iterations_to_a_thousandth"] * one["predicted_s"] for one in (said, plain)]
    assert said["predicted_s"] < plain["predicted_s"] and whole[0] > 1.5 * whole[1]
    assert (
        f"the pattern without contention takes {plain['iterations_to_a_thousandth']} iterations of"
        in said["advice"]
    )
    assert f"this one mixes {whole[0] / whole[1]:.2f}x slower" in said["advice"]
    assert "without contention" not in plain["advice"]


def test_what_a_pattern_has_no_order_for_names_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(folder / "plan.json")
    assert run(["plan", "ds-sync", str(folder / "map.json"), "--quiet"]) == 0
    for words in (["export", "hostfile", plan], ["launch", plan, "--via", "local", "--", "true"]):
        assert run(words) == 2
        said = capsys.readouterr().err
        assert "netprobe plan order MAP" in said and "DSSync" in said and "check" not in said
    assert run(["export", "schedule", plan]) == 2
    assert "export hostfile" not in capsys.readouterr().err
