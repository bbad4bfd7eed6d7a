"""map, plan order, export, schema as a user types them, with good and bad files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import write_document
from netprobe.formats.topologies.slurm_topology import read_slurm_topology
from tests.documents import rack_scan


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scan, _ = rack_scan((6, 6, 4), seed=1)
    write_document(scan, tmp_path / "scan.json")
    return tmp_path


@pytest.fixture(scope="module")
def all_stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every stage was run, to copy from."""
    made = tmp_path_factory.mktemp("stages")
    write_document(rack_scan((4, 3, 3), seed=1)[0], made / "scan.json")
    chain(made)
    return made


@pytest.fixture
def done(all_stages: Path, tmp_path: Path) -> Path:
    """A folder of this test's own, in which every stage was run."""
    return shutil.copytree(all_stages, tmp_path / "done")


def chain(folder: Path, *more: str) -> None:
    assert run(["map", str(folder / "scan.json"), "-q", *more]) == 0
    assert run(["plan", "order", str(folder / "map.json"), "-q", *more]) == 0
    assert run(["export", "hostfile", str(folder / "plan.json"), "-q", *more]) == 0


def without_time(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if '"created_at"' not in line]


def test_the_stages_run_again_byte_for_byte(done: Path) -> None:
    names = ("map.json", "plan.json", "hostfile")
    before = {name: without_time(done / name) for name in names}
    chain(done, "--force")
    assert {name: without_time(done / name) for name in names} == before


def test_scripts_find_their_names(done: Path) -> None:
    map_ = json.loads((done / "map.json").read_text())
    plan = json.loads((done / "plan.json").read_text())
    assert {"hosts", "groups", "layers", "verdict"} <= set(map_)
    assert len(map_["layers"]["rtt"]["distance_s"]) == 10
    assert sorted(n for g in map_["groups"] for n in g["hosts"]) == sorted(h["name"] for h in map_["hosts"])
    assert plan["kind"] == "order"
    assert sorted(plan["order"]) == sorted(h["name"] for h in map_["hosts"])
    assert plan["cost_s"] < plan["cost_given_s"]


