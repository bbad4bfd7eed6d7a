"""Hosts from files of any format, from lists, and from hostfiles found in the wild."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import make_host
from netprobe.formats import (
    FORMATS,
    format_named,
    load_hosts,
    read_hosts_text,
    read_plain_list,
    write_openmpi_hostfile,
    write_plain_list,
    writer_named,
)
from tests.properties import examples


def test_our_own_format_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("a target=x address=10.0.0.1\nb slots=2\ngpu[1-2]\n")
    assert [host.name for host in load_hosts(str(path))] == ["a", "b", "gpu1", "gpu2"]


def test_an_exported_hostfile_is_read_again(tmp_path: Path) -> None:
    hosts = (make_host("b", slots=2), make_host("a", slots=1))
    path = tmp_path / "hostfile"
    path.write_text(write_openmpi_hostfile(hosts))
    assert load_hosts(str(path)) == hosts


@pytest.mark.parametrize(
    "text", ["bob@a slots=2\n", "a max_slots=4\n", "a slots = 2\n", "a slots=2 max-slots=2\n", "a cpu=2\n"]
)
def test_what_only_open_mpi_writes_is_read_as_that(text: str) -> None:
    assert [host.name for host in read_hosts_text(text)] == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\na\n", "'a'"),
        ("a\nb target=x colour=red\n", "unknown key 'colour'"),
        ("# for Open MPI\na target=x\nb colour=red\n", "known are target, address"),
        ("a max_slots=4\nb colour=red\n", "known are slots, max_slots"),
        ("a:2\nb:2\n", "write 'a slots=2'"),
        ("a 10.0.0.1:22\n", "HOST:PORT"),
        ("rank 0=a slot=0\n", "rankfile"),
        ("", "no host in it"),
        ("a;reboot\n", "characters outside"),
        ("'a b'\n", "characters outside"),
        ("$(x)\n", "characters outside"),
        ("-a\n", "starts with '-'"),
        ("../a\n", "characters outside"),
    ],
)
def test_the_fault_is_told_as_the_likelier_format_would(text: str, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_hosts_text(text, source="hosts")
    assert str(caught.value).startswith("hosts") and "\n" not in str(caught.value)


def test_lists_and_missing_files(tmp_path: Path) -> None:
    assert [host.name for host in load_hosts("a,b[1-2]")] == ["a", "b1", "b2"]
    with pytest.raises(HostsError, match="no such hosts file"):
        load_hosts(str(tmp_path / "none"))
    with pytest.raises(HostsError, match="a slots=1"):
        load_hosts("a:1,b:1")
    with pytest.raises(HostsError):
        load_hosts(str(tmp_path))
    with pytest.raises(HostsError):
        load_hosts("")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(HostsError, match="not a UTF-8"):
        load_hosts(str(tmp_path / "binary"))


def test_an_address_of_version_6_is_no_slots() -> None:
    assert [host.name for host in read_hosts_text("fe80::1\n::2\n")] == ["fe80::1", "::2"]


@examples(150)
@given(st.text() | st.text(alphabet="ab@:=#[]- \t\r\n12slotsmax_.", max_size=60))
def test_any_text_is_hosts_or_one_clear_line(text: str) -> None:
    try:
        assert read_hosts_text(text, source="hosts")
    except HostsError as error:
        assert "\n" not in str(error)


def test_plain_lists() -> None:
    hosts = (make_host("b"), make_host("a"))
    assert write_plain_list(hosts) == "b\na\n"
    assert read_plain_list("\ufeffb # first\r\n\r\na\r\n") == hosts
    with pytest.raises(HostsError, match=r"hosts:2: .* more than one word"):
        read_plain_list("a\nb c\n", source="hosts")
    with pytest.raises(HostsError, match="twice"):
        read_plain_list("a\na\n")
    with pytest.raises(InputError, match="says nothing of slots"):
        write_plain_list(hosts, slots=2)
    with pytest.raises(InputError, match="two hosts have the launcher name"):
        write_plain_list([make_host("a", launcher_name="n"), make_host("b", launcher_name="n")])


def test_the_registry_names_its_formats() -> None:
    read_only = {"ansible", "lsf", "pbs", "slurm"}
    written = {name for name, entry in FORMATS.items() if entry.write is not None}
    assert set(FORMATS) == read_only | written and not read_only & written
    hosts = [make_host("a"), make_host("b")]
    for name, entry in FORMATS.items():
        assert format_named(name) is entry and entry.name == name
        if name in read_only:
            with pytest.raises(InputError, match=f"only read: known are {', '.join(sorted(written))}"):
                writer_named(name)
            continue
        assert entry.order
        if entry.read is not None:
            assert [host.name for host in entry.read(writer_named(name)(hosts))] == ["a", "b"]
        if entry.command is not None:
            assert entry.command("file", 2, ["x"])[-1] == "x"
    with pytest.raises(InputError, match=f"known are {', '.join(sorted(written))}"):
        format_named("yaml")
    with pytest.raises(InputError, match="known are deepspeed, dlrover"):
        writer_named("yaml")


def test_a_source_names_its_format(tmp_path: Path) -> None:
    path = tmp_path / "hosts"

    def load(argument: str, text: str) -> list[tuple[str, int | None]]:
        path.write_text(text)
        return [
            (host.name, host.slots) for host in load_hosts(argument.replace("FILE", str(path)), environ={})
        ]

    assert load("mpich:FILE", "a:2\nb\n") == [("a", 2), ("b", None)]
    assert load("openmpi:FILE", "a slots=2\na\n") == [("a", 3)]
    assert load("deepspeed:FILE", "a slots=2\n") == [("a", 2)]
    assert load("plain:FILE", "a\nb\n") == [("a", None), ("b", None)]
    assert load("pbs:FILE", "a\na\n") == [("a", 2)]
    assert load("lsf:FILE", "a\na\n") == [("a", 2)]
    assert load("ansible:FILE", "a\n[web]\nb\n") == [("a", None), ("b", None)]
    assert load("ansible:FILE:web", "a\n[web]\nb\n") == [("b", None)]
    assert load("netprobe:FILE", "a slots=3\n") == [("a", 3)]
    assert load("slurm:n[08-09],x", "") == [("n08", None), ("n09", None), ("x", None)]


@pytest.mark.parametrize("kind", ["mpich", "openmpi", "deepspeed", "plain", "ansible", "netprobe"])
def test_a_source_without_a_file_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(HostsError, match=f"write {kind}:FILE"):
        load_hosts(f"{kind}:")
    for argument in (f"{kind}:{tmp_path}/none", f"{kind}:{tmp_path}", f"{kind}:\0"):
        with pytest.raises(HostsError, match="no such hosts file|cannot be read") as caught:
            load_hosts(argument)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "kind", ["mpich", "openmpi", "deepspeed", "plain", "pbs", "lsf", "ansible", "netprobe"]
)
def test_every_format_refuses_what_nobody_sees_lines_too_long_and_pipes(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    for text, says in (
        ("# one\nb\u2028user=bob\n", "hosts:2: a line with control or invisible"),
        ("# one\nb\x1b[31m\n", "hosts:2: a line with control or invisible"),
        ("#\rb\x00\r", "hosts:2: a line with control or invisible"),
        ("#" + "x" * 70_000 + "\n", "hosts:1: a line of 70001 characters: at most 65536"),
    ):
        path.write_bytes(text.encode())
        with pytest.raises(HostsError, match=says):
            load_hosts(f"{kind}:{path}")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HostsError, match="no regular file"):
        load_hosts(f"{kind}:{tmp_path / 'pipe'}")


def test_a_file_that_is_named_like_a_source_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain:x").write_text("a\n")
    (tmp_path / "x").write_text("b\n")
    with pytest.raises(HostsError, match=r"write \./plain:x"):
        load_hosts("plain:x")
    assert [host.name for host in load_hosts("./plain:x")] == ["a"]
    (tmp_path / "inv:web").write_text("c\n")
    assert [host.name for host in load_hosts("ansible:inv:web")] == ["c"]


def test_an_inventory_shows_itself() -> None:
    hosts = read_hosts_text("[web]\na ansible_user=bob\nb\n")
    assert [host.target for host in hosts] == ["bob@a", "b"]
    with pytest.raises(HostsError, match="hosts:2: .*KEY=VALUE"):
        read_hosts_text("[web]\nb c\n", source="hosts")


def test_a_text_that_two_formats_read_differently_is_refused_with_both_names() -> None:
    with pytest.raises(HostsError, match="as netprobe and as ansible.* netprobe:FILE or ansible:FILE"):
        read_hosts_text("[1]\na\n")
    assert [host.name for host in read_hosts_text("# for MPICH, a machinefile\na\nb slots=2\n")] == ["a", "b"]


def test_a_nodefile_is_recognised_in_the_error() -> None:
    with pytest.raises(HostsError, match=r"twice.*read as pbs:FILE") as caught:
        read_hosts_text("a\na\nb\n", source="nodes")
    assert str(caught.value).startswith("nodes: ") and caught.value.source == "nodes"


DATA = os.environ.get("NETPROBE_DATA")
FOUND: dict[str, list[str] | str] = {
    "FDU-SC__hostfile": ["node-a", "node-b"],
    "TNTech-RCD__rankfile": "rankfile",
    "debjyoti385__hostfile.txt": [
        f"csews{i}.cs.example.edu" for i in (12, 13, 14, 15, 20, 21, 24, 31, 38, 6)
    ],
    "indocomsoft__machinefile": [f"soctf-pdc-00{i}" for i in (3, 4, 6, 7)],
    "kijungs__machinefile": "write 'machine-n01 slots=1'",
    "microsoft__tests__data__ib_traffic_topo_aware_hostfile": [f"vma414bbc00005{c}" for c in "IJKLMNOPQR"],
    "phadrian__hostfile": ["localhost"],
    "polaris_n2.g4_nodes.dat": [f"x3006c0s1b{i}n0.hsn.cm.polaris.alcf.anl.gov" for i in (0, 1)],
    "swift-lang__slurm-layouts__hostfile-mpich-02.txt": "write 'bdw-0161 slots=1'",
    "swift-lang__slurm-layouts__hostfile-ompi-02.txt": ["bdw-0235", "bdw-0236", "bdw-0237"],
    "swift-lang__slurm-layouts__rankfile-05.txt": "rankfile",
}
MACHINEFILES = {
    "kijungs__machinefile": [(f"machine-n{i:02d}", 1) for i in range(1, 32)],
    "swift-lang__slurm-layouts__hostfile-mpich-02.txt": [("bdw-0161", 1), ("bdw-0162", 1), ("bdw-0163", 2)],
}


@pytest.mark.skipif(not DATA, reason="NETPROBE_DATA names no folder of real hostfiles")
def test_hostfiles_found_in_the_wild() -> None:
    paths = [p for p in sorted((Path(DATA or "") / "hostfiles").iterdir()) if p.name != "README.txt"]
    assert paths
    for path in paths:
        expected = FOUND.get(path.name)
        if isinstance(expected, list):
            assert [host.name for host in load_hosts(str(path))] == expected
        elif expected is not None:
            with pytest.raises(HostsError, match=expected):
                load_hosts(str(path))
        else:
            try:
                load_hosts(str(path))
            except HostsError as error:
                assert "\n" not in str(error)


@pytest.mark.skipif(not DATA, reason="NETPROBE_DATA names no folder of real hostfiles")
def test_slots_of_hostfiles_found_in_the_wild() -> None:
    folder = Path(DATA or "") / "hostfiles"
    assert [host.slots for host in load_hosts(str(folder / "FDU-SC__hostfile"))] == [128, 128]
    assert [host.slots for host in load_hosts(str(folder / "phadrian__hostfile"))] == [12]
    name = "swift-lang__slurm-layouts__hostfile-ompi-02.txt"
    assert [host.slots for host in load_hosts(str(folder / name))] == [1, 1, 2]


@pytest.mark.skipif(not DATA, reason="NETPROBE_DATA names no folder of real hostfiles")
def test_each_format_reads_files_of_the_wild_or_refuses_them() -> None:
    folder = Path(DATA or "") / "hostfiles"
    for name, expected in MACHINEFILES.items():
        hosts = load_hosts(f"mpich:{folder / name}")
        assert [(host.name, host.slots) for host in hosts] == expected
    nodes = load_hosts(f"pbs:{folder / 'polaris_n2.g4_nodes.dat'}")
    assert [host.slots for host in nodes] == [1, 1]
    assert [host.slots for host in load_hosts(f"deepspeed:{folder / 'FDU-SC__hostfile'}")] == [128, 128]
    for path in sorted(folder.iterdir()):
        for kind in FORMATS:
            if kind != "slurm":
                try:
                    assert load_hosts(f"{kind}:{path}", environ={})
                except HostsError as error:
                    assert "\n" not in str(error)


@pytest.mark.skipif(not DATA, reason="NETPROBE_DATA names no folder of real topologies")
def test_node_lists_of_real_clusters() -> None:
    found = 0
    for path in sorted((Path(DATA or "") / "slurm_topology").glob("*.conf")):
        for expression in re.findall(
            r"^\s*(?:Switch|Block)Name=\S+\s+.*?Nodes=(\S+)", path.read_text(), re.M
        ):
            hosts = load_hosts(f"slurm:{expression}", environ={})
            assert hosts and not any("[" in host.name for host in hosts)
            found += 1
    assert found > 20
