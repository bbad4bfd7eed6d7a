"""Open MPI's own all-reduce: on this machine, and on a lab in two orders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from netprobe.core.documents.document import load_document
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import Host, make_host, read_hosts_file
from netprobe.lab import parse_spec, temporary
from netprobe.pipeline.files import save
from netprobe.verify.libraries.mpi import ALGORITHMS, MpiLibrary
from netprobe.verify.libraries.process_group import LibraryError
from tests.plan.fleets import order_plan

needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI's mpirun is not installed")
QUIET = ("mpi_yield_when_idle=1", "rmaps_base_oversubscribe=1")


@pytest.fixture(autouse=True)
def root_may_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
        monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")


def all_here(hosts: Sequence[Host], path: Path) -> list[str]:
    path.write_text(f"localhost slots={len(hosts)}\n")
    return ["mpirun", "--hostfile", str(path), "-np", str(len(hosts)), "--bind-to", "none"]


@needs_mpirun
@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_sums_are_right_in_any_order_and_of_any_size(algorithm: str) -> None:
    hosts = [make_host(name) for name in "abc"]
    with MpiLibrary(all_here, mca=QUIET).open(hosts, algorithm=algorithm) as session:
        assert session.version.startswith("Open MPI")
        for order, size in [((2, 0, 1), 4), ((0, 1, 2), 1 << 20), ((1, 2, 0), 76), ((2, 1, 0), 3 << 20)]:
            assert 0 < session.time_all_reduce(order, size, 60) < 60
        with pytest.raises(InputError, match="each of the 3 hosts"):
            session.time_all_reduce((0, 1), 4, 60)


@needs_mpirun
def test_a_launcher_that_keeps_another_order_is_found_out() -> None:
    hosts = [make_host("a"), make_host("b")]
    library = MpiLibrary(
        all_here, mca=QUIET, python=f"python3 {Path(__file__).parent.parent / 'rank_on_another.py'}"
    )
    with pytest.raises(LibraryError, match="rank 0 runs on b, and was for a"), library.open(hosts):
        pass


@needs_mpirun
def test_what_mpirun_complains_of_is_passed_on() -> None:
    library = MpiLibrary(all_here, mca=QUIET, python="no-such-python")
    with pytest.raises(LibraryError, match="mpirun: .*"), library.open([make_host("a")]):
        pass


def test_what_cannot_be_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(InputError, match="ring, segmented-ring"),
        MpiLibrary(all_here).open([], algorithm="x"),
    ):
        pass
    with pytest.raises(InputError, match="--mca"):
        MpiLibrary(all_here, mca=["-x"])
    monkeypatch.setenv("PATH", "")
    with (
        pytest.raises(PlatformError, match="needs Open MPI"),
        MpiLibrary(all_here).open([], algorithm="ring"),
    ):
        pass
    assert set(ALGORITHMS) < set(MpiLibrary.algorithms)


@needs_mpirun
@pytest.mark.lab
@pytest.mark.quiet
def test_verify_with_mpi_finds_the_racks_faster_than_a_stride(tmp_path: Path) -> None:
    """The whole command, on a lab's controller: each byte passes each uplink once instead of three times."""
    spec = "{name: library-mpi, racks: [3, 3], host_rate: 100Mbit/s, uplink_rate: 100Mbit/s}"
    with temporary(parse_spec(spec), seed=3) as lab:
        hosts = {host.name: host for host in read_hosts_file(lab.hosts_path)}
        racks = [group.hosts for group in lab.truth().groups]
        given = [hosts[name] for pair in zip(*racks, strict=True) for name in pair]
        rack_of = np.array([[host.name in rack for rack in racks].index(True) for host in given])
        plan = order_plan(given, np.where(rack_of[:, None] == rack_of, 50e-6, 150e-6))
        save(plan, tmp_path / "plan.json")
        argv = [sys.executable, "-m", "netprobe", "verify", str(tmp_path / "plan.json"), "--with", "mpi"]
        mca = [f"plm_rsh_agent={' '.join(lab.rsh_agent_argv)}", "pml=ob1", "btl=tcp,self", QUIET[0]]
        mca += ["btl_tcp_if_include=10.77.0.0/16", "oob_tcp_if_include=10.77.0.0/16"]
        argv += [word for one in mca for word in ("--mca", one)]
        argv += ["--size", "500kB", "--time", "4s", "--precision", "20%", "--json"]
        done = subprocess.run(lab.exec_argv(None, argv), capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["method"], said["ran"], said["status"]) == ("mpi", "ring", "ok")
    assert said["comparison"]["ratio"] > 1
    found = load_document(Verify, tmp_path / "verify.json")
    assert found.parameters["library"].startswith("Open MPI")
    assert [one.name for one in found.orders] == ["proposed", "given"]


@pytest.mark.parametrize("algorithm", ["default", *ALGORITHMS])
def test_the_algorithm_is_forced_by_parameters_that_the_default_has_none_of(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open MPI's tuned component has to come first and to look at its rules, or a forced algorithm is ignored."""
    started: list[list[str]] = []

    def start(_: object, name: str, argv: list[str]) -> None:
        started.append(argv)
        raise LibraryError(name)

    monkeypatch.setattr("netprobe.verify.libraries.mpi.shutil.which", lambda _: "/usr/bin/mpirun")
    monkeypatch.setattr("netprobe.verify.libraries.mpi.ProcessGroup.start", start)
    library = MpiLibrary(all_here, mca=["btl=tcp,self"])
    with pytest.raises(LibraryError, match="mpirun"), library.open([make_host("a")], algorithm=algorithm):
        pass
    (argv,) = started
    pairs = {argv[at + 1]: argv[at + 2] for at, word in enumerate(argv) if word == "--mca"}
    assert pairs.pop("btl") == "tcp,self"
    if algorithm == "default":
        assert pairs == {}
    else:
        assert pairs.pop("coll_tuned_priority") == "100" and pairs.pop("coll_tuned_use_dynamic_rules") == "1"
        assert pairs == ALGORITHMS[algorithm]
