"""launch, as a user types it: processes of this machine stand for hosts."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import write_document
from netprobe.core.hosts import make_host
from tests.plan.fleets import order_plan

VIA = "env NAMED={name}"


@pytest.fixture
def plan(tmp_path: Path) -> str:
    hosts = [make_host(name, address=f"127.0.0.{at}") for at, name in enumerate(("n2", "n1", "n3"), 5)]
    document = order_plan(hosts, np.ones((3, 3)), keep_original="a test's own")
    write_document(document, tmp_path / "plan.json")
    return str(tmp_path / "plan.json")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(what: object, timeout_s: float = 40.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if what():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def test_each_host_gets_its_rank_the_master_and_what_is_passed(
    plan: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "it's $(a) secret")
    ask = 'echo "$NAMED $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT $TOKEN $X $1"; echo e >&2'
    odd = "a b'$(touch x)\"; \\ *"
    argv = [
        "launch",
        plan,
        "--via",
        VIA,
        "--env",
        "TOKEN",
        "--env",
        "X=1=2",
        "--",
        "sh",
        "-c",
        ask,
        "sh",
        odd,
    ]
    assert run(argv) == 0
    said = capfd.readouterr()
    assert sorted(said.out.splitlines()) == sorted(
        f"{name}: {name} {rank} 3 0 127.0.0.5 29500 it's $(a) secret 1=2 {odd}"
        for rank, name in enumerate(("n2", "n1", "n3"))
    )
    assert sorted(said.err.splitlines()) == ["n1: e", "n2: e", "n3: e"]


def test_several_ranks_a_host(plan: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            [
                "launch",
                plan,
                "--via",
                VIA,
                "--slots",
                "2",
                "--",
                "sh",
                "-c",
                "echo $RANK/$WORLD_SIZE $LOCAL_RANK",
            ]
        )
        == 0
    )
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(
        f"{name}: {2 * at + local}/6 {local}"
        for at, name in enumerate(("n2", "n1", "n3"))
        for local in (0, 1)
    )


def test_the_first_failure_ends_the_rest_and_its_code_is_passed_on(
    plan: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The others run in sessions of their own and ignore SIGTERM, in the background too: none is left."""
    job = tmp_path / "job.sh"
    job.write_text(
        f'cd {shlex.quote(str(tmp_path))}\nif [ "$RANK" = 1 ]; then\n'
        "until [ -s 0 ] && [ -s 2 ]; do sleep 0.02; done; exit 7\nfi\ntrap '' TERM\n"
        f"setsid sh -c 'trap \"\" TERM; echo $$ >'$RANK'; while :; do sleep 0.1; done' &\n"
        "while :; do sleep 0.1; done\n"
    )
    assert run(["launch", plan, "--via", VIA, "--grace", "0.3", "--", "sh", str(job)]) == 7
    said = capfd.readouterr().err
    assert "n1: ended with exit code 7; the other 2 are ended" in said
    assert said.splitlines()[-1].startswith("netprobe: n1 failed first, with exit code 7")
    left = [int((tmp_path / rank).read_text()) for rank in ("0", "2")]
    assert not any(map(is_alive, left))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_all_and_what_does_not_end_is_killed(plan: str, tmp_path: Path, number: int) -> None:
    job = tmp_path / "job.sh"
    job.write_text(
        f'cd {shlex.quote(str(tmp_path))}\n[ "$RANK" = 1 ] && trap "" INT TERM || trap "exit 9" INT TERM\n'
        "echo $$ >pid$RANK; while :; do sleep 0.05; done\n"
    )
    argv = ["launch", plan, "--via", VIA, "--grace", "2", "--", "sh", str(job)]
    pids = [tmp_path / f"pid{rank}" for rank in range(3)]
    with subprocess.Popen([sys.executable, "-m", "netprobe", *argv]) as running:
        try:
            assert wait_until(lambda: all(path.is_file() and path.read_text() for path in pids))
            running.send_signal(number)
            running.wait(60)
        finally:
            running.kill()
    assert running.returncode == 9
    assert not any(is_alive(int(path.read_text())) for path in pids)


def test_nothing_is_left_when_netprobe_itself_is_killed(plan: str, tmp_path: Path) -> None:
    job = f"cd {shlex.quote(str(tmp_path))}; echo $$ >pid$RANK; exec sleep 600"
    argv = ["launch", plan, "--via", VIA, "--grace", "0.3", "--", "sh", "-c", job]
    pids = [tmp_path / f"pid{rank}" for rank in range(3)]
    with subprocess.Popen([sys.executable, "-m", "netprobe", *argv]) as running:
        try:
            assert wait_until(lambda: all(path.is_file() and path.read_text() for path in pids))
        finally:
            running.kill()
    assert wait_until(lambda: not any(is_alive(int(path.read_text())) for path in pids))


