"""Names that a launcher's own parser reads as another: refused, or written so that it reads them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import make_host
from netprobe.core.naming import name_fault
from netprobe.core.openmpi_names import NAIVE, naming_flags
from netprobe.formats import (
    FORMATS,
    load_hosts,
    openmpi_command,
    read_hosts_text,
    read_openmpi_hostfile,
    write_openmpi_hostfile,
)
from netprobe.formats.host_lists.slurm import expand_nodelist, write_nodelist
from netprobe.formats.hostfiles.slurm_hostfile import check_node_names
from tests.properties import examples

needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun on this machine")
needs_scontrol = pytest.mark.skipif(shutil.which("scontrol") is None, reason="no scontrol on this machine")

# What mpirun 4.1.4 does with each: dials another name, renames it to its own, or ends with a parse error.
MISREAD = (
    "007", "0", "00", "2147483648", "4294967296", "0x0", "0.0", "0.example", "localhost", "localhost.localdomain",
    "127.0.0.1", "::", "::1", "fe80::1", "::ffff:10.0.0.1", "cores", "sockets", "boards", "cores-per-socket",
    "cores_per_socket", "sockets-per-board", "sockets_per_board", "slot", "slots", "count", "cpu", "port", "rank",
    "username", "user-name", "user_name", "max_slots", "max-slots", "slots-max", "slots_max", "cpu_max", "max-cpu",
    "count-max", "max_count", ".a", "_a.b", "a:b", "a:2", "h:h:h",
)  # fmt: skip
READ = (
    "7", "2147483647", "1a", "0x1f", "1.2", "10.0.0.1", "10.0.0.256", "a_b", "_a", "1_2", "a-", "a--b", "A1", "core",
    "socket", "cpus", "max", "user", "none", "n01", "n1", "rack0_blade0", "rack0_blade1", "2001:db8::1", "2001:DB8::2",
    "x.y.z", "001a", "a99999999999999999999",
)  # fmt: skip

hostile = st.sampled_from(
    MISREAD + READ + ("-a", "+e", "ALL", "DEFAULT", "h1", "h2", "n[1-2]")
) | st.from_regex(r"[a-z0-9_.:-]{1,8}", fullmatch=True)
names = hostile.filter(lambda name: name_fault(name) is None)
of_slurm = names.filter(lambda name: ":" not in name)
fleets = st.lists(st.tuples(names, st.integers(1, 3)), min_size=1, max_size=5, unique_by=lambda t: t[0])


def mpirun_of(path: Path, names: list[str], agent: str) -> tuple[list[str], dict[str, str]]:
    """The command that starts ``true`` on a hostfile of these names through such a script, and its environment."""
    (path / "agent").write_text(f"#!/bin/sh\necho $1 >> {path / 'dialled'}\n{agent}\n")
    (path / "agent").chmod(0o755)
    (path / "dialled").write_text("")
    (path / "hostfile").write_text("".join(f"{name} slots=1\n" for name in names))
    flags = [*naming_flags(names), "--display-map", "--mca", "plm_rsh_agent", str(path / "agent")]
    flags += ["--mca", "plm_rsh_no_tree_spawn", "1", "true"]
    environ = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return openmpi_command(str(path / "hostfile"), len(names), flags), environ


def dialled_by_mpirun(path: Path, names: list[str], least: int | None = None) -> list[str]:
    """What mpirun dials, in the order of the file, until it ends or has dialled ``least`` (all of them).

    No daemon answers, and none fails, which would end mpirun before its last: it is ended here.
    """
    argv, environ = mpirun_of(path, names, "while kill -0 $PPID 2>/dev/null; do sleep 0.1; done")
    deadline = time.monotonic() + 90
    with subprocess.Popen(argv, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            while running.poll() is None and time.monotonic() < deadline:
                if (path / "dialled").read_text().count("\n") >= (least or len(names)):
                    break
                time.sleep(0.02)
            if least is not None:
                time.sleep(0.3)  # for a daemon that was started before and writes after
        finally:
            running.terminate()  # it clears up
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(10)
            running.kill()
    return sorted((path / "dialled").read_text().split())


@pytest.mark.parametrize("name", MISREAD)
def test_a_name_that_mpirun_reads_as_another_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="launcher_name"):
        write_openmpi_hostfile([make_host("ok"), make_host("x", launcher_name=name)])


@pytest.mark.parametrize("name", READ)
def test_a_name_that_mpirun_reads_is_written(name: str) -> None:
    hosts = (make_host("aa", slots=1), make_host(name, slots=2))
    assert read_openmpi_hostfile(write_openmpi_hostfile(hosts)) == hosts


def test_names_beyond_letters_digits_and_hyphens_take_one_option_more() -> None:
    for name in ("rack0_blade0", "2001:db8::1", "_a"):
        assert naming_flags(["aa", name]) == NAIVE
        assert f"--bind-to none {' '.join(NAIVE)} PROGRAM" in write_openmpi_hostfile([make_host(name)])
    assert naming_flags(["aa", "b-1", "10.0.0.1", "x.y"]) == ()


@needs_mpirun
def test_mpirun_dials_the_names_that_are_written(tmp_path: Path) -> None:
    short = [name.partition(".")[0] if name in ("10.0.0.256", "x.y.z") else name for name in READ]
    assert dialled_by_mpirun(tmp_path, list(READ)) == sorted(short)


@needs_mpirun
def test_mpirun_starts_ranks_on_hosts_of_any_written_name(
    tmp_path: Path, attempts: Callable[[int], Iterator[int]]
) -> None:
    names = ["rack0_blade0", "2001:db8::1"]
    for _ in attempts(3):  # daemons that all run here sometimes hang
        argv, environ = mpirun_of(tmp_path, names, 'shift\nexec sh -c "$*"')
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(argv, capture_output=True, text=True, env=environ, timeout=20)
            assert sorted((tmp_path / "dialled").read_text().split()) == sorted(names)
            assert re.findall(r"Data for node: (\S+)", done.stdout) == names
            return
    raise AssertionError("mpirun hung each time")


@needs_mpirun
@pytest.mark.parametrize(
    ("name", "least"),
    # What comes behind such a name says that its turn is over; behind ".a" nothing is read.
    [(name, 2) for name in ("007", "0", "cores", "2147483648", "localhost", "slots-max")] + [(".a", 1)],
)
def test_mpirun_does_misread_what_is_refused(name: str, least: int, tmp_path: Path) -> None:
    assert name not in dialled_by_mpirun(tmp_path, ["aa", name, "zz"], least)


@needs_mpirun
def test_a_line_with_max_slots_alone_is_so_many_slots_to_mpirun(tmp_path: Path) -> None:
    text = "aa slots=4 max_slots=4\nbb max_slots=4\ncc slots=4\n"
    assert [host.slots for host in read_openmpi_hostfile(text)] == [4, 4, 4]
    for number, line in enumerate(text.splitlines()):
        path = tmp_path / str(number)
        path.write_text(line + "\n")
        argv = ["mpirun", "--allow-run-as-root", "--hostfile", str(path), "--do-not-launch", "--display-map"]
        done = subprocess.run([*argv, "-np", "1", "true"], capture_output=True, text=True, timeout=60)
        assert "Num slots: 4" in done.stdout


@needs_mpirun
@pytest.mark.parametrize(("name", "code"), [("1a.b", 1), ("1.2", 1), ("1a", 0)])
def test_a_rankfile_takes_no_dotted_name_that_begins_with_a_digit(
    name: str, code: int, tmp_path: Path
) -> None:
    write = FORMATS["rankfile"].write
    assert write is not None
    if code == 0:
        assert f"rank 0={name} slot=0" in write([make_host(name)])
    else:
        with pytest.raises(InputError, match="launcher_name"):
            write([make_host(name)])
    path = tmp_path / "rankfile"
    path.write_text(f"rank 0={name} slot=0\n")
    argv = ["mpirun", "--allow-run-as-root", "--rankfile", str(path), "--do-not-launch", "-np", "1", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ("invalid syntax in the rankfile" in done.stderr) == (code != 0)


@examples(200)
@given(fleets)
def test_hostile_names_are_refused_or_read_back(items: list[tuple[str, int]]) -> None:
    hosts = tuple(make_host(name, slots=slots) for name, slots in items)
    for entry in FORMATS.values():
        if entry.write is None or entry.read is None:
            continue
        try:
            text = entry.write(hosts)
        except InputError as error:
            assert "launcher_name" in str(error) or "two hosts" in str(error), entry.name
            continue
        read = [
            (host.name, host.slots if entry.name != "plain" else slots)
            for host, (_, slots) in zip(entry.read(text), items)
        ]
        assert read == items, entry.name


@needs_scontrol
@examples(40)
@given(st.lists(of_slurm, min_size=1, max_size=12))
def test_a_node_list_is_to_scontrol_what_it_is_here(listed: list[str]) -> None:
    try:
        check_node_names(listed)
    except InputError:
        return
    text = write_nodelist(listed)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write("ClusterName=x\nSlurmctldHost=localhost\n")
        config.flush()
        environ = os.environ | {"SLURM_CONF": config.name}
        argv = ["scontrol", "show", "hostnames", text]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, env=environ)
    assert done.stdout.split() == listed == list(expand_nodelist(text))


def test_names_joined_by_colons_are_a_list_of_lsf_and_no_name() -> None:
    for text in ("h:h:h", "3*h", "2*h:h"):
        assert [(host.name, host.slots) for host in load_hosts(f"lsf:{text}", environ={})] == [("h", 3)]
        hosts = load_hosts("lsf:", environ={"LSB_HOSTS": text})
        assert [(host.name, host.slots) for host in hosts] == [("h", 3)]
    with pytest.raises(HostsError, match="lsf:LIST"):
        read_hosts_text("h:h:h\n", source="hosts")
    with pytest.raises(HostsError, match="lsf:LIST"):
        load_hosts("h:h:h,")


@pytest.mark.parametrize(
    "text", ["127.0.0.1 localhost\n10.0.0.1 n1 n1.example.net\n10.0.0.2 n2\n", "fe80::1%lo lo\n"]
)
def test_a_file_in_the_style_of_etc_hosts_is_named(text: str) -> None:
    with pytest.raises(HostsError, match="/etc/hosts") as caught:
        read_hosts_text(text, source="hosts")
    assert caught.value.line == 1
    assert read_hosts_text("10.0.0.1 10.0.0.2\n10.0.0.3 slots=2\nn1 10.0.0.1\n".replace("n1 10.0.0.1\n", ""))
