"""What a new user types first: a folder for a document, no sub-command, a file of another kind, a slip of the pen."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document, write_document
from netprobe.core.documents.map import Map
from tests.documents import capacity_of, rack_scan


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a scan leaves it, to copy from."""
    folder = tmp_path_factory.mktemp("made") / "first"
    folder.mkdir()
    write_document(rack_scan((4, 3, 3), seed=1)[0], folder / "scan.json")
    assert run(["map", str(folder), "-q"]) == 0
    assert run(["plan", "order", str(folder), "-q"]) == 0
    assert run(["export", "hostfile", str(folder), "-q"]) == 0
    return folder


@pytest.fixture
def first(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in the current directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, tmp_path / "first")
    return Path("first")


def line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on stderr."""
    err = capsys.readouterr().err
    assert err.startswith("netprobe: ")
    assert err.count("\n") == 1
    return err.removeprefix("netprobe: ").strip()


@pytest.mark.parametrize(
    ("args", "written"),
    [
        (["map", "first", "--out", "m.json"], "m.json"),
        (["plan", "order", "first", "--out", "p.json"], "p.json"),
        (["plan", "first", "--size", "4kB", "--out", "p.json"], "p.json"),
        (["plan", "--size", "4kB", "first", "--out", "p.json"], "p.json"),
        (["plan", "ds-sync", "first"], "first/plan-ds-sync.json"),
        (["export", "first", "--out", "h"], "h"),
        (["export", "--format", "mpich", "first"], "first/hostfile.mpich"),
        (["export", "first", "--format", "slurm-conf"], "first/topology.conf"),
        (["export", "first/plan.json", "--format=plain"], "first/hostfile.plain"),
    ],
)
def test_a_folder_is_taken_for_its_document_and_no_command_for_the_usual_one(
    first: Path, args: list[str], written: str
) -> None:
    assert first.is_dir()
    assert run([*args, "-q"]) == 0
    assert Path(written).is_file()


def test_plan_without_a_command_is_auto_and_leaves_the_plan_of_the_scan(first: Path) -> None:
    before = (first / "plan.json").read_bytes()
    assert run(["plan", "first", "-q", "--size", "4kB"]) == 0
    assert json.loads((first / "plan-auto.json").read_text())["kind"] == "schedule"
    assert (first / "plan.json").read_bytes() == before
    assert run(["plan", "first", "-q", "--size", "4kB"]) == 2  # and never replaces its own unasked
    assert run(["plan", "first", "-q", "--size", "4kB", "--force"]) == 0
    assert (first / "plan.json").read_bytes() == before


def test_capacity_of_a_folder_is_found_where_an_option_names_it(first: Path) -> None:
    map_ = first / "map.json"
    write_document(capacity_of(load_document(Map, map_)), first / "capacity.json")
    assert run(["plan", "order", "first", "--capacity", "first", "-q", "--out", "p.json"]) == 0
    assert len(json.loads(Path("p.json").read_text())["parents"]) == 2


def test_the_hostfile_that_a_scan_wrote_may_be_asked_for_again(
    first: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "first"]) == 0
    assert "is that file already" in capsys.readouterr().out
    (first / "hostfile").write_text("another\n")
    assert run(["export", "first"]) == 2


@pytest.mark.parametrize(
    ("args", "has"),
    [
        (["map", "first/map.json"], "is a map document, and a scan is needed: first/scan.json is one"),
        (["plan", "first/scan.json"], "is a scan document, and a map is needed: first/map.json is one"),
        (["verify", "lat.csv"], "is a CSV, and a plan is needed: netprobe import matrix lat.csv --unit UNIT reads it"),
        (["map", "lat.csv"], "netprobe import matrix lat.csv"),
        (["map", "hosts.txt"], "is a list of hosts, and a scan is needed: netprobe scan --hosts hosts.txt reads it"),
        (["map", "lab.yaml"], "netprobe scan --lab lab.yaml reads it"),
        (["map", "m.npy"], "is a NumPy array"),
        (["map", "page.html"], "is an HTML page"),
        (["map", "x.bin"], "is a binary file"),
        (["map", "nothing"], "no valid JSON"),
        (["map", "other.json"], "is JSON that netprobe did not write"),
        (["plan", "scanned"], "has scan.json: netprobe map scanned makes the map"),
        (["export", "scanned"], "netprobe map scanned makes the map first"),
        (["map", "killed"], "its scan ended early: netprobe scan --resume --out killed makes the scan"),
        (["map", "empty"], "the folder of a scan is needed"),
    ],
)  # fmt: skip
def test_what_is_something_else_is_named_with_the_command_that_reads_it(
    first: Path, args: list[str], has: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("lat.csv").write_text("host,a,b\na,,0.2\nb,0.3,\n")
    Path("hosts.txt").write_text("a\nb slots=2\n")
    Path("lab.yaml").write_text("name: x\nracks:\n  - hosts: 2\n")
    np.save("m.npy", np.zeros((2, 2)))
    Path("page.html").write_text("<!DOCTYPE html><table></table>")
    Path("x.bin").write_bytes(b"\xff\xfe\x00\x81")
    Path("nothing").touch()
    Path("other.json").write_text('{"a": 1}\n')
    for name in ("scanned", "killed", "empty"):
        Path(name).mkdir()
    shutil.copy(first / "scan.json", "scanned")
    Path("killed/scan.journal.jsonl").write_text('{"journal": "netprobe.journal/1.0"}\n')
    assert run(args) == 2
    assert has in line(capsys)


@pytest.mark.parametrize(
    ("args", "suggested"),
    [
        (["skan"], "'scan'"),
        (["plan", "ordr"], "'order'"),
        (["map", "first", "--grops", "sqrt"], "--groups"),
        (["map", "first", "--groups", "natral"], "natural"),
        (["map", "first", "--method", "ensembl"], "ensemble"),
        (["plan", "order", "first", "--algorithm", "rings"], "ring"),
        (["plan", "order", "first", "--objective", "bottelneck"], "bottleneck"),
        (["plan", "2lha", "first", "--grouping", "neste"], "nested"),
        (["scan", "--via", "shs", "--hosts", "a,b"], "ssh"),
        (["scan", "--via", "kubernets", "--hosts", "a,b"], "kubectl"),
        (["scan", "--via", "local", "--hosts", "a,b", "--measure", "gootput"], "goodput"),
        (["scan", "--via", "local", "--hosts", "a,b", "--latency", "tpc"], "tcp"),
        (["scan", "--via", "local", "--hosts", "a,b", "--only", "mpa"], "map"),
        (["export", "first", "--format", "opnmpi"], "openmpi"),
        (["export", "first", "--format", "k8s"], "kubernetes"),
        (["export", "topology", "first", "--format", "slurm-cnf"], "slurm-conf"),
        (["export", "schedule", "first", "--format", "mscl"], "msccl"),
        (["check-order", "first", "--launcher", "torchrn"], "torchrun"),
        (["verify", "first", "--with", "glo"], "gloo"),
        (["schema", "pan"], "plan"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(
    first: Path, args: list[str], suggested: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert first.is_dir()
    assert run(args) == 2
    said = line(capsys)
    assert "id you mean" in said
    assert suggested in said.rpartition("ou mean")[2]


@pytest.mark.parametrize(
    "args", [["map", "first", "--groups", "zzz"], ["scan", "--via", "zzz", "--hosts", "a,b"]]
)
def test_nothing_is_suggested_for_what_resembles_nothing(
    first: Path, args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert first.is_dir()
    assert run(args) == 2
    assert "did you mean" not in line(capsys)


def test_a_wrong_format_is_told_what_can_be_written_and_where_others_are_written(
    first: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "first", "--format", "slurm"]) == 2
    said = line(capsys)
    assert "only read" in said
    assert "slurm-hostfile" in said
    assert "lsf" not in said
    assert run(["export", "hostfile", "first", "--format", "msccl"]) == 2
    assert "netprobe export schedule" in line(capsys)
    assert run(["export", "topology", "first", "--format", "mpich"]) == 2
    assert "netprobe export hostfile" in line(capsys)


@pytest.mark.parametrize("name", ["a.json", "results-of-monday.json", "scan.json", "below/scan.json"])
def test_the_scan_of_a_map_is_found_under_any_name_among_others(first: Path, name: str) -> None:
    others = [rack_scan((4, 3, 3), seed=seed)[0] for seed in (2, 3)]
    Path("elsewhere/below").mkdir(parents=True)
    shutil.copy(first / "map.json", "elsewhere/map2.json")
    shutil.copy(first / "scan.json", f"elsewhere/{name}")
    for other, place in zip(
        others, ("scan.json", "scan-2.json") if name != "scan.json" else ("0.json", "1.json")
    ):
        write_document(other, Path("elsewhere") / place)
    assert run(["plan", "order", "elsewhere/map2.json", "-q"]) == 0
    assert json.loads(Path("elsewhere/plan.json").read_text())["held_out"]["folds"] > 0


def test_eval_of_a_labs_folder_finds_the_truth(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(Path(__file__).parents[1] / "golden" / "truth-1.0.json", first / "truth.json")
    code = run(["eval", "first"])
    assert "--truth FILE or --labels" not in capsys.readouterr().err
    assert code in (0, 2)  # the truth of other hosts is refused by the reader of it


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["vm[1-3]"], 3),
        (["hosts.txt"], 2),
        (["a", "b", "vm[1-2]"], 4),
        (["a,b"], 2),
        (["inventory.yml"], 2),
        (["list.json"], 2),
        (["first/scan.json"], 10),
        (["--hosts", "ssh-config:vm-*"], 2),
        (["ssh-config:"], 3),
        (["-"], 2),
        (["--hosts", "-"], 2),
    ],
)
def test_hosts_are_given_in_the_ways_that_people_try(
    first: Path,
    args: list[str],
    names: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("hosts.txt").write_text("a\nb\n")
    Path("inventory.yml").write_text("all:\n  hosts:\n    a:\n    b:\n")
    Path("list.json").write_text('["a", {"name": "b"}]')
    Path(".ssh").mkdir()
    Path(".ssh/config").write_text("Host vm-1 vm-2\nHost other\n")
    monkeypatch.setenv("HOME", str(first.absolute().parent))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert run(["scan", *args, "--via", "local", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"] == names


@pytest.mark.parametrize(
    "args",
    [
        ["a,b", "--hosts", "c,d"],
        ["hosts.txt", "b"],
        ["nosuchfile"],
        ["lat.csv"],
        ["a;rm", "b"],
        ["--", "-o", "b"],
    ],
)
def test_hosts_that_cannot_be_are_one_line(
    first: Path, args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert first.is_dir()
    Path("hosts.txt").write_text("a\nb\n")
    Path("lat.csv").write_text("host,a,b\na,,0.2\nb,0.3,\n")
    assert run(["scan", "--via", "local", "--dry-run", *args]) == 2
    assert line(capsys)


def test_a_dry_run_says_that_the_folder_cannot_be_made(
    first: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dry = ["scan", "a,b", "--via", "local", "--dry-run", "-q", "--out"]
    assert run([*dry, "first"]) == 2
    said = line(capsys)
    assert "already holds" in said and "--resume" in said
    assert run([*dry, "first", "--force"]) == 0
    assert run([*dry, "first/scan.json"]) == 2
    assert run([*dry, "first/scan.json/below"]) == 2
    assert run([*dry, "x" * 300]) == 2
    assert run([*dry, "new/below"]) == 0
    assert not Path("new").exists()


def test_a_scan_in_which_nothing_came_up_gives_its_folder_back(
    first: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert first.is_dir()
    scan = ["scan", "a,b", "--via", "false {target}", "--out", "mine", "-q"]
    assert run(scan) == 4
    assert "--resume --out mine" in line(capsys)
    assert run(scan) == 4  # again: not that the folder is taken
    assert Path("mine/scan.json.old").is_file()
    Path("mine/notes.txt").touch()
    assert run(scan) == 2


def test_a_matrix_is_piped_in(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"h,a,b,c\na,,200,300\nb,210,,310\nc,320,330,\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run(["import", "matrix", "-", "--unit", "us", "-q"]) == 0
    assert [host["name"] for host in json.loads(Path("scan.json").read_text())["hosts"]] == ["a", "b", "c"]
    assert first.is_dir()