def test_no_host_starts_where_one_cannot_be_reached(
    plan: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    way = tmp_path / "way"
    way.write_text('#!/bin/sh\n[ "$1" = n3 ] && { echo "no way there" >&2; exit 1; }\nshift\nexec "$@"\n')
    way.chmod(0o755)
    mark = tmp_path / "started"
    assert run(["launch", plan, "--via", f"{way} {{name}}", "--", "touch", str(mark)]) == 4
    said = capfd.readouterr().err
    assert "n3: " in said and "no way there" in said and len(said.splitlines()) == 1
    assert not mark.exists()


def test_a_dry_run_prints_lines_that_a_shell_reads_back(
    plan: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    words = ["torchrun", "--nproc_per_node=2", "train.py", "--node-rank", "x y;$(z)"]
    assert run(["launch", plan, "--env", "TOKEN", "--dry-run", "--", *words]) == 0
    lines = [shlex.split(line) for line in capfd.readouterr().out.splitlines()]
    assert [line[line.index("--") + 1] for line in lines] == ["n2", "n1", "n3"]
    for rank, line in enumerate(lines):
        assert shlex.split(line[-1]) == [
            "exec", "env", "TOKEN=...", "torchrun", "--nnodes=3", f"--node-rank={rank}", "--rdzv-backend=static",
            "--master-addr=127.0.0.5", "--master-port=29500", *words[1:],
        ]  # fmt: skip


def test_the_way_to_pods_is_that_of_the_options(
    plan: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text("")
    way = [
        "--via",
        "kubectl",
        "--kubeconfig",
        str(config),
        "--context",
        "far",
        "--namespace",
        "jobs",
        "--container",
        "main",
    ]
    assert run(["launch", plan, *way, "--fan-out", "3", "--dry-run", "--", "./job"]) == 0
    lines = [shlex.split(line) for line in capfd.readouterr().out.splitlines()]
    assert len(lines) == 3
    for name, line in zip(("n2", "n1", "n3"), lines):
        before = line[: line.index("--")]
        assert before[0] == "kubectl" and {"exec", "-i"} <= set(before) and name in before
        for option, value in (
            ("--kubeconfig", str(config)),
            ("--context", "far"),
            ("--namespace", "jobs"),
            ("--container", "main"),
        ):
            assert f"{option}={value}" in before or before[before.index(option) + 1] == value
    assert run(["launch", plan, "--fan-out", "0", "--dry-run", "--", "./job"]) == 2
    assert "fan-out" in capfd.readouterr().err


def test_bad_input_is_one_line(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.environ.pop("NOT_SET_HERE", None)
    for argv, what in (
        ([], "no program was given"),
        (["--env", "1a=2", "--", "true"], "NAME or NAME=VALUE"),
        (["--env", "NOT_SET_HERE", "--", "true"], "not set here"),
        (["--", "torchrun", "--rdzv_backend", "c10d", "t.py"], "does not keep"),
        (["--", "python3", "-m", "torch.distributed.run", "--standalone", "t.py"], "one host alone"),
        (["--", "torchrun", "--nnodes=2", "t.py"], "another number of hosts"),
        (["--", "torchrun", "--node-rank=1", "t.py"], "each host has its own"),
    ):
        assert run(["launch", plan, "--via", VIA, *argv]) == 2, argv
        said = capsys.readouterr()
        assert what in said.err and len(said.err.strip().splitlines()) == 1 and not said.out
    assert run(["launch", plan, "--via", VIA, "--", "no-such-program"]) == 127
    assert run(["launch", plan, "--via", VIA, "--chdir", "/no/such", "--", "true"]) == 126


def with_uname(tmp_path: Path, names: str) -> str:
    """A way in whose hosts call themselves by these names, in the order n2, n1, n3, and have no addresses."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (
        ("uname", f"set -- {names}; case $NAMED in n2) echo $1;; n1) echo $2;; n3) echo $3;; esac"),
        ("hostname", "exit 1"),
        (
            "torchrun",
            'for word; do case $word in --node-rank=*) export RANK="${word#*=}";; --nnodes=*) '
            'export WORLD_SIZE="${word#*=}";; --no-python) break;; esac; shift; done; shift; '
            'export LOCAL_RANK=0; exec "$@"',
        ),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    return f"env NAMED={{name}} PATH={programs}:{os.environ['PATH']}"


@pytest.mark.parametrize(("names", "code"), [("n2 n1 n3", 0), ("n1 n2 n3", 3)])
def test_the_ranks_are_asked_first_and_by_check_order_for_torchrun(
    plan: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], names: str, code: int
) -> None:
    way = with_uname(tmp_path, names)
    assert run(["launch", plan, "--via", way, "--check", "--", "echo", "started"]) == code
    assert capfd.readouterr().out.count("started") == (3 if code == 0 else 0)
    assert run(["check-order", plan, "--launcher", "torchrun", "--run", "--via", way]) == code
    assert f"{3 if code == 0 else 1} of 3 ranks run where" in capfd.readouterr().out


def test_a_program_that_is_not_there_is_answered_with_how_to_put_it_on_the_path(
    plan: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["launch", plan, "--via", VIA, "--", "no-such-program"]) == 127
    last = capfd.readouterr().err.splitlines()[-1]
    assert "--setup '. venv/bin/activate'" in last


ENGINE = """#!{python} -ISB
# Stands for {name}: a process for each rank, one after another in the order of its file of hosts, its lines labelled.
import os, subprocess, sys, threading
if "--version" in sys.argv:
    sys.exit(print("mpirun (Open MPI) 4.1.4"))
slurm = {name!r} == "srun"
named = ("--label" if slurm else "--tag-output") in sys.argv
file = os.environ["SLURM_HOSTFILE"] if slurm else sys.argv[sys.argv.index("--hostfile") + 1]
words = sys.argv[sys.argv.index("sh"):]
hosts = [line.split()[0] for line in open(file) if line.split("#")[0].strip()]
def say(rank, pipe, to, name):
    for line in pipe:
        label = ("%d: " % rank if slurm else "[1,%d]<%s>:" % (rank, name)) if named else ""
        to.buffer.write(label.encode() + (line.rstrip(b"\\n") + b"\\n" if slurm else line))
        to.buffer.flush()
print("{name}: up", file=sys.stderr, flush=True)
for rank, host in enumerate({order}(hosts)):
    own = dict(SLURMD_NODENAME=host, SLURM_PROCID=rank, SLURM_LOCALID=0, OMPI_COMM_WORLD_RANK=rank, ON=host,
               OMPI_COMM_WORLD_LOCAL_RANK=0, OMPI_COMM_WORLD_SIZE=3, SLURM_STEP_NUM_TASKS=3, PMIX_HOSTNAME=host)
    child = subprocess.Popen(words, env=dict(os.environ, **{{name: str(value) for name, value in own.items()}}),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    both = (child.stdout, sys.stdout, "stdout"), (child.stderr, sys.stderr, "stderr")
    threads = [threading.Thread(target=say, args=(rank, *one), daemon=True) for one in both]
    [one.start() for one in threads]
    code = child.wait()
    [one.join() for one in threads]
    if code:
        sys.exit(code)
"""


def write_engine(folder: Path, engine: str, order: str = "list") -> None:
    """The program of that name; ``order`` is a function of its list of hosts."""
    name = {"slurm": "srun", "mpi": "mpirun"}[engine]
    (folder / name).write_text(ENGINE.format(name=name, python=sys.executable, order=order))
    (folder / name).chmod(0o755)


@pytest.fixture(params=["slurm", "mpi"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "bin").mkdir()
    write_engine(tmp_path / "bin", request.param)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return str(request.param)


def test_an_engine_starts_the_ranks_in_the_plans_order_and_its_exit_code_is_ours(
    plan: str, engine: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "it's $(a) secret")
    ask = 'echo "$ON $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $TOKEN $X $1"; '
    ask += 'printf "half" >&2; [ "$RANK" != "$F" ] || exit 7'
    argv = ["launch", plan, "--via", engine, "--env", "TOKEN", "--env", "X=y z", "--setup", "F=9", "--"]
    assert run([*argv, "sh", "-c", ask, "sh", "a 'b"]) == 0
    said = capfd.readouterr()
    order = ("n2", "n1", "n3")
    assert said.out.splitlines() == [
        f"{host}: {host} {rank} 0 3 127.0.0.5 29500 it's $(a) secret y z a 'b"
        for rank, host in enumerate(order)
    ]
    own = {"slurm": "srun: up", "mpi": "mpirun: up"}[engine]  # what it says itself bears no host's name
    assert said.err.splitlines() == [own, *(f"{host}: half" for host in order)]
    argv[argv.index("F=9")] = "export F=1"
    assert run([*argv, "sh", "-c", ask]) == 7
    assert len(capfd.readouterr().out.splitlines()) == 2
    assert run([*argv[:-1], "--dry-run", "--", "torchrun", "--nproc-per-node=2", "train it.py"]) == 0
    export, _, line = capfd.readouterr().out.partition("\n")
    assert export.startswith("netprobe export ") and "secret" not in line and "X=y z" in line
    script = next(word for word in shlex.split(line) if "torchrun" in word)
    assert "'train it.py'" in script and "--nnodes=3" in script and '--node-rank="$' in script


def test_a_signal_ends_what_an_engine_started_and_what_stays_is_killed(plan: str, engine: str) -> None:
    argv = [sys.executable, "-m", "netprobe", "launch", plan, "--via", engine, "--grace", "0.2", "--"]
    script = "trap '' TERM; echo $$; while :; do sleep 0.1; done"
    with subprocess.Popen([*argv, "sh", "-c", script], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline().removeprefix("n2: "))
        running.send_signal(signal.SIGINT)
        assert running.wait(40) != 0
        assert wait_until(lambda: not is_alive(pid))


def test_an_engine_is_asked_before_the_job_starts(
    plan: str, engine: str, capfd: pytest.CaptureFixture[str]
) -> None:
    argv = ["launch", plan, "--via", engine, "--check", "--", "echo", "ran"]
    assert run(argv) == 0
    said = capfd.readouterr()
    assert "3 of 3 ranks run where the plan puts them" in said.err and said.out.splitlines() == [
        "n2: ran",
        "n1: ran",
        "n3: ran",
    ]
    write_engine(Path(os.environ["PATH"].partition(":")[0]), engine, order="sorted")
    assert run(argv) == 3
    said = capfd.readouterr()
    assert "nothing was started" in said.err and not said.out
