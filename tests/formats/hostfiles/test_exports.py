"""What the orders of plans are written as: read back, refused, and said of each format."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import Host, make_host
from netprobe.formats import FORMATS, TOPOLOGY_FORMATS, format_named, writer_named
from tests.properties import examples

ROUND_TRIPS = ("deepspeed", "horovod", "json", "mpich", "openmpi", "rankfile", "slurm-hostfile", "torchrun")
NO_COMMENTS = {"dlrover", "horovod", "json", "ray"}
names = st.from_regex(r"h[a-z0-9]{0,6}(-[a-z0-9]{1,4})?", fullmatch=True)
fleets = st.lists(st.tuples(names, st.integers(1, 5)), min_size=1, max_size=12, unique_by=lambda t: t[0])


def made(items: Sequence[tuple[str, int]]) -> tuple[Host, ...]:
    return tuple(make_host(name, slots=slots) for name, slots in items)


def body(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


@examples(40)
@given(fleets)
def test_what_is_written_is_read_back(items: list[tuple[str, int]]) -> None:
    hosts = made(items)
    for name in ROUND_TRIPS:
        read = format_named(name).read
        assert read is not None
        assert read(writer_named(name)(hosts)) == hosts, name
        assert [host.slots for host in read(writer_named(name)(hosts, slots=3))] == [3] * len(hosts)


@examples(60)
@given(
    st.text(max_size=80)
    | st.lists(st.sampled_from(["rank", "0=a", "slot=1", "\n", "*", "#", "{", "]", ":", "torchrun"])).map(
        " ".join
    )
)
@pytest.mark.parametrize("name", ["rankfile", "slurm-hostfile", "horovod", "torchrun", "json"])
def test_a_strange_text_is_one_line_of_error(name: str, text: str) -> None:
    read = format_named(name).read
    assert read is not None
    try:
        assert read(text)
    except HostsError as error:
        assert "\n" not in str(error)


def test_the_default_names_of_files_stay() -> None:
    assert {entry.name: entry.file for entry in FORMATS.values() if entry.write} == {
        "openmpi": "hostfile",
        "rankfile": "rankfile",
        "mpich": "hostfile.mpich",
        "deepspeed": "hostfile.deepspeed",
        "horovod": "hostfile.horovod",
        "slurm-hostfile": "hostfile.slurm",
        "torchrun": "torchrun.txt",
        "json": "ranks.json",
        "kubernetes": "labels.sh",
        "ray": "ray.json",
        "dlrover": "dlrover.json",
        "plain": "hostfile.plain",
    }
    assert {entry.name: entry.file for entry in TOPOLOGY_FORMATS.values()} == {
        "slurm-conf": "topology.conf",
        "slurm-yaml": "topology.yaml",
        "slurm-block": "topology.conf",
        "kubernetes": "group-labels.sh",
        "topograph": "topograph.json",
        "dlrover": "dlrover-switches.json",
    }


def test_each_file_states_what_keeps_its_order() -> None:
    hosts = made([("b", 2), ("a", 1)])
    for name, entry in FORMATS.items():
        if entry.write is None:
            continue
        assert entry.order and "\n" not in entry.order
        if name in NO_COMMENTS | {"plain", "openmpi", "mpich", "deepspeed"}:
            continue
        said = " ".join(
            line.removeprefix("# ") for line in entry.write(hosts).splitlines() if line[:1] == "#"
        )
        assert entry.order in said, name
        assert all(len(line) <= 110 for line in entry.write(hosts).splitlines() if line[:1] == "#")


def test_hosts_of_several_ranks_stay_contiguous() -> None:
    hosts = made([("b", 2), ("a", 1)])
    assert body(writer_named("rankfile")(hosts)) == ["rank 0=b slot=0", "rank 1=b slot=1", "rank 2=a slot=0"]
    assert body(writer_named("slurm-hostfile")(hosts)) == ["b", "b", "a"]
    assert writer_named("horovod")(hosts) == "b slots=2\na slots=1\n"
    ranks = json.loads(writer_named("json")(hosts))["ranks"]
    assert [(r["rank"], r["host"], r["local_rank"]) for r in ranks] == [(0, "b", 0), (1, "b", 1), (2, "a", 0)]


def test_the_commands_of_torchrun_are_those_of_a_static_rendezvous() -> None:
    hosts = (make_host("b", address="fd00::1", slots=4), make_host("a", address="fd00::2", slots=2))
    first, second = body(writer_named("torchrun")(hosts))
    assert first == (
        "b torchrun --nnodes=2 --node-rank=0 --nproc-per-node=4 --rdzv-backend=static "
        "--master-addr=fd00::1 --master-port=29500 PROGRAM"
    )
    assert second.startswith("a ") and "--node-rank=1 --nproc-per-node=2" in second
    assert "--master-addr=fd00::1" in second


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("rankfile", "mpirun --rankfile 'x y' -np 3 PROGRAM"),
        ("slurm-hostfile", "env 'SLURM_HOSTFILE=x y' srun --distribution=arbitrary --ntasks=3 PROGRAM"),
        ("horovod", "horovodrun --gloo -np 3 --hostfile 'x y' PROGRAM"),
    ],
)
def test_the_command_keeps_the_order(name: str, command: str) -> None:
    argv = format_named(name).command
    assert argv is not None
    assert shlex.join(argv("x y", 3, ["PROGRAM"])) == command


@pytest.mark.parametrize(
    ("name", "launcher_name", "what"),
    [
        ("rankfile", "007", "mpirun would misread"),
        ("slurm-hostfile", "fd00::1", "no node of the name"),
        ("horovod", "fd00::1", "horovodrun refuses"),
        ("kubernetes", "Node_1", "RFC 1123"),
    ],
)
def test_a_name_the_launcher_would_mangle_is_refused(name: str, launcher_name: str, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        writer_named(name)([make_host("ok"), make_host("x", launcher_name=launcher_name)])
    assert "launcher_name=" in str(caught.value)


@pytest.mark.parametrize("name", sorted(n for n, e in FORMATS.items() if e.write is not None))
def test_two_hosts_of_one_launcher_name_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="two hosts"):
        writer_named(name)([make_host("a", launcher_name="n"), make_host("b", launcher_name="n")])


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("rankfile", "rank 0=a", "line of a rankfile"),
        ("rankfile", "rank 0=a slot=0\nrank 0=b slot=0", "hosts:2: rank 0"),
        ("rankfile", "rank 0=a slot=0\nrank 2=b slot=0", "no rank 1"),
        ("rankfile", "rank 0=a slot=0\nrank 1=b slot=0\nrank 2=a slot=1", "host 'a' has rank 2"),
        ("rankfile", "rank 0=+n0 slot=0", "characters outside"),
        ("slurm-hostfile", "a*0", "such as n1"),
        ("slurm-hostfile", "a b", "such as n1"),
        ("horovod", "# x\na slots=1", "reads no comments"),
        ("torchrun", "a torchrun --nnodes=1", "HOST torchrun"),
        ("json", "[1]", "rank map of version"),
        ("json", "[" * 100_000, "JSON"),
        ("json", '{"rank_map": 1, "hosts": [{"host": "a", "slots": 2}], "ranks": []}', "have more slots"),
        (
            "json",
            '{"rank_map": 1, "hosts": [{"host": "a", "slots": true}], "ranks": []}',
            "no host and slots",
        ),
        ("json", '{"rank_map": 1, "hosts": [{"host": "a", "slots": 1}], "ranks": [{}]}', "not those of"),
        ("json", '{"rank_map": 1, "hosts": 3}', "'hosts' .* list"),
    ],
)
def test_what_is_no_such_file_is_refused(name: str, text: str, what: str) -> None:
    read = format_named(name).read
    assert read is not None
    with pytest.raises(HostsError, match=what):
        read(text, source="hosts")


def test_a_rankfile_gives_its_hosts_in_the_order_of_the_ranks() -> None:
    read = format_named("rankfile").read
    assert read is not None
    assert read("rank 1=a slot=0:*\nrank 2 = a slot=1\nrank 0=b slots=p0-1\n") == made([("b", 1), ("a", 2)])
    tasks = format_named("slurm-hostfile").read
    assert tasks is not None
    assert tasks("b*2 # two\na\n") == made([("b", 2), ("a", 1)])


def test_ranks_are_dealt_out_by_node_where_that_is_asked() -> None:
    hosts = made([("a", 1), ("b", 3), ("c", 2)])
    interleaved = ["a", "b", "c", "b", "c", "b"]
    assert {name for name, entry in FORMATS.items() if entry.write_by_node} == {
        "json", "openmpi", "rankfile", "ray", "slurm-hostfile",
    }  # fmt: skip
    texts = {}
    for name in ("openmpi", "rankfile", "slurm-hostfile", "json"):
        write = FORMATS[name].write_by_node
        assert write is not None
        texts[name] = write(hosts)
    lines = [line for line in texts["openmpi"].splitlines() if line[0] != "#"]
    assert lines == ["a slots=1", "b", "c", "b", "c", "b"]
    assert [line for line in texts["slurm-hostfile"].splitlines() if line[0] != "#"] == interleaved
    assert "rank 3=b slot=1\nrank 4=c slot=1\nrank 5=b slot=2\n" in texts["rankfile"]
    assert [entry["host"] for entry in json.loads(texts["json"])["ranks"]] == interleaved


def test_ray_and_dlrover_are_told_addresses() -> None:
    hosts = [make_host("b", address="10.0.0.2", slots=2), make_host("a", address="fd00::1")]
    ray = json.loads(writer_named("ray")(hosts))
    assert ray["bundles"] == [{"node:10.0.0.2": 0.001}] * 2 + [{"node:fd00::1": 0.001}]
    assert [(e["rank"], e["host"], e["local_rank"]) for e in ray["ranks"]] == [
        (0, "b", 0),
        (1, "b", 1),
        (2, "a", 0),
    ]
    nodes = json.loads(writer_named("dlrover")(hosts))
    assert nodes == [
        {"node_rank": 0, "process_num": 2, "node_ip": "10.0.0.2"},
        {"node_rank": 1, "process_num": 1, "node_ip": "fd00::1"},
    ]
    for name in ("ray", "dlrover"):
        with pytest.raises(InputError, match="that of 'x' is not known: give it an address="):
            writer_named(name)([*hosts, make_host("x")])
    with pytest.raises(InputError, match="at most 1000 bundles"):
        writer_named("ray")(hosts, slots=1001)
