"""Exported files and training scripts handed to the real launchers on a lab, and where their ranks ran."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netprobe.cli.entry import run as netprobe
from netprobe.core.documents.document import write_document
from netprobe.core.hosts import Host, make_host
from netprobe.formats import expand_nodelist
from netprobe.formats.hostfiles.torchrun import torchrun_argv
from netprobe.formats.rank_output.rank_program import rank_launcher
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.lab.kernel import HOST_INTERFACE
from netprobe.pipeline import files
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.document import Placement
from tests.plan.fleets import order_plan
from tests.runtime.ds_sync.worlds import plan_of_hosts

from .slurm_cluster import SlurmCluster, slurm_is_missing, slurm_on

needs_slurm = pytest.mark.skipif(slurm_is_missing() is not None, reason=str(slurm_is_missing()))
needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI's mpirun is not installed")
needs_torchrun = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
pytestmark = pytest.mark.lab

SPEC = "{name: ranks, racks: [3, 2]}"
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Neither sorted nor as given, and slots that differ.
ORDER, SLOTS = (3, 1, 4, 0, 2), (1, 2, 1, 2, 1)
RANKS = sum(SLOTS)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=5) as made:
        yield made


@pytest.fixture(scope="module")
def slurm(lab: Lab) -> Iterator[SlurmCluster]:
    with slurm_on(lab) as cluster:
        yield cluster


def run(argv: Sequence[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=150, check=False
    )


@pytest.fixture(scope="module")
def ranked(lab: Lab) -> list[Host]:
    """The lab's hosts in rank order, sorted names shuffled."""
    by_name = sorted(lab.hosts, key=lambda host: host.name)
    return [
        make_host(by_name[at].name, target=by_name[at].target, address=by_name[at].address, slots=slots)
        for at, slots in zip(ORDER, SLOTS)
    ]


