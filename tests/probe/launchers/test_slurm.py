"""What srun is given, and what is read out of what it says (recorded from Slurm 22.05)."""

from __future__ import annotations

from pathlib import Path

import pytest

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import make_host
from netprobe.probe.launchers.listen_address import ListenAt
from netprobe.probe.launchers.slurm import SlurmLauncher, has_overlap
from tests.probe.conftest import hosts_named

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3],gpu[08-10]-ib"}
ABORTED = """\
srun: error: Task launch for StepId=7.0 failed on node n2: Communication connection failure
srun: error: Application launch failed: Communication connection failure
srun: Job step aborted: Waiting up to 4 seconds for job step to finish.
slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***
srun: error: n1: task 0: Killed
srun: error: n3: task 2: Killed
"""
ENDED = """\
2: netprobe: this is Python 3.6, and 3.8 or later is needed
srun: error: n3: task 2: Exited with exit code 3
0: ImportError: no module of that name
slurmstepd-n2: error: execve(): python9: No such file or directory
srun: error: gpu[08-09]-ib: tasks 3-4: Exited with exit code 2
"""


def launcher(program: str = "true", **environment: str) -> SlurmLauncher:
    return SlurmLauncher(environment=environment or JOB, program=program, listen=ListenAt("127.0.0.1"))


def srun(tmp_path: Path, help_text: str) -> str:
    program = tmp_path / "srun"
    program.write_text(f"#!/bin/sh\necho '{help_text}'\n")
    program.chmod(0o755)
    return str(program)


def test_the_hosts_are_the_nodes_of_the_job() -> None:
    names = ["n1", "n2", "n3", "gpu08-ib", "gpu09-ib", "gpu10-ib"]
    assert launcher().nodes() == names


def test_outside_an_allocation_it_says_what_to_do() -> None:
    for environment in ({"PATH": ""}, {"SLURM_JOB_ID": "7"}, {"SLURM_JOB_NODELIST": "n1"}):
        with pytest.raises(InputError, match=r"inside an allocation.*srun -w \{target\}"):
            launcher(**environment).check(hosts_named("n1"))
    with pytest.raises(InputError, match="node list of Slurm job 7 cannot be read"):
        launcher(SLURM_JOB_ID="7", SLURM_JOB_NODELIST="n[1-").check(hosts_named("n1"))


def test_a_host_must_be_a_node_of_the_job_by_its_launcher_name() -> None:
    launcher().check([make_host("a", launcher_name="n1"), make_host("n2", target="x.n2")])
    with pytest.raises(InputError, match="host 'b' is not a node of Slurm job 7"):
        launcher().check([make_host("n1"), make_host("b")])
    with pytest.raises(PlatformError, match="needs Slurm's srun"):
        launcher("no-such-srun").check(hosts_named("n1"))


def test_one_task_a_node_and_the_command_last(tmp_path: Path) -> None:
    new = launcher(srun(tmp_path, "      --overlap    Allow other steps to overlap this step"))
    hosts = [make_host("a", launcher_name="n1"), make_host("n3")]
    argv = new.argv(hosts, ["python3", "-c", "x"])
    assert {"--nodelist=n1,n3", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--overlap"} <= set(argv)
    assert {"--kill-on-bad-exit=0", "--wait=0", "--input=all"} <= set(argv)
    assert argv[-3:] == ["python3", "-c", "x"]


def test_an_old_srun_gets_no_option_it_does_not_know(tmp_path: Path) -> None:
    old = srun(tmp_path, "  -i, --input=in")
    assert "--overlap" not in launcher(old).argv(hosts_named("n1"), ["x"])
    assert not has_overlap("no-such-program")


def test_an_agent_is_told_by_the_name_slurmd_knows() -> None:
    hosts = [make_host("a", launcher_name="n1"), make_host("n2")]
    assert launcher().identify({"SLURMD_NODENAME": "n1", "hostname": "n2"}, hosts) is hosts[0]
    assert launcher().identify({"hostname": "n2"}, hosts) is None


def test_a_node_that_spoils_the_launch_is_blamed_alone() -> None:
    hosts = hosts_named("n1", "n2", "n3")
    assert launcher().gone(ABORTED, hosts) == []
    assert [host.name for host in launcher().blamed(ABORTED, hosts)] == ["n2"]
    assert "Communication connection failure" in launcher().lines_about(ABORTED, hosts[1])[-1]


def test_tasks_that_ended_are_told_with_what_they_printed() -> None:
    hosts = hosts_named("n1", "n2", "n3", "gpu08-ib", "gpu09-ib")
    assert [host.name for host in launcher().gone(ENDED, hosts)] == ["n3", "gpu08-ib", "gpu09-ib"]
    assert launcher().lines_about(ENDED, hosts[2])[-1].startswith("netprobe: this is Python 3.6")
    assert launcher().lines_about(ENDED, hosts[1])[-1].endswith("No such file or directory")
    assert launcher().lines_about(ENDED, hosts[0]) == []
