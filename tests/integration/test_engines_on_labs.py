"""The real Slurm and the real Open MPI on a lab: one launch for all agents, which dial back."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from netprobe.cluster import find_groups
from netprobe.core.document import load_document
from netprobe.core.scan import Scan
from netprobe.lab import Lab, parse_spec, temporary
from tests.probe.conftest import wait_until

from .slurm_cluster import SlurmCluster, slurm_is_missing, slurm_on

needs_slurm = pytest.mark.skipif(slurm_is_missing() is not None, reason=str(slurm_is_missing()))
needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI's mpirun is not installed")
# Looked up and not imported: importing torch takes seconds, and only the command needs it.
needs_map = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "sklearn"))),
    reason="torch or scikit-learn is not installed",
)
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


def scan_argv(out: Path, *args: str) -> list[str]:
    python = ["--python", sys.executable]
    return [sys.executable, "-m", "netprobe", "scan", "--out", str(out), *python, *QUICK, *args]


def run(argv: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL, check=False
    )


def groups_of(folder: Path) -> set[frozenset[str]]:
    """What the raw readings give, without the map and its solver."""
    scan = load_document(Scan, folder / "scan.json")
    raw = np.nan_to_num(scan.rtt_s.p10)
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
def test_ssh_srun_and_mpirun_give_the_same_groups(lab: Lab, slurm: SlurmCluster, tmp_path: Path) -> None:
    given = ["--hosts", str(lab.hosts_path)]
    ssh = [*given, "--ssh-config", str(lab.ssh_config_path)]
    ways = {
        "ssh": (lab.exec_argv(None, scan_argv(tmp_path / "ssh", *ssh)), None),
        "srun": (slurm.in_allocation(scan_argv(tmp_path / "srun", *given, "--via", "slurm")), slurm.env),
        "mpirun": (
            lab.exec_argv(None, scan_argv(tmp_path / "mpirun", *given, *mpi_args(lab))),
            {**os.environ, **ROOT_MAY},
        ),
    }
    found = {}
    for name, (argv, env) in ways.items():
        done = run(argv, env)
        assert done.returncode == 0, f"{name}: {done.stderr[-800:]}"
        found[name] = groups_of(tmp_path / name)
        assert {status for status, _ in statuses(tmp_path / name).values()} == {"ok"}
    assert found["ssh"] == found["srun"] == found["mpirun"] == racks_of(lab)
    assert no_agent_is_left(lab)


@needs_slurm
def test_slurm_knows_the_hosts_and_runs_the_set_up_lines(
    lab: Lab, slurm: SlurmCluster, tmp_path: Path
) -> None:
    """No --hosts: the nodes of the job, whose addresses the agents say; and lines before Python."""
    setup = f"cat; echo 'loading $(a module)'; NETPROBE_MARK=\"it's set\"; export NETPROBE_MARK; touch {tmp_path}/ran"
    argv = scan_argv(tmp_path / "out", "--via", "slurm", "--setup", setup)
    done = run(slurm.in_allocation(argv), slurm.env)
    assert done.returncode == 0, done.stderr[-800:]
    hosts = json.loads((tmp_path / "out" / "scan.json").read_text())["hosts"]
    assert {host["name"]: host["address"] for host in hosts} == {h.name: h.address for h in lab.hosts}
    assert all(host["agent"]["hostname"] == host["name"] for host in hosts)
    assert (tmp_path / "ran").exists()
    setup = "exit_with() { return $1; }; exit_with 7"
    failing = scan_argv(tmp_path / "bad", "--via", "slurm", "--setup", setup, "--start-timeout", "1000")
    done = run(slurm.in_allocation(failing), slurm.env)
    assert done.returncode == 4
    assert "--setup) failed on the host with exit code 7" in done.stderr


@needs_slurm
@needs_map
def test_the_batch_script_of_the_documentation_works(lab: Lab, slurm: SlurmCluster, tmp_path: Path) -> None:
    """From end to end on the first node of the job: scan, order, and ranks started in that order."""
    text = (Path(__file__).parents[2] / "docs" / "launchers.md").read_text()
    script = text.partition("```bash\n")[2].partition("```")[0].replace(". /etc/profile; ", "")
    assert script.startswith("#!/bin/bash\n#SBATCH")
    binaries = tmp_path / "netprobe" / ".venv" / "bin"
    binaries.mkdir(parents=True)
    # Fewer probes than the default, which no line of the script is about.
    activate = (
        f'netprobe() {{ verb=$1; shift; [ $verb != scan ] || set -- --probes 30 "$@"\n'
        f'{sys.executable} -m netprobe $verb "$@"; }}\nexport PATH={tmp_path}:$PATH\n'
    )
    files = {
        binaries / "activate": activate,
        tmp_path / "module": f'#!/bin/sh\necho "$@" >>{tmp_path}/loaded\n',
        tmp_path / "train": "#!/bin/sh\necho rank $SLURM_PROCID $SLURMD_NODENAME\n",
        tmp_path / "script": script,
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
        str(tmp_path / "script"),
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
    assert (tmp_path / "loaded").read_text() == "load python/3.11\n" * len(lab.hosts)


@needs_slurm
def test_what_slurm_refuses_is_one_clear_line(lab: Lab, slurm: SlurmCluster, tmp_path: Path) -> None:
    outside = run(slurm.argv(scan_argv(tmp_path / "a", "--via", "slurm")), slurm.env)
    assert outside.returncode == 2 and "inside an allocation" in outside.stderr
    strange = scan_argv(tmp_path / "b", "--via", "slurm", "--hosts", "nowhere,other")
    done = run(slurm.in_allocation(strange), slurm.env)
    assert done.returncode == 2 and "'nowhere' is no node of Slurm job" in done.stderr
    no_python = scan_argv(tmp_path / "c", "--via", "slurm", "--python", "no-such-python")
    done = run(slurm.in_allocation(no_python), slurm.env)
    assert done.returncode == 4 and "no Python on the host (no-such-python not found)" in done.stderr
    for text in (outside.stderr, done.stderr):
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
        "import sys, netprobe.probe.mpi as mpi\n"
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
