"""Plans that were edited by hand: refused, unless the edit is said to be meant; then said to be unchecked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document, write_document
from netprobe.core.documents.map import Map
from tests.documents import capacity_of, rack_scan

PLANS = ("plan.json", "plan-2lha.json", "plan-ds-sync.json")
Edit = Callable[[dict[str, Any]], None]


def _advice(data: dict[str, Any]) -> None:
    data["advice"] = "buy a faster switch"


def _seconds(data: dict[str, Any]) -> None:
    if "predictions" in data:
        data["predictions"][0]["time_s"] /= 2
    elif data["kind"] == "ds_sync":
        data["predicted_s"] = 1.0
    else:
        data["held_out"]["text"] = "twice as fast"


def _unknown_key(data: dict[str, Any]) -> None:
    data["extra"] = {"of": "a newer version"}


def _twice(data: dict[str, Any]) -> None:
    data["order"][1] = data["order"][2]


def _missing(data: dict[str, Any]) -> None:
    data["order"].pop()


def _stranger(data: dict[str, Any]) -> None:
    data["order"][0] = "nowhere"


def _edited(path: Path, edit: Edit, *, meant: bool = False) -> None:
    data = json.loads(path.read_text())
    edit(data)
    if meant:
        del data["own_sha256"]
    path.write_text(json.dumps(data))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "first"
    folder.mkdir()
    write_document(rack_scan((4, 3, 3), seed=1)[0], folder / "scan.json")
    assert run(["map", str(folder), "-q"]) == 0
    write_document(capacity_of(load_document(Map, folder / "map.json")), folder / "capacity.json")
    for words in (["order"], ["ds-sync"], ["2lha", "--size", "4kB"]):
        assert run(["plan", words[0], str(folder), *words[1:], "-q"]) == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    for name in ("map.json", *PLANS):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    return tmp_path


@pytest.mark.parametrize("edit", [_advice, _seconds, _unknown_key])
@pytest.mark.parametrize("name", PLANS)
def test_what_no_proof_covers_is_refused_where_it_was_edited(
    folder: Path, name: str, edit: Edit, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", str(folder / name)]) == 0
    _edited(folder / name, edit)
    capsys.readouterr()
    for command in (["show"], ["export", "hostfile"]):
        assert run([*command, str(folder / name)]) == 2
        said = capsys.readouterr().err
        assert "was edited since netprobe wrote it" in said and "own_sha256" in said
        assert len(said.splitlines()) == 1


@pytest.mark.parametrize("name", PLANS)
def test_an_edit_that_is_meant_is_taken_and_what_is_not_checked_is_said(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "map.json").unlink()
    _edited(folder / name, _advice, meant=True)
    capsys.readouterr()
    assert run(["show", str(folder / name)]) == 0
    said = capsys.readouterr()
    assert "its figures and advice are of it cannot be told" in said.err
    if name == "plan-2lha.json":
        assert run(["export", "schedule", str(folder / name)]) == 0
        assert "cannot be told" in capsys.readouterr().err


@pytest.mark.parametrize("meant", [False, True])
@pytest.mark.parametrize("edit", [_twice, _missing, _stranger])
@pytest.mark.parametrize("name", PLANS[:2])
def test_an_edited_order_of_ranks_is_refused_by_every_reader(
    folder: Path, name: str, edit: Edit, meant: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _edited(folder / name, edit, meant=meant)
    capsys.readouterr()
    for command in ("show", "export", "verify", "check-order", "launch"):
        assert run([command, str(folder / name), *(["--", "true"] if command == "launch" else [])]) == 2, (
            command
        )
        said = capsys.readouterr().err
        assert "order" in said and len(said.strip().splitlines()) == 1, said


def test_an_order_turned_on_purpose_is_exported_with_a_warning_that_its_costs_are_not_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def swap(data: dict[str, Any]) -> None:
        far = len(data["order"]) // 2
        data["order"][1], data["order"][far] = data["order"][far], data["order"][1]
        data["kept_given"] = None

    _edited(folder / "plan.json", swap, meant=True)
    wanted = json.loads((folder / "plan.json").read_text())["order"]
    capsys.readouterr()
    for command in (["show"], ["export", "--format", "plain"]):
        assert run([command[0], str(folder / "plan.json"), *command[1:]]) == 0
        assert "it was edited since it was planned" in capsys.readouterr().err
    assert (folder / "hostfile.plain").read_text().split() == wanted


def test_figures_of_an_edited_plan_are_called_unchecked_beside_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def faster(data: dict[str, Any]) -> None:
        data["predictions"][0] |= {"time_s": 1e-6, "basis": "capacity"}
        _advice(data)

    (folder / "map.json").unlink()
    before = {}
    for name in PLANS:
        capsys.readouterr()
        assert run(["show", str(folder / name)]) == 0
        before[name] = capsys.readouterr().out
        _edited(folder / name, faster if name == "plan-2lha.json" else _advice, meant=True)
        assert run(["show", str(folder / name)]) == 0
        said = capsys.readouterr().out
        assert "unchecked" not in before[name], name
        assert "edited: its figures and advice are unchecked" in said.splitlines()[0]
        told = [line for line in said.splitlines() if "buy a faster switch" in line or "1.00 us" in line]
        assert all("unchecked" in line for line in told if not line.startswith("2lha ")), said
    assert run(["show", str(folder)]) == 0
    *_, schedule, order = capsys.readouterr().out.strip().splitlines()
    assert "1.00 us by capacity, unchecked" in schedule and "predicted" not in schedule
    assert order.endswith("(unchecked, for the plan was edited)")
