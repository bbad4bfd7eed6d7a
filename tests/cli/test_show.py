"""``netprobe show``: a folder's documents again, its links and its tree."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document, write_document
from netprobe.core.documents.map import Map
from netprobe.plan import load_plan
from tests.documents import capacity_of, rack_scan


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a scan leaves it, with capacities and every kind of plan."""
    folder = tmp_path_factory.mktemp("made") / "first"
    folder.mkdir()
    scan = rack_scan((4, 3, 3), seed=1)[0]
    p10 = np.array(scan.rtt_s.p10)
    p10[2, 5] = 0.05
    scan = scan.model_copy(update={"rtt_s": scan.rtt_s.model_copy(update={"p10": p10})})
    write_document(scan, folder / "scan.json")
    assert run(["map", str(folder), "-q"]) == 0
    write_document(capacity_of(load_document(Map, folder / "map.json")), folder / "capacity.json")
    assert run(["plan", "order", str(folder), "-q"]) == 0
    assert run(["plan", "ds-sync", str(folder), "-q"]) == 0
    assert run(["plan", "2lha", str(folder), "-q", "--size", "4kB"]) == 0
    golden = Path(__file__).parents[1] / "golden" / "verify-1.0.json"
    shutil.copy(golden, folder / "verify.json")
    return folder


def test_a_folder_is_shown_whole_and_ends_with_a_sentence(
    first: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    assert run(["show", str(first)]) == 0
    said = capsys.readouterr().out
    for what in (
        "RTT p10 from", "leader", "locality", "oversubscr", "an order of the ranks", "rank 0 first", "a schedule:",
        "which hosts average with which", "speed-up",
    ):  # fmt: skip
        assert what in said
    # The run in the folder is of another plan, and says nothing of this one.
    assert said.strip().splitlines()[-1].endswith("3 groups of near hosts found")
    assert "measured" not in said.strip().splitlines()[-1]
    assert "groups" in said.strip().splitlines()[-1]
    assert {path.name: path.read_bytes() for path in first.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("scan.json", "10 hosts"),
        ("map.json", "RTT p10 from"),
        ("plan.json", "rank 0 first"),
        ("plan-ds-sync.json", "iterations"),
        ("plan-2lha.json", "a schedule"),
        ("capacity.json", "host"),
        ("verify.json", "speed-up"),
    ],
)
def test_one_document_is_shown(first: Path, name: str, has: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(first / name)]) == 0
    assert has in capsys.readouterr().out


