"""Options are used or refused: none is accepted and ignored, and each does what it says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document, write_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan
from tests.documents import rack_scan


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_document(rack_scan((4, 3, 3), seed=1)[0], folder / "scan.json")
    assert run(["map", str(folder / "scan.json"), "-q"]) == 0
    assert run(["plan", "order", str(folder / "map.json"), "-q"]) == 0
    return folder


@pytest.fixture
def done(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "done")


def object_of(argv: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*argv, "--json"]) == code
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("only", "options", "says"),
    [
        (
            "scan",
            ["--format", "nonsense"],
            "--format is of the export, and --only scan stops before it: leave it out",
        ),
        ("scan", ["--slots", "2", "--format", "mpich"], "--format and --slots are of the export"),
        ("scan", ["--k", "3"], "--k is of the map"),
        ("scan", ["--groups", "sqrt", "--method", "lle"], "--groups and --method are of the map"),
        ("scan", ["--elasticity", "2"], "--elasticity is of the map"),
        ("scan", ["--alpha", "2"], "--alpha is of the map"),
        ("scan", ["--root", "a"], "--root is of the plan"),
        ("map", ["--algorithm", "ring"], "--algorithm is of the plan, and --only map stops before it"),
        ("map", ["--objective", "sum"], "--objective is of the plan"),
        ("plan", ["--format", "openmpi"], "--format is of the export"),
    ],
)
def test_options_of_a_stage_that_is_not_reached_are_refused(
    only: str, options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [
        "scan",
        "--hosts",
        "a,b",
        "--via",
        "local",
        "--only",
        only,
        "--out",
        str(tmp_path / "out"),
        *options,
    ]
    assert run(argv) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1 and not (tmp_path / "out").exists()


def test_options_of_a_stage_that_is_reached_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["scan", "--hosts", "a,b", "--via", "local", "--out", str(tmp_path / "out"), "--dry-run"]
    assert run([*argv, "--only", "map", "--groups", "sqrt"]) == 0
    assert run([*argv, "--only", "plan", "--groups", "sqrt", "--algorithm", "ring"]) == 0
    assert run([*argv, "--format", "nonsense"]) == 2
    assert "unknown format 'nonsense'" in capsys.readouterr().err


def test_check_order_refuses_what_would_do_nothing(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, log, config = str(done / "plan.json"), done / "log", done / "ssh_config"
    log.write_text("")
    config.write_text("")
    for options, says in (
        (["--timeout", "5"], "--timeout is how long --run waits"),
        (["--read", str(log), "--timeout", "5"], "--timeout is how long --run waits"),
        (["--read", str(log), "--file", str(log)], "--file go with the command, and --read runs none"),
        (["--read", str(log), "--ssh-config", str(config)], "--ssh-config go with the command"),
        (["--read", str(log), "--", "--oversubscribe"], "arguments behind -- go with the command"),
        (
            ["--ssh-config", str(config), "--launcher", "slurm"],
            "--ssh-config is for mpirun, and --launcher slurm",
        ),
        (["--ssh-config", str(done / "none")], "none: no such file"),
    ):
        assert run(["check-order", plan, *options]) == 2
        err = capsys.readouterr().err
        assert says in err and err.count("\n") == 1


def test_check_order_gives_its_ssh_config_to_mpirun(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = done / "ssh_config"
    config.write_text("")
    assert run(["check-order", str(done / "plan.json"), "--ssh-config", str(config)]) == 0
    said = capsys.readouterr().out
    assert f"--mca plm_rsh_args '-F {config}'" in said and f"--mca plm_ssh_args '-F {config}'" in said
    with_blank = done / "my config"
    with_blank.write_text("")
    assert run(["check-order", str(done / "plan.json"), "--ssh-config", str(with_blank)]) == 2
    assert "splits it at blanks" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        "ssh: Could not resolve hostname n7: Name or service not known",
        "[mpiexec@x] HYDU_sock_connect: unable to get host address (Name or service not known)",
    ],
)
def test_a_launcher_that_cannot_resolve_names_is_said_to(
    error: str, done: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "hostfile", str(done / "plan.json"), "-q"]) == 0
    program = done / "mpirun"
    program.write_text(f"#!/bin/sh\necho '{error}' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{done}:/usr/bin:/bin")
    assert run(["check-order", str(done / "plan.json"), "--run", "--timeout", "20"]) == 4
    err = capsys.readouterr().err
    assert "not resolve where the launcher runs: give --ssh-config" in err
    assert ("the name 'n7' does" in err) == ("n7" in error)


def test_map_compares_groups_or_not(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["map", str(done / "scan.json"), "--out", str(done / "other.json"), "--force"]
    assert object_of([*argv, "--no-compare"], capsys)["comparison"] is None
    compared = object_of([*argv, "--compare"], capsys)["comparison"]
    assert {row["method"] for row in compared} >= {"natural", "sqrt"}


def test_plan_order_judges_on_readings_held_out_or_not(
    done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["plan", "order", str(done / "map.json"), "--out", str(done / "other.json"), "--force"]
    assert object_of([*argv, "--no-held-out"], capsys)["held_out"]["folds"] == 0
    assert object_of([*argv, "--held-out"], capsys)["held_out"]["folds"] > 0


def test_a_topology_with_hosts_left_out_is_refused_on_request(
    done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = done / "map.json", done / "topology.conf"
    argv = ["export", "topology", str(path), "--out", str(out), "--force"]
    assert run([*argv, "--require-all"]) == 0
    map_ = load_document(Map, path)
    lost = map_.groups[0].hosts[-1]
    first = map_.groups[0].model_copy(
        update={"hosts": [name for name in map_.groups[0].hosts if name != lost]}
    )
    write_document(map_.model_copy(update={"groups": [first, *map_.groups[1:]], "unplaced": [lost]}), path)
    capsys.readouterr()
    assert run(argv) == 0 and lost in capsys.readouterr().err
    assert run([*argv, "--require-all"]) == 2
    assert (
        f"--require-all asks for all: it has no reading and is in no group: {lost}" in capsys.readouterr().err
    )


def test_eval_draws_its_clusterings_from_the_seed(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = done / "hosts"
    names = [host.name for host in load_document(Map, done / "map.json").hosts]
    hosts.write_text("".join(f"{name} label.rack=r{i % 3}\n" for i, name in enumerate(names)))
    argv = ["eval", str(done / "scan.json"), "--labels", "rack", "--hosts", str(hosts), "--clusterings", "4"]
    found = [object_of([*argv, "--seed", seed], capsys) for seed in ("1", "1", "2")]
    assert found[0] == found[1]


def test_import_reads_destinations_as_rows_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "m.csv", tmp_path / "scan.json"
    table.write_text("host,a,b\na,0,100\nb,110,0\n")
    argv = ["import", "matrix", str(table), "--unit", "us", "--out", str(out), "--force"]
    assert object_of([*argv, "--transposed"], capsys)["measurement"]["parameters"]["transposed"] is True
    assert np.isclose(load_document(Scan, out).rtt_s.p50[0, 1], 110e-6)


def test_capacity_runs_as_many_flows_at_once_as_it_is_told(
    done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["capacity", str(done / "scan.json"), str(done / "map.json"), "--dry-run"]
    free, capped = (object_of([*argv, *more], capsys) for more in ([], ["--flows-at-once", "1"]))
    assert capped != free
    assert run([*argv, "--streams", "0"]) == 2
    assert run([*argv, "--flows-at-once", "-1"]) == 2


def test_verify_takes_a_program_for_nccl_tests_alone(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(done / "plan.json")
    assert run(["verify", plan, "--via", "local", "--program", "/opt/all_reduce_perf"]) == 2
    assert "--program goes with --with nccl-tests" in capsys.readouterr().err
    assert run(["verify", plan, "--with", "nccl-tests", "--program", "-x"]) == 2
    assert "-x" in capsys.readouterr().err


def test_a_manifest_has_its_image_and_its_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["manifest", "kubernetes", "--image", "registry.example/py:3", "--node-selector", "pool=gpu"]
    assert run(argv) == 0
    said = capsys.readouterr().out
    assert "registry.example/py:3" in said and "nodeSelector" in said and "gpu" in said


@pytest.mark.parametrize("command", ["verify", "capacity", "doctor"])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--listen", "10.0.0.1"), ("--context", "c"), ("--namespace", "n"), ("--container", "c"), ("--kubeconfig", "k"),
        ("--ssh-config", "f"), ("--ssh-option", "BatchMode=yes"), ("--mca", "a=b"),
    ],
)  # fmt: skip
def test_the_options_of_another_way_in_are_refused_by_every_command(
    command: str, option: str, value: str, done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    what = {"verify": ["plan.json"], "capacity": ["scan.json", "map.json"], "doctor": []}[command]
    argv = [command, *(str(done / name) for name in what), "--via", "local", option, value]
    assert run([*argv, *(["--hosts", "a,b"] if command == "doctor" else [])]) == 2
    err = capsys.readouterr().err
    assert option in err and err.count("\n") == 1


@pytest.mark.parametrize("command", ["verify", "capacity", "doctor"])
def test_set_up_lines_and_the_fan_out_reach_every_command(
    command: str, done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    what = {"verify": ["plan.json"], "capacity": ["scan.json", "map.json"], "doctor": []}[command]
    argv = [
        command,
        *(str(done / name) for name in what),
        *(["--hosts", "a,b"] if command == "doctor" else []),
    ]
    argv += ["--via", f"{done / 'login'} {{target}}"]
    (done / "login").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (done / "login").chmod(0o755)
    assert run([*argv, "--fan-out", "2", "--setup", "echo not today >&2; exit 7"]) == 4
    assert "not today" in "".join(capsys.readouterr())
    assert run([*argv, "--fan-out", "0"]) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ipv4", "--ipv6"], "--ipv4 and --ipv6 cannot go together"),
        (["--port-range", "x"], "--port-range 'x' is not a range of ports"),
        (["--subnet", "x"], "x"),
        (["--interface", "no/such"], "no/such"),
    ],
)
def test_addresses_are_chosen_for_verify_too(
    options: list[str], says: str, done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", str(done / "plan.json"), "--via", "local", *options]) in (2, 4)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--host"], "--host needs the name of one host"),
        (["--host", "h1"], "what is to be run is missing"),
        (["--host=h1", "--"], "what is to be run is missing"),
    ],
)
def test_lab_exec_takes_the_host_behind_the_lab_too(
    words: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("netprobe.cli.commands.lab._enter", lambda _name: None)
    assert run(["lab", "exec", "some-lab", *words]) == 2
    assert says in capsys.readouterr().err


def test_lab_exec_runs_the_program_on_the_host_wherever_it_is_named() -> None:
    from netprobe.cli.commands.lab import _host_and_words

    for words in (["--host", "h1", "true", "--host"], ["--host=h1", "--", "true", "--host"]):
        assert _host_and_words(None, words) == ("h1", ["true", "--host"])
    assert _host_and_words("h1", ["true"]) == ("h1", ["true"])
    assert _host_and_words(None, ["--", "true"]) == (None, ["true"])


def test_after_a_scan_of_a_lab_nothing_is_started_on_its_hosts(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from netprobe.cli.commands.scan_output import next_command

    exported = SimpleNamespace(command="mpirun --hostfile x", path=tmp_path / "hostfile", order="")
    chain: Any = SimpleNamespace(folder=tmp_path, exported=exported, plan=object(), map=object(), score=None)
    assert next_command(chain) == "mpirun --hostfile x"
    chain.score = object()  # there is one of labs alone, whose hosts are gone by now
    assert next_command(chain).startswith(f"netprobe eval {tmp_path / 'map.json'} --truth")