class Netprobe:
    """Commands about one plan, in this process: starting one of its own takes longer than what they do."""

    def __init__(self, folder: Path, ranked: list[Host], capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._plan = str(folder / "plan.json")
        self._capsys = capsys
        cost = np.ones((len(ranked), len(ranked)))
        plan = order_plan(ranked, cost, keep_original="as the test wants it")
        write_document(plan, folder / "plan.json")

    def _run(self, *args: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = netprobe(args)
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def export(self, format_name: str, *more: str) -> None:
        code, _, err = self._run("export", "hostfile", self._plan, "--format", format_name, *more)
        assert code == 0, err

    def printed(self, launcher: str, *more: str) -> list[str]:
        """The commands that check-order prints, without a warning."""
        code, out, err = self._run("check-order", self._plan, "--launcher", launcher, *more)
        assert code == 0 and "warning" not in err, err
        return out.splitlines()

    def checked(self, said: str, expected: int, *more: str) -> dict[str, Any]:
        (self.folder / "said").write_text(said)
        code, out, err = self._run(
            "check-order", self._plan, "--read", str(self.folder / "said"), "--json", *more
        )
        assert code == expected, out + err + said
        found: dict[str, Any] = json.loads(out)
        return found


@pytest.fixture
def plan(ranked: list[Host], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Netprobe:
    return Netprobe(tmp_path, ranked, capsys)


def mpi_flags(lab: Lab) -> list[str]:
    mca = {
        "plm_rsh_agent": " ".join(lab.rsh_agent_argv),
        "btl": "tcp,self",
        "oob_tcp_if_include": "10.77.0.0/16",
    }
    return ["--", "--tag-output", *(word for key, value in mca.items() for word in ("--mca", key, value))]


@needs_mpirun
@pytest.mark.parametrize("launcher", ["openmpi", "rankfile"])
def test_mpirun_keeps_the_exported_order(lab: Lab, plan: Netprobe, launcher: str) -> None:
    plan.export(launcher)
    (command,) = plan.printed(launcher, *mpi_flags(lab))
    done = run(lab.exec_argv(None, ["sh", "-c", command]), {**os.environ, **ROOT_MAY})
    found = plan.checked(done.stdout, 0)
    assert found["good"] and found["confirmed"] == RANKS, done.stderr


@needs_mpirun
def test_mpirun_without_its_flags_is_found_out(lab: Lab, plan: Netprobe, ranked: list[Host]) -> None:
    """By node, each of the hosts with two slots has its second rank far from its first."""
    text = "".join(f"{host.name} slots={host.slots}\n" for host in ranked)
    (plan.folder / "plain").write_text(text)
    plan.export("openmpi")
    (command,) = plan.printed("openmpi", *mpi_flags(lab))
    undone = command.replace("--map-by seq", "--map-by node").replace(
        str(plan.folder / "hostfile"), str(plan.folder / "plain")
    )
    assert undone != command
    done = run(lab.exec_argv(None, ["sh", "-c", undone]), {**os.environ, **ROOT_MAY})
    found = plan.checked(done.stdout, 3)
    assert found["displaced"] and "by node" in found["cause"]
    assert any("--map-by seq" in line for line in found["hint"])
    first = found["displaced"][0]
    assert first == {"rank": 2, "planned": ranked[1].name, "actual": ranked[2].name, "in_plan": True}


@needs_slurm
def test_srun_keeps_the_exported_order(lab: Lab, slurm: SlurmCluster, plan: Netprobe) -> None:
    plan.export("slurm-hostfile")
    (command,) = plan.printed("slurm", "--", "--label")
    done = run(slurm.in_allocation(["sh", "-c", command], "--ntasks-per-node=2"), slurm.env)
    found = plan.checked(done.stdout, 0)
    assert found["good"] and found["confirmed"] == RANKS, done.stderr


@needs_slurm
def test_srun_without_its_hostfile_is_found_out(
    lab: Lab, slurm: SlurmCluster, plan: Netprobe, ranked: list[Host]
) -> None:
    """One rank a node, which srun then sorts by name; check-order runs it itself."""
    plan.export("slurm-hostfile", "--slots", "1")
    (command,) = plan.printed("slurm", "--slots", "1")
    undone = command.partition("srun ")[2].replace("--distribution=arbitrary ", "")
    done = run(slurm.in_allocation(["sh", "-c", f"srun {undone}"]), slurm.env)
    found = plan.checked(done.stdout, 3, "--slots", "1")
    assert "sorted by name" in found["cause"]
    names = sorted(host.name for host in ranked)
    assert {entry["rank"]: entry["actual"] for entry in found["displaced"]} == {
        rank: name for rank, (name, host) in enumerate(zip(names, ranked)) if name != host.name
    }
    check = ["check-order", str(plan.folder / "plan.json"), "--launcher", "slurm", "--slots", "1"]
    argv = [sys.executable, "-m", "netprobe", *check, "--run", "--json"]
    done = run(slurm.in_allocation(argv), slurm.env)
    assert done.returncode == 0 and json.loads(done.stdout)["good"], done.stderr


@needs_slurm
def test_slurm_reads_the_topology_that_is_exported(lab: Lab, slurm: SlurmCluster) -> None:
    """It runs with the racks' own topology.conf, and says which nodes hang on which switch."""
    done = run(slurm.argv(["scontrol", "show", "topology"]), slurm.env)
    assert done.returncode == 0, done.stderr
    switches = [dict(word.split("=", 1) for word in line.split()) for line in done.stdout.splitlines()]
    leaves = {frozenset(expand_nodelist(s["Nodes"])) for s in switches if s["Level"] == "0"}
    assert leaves == {frozenset(group.hosts) for group in lab.truth().groups}
    (root,) = (s for s in switches if s["Level"] == "1")
    assert set(expand_nodelist(root["Nodes"])) == {host.name for host in lab.hosts}


@needs_torchrun
def test_torchrun_keeps_the_exported_order(
    lab: Lab, ranked: list[Host], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each host starts its own line; the host with two slots has neighbours for ranks. Each imports torch: two."""
    plan = Netprobe(tmp_path, ranked[:2], capsys)
    torchrun = rank_launcher("torchrun")
    lines = [
        shlex.join(torchrun_argv(ranked[:2], at, SLOTS[at], ["--no-python", *torchrun.program]))
        for at in range(2)
    ]
    said = under_torchrun(lab, {host.name: line for host, line in zip(ranked, lines)})
    found = plan.checked(said, 0)
    assert found["good"] and found["confirmed"] == sum(SLOTS[:2])


def under_torchrun(lab: Lab, commands: dict[str, str]) -> str:
    """What the ranks print when each host runs its command."""
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    running = [
        subprocess.Popen(
            lab.exec_argv(name, ["sh", "-c", command]),
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, command in commands.items()
    ]
    try:
        ended = [one.communicate(timeout=150) for one in running]
        assert [one.returncode for one in running] == [0] * len(running), [err[-600:] for _, err in ended]
    finally:
        for one in running:
            one.kill()
            one.wait()
    return "".join(out for out, _ in ended)


EXAMPLES = Path(__file__).parents[2] / "examples"


def start_training(launcher: str, lab: Lab, slurm: SlurmCluster, names: list[str], job: list[str]) -> Any:
    """Run a script on two hosts, numbered by the launcher in the order of ``names``."""
    if launcher == "srun":
        options = ["--nodes=2", f"--nodelist={','.join(names)}", "--ntasks-per-node=1"]
        return run(slurm.argv(["srun", *options, *job]), {**os.environ, **slurm.env, **training(lab, names)})
    hostfile = lab.directory / "two"
    hostfile.write_text("".join(f"{name} slots=1\n" for name in names))
    passed = [word for name in training(lab, names) for word in ("-x", name)]
    argv = ["mpirun", *mpi_flags(lab)[1:], "--hostfile", str(hostfile), "-np", "2", "--map-by", "node"]
    return run(
        lab.exec_argv(None, [*argv, *passed, *job]), {**os.environ, **ROOT_MAY, **training(lab, names)}
    )


def training(lab: Lab, names: list[str]) -> dict[str, str]:
    """What is set for a job: where its rank 0 is found, and the interface."""
    return {
        "MASTER_ADDR": lab.host(names[0]).address,
        "MASTER_PORT": "29544",
        "GLOO_SOCKET_IFNAME": HOST_INTERFACE,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(EXAMPLES.parent),
    }


@needs_torchrun
@needs_slurm
@needs_mpirun
@pytest.mark.parametrize(
    ("launcher", "example"),
    [
        ("srun", "train_ddp"),
        pytest.param("mpirun", "train_ds_sync", marks=pytest.mark.long),
        pytest.param("srun", "train_ds_sync", marks=pytest.mark.long),
        pytest.param("mpirun", "train_ddp", marks=pytest.mark.long),
    ],
)
def test_the_training_scripts_run_under_srun_and_mpirun(
    lab: Lab, slurm: SlurmCluster, tmp_path: Path, launcher: str, example: str
) -> None:
    """The launcher numbers the two hosts by their names; the plan of the gradients has them the other way round."""
    names = sorted(host.name for host in lab.hosts)[:2]
    hosts = [Host(name=name, address=lab.host(name).address) for name in names]
    if example == "train_ddp":
        place = Placement(hosts=hosts, order=names[::-1])
        files.save(build_schedule_plan(build("chunked-ring", 2), place), tmp_path / "plan.json")
    else:
        write_document(plan_of_hosts(names, [1, 1]), tmp_path / "plan.json")
    job = [sys.executable, str(EXAMPLES / f"{example}.py"), str(tmp_path / "plan.json")]
    done = start_training(launcher, lab, slurm, names, job)
    assert done.returncode == 0, done.stderr[-2000:]
    if example == "train_ddp":
        # Lines of several processes may run together.
        said = re.findall(r"rank (\d+) loss [0-9.]+ same weights True", done.stdout)
        assert sorted(said) == ["0", "1"], done.stdout
    else:
        models = re.findall(r"rank (\d) loss [0-9.]+ model ([-0-9.e]+)", done.stdout)
        assert sorted(rank for rank, _ in models) == ["0", "1"], done.stdout
        assert len({model for _, model in models}) == 1
