"""The real Slurm and the real Open MPI on a lab: one launch for all agents, which dial back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run as netprobe
from netprobe.cluster import find_groups
from netprobe.core.documents.document import load_document
from netprobe.core.documents.scan import Scan
from netprobe.lab import Lab, parse_spec, temporary
from tests.probe.conftest import wait_until

from .slurm_cluster import SlurmCluster, slurm_is_missing, slurm_on

needs_slurm = pytest.mark.skipif(slurm_is_missing() is not None, reason=str(slurm_is_missing()))
needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI's mpirun is not installed")
pytestmark = pytest.mark.lab

# Few probes: the groups of a quiet lab need no more, and the launch is what is tested here.
QUICK = ["--probes", "30", "--only", "scan", "--json"]
# Racks further apart than what a busy machine adds.
SPEC = "{name: engines, racks: [3, 3], delay_inside: 50us, delay_between: 1ms}"
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=31, sshd=True) as made:
        yield made


@pytest.fixture(scope="module")
def slurm(lab: Lab) -> Iterator[SlurmCluster]:
    with slurm_on(lab) as cluster:
        yield cluster


# Several commands in one process: what takes most of the time is to start one.
COMMANDS = """
import contextlib, io, json, sys
from netprobe.cli.entry import run
results = []
for args in json.loads(sys.argv[1]):
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        results.append([run(args), err.getvalue()])
print(json.dumps(results))
"""


def scan_args(out: Path, *args: str) -> list[str]:
    return ["scan", "--out", str(out), "--python", sys.executable, *QUICK, *args]


def scan_argv(out: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "netprobe", *scan_args(out, *args)]


def run(argv: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL, check=False
    )


def commands_argv(*commands: list[str]) -> list[str]:
    return [sys.executable, "-c", COMMANDS, json.dumps(commands)]


def results_of(argv: list[str], env: dict[str, str]) -> list[tuple[int, str]]:
    """Exit code and standard error of each of the commands."""
    done = run(argv, env)
    assert done.returncode == 0, done.stderr[-800:]
    return [(code, err) for code, err in json.loads(done.stdout.splitlines()[-1])]


SETUP = (
    "cat; echo 'loading $(a module)'; NETPROBE_MARK=\"it's set\"; export NETPROBE_MARK; touch {folder}/ran"
)


@dataclass(frozen=True)
class InAllocation:
    """What commands within one allocation ended with: a scan of its nodes, and three that are refused."""

    folder: Path
    scan: tuple[int, str]
    failing_setup: tuple[int, str]
    strange_hosts: tuple[int, str]
    no_python: tuple[int, str]


@pytest.fixture(scope="module")
def in_allocation(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> InAllocation:
    folder = tmp_path_factory.mktemp("allocation")

    def by_slurm(name: str, *args: str) -> list[str]:
        return scan_args(folder / name, "--via", "slurm", *args)

    commands = (
        by_slurm("out", "--setup", SETUP.format(folder=folder)),
        by_slurm("bad", "--setup", "exit_with() { return $1; }; exit_with 7", "--start-timeout", "1000"),
        by_slurm("strange", "--hosts", "nowhere,other"),
        by_slurm("none", "--python", "no-such-python"),
    )
    return InAllocation(folder, *results_of(slurm.in_allocation(commands_argv(*commands)), slurm.env))


def groups_of(folder: Path) -> set[frozenset[str]]:
    """What the raw readings give, without the map; the least of each link, which a busy moment leaves alone."""
    scan = load_document(Scan, folder / "scan.json")
    raw = np.nan_to_num(scan.rtt_s.min)
    grouping, _ = find_groups((raw + raw.T) / 2, raw, seed=0)
    names = [host.name for host in scan.hosts]
    return {frozenset(n for n, k in zip(names, grouping.labels) if k == one) for one in range(grouping.k)}


def racks_of(lab: Lab) -> set[frozenset[str]]:
    return {frozenset(group.hosts) for group in lab.truth().groups}


def statuses(folder: Path) -> dict[str, tuple[str, str | None]]:
    hosts = json.loads((folder / "scan.json").read_text())["hosts"]
    return {host["name"]: (host["status"], host["reason"]) for host in hosts}


def no_agent_is_left(lab: Lab) -> bool:
    return wait_until(lambda: not agents_in(lab), 60)


def has_visits(out: Path, count: int = 1) -> bool:
    journal = out / "scan.journal.jsonl"
    return journal.exists() and journal.read_bytes().count(b'{"visit"') >= count


def agents_in(lab: Lab) -> list[tuple[str, int]]:
    """Host and process of every agent in the lab."""
    found = []
    for host in lab.hosts:
        listed = subprocess.run(["ip", "netns", "pids", host.target], capture_output=True, text=True)
        for pid in listed.stdout.split():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"-ISB" in command and command[0].endswith((b"python", b"python3")):
                found.append((host.name, int(pid)))
    return found


def mpi_args(lab: Lab) -> list[str]:
    mca = {"plm_rsh_agent": " ".join(lab.rsh_agent_argv), "oob_tcp_if_include": "10.77.0.0/16"}
    return ["--via", "mpi", *(word for key, value in mca.items() for word in ("--mca", f"{key}={value}"))]


@needs_slurm
@needs_mpirun
def test_ssh_srun_and_mpirun_give_the_same_groups(
    lab: Lab, in_allocation: InAllocation, tmp_path: Path
) -> None:
    given = ["--hosts", str(lab.hosts_path)]
    folders = {"ssh": tmp_path / "ssh", "mpirun": tmp_path / "mpirun", "srun": in_allocation.folder / "out"}
    ways = (
        scan_args(folders["ssh"], *given, "--ssh-config", str(lab.ssh_config_path)),
        scan_args(folders["mpirun"], *given, *mpi_args(lab)),
    )
    ended = results_of(lab.exec_argv(None, commands_argv(*ways)), {**os.environ, **ROOT_MAY})
    assert [code for code, _ in (*ended, in_allocation.scan)] == [0] * 3, (ended, in_allocation.scan)
    for folder in folders.values():
        assert {status for status, _ in statuses(folder).values()} == {"ok"}
    found = {name: groups_of(folder) for name, folder in folders.items()}
    assert found["ssh"] == found["srun"] == found["mpirun"] == racks_of(lab)
    assert no_agent_is_left(lab)


@needs_slurm
def test_slurm_knows_the_hosts_and_runs_the_set_up_lines(lab: Lab, in_allocation: InAllocation) -> None:
    """No --hosts: the nodes of the job, whose addresses the agents say; and lines before Python."""
    folder = in_allocation.folder
    assert in_allocation.scan[0] == 0, in_allocation.scan
    hosts = json.loads((folder / "out" / "scan.json").read_text())["hosts"]
    assert {host["name"]: host["address"] for host in hosts} == {h.name: h.address for h in lab.hosts}
    assert all(host["agent"]["hostname"] == host["name"] for host in hosts)
    assert (folder / "ran").exists()
    code, said = in_allocation.failing_setup
    assert code == 4 and "--setup) failed on the host with exit code 7" in said


@needs_slurm
def test_the_batch_script_of_the_examples_works(lab: Lab, slurm: SlurmCluster, tmp_path: Path) -> None:
    """From end to end on the first node of the job: scan, order, and ranks started in that order."""
    script = Path(__file__).parents[2] / "examples" / "slurm.sbatch"
    binaries = tmp_path / "netprobe" / ".venv" / "bin"
    binaries.mkdir(parents=True)
    # Fewer probes than the default, which no line of the script is about.
    activate = (
        f'netprobe() {{ verb=$1; shift; [ $verb != scan ] || set -- --probes 30 "$@"\n'
        f'{sys.executable} -m netprobe $verb "$@"; }}\nexport PATH={tmp_path}:$PATH\n'
    )
    files = {
        binaries / "activate": activate,
        tmp_path / "train": "#!/bin/sh\necho rank $SLURM_PROCID $SLURMD_NODENAME\n",
    }
    for path, content in files.items():
        path.write_text(content)
        path.chmod(0o755)
    argv = [
        "sbatch",
        "--parsable",
        f"--nodes={len(lab.hosts)}",
        f"--chdir={tmp_path}",
        f"--output={tmp_path}/log",
        str(script),
        str(tmp_path / "train"),
    ]
    done = run(slurm.argv(argv), {**slurm.env, "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    # sbatch --wait looks only every few seconds.
    listing = slurm.argv(["squeue", "--noheader", f"--jobs={done.stdout.strip()}"])
    assert wait_until(lambda: not run(listing, slurm.env).stdout.strip(), 150)
    log = (tmp_path / "log").read_text()
    assert "rank 0 " in log, log[-1500:]
    (out,) = tmp_path.glob("netprobe-*")
    order = json.loads((out / "plan.json").read_text())["order"]
    ranks = sorted(line.split()[1:] for line in log.splitlines() if line.startswith("rank "))
    assert [name for _, name in ranks] == order


@needs_slurm
def test_what_slurm_refuses_is_one_clear_line(
    in_allocation: InAllocation,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert netprobe(scan_args(tmp_path / "a", "--via", "slurm")) == 2
    outside = capsys.readouterr().err
    assert "inside an allocation" in outside
    code, strange = in_allocation.strange_hosts
    assert code == 2 and "'nowhere' is not a node of Slurm job" in strange
    code, no_python = in_allocation.no_python
    assert code == 4 and "no Python on the host (no-such-python not found)" in no_python
    for text in (outside, strange, no_python):
        assert "Traceback" not in text


@needs_slurm
def test_a_node_whose_daemon_is_dead_costs_itself_alone(
    lab: Lab, slurm: SlurmCluster, tmp_path: Path
) -> None:
    victim = lab.hosts[2].name
    argv = scan_argv(tmp_path / "out", "--via", "slurm")
    # The allocation is made first: slurmctld gives no dead node away.
    script = 'kill -9 "$1"; shift; exec "$@"'
    killing = ["sh", "-c", script, "sh", str(slurm.daemon_pid(victim)), *argv]
    done = run(slurm.in_allocation(killing), slurm.impatient_env())
    try:
        assert done.returncode == 3, done.stderr[-800:]
        found = statuses(tmp_path / "out")
        assert found.pop(victim)[0] == "unreachable"
        assert {status for status, _ in found.values()} == {"ok"}
        assert no_agent_is_left(lab)
    finally:
        slurm.restart(victim)


@needs_mpirun
def test_one_mpirun_for_all_whose_agents_dial_back(lab: Lab, tmp_path: Path) -> None:
    """What 65 hosts and more get, here with 6; an agent that is killed ends no other."""
    code = (
        "import sys, netprobe.probe.launchers.mpi as mpi\n"
        "mpi.MAX_SINGLE = 0\n"
        "mpi.MpiLauncher.__init__.__kwdefaults__['max_single'] = 0\n"
        "from netprobe.cli.entry import main\n"
        "main(sys.argv[1:])\n"
    )
    args = scan_argv(tmp_path / "out", "--hosts", str(lab.hosts_path), *mpi_args(lab), "--interval", "0.01")
    argv = lab.exec_argv(None, [sys.executable, "-c", code, *args[3:]])
    running = subprocess.Popen(
        argv, env={**os.environ, **ROOT_MAY}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert wait_until(lambda: running.poll() is not None or has_visits(tmp_path / "out"), 100)
    assert running.poll() is None
    agents = agents_in(lab)
    assert len({name for name, _ in agents}) == len(lab.hosts)
    victim, pid = agents[5]
    os.kill(pid, 9)
    _, err = running.communicate(timeout=150)
    assert running.returncode == 3, err[-800:]
    found = statuses(tmp_path / "out")
    assert found.pop(victim)[0] == "failed"
    assert {status for status, _ in found.values()} == {"ok"}
    assert no_agent_is_left(lab)


@needs_slurm
def test_a_killed_controller_leaves_no_agent_in_slurm(lab: Lab, slurm: SlurmCluster, tmp_path: Path) -> None:
    argv = scan_argv(tmp_path / "out", "--via", "slurm", "--interval", "0.02")
    mark = tmp_path / "pid"
    script = 'echo $$ >"$1"; shift; exec "$@"'
    running = subprocess.Popen(
        slurm.in_allocation(["sh", "-c", script, "sh", str(mark), *argv]),
        env=slurm.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    assert wait_until(lambda: running.poll() is not None or has_visits(tmp_path / "out"), 100)
    assert running.poll() is None
    assert len(agents_in(lab)) >= len(lab.hosts)
    os.kill(int(mark.read_text()), 9)
    running.wait(100)
    assert no_agent_is_left(lab)
