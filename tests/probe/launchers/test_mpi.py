"""What mpirun is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import make_host
from netprobe.probe.launchers.mpi import MpiLauncher
from tests.probe.conftest import hosts_named

COMMAND = ["python3", "-c", "x"]


def test_up_to_64_hosts_each_has_an_mpirun() -> None:
    launcher = MpiLauncher(mca=["plm_rsh_agent=ssh -p 22", "btl=tcp,self"])
    host = make_host("a", target="user@a", launcher_name="a-ib")
    argv = launcher._single.argv(host, COMMAND)
    assert argv[:9] == [
        "mpirun", "--bind-to", "none", "--mca", "plm_rsh_agent", "ssh -p 22", "--mca", "btl", "tcp,self",
    ]  # fmt: skip
    assert argv[9:] == ["-n", "1", "--host", "a-ib", *COMMAND]
    assert launcher.max_single == 64


def test_one_mpirun_for_all_has_a_line_a_rank_and_gives_all_of_them_its_input(tmp_path: Path) -> None:
    launcher = MpiLauncher()._all
    launcher._hostfile = tmp_path / "hostfile"
    hosts = [make_host("b"), make_host("x", launcher_name="a")]
    argv = launcher.argv(hosts, COMMAND)
    assert launcher._hostfile.read_text() == "b\na\n"
    assert argv[argv.index("--stdin") + 1] == "all" and argv[argv.index("--map-by") + 1] == "seq"
    assert "--continuous" in argv and argv[-3:] == COMMAND
    assert launcher.identify({"OMPI_COMM_WORLD_RANK": "1", "hostname": "b"}, hosts) is hosts[1]
    for rank in ("2", "-1", "", "x", "9" * 50):
        assert launcher.identify({"OMPI_COMM_WORLD_RANK": rank}, hosts) is None


@pytest.mark.parametrize("parameter", ["", "plm", "=x", "-x=y", "a b=c", "a=b\nc"])
def test_a_parameter_that_is_none_is_refused(parameter: str) -> None:
    with pytest.raises(InputError, match="--mca"):
        MpiLauncher(mca=[parameter])


def test_what_mpirun_would_misread_or_is_missing_is_said() -> None:
    with pytest.raises(InputError, match="HOST:SLOTS"):
        MpiLauncher(program="true").check([make_host("fd00::1")])
    with pytest.raises(PlatformError, match="needs Open MPI"):
        MpiLauncher(program="no-such-mpirun").check(hosts_named("a"))