def test_the_slowest_links_come_first(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(first), "--slowest", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["links"]
    scan = json.loads((first / "scan.json").read_text())
    names = [host["name"] for host in scan["hosts"]]
    assert len(rows) == 3
    assert (rows[0]["src"], rows[0]["dst"]) == (names[2], names[5])
    assert rows[0]["rtt_s"] == 0.05
    assert rows[1]["rtt_s"] >= rows[2]["rtt_s"]


def test_links_as_csv_are_all_of_the_matrix(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(first), "--links", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    scan = json.loads((first / "scan.json").read_text())
    names = [host["name"] for host in scan["hosts"]]
    assert len(rows) == 90
    for row in rows:
        i, j = names.index(row["src"]), names.index(row["dst"])
        assert float(row["rtt_s"]) == scan["rtt_s"]["p10"][i][j]
    assert run(["show", str(first), "--links"]) == 0
    assert "and 50 more links" in capsys.readouterr().out


def test_links_of_one_host(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = json.loads((first / "scan.json").read_text())["hosts"][3]["name"]
    assert run(["show", str(first), "--host", name, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["links"]
    assert len(rows) == 18
    assert all(name in (row["src"], row["dst"]) for row in rows)
    assert run(["show", str(first), "--host", f"{name}x"]) == 2
    assert f"did you mean {name}?" in capsys.readouterr().err


def test_the_tree_has_a_leaf_for_each_group(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(first), "--tree"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    groups = json.loads((first / "map.json").read_text())["groups"]
    assert len(lines) == 2 * len(groups) - 1
    assert all(sum(f"{group['id']} (" in one for one in lines) == 1 for group in groups)


def test_json_is_one_object_of_all_documents(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(first), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"source", "scan", "map", "capacity", "plans", "verify"}
    assert [plan["kind"] for plan in data["plans"]] == ["order", "schedule", "ds_sync"]


@pytest.mark.parametrize(
    "args", [["--tree", "--links"], ["--csv", "--json"], ["--slowest", "0"], ["--slowest", "x"]]
)
def test_options_that_contradict_are_one_line(
    first: Path, args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", str(first), *args]) == 2
    assert capsys.readouterr().err.startswith("netprobe: ")


def test_what_cannot_be_shown_is_one_line(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text("a,1\nb,2\n")
    (tmp_path / "empty").mkdir()
    for given in (tmp_path / "none", tmp_path / "x.csv", tmp_path / "empty", first / ".."):
        assert run(["show", str(given)]) == 2
        err = capsys.readouterr().err
        assert err.startswith("netprobe: ") and err.count("\n") == 1
    assert run(["show", str(first / "plan.json"), "--links"]) == 2
    assert "no scan is there" in capsys.readouterr().err


def test_one_damaged_document_does_not_hide_the_others(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(first, tmp_path / "copy")
    (copy / "capacity.json").write_text((copy / "capacity.json").read_text()[:200])
    assert run(["show", str(copy)]) == 0
    said = capsys.readouterr()
    assert "capacity.json" in said.err
    assert "rank 0 first" in said.out


def test_advices_of_one_folder_are_each_about_their_own_thing(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("map.json", "plan.json", "plan-2lha.json"):
        (tmp_path / name).write_bytes((first / name).read_bytes())
        for side in first.glob(f"{name}.npz"):
            (tmp_path / side.name).write_bytes(side.read_bytes())
    assert run(["show", str(tmp_path)]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-2:]
    assert last[0].startswith("plan-2lha.json, for an all-reduce run by netprobe: 2lha in ")
    assert last[1].startswith("For a job's own collectives, by latency: ")


def test_an_order_that_was_edited_and_a_name_of_no_algorithm_are_said(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in first.glob("*"):
        if path.name.startswith(("map", "plan")):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    assert run(["show", str(tmp_path)]) == 0
    assert "edited" not in capsys.readouterr().err
    plan = json.loads((tmp_path / "plan.json").read_text())
    far = plan["order"].index(plan["order"][0]) + len(plan["order"]) // 2
    plan["order"][0], plan["order"][far] = plan["order"][far], plan["order"][0]
    plan["kept_given"] = plan["own_sha256"] = None
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    changed = {"algorithm": "magic", "own_sha256": None}
    other = json.loads((tmp_path / "plan-2lha.json").read_text()) | changed
    (tmp_path / "plan-2lha.json").write_text(json.dumps(other))
    assert run(["show", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "on this map it is" in said.err and "it was edited since it was planned" in said.err
    assert "magic (a name that is none of netprobe's algorithms) among" in said.out


def test_no_time_is_shown_of_a_schedule_that_was_planned_from_latencies_alone(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netprobe.pipeline.planning.plan_auto.STEPS_A_HOST", 20)
    (tmp_path / "map.json").write_bytes((first / "map.json").read_bytes())
    for command in ("auto", "2lha"):
        file = tmp_path / f"{command}.json"
        assert run(["plan", command, str(tmp_path), "--out", str(file), "-q"]) == 0
        capsys.readouterr()
        assert run(["show", str(file)]) == 0
        said = capsys.readouterr().out
        last = said.strip().splitlines()[-1]
        assert last.endswith("what 100 MB take is not known: the map knows latencies alone")
        # One word for it, and no figure that contradicts it.
        assert "by latency" not in said and "predicted" not in said and "cannot tell" not in said
        assert "is not known: the map knows latencies alone" in said.replace(last, "")
        plan = load_plan(file)
        assert plan.summary().endswith("what 100 MB take is not known: the map knows latencies alone")
        # Of one packet a latency is the time.
        assert (
            run(["plan", command, str(tmp_path), "--out", str(file), "--size", "1kB", "-q", "--force"]) == 0
        )
        assert run(["show", str(file)]) == 0
        assert "1 kB in " in capsys.readouterr().out.strip().splitlines()[-1]
