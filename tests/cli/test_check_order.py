"""check-order and what export refuses, as a user types them."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import write_document
from netprobe.core.hosts import make_host
from netprobe.formats import FORMATS, format_named
from netprobe.formats.rank_output.rank_program import RANK_LAUNCHERS
from tests.plan.fleets import order_plan


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hosts = [make_host(name, slots=2) for name in ("n2", "n1", "n3", "lost")]
    plan = order_plan(hosts, np.ones((4, 4)), left_out=["lost"], keep_original="a test's own")
    write_document(plan, tmp_path / "plan.json")
    return tmp_path


def lines_of(hosts: str) -> str:
    """What the ranks on these hosts say, rank 0 first, with what else is printed."""
    names = hosts.split()
    said = [
        f"[1,{rank}]<stdout>:netprobe-rank 1 openmpi {rank} {len(names)} {names[:rank].count(name)} "
        f"names {name} addresses end\n"
        for rank, name in enumerate(names)
    ]
    return "Warning: Permanently added 'n1'\n".join(["", *said[::-1]])


def test_the_command_is_alone_on_stdout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(folder / "plan.json")
    assert run(["check-order", plan]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(
        f"mpirun --hostfile {folder}/hostfile -np 6 --map-by seq --bind-to none sh -c 'echo "
    )
    assert said.out.count("\n") == 1 and "not there yet" in said.err
    assert f"| netprobe check-order {plan} --read -" in said.err
    assert run(["export", "hostfile", plan]) == 0
    assert "check-order" in capsys.readouterr().err
    assert run(["check-order", plan, "--", "--mca", "x", "a b"]) == 0
    said = capsys.readouterr()
    assert "warning" not in said.err and " none --mca x 'a b' sh -c " in said.out
    assert run(["check-order", plan, "--launcher", "torchrun", "--json"]) == 0
    commands = json.loads(capsys.readouterr().out)["commands"]
    start = f"netprobe launch {plan} -- torchrun --no-python sh -c 'echo "
    assert len(commands) == 1 and commands[0].startswith(start)


def test_what_the_ranks_said_is_compared(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, log = str(folder / "plan.json"), folder / "log"
    log.write_text(lines_of("n2 n2 n1 n1 n3 n3"))
    assert run(["check-order", plan, "--read", str(log)]) == 0
    assert capsys.readouterr().out == "6 of 6 ranks run where the plan puts them\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines_of("n2 n1 n3 n2 n1 n3").encode())))
    assert run(["check-order", plan, "--read", "-"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("rank 1: planned n2, runs on n1\nrank 2: planned n1, runs on n3\n")
    assert "2 of 6 ranks run where the plan puts them\n" in out
    assert "actual order: the hosts are in the plan's order, and the ranks are assigned" in out
    assert "--map-by seq" in out
    log.write_text(lines_of("n2 n1 n3 n2 n1 n3"))
    assert run(["check-order", plan, "--read", str(log), "--by-node", "-q"]) == 0
    log.write_text(lines_of("n2 n2 n1 n1 n3 n3"), encoding="utf-16")
    assert run(["check-order", plan, "--read", str(log), "-q"]) == 0
    first, second = lines_of("n2 n2 n1 n1 n3 n3").split("\n", 1)
    (folder / "one").write_text(first)
    log.write_text(second)
    assert run(["check-order", plan, "--read", str(folder / "one"), "--read", str(log), "--json"]) == 0
    captured = capsys.readouterr().out
    assert json.loads(captured)["confirmed"] == 6


def test_bad_input_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, log = str(folder / "plan.json"), str(folder / "log")
    Path(log).write_text("nothing of ours\n")
    (folder / "others").write_text("n2\nn1\nn9\nlost\n")
    for code, argv, what in (
        (2, ["--launcher", "lamboot"], "known are openmpi, rankfile"),
        (2, [log], "--read FILE"),
        (2, ["--read", str(folder)], "Is a directory"),
        (2, ["--read", str(folder / "none")], "cannot be read: No such file"),
        (2, ["--read", "-", "--read", "-"], "given twice"),
        (2, ["--read", log, "--run"], "two sources"),
        (4, ["--read", log], "no line of ranks in it"),
        (2, ["--run"], "not there yet"),
        (2, ["--run", "--via", "local"], "goes with --launcher torchrun"),
        (2, ["--launcher", "torchrun", "--by-node"], "--by-node cannot go with --launcher torchrun"),
        (2, ["--launcher", "torchrun", "--run", "--file", "h"], "--file cannot go with --launcher torchrun"),
        (2, ["--hosts", str(folder / "others")], "its hosts differ"),
        (2, ["--slots", "9999999"], "slots a host"),
    ):
        assert run(["check-order", plan, *argv]) == code, argv
        said = capsys.readouterr()
        assert what in said.err and len(said.err.strip().splitlines()) == 1, said.err
        assert said.out == ""


def test_it_runs_the_command_itself(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for mpirun that starts six ranks here, and one that starts none."""
    plan, launcher = str(folder / "plan.json"), folder / "mpirun"
    assert run(["export", "hostfile", plan, "-q"]) == 0
    launcher.write_text(
        '#!/bin/sh\nwhile [ "$1" != sh ]; do shift; done\nset -- "$3"\n'
        "r=0; for h in n2 n2 n1 n1 n3 n3; do\n"
        'OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=6 PMIX_HOSTNAME=$h sh -c "$1"; r=$((r + 1)); done\n'
    )
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert run(["check-order", plan, "--run"]) == 0
    assert "6 of 6 ranks" in capsys.readouterr().out
    launcher.write_text("#!/bin/sh\nexit 7\n")
    assert run(["check-order", plan, "--run"]) == 4
    assert "openmpi ended with exit code 7, and no rank said" in capsys.readouterr().err
    banner = "mpirun has detected an attempt to run as root"
    launcher.write_text(f"#!/bin/sh\necho '{banner}.' >&2\nexit 1\n")
    assert run(["check-order", plan, "--run"]) == 4
    said = capsys.readouterr().err
    assert "said where it runs: mpirun refuses to run as root" in said
    assert "OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" in said
    assert said.startswith("asking 6 ranks on 3 hosts by openmpi where they run") and said.count("\n") == 2
    dead = "ssh: connect to host n3 port 22: Connection timed out"
    launcher.write_text(f"#!/bin/sh\necho \"$@\" >{folder}/given\necho '{dead}' >&2\nexit 1\n")
    for words, connects in (
        ([], True),
        (["--", "--mca", "plm_rsh_agent", "rsh"], False),
        (["--ssh-config", str(folder / "hostfile")], True),
    ):
        assert run(["check-order", plan, "--run", *words]) == 4
        assert "n3 cannot be reached (connection timed out)" in capsys.readouterr().err
        given = (folder / "given").read_text()
        assert ("ConnectTimeout=10 --mca plm_ssh_args" in given) is connects
        assert (f"-F {folder / 'hostfile'} -oConnect" in given) is ("--ssh-config" in words)
    launcher.write_text("#!/bin/sh\nexec sleep 60\n")
    assert run(["check-order", plan, "--run", "--timeout", "1"]) == 4
    assert "was ended after 1 s" in capsys.readouterr().err
    assert run(["check-order", plan, "--run", "--launcher", "openmpi", "--file", str(folder / "gone")]) == 2


