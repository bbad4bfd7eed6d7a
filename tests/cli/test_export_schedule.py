"""`netprobe export schedule`: files, exit codes, and plans of another kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import write_document
from netprobe.core.hosts import Host
from netprobe.formats.schedules.msccl_reader import read_msccl, run_msccl
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.document import Placement


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    hosts = [Host(name=f"h{i}") for i in range(4)]
    placement = Placement(hosts=hosts, order=["h2", "h0", "h1", "h3"])
    write_document(build_schedule_plan(build("bcube", 4), placement), tmp_path / "plan.json")
    return tmp_path / "plan.json"


@pytest.mark.parametrize(
    ("name", "file"),
    [("msccl", "schedule.msccl.xml"), ("json", "schedule.actions.json"), ("svg", "schedule.svg")],
)
def test_each_format_is_written_beside_the_plan(
    plan: Path, name: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "schedule", str(plan), "--format", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == str(plan.parent / file)
    text = (plan.parent / file).read_text(encoding="utf-8")
    if name == "msccl":
        run_msccl(read_msccl(text), 1)
    elif name == "json":
        assert [rank["host"] for rank in json.loads(text)["ranks"]] == ["h2", "h0", "h1", "h3"]
    assert run(["export", "schedule", str(plan), "--format", name, "--quiet", "--force"]) == 0
    assert capsys.readouterr().out == ""
    other = ["--out", str(plan.parent / "other")]
    assert run(["export", "schedule", str(plan), "--format", name, *other]) == 0
    assert (plan.parent / "other").read_text(encoding="utf-8") == text
    assert run(["export", "schedule", str(plan), "--format", name]) == 2
    assert "--force" in capsys.readouterr().err


def test_a_schedule_has_a_hostfile_too(plan: Path) -> None:
    assert run(["export", "hostfile", str(plan), "--format", "plain"]) == 0
    assert (plan.parent / "hostfile.plain").read_text(encoding="utf-8").split() == ["h2", "h0", "h1", "h3"]


def test_what_is_no_schedule_or_format_is_one_line(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = Path(__file__).resolve().parents[1] / "golden" / "plan-1.1.json"
    for words, text in (
        ([str(plan), "--format", "pdf"], "no schedule format 'pdf': known are msccl, json, svg"),
        ([str(golden)], "is not a schedule: netprobe export hostfile"),
        ([str(plan.parent / "none.json")], "no such document"),
    ):
        assert run(["export", "schedule", *words]) in (2, 65)
        said = capsys.readouterr().err
        assert text in said and said.count("\n") == 1


@pytest.mark.parametrize("name", ["msccl", "json", "svg"])
def test_force_replaces_an_export_and_nothing_else(
    plan: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = plan.parent / "out"
    words = ["export", "schedule", str(plan), "--format", name, "--out", str(path), "--quiet"]
    for text in ("notes\n", "<svg xmlns='x'/>", '<algo name="mine" proto="LL">', '{"a": 1}'):
        path.write_text(text, encoding="utf-8")
        assert run([*words, "--force"]) == 2
        said = capsys.readouterr().err
        assert "is not a schedule of netprobe's" in said and said.count("\n") == 1
        assert path.read_text(encoding="utf-8") == text
    path.unlink()
    assert run(words) == 0
    first = path.read_text(encoding="utf-8")
    assert run(words) == 2 and run([*words, "--force"]) == 0
    assert path.read_text(encoding="utf-8") == first


@pytest.mark.parametrize("name", ["openmpi", "plain", "horovod", "json"])
def test_force_replaces_a_hostfile_and_nothing_else(
    plan: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = plan.parent / "out"
    words = ["export", "hostfile", str(plan), "--format", name, "--out", str(path), "--quiet"]
    path.write_text("login1 slots=4\n", encoding="utf-8")
    assert run([*words, "--force"]) == 2
    assert "is not a hostfile of netprobe's" in capsys.readouterr().err
    path.unlink()
    assert run(words) == 0 and run([*words, "--force"]) == 0