def test_json_is_one_object_and_quiet_is_silent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["map", str(folder / "scan.json"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"]["locality"] == "found"
    assert run(["plan", "order", str(folder / "map.json"), "--no-held-out", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_piped_output_has_no_colour_codes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["map", str(folder / "scan.json")]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "locality found" in out
    assert "netprobe plan order" in out


def test_nothing_is_overwritten_unasked(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (done / "map.json").read_bytes()
    assert run(["map", str(done / "scan.json")]) == 2
    assert "--force" in capsys.readouterr().err
    assert (done / "map.json").read_bytes() == before
    assert run(["map", str(done / "scan.json"), "--out", str(done / "scan.json"), "--force"]) == 2
    assert "the input itself" in capsys.readouterr().err


def test_what_is_read_is_never_written_whatever_is_forced(
    done: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, map_, hosts, linked = (done / name for name in ("plan.json", "map.json", "hosts", "linked"))
    hosts.write_text("".join(f"{host['name']}\n" for host in json.loads(map_.read_text())["hosts"]))
    linked.symlink_to(hosts)
    monkeypatch.setenv("PBS_NODEFILE", str(hosts))
    before = {path.name: path.read_bytes() for path in done.iterdir()}
    export, order = ["export", "hostfile", str(plan)], ["plan", "order", str(map_)]
    for command, out, says in (
        ([*export, "--hosts", str(hosts)], hosts, "is the input itself"),
        ([*export, "--hosts", str(linked)], hosts, "is the input itself"),
        ([*export, "--hosts", str(hosts)], linked, "is the input itself"),
        ([*export, "--hosts", f"netprobe:{hosts}"], hosts, "is the input itself"),
        ([*export, "--hosts", "pbs:"], hosts, "is the input itself"),
        ([*order, "--hosts", str(hosts)], hosts, "is the input itself"),
        (export, map_, "is a map, which --force does not replace by a hostfile"),
        (order, done / "scan.json", "is a scan, which --force does not replace by a plan"),
        (["map", str(done / "scan.json")], plan, "is a plan, which --force does not replace by a map"),
        (
            ["scan", "--via", "local", "--hosts", str(done / "hostfile")],
            done,
            "is an input, and would be written",
        ),
    ):
        assert run([*command, "--out", str(out), "--force"]) == 2, command
        err = capsys.readouterr().err
        assert says in err and err.count("\n") == 1
        assert {path.name: path.read_bytes() for path in done.iterdir()} == before
    assert run([*export, "--hosts", str(hosts), "--out", str(done / "hostfile"), "--force"]) == 0


def test_a_link_to_the_input_is_the_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.symlink(folder / "scan.json", folder / "alias.json")
    assert run(["map", str(folder / "scan.json"), "--out", str(folder / "alias.json"), "--force"]) == 2
    assert "the input itself" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[: len(text) // 2], "truncated"),
        (lambda text: text.replace("netprobe.scan/1.0", "netprobe.scan/9.0"), "newer than"),
        (lambda text: text.replace("netprobe.scan/1.0", "netprobe.map/1.0"), "is a map document"),
        (lambda text: "", "truncated"),
    ],
)
def test_a_damaged_scan_is_exit_2_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], change: object, says: str
) -> None:
    path = folder / "scan.json"
    path.write_text(change(path.read_text()))  # type: ignore[operator]
    assert run(["map", str(path)]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert not (folder / "map.json").exists()


def test_a_plan_of_other_hosts_is_refused(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (done / "others").write_text("a\nb\n")
    for args in (
        ["plan", "order", str(done / "map.json"), "--out", str(done / "p2.json")],
        ["export", "hostfile", str(done / "plan.json"), "--out", str(done / "h2")],
    ):
        assert run([*args, "--hosts", str(done / "others")]) == 2
        assert "differ" in capsys.readouterr().err
    assert not (done / "p2.json").exists()
    assert not (done / "h2").exists()


@pytest.mark.parametrize(
    "args",
    [
        ["--groups", "bogus"],
        ["--method", "bogus"],
        ["--k", "17"],
        ["--alpha", "3"],
        ["--elasticity", "0.5"],
        ["--seed", "-1"],
    ],
)
def test_impossible_options_are_exit_2(
    folder: Path, args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["map", str(folder / "scan.json"), *args]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (folder / "map.json").exists()


def test_no_name_of_a_file_is_exit_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out in ("", "."):
        assert run(["map", str(folder / "scan.json"), "--out", out]) == 2
        assert "not the name of a file" in capsys.readouterr().err


def test_plink_groups_are_root_n_and_even(folder: Path) -> None:
    args = ["--groups", "sqrt", "--elasticity", "1.0", "-q"]
    assert run(["map", str(folder / "scan.json"), *args]) == 0
    groups = json.loads((folder / "map.json").read_text())["groups"]
    assert [len(group["hosts"]) for group in groups] == [4, 4, 4, 4]


@pytest.mark.parametrize("kind", ["scan", "map", "plan", "truth"])
def test_schemas_are_printed(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == f"netprobe.{kind}"


def test_a_device_is_never_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "pipe")
    assert run(["map", str(folder / "scan.json"), "--out", str(folder / "pipe"), "--force"]) == 2
    assert "not a regular file" in capsys.readouterr().err
    assert (folder / "pipe").is_fifo()


def test_no_output_name_reaches_the_side_file_of_the_input(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "scan.json.npz").write_bytes(b"matrices")
    for name in ("scan.json.npz", "scan.json"):
        assert run(["map", str(folder / "scan.json"), "--out", str(folder / name), "--force"]) == 2
        assert "the input itself" in capsys.readouterr().err
    assert (folder / "scan.json.npz").read_bytes() == b"matrices"


def test_a_directory_that_cannot_be_written_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["map", str(folder / "scan.json"), "--out", "/proc/nowhere/map.json"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert run(["map", str(folder / "scan.json"), "--out", "/proc/map.json"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_places_that_cannot_be_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "loop").symlink_to(folder / "loop")
    for out in (folder / "loop", folder / ("x" * 300)):
        assert run(["map", str(folder / "scan.json"), "--out", str(out), "--force"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_exports_say_what_keeps_the_order(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, map_ = str(done / "plan.json"), str(done / "map.json")
    order = json.loads((done / "plan.json").read_text())["order"]
    for name, file, flag in (
        ("rankfile", "rankfile", "--rankfile"),
        ("slurm-hostfile", "hostfile.slurm", "--distribution=arbitrary"),
        ("torchrun", "torchrun.txt", "--rdzv-backend=static"),
        ("horovod", "hostfile.horovod", "--gloo"),
        ("json", "ranks.json", "local rank"),
        ("kubernetes", "labels.sh", "netprobe-node-rank"),
    ):
        assert run(["export", "hostfile", plan, "--format", name, "--force"]) == 0
        said = capsys.readouterr()
        assert said.err.startswith("order: ") and flag in said.err
        assert str(done / file) in said.out.replace("\n", "")
    ranks = json.loads((done / "ranks.json").read_text())["ranks"]
    assert [entry["host"] for entry in ranks] == order
    groups = {frozenset(group["hosts"]) for group in json.loads((done / "map.json").read_text())["groups"]}
    assert run(["export", "topology", map_, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["file"] == str(done / "topology.conf") and result["warnings"] == []
    positions = read_slurm_topology((done / "topology.conf").read_text()).positions
    leaves = set(positions.values())
    assert {frozenset(h for h, place in positions.items() if place == leaf) for leaf in leaves} == groups


def test_an_export_that_cannot_be_leaves_no_file(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, map_ = str(done / "plan.json"), str(done / "map.json")
    hosts = done / "hosts"
    names = [host["name"] for host in json.loads((done / "map.json").read_text())["hosts"]]
    hosts.write_text("".join(f"{name} launcher_name=fe80::{at}\n" for at, name in enumerate(names)))
    before = sorted(done.iterdir())
    for argv, what in (
        (["hostfile", plan, "--format", "rankfile", "--hosts", str(hosts)], "mpirun would misread"),
        (["topology", map_, "--hosts", str(hosts)], "no node of the name"),
        (["topology", map_, "--format", "kubernetes", "--hosts", str(hosts)], "RFC 1123"),
        (
            ["topology", map_, "--format", "openmpi"],
            "known are dlrover, kubernetes, slurm-block, slurm-conf, slurm-yaml",
        ),
        (["topology", plan], "is a plan document, and a map is needed"),
        (["topology", map_, "--out", str(done / "none" / "x")], "no such directory"),
        (["topology", map_, "--out", map_, "--force"], "is the input itself"),
    ):
        assert run(["export", *argv]) == 2
        said = capsys.readouterr().err
        assert what in said and len(said.strip().splitlines()) == 1
    assert sorted(done.iterdir()) == before