def test_a_surplus_rank_with_a_strange_name_is_not_all_right(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, log = str(folder / "plan.json"), folder / "log"
    text = lines_of("n2 n2 n1 n1 n3 n3 evil").replace("evil", "\x07evil")
    log.write_text(text)
    assert run(["check-order", plan, "--read", str(log)]) == 3
    said = capsys.readouterr()
    assert said.out.startswith("rank 6: not planned, said nothing\n6 of 6 ranks run")
    assert "1 torn or strange" in said.err and "the job had 7 ranks" in said.err


def test_each_format_has_a_file_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a scan, which leaves an Open MPI hostfile, every other format can be exported and is looked for."""
    plan, taken = str(folder / "plan.json"), folder / "hostfile.slurm"
    written = [entry for entry in FORMATS.values() if entry.write is not None]
    assert len({entry.file for entry in written} | {"plan.json"}) == len(written) + 1
    assert run(["export", "hostfile", plan, "-q"]) == 0
    for launcher, entry in RANK_LAUNCHERS.items():
        if launcher not in ("openmpi", "torchrun"):
            assert run(["export", "hostfile", plan, "--format", entry.format, "-q"]) == 0
            assert run(["check-order", plan, "--launcher", launcher]) == 0
            said = capsys.readouterr()
            assert "warning" not in said.err and str(folder / format_named(entry.format).file) in said.out
    taken.write_text((folder / "rankfile").read_text())
    export = f"netprobe export hostfile {plan} --format slurm-hostfile --slots 2 --force"
    assert run(["check-order", plan, "--launcher", "slurm", "--slots", "2"]) == 0
    assert export in capsys.readouterr().err
    assert run(["check-order", plan, "--launcher", "slurm", "--slots", "2", "--run"]) == 2
    assert export in capsys.readouterr().err


def test_export_leaves_out_and_says_so_or_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(folder / "plan.json")
    before = sorted(folder.iterdir())
    for argv, what in (
        (["--require-all"], "--require-all asks for all: it has no rank: lost"),
        (
            ["--format", "mpich", "--by-node"],
            "--by-node goes with json, openmpi, rankfile, ray, slurm-hostfile",
        ),
        (["--format", "ray"], "give it an address="),
        (["--out", "/proc/hostfile"], "cannot be written"),
    ):
        assert run(["export", "hostfile", plan, *argv]) == 2
        said = capsys.readouterr().err
        assert what in said and len([line for line in said.splitlines() if "warning" not in line]) == 1
    assert sorted(folder.iterdir()) == before
    assert run(["export", "hostfile", plan, "--format", "plain"]) == 0
    said = capsys.readouterr().err
    assert "warning: not in the file, since it has no rank: lost" in said
    assert "warning: a plain list says nothing of slots" in said


def test_other_hosts_and_aliases_are_refused_and_equal_costs_are_no_fault(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = [make_host(name, address=f"10.0.0.{at}") for at, name in enumerate("badce", 1)]
    write_document(order_plan(hosts, np.ones((5, 5))), folder / "equal.json")
    plan, given = str(folder / "equal.json"), folder / "given"
    before = sorted(folder.iterdir())
    for text, what in (
        ("a\nb\nc\nd\nx\n", "its hosts differ from those of the hosts file"),
        ("a\nb\nc\nd\n", "its hosts differ"),
        ("a\nb\nc\nd\ne\ne\n", "is listed twice"),
        ("a target=h\nb target=h\nc\nd\ne\n", "have the same target 'h'"),
        ("a 10.0.0.9\nb\nc\nd\ne\n", "has the address 10.0.0.2, and 10.0.0.9"),
        ("a launcher_name=h\nb launcher_name=h\nc\nd\ne\n", "two hosts have the launcher name 'h'"),
        ("a launcher_name=fe80::1\nb\nc\nd\ne\n", "mpirun would misread the launcher name 'fe80::1'"),
        ("a launcher_name=h.x\nb launcher_name=h.y\nc\nd\ne\n", "for one host: give them launcher_name="),
    ):
        given.write_text(text)
        assert run(["export", "hostfile", plan, "--hosts", str(given)]) == 2
        said = capsys.readouterr()
        assert what in said.err and len(said.err.splitlines()) == 1 and said.out == "", said.err
    given.unlink()
    assert sorted(folder.iterdir()) == before
    assert run(["export", "hostfile", plan, "--slots", "2", "--by-node", "--require-all"]) == 0
    said = capsys.readouterr()
    assert "--launcher openmpi --slots 2 --by-node" in said.err
    order = json.loads((folder / "equal.json").read_text())["order"]
    lines = [line for line in (folder / "hostfile").read_text().splitlines() if line[0] != "#"]
    assert lines == order * 2


def test_no_room_for_temporary_files_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, program = str(folder / "plan.json"), folder / "mpirun"
    assert run(["export", "hostfile", plan, "-q"]) == 0
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr("tempfile.tempdir", str(folder / "gone"))
    against = ["--against", "random", "--size", "1kB", "--out", str(folder / "v.json")]
    for argv in (
        ["check-order", plan, "--run"],
        ["verify", plan, "--with", "mpi", *against],
        ["verify", plan, "--with", "nccl-tests", *against],
    ):
        assert run(argv) == 2, argv
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("netprobe: ") == 1
        assert "no temporary file can be made here: No such file or directory: set TMPDIR" in said.err
    assert not (folder / "v.json").exists()


def test_what_a_hosts_file_does_not_say_again_is_still_the_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with slots alone takes away neither addresses nor the nodes of pods."""
    hosts = [
        make_host(name, address=f"10.0.0.{at}", labels={"node": f"node{at}"})
        for at, name in enumerate("abc", 1)
    ]
    write_document(order_plan(hosts, np.ones((3, 3)), keep_original="a test's own"), tmp_path / "plan.json")
    (tmp_path / "slots").write_text("a slots=2\nb slots=1\nc slots=1 launcher_name=third\n")
    plan, slots = str(tmp_path / "plan.json"), ["--hosts", str(tmp_path / "slots")]
    for name in ("ray", "dlrover", "torchrun", "kubernetes"):
        assert run(["export", "hostfile", plan, "--format", name, *slots, "-q"]) == 0
    assert (tmp_path / "ray.json").read_text().count("node:10.0.0.1") == 2
    assert "10.0.0.3" in (tmp_path / "dlrover.json").read_text()
    assert "--master-addr=10.0.0.1" in (tmp_path / "torchrun.txt").read_text()
    assert " pod c netprobe-node-rank=2" in (tmp_path / "labels.sh").read_text()
    (tmp_path / "log").write_text(
        "".join(
            f"netprobe-rank 1 openmpi {rank} 4 {local} names image addresses 10.0.0.{at} end\n"
            for rank, (at, local) in enumerate([(1, 0), (1, 1), (2, 0), (3, 0)])
        )
    )
    assert run(["check-order", plan, *slots, "--read", str(tmp_path / "log")]) == 0
    assert "4 of 4 ranks run" in capsys.readouterr().out
