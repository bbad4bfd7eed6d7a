"""Open MPI hostfiles, in and out."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import Host, make_host
from netprobe.formats import openmpi_command, openmpi_ranks, read_openmpi_hostfile, write_openmpi_hostfile
from tests.properties import examples

names = st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,4})?", fullmatch=True).filter(
    lambda name: name not in {"slots", "slot", "cpu", "cpus", "count", "rank", "port", "socket"}
)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_host_of_one_rank_is_a_line_with_slots() -> None:
    text = write_openmpi_hostfile([make_host("b"), make_host("a")])
    assert lines(text) == ["b slots=1", "a slots=1"]
    assert "-np 2 --map-by seq --bind-to none" in text


def test_a_host_of_several_ranks_is_as_many_lines_without_slots() -> None:
    hosts = [make_host("b", slots=2), make_host("a"), make_host("c", slots=3)]
    assert lines(write_openmpi_hostfile(hosts)) == ["b", "b", "a slots=1", "c", "c", "c"]
    assert openmpi_ranks(hosts) == ("b", "b", "a", "c", "c", "c")
    assert lines(write_openmpi_hostfile(hosts, slots=1)) == ["b slots=1", "a slots=1", "c slots=1"]


def test_the_launcher_name_is_written() -> None:
    host = make_host("shown", target="ssh-alias", address="10.0.0.1", launcher_name="real-1")
    assert lines(write_openmpi_hostfile([host])) == ["real-1 slots=1"]


def test_the_command_keeps_the_order() -> None:
    argv = openmpi_command("out dir/hostfile", 16, ["python", "train.py"])
    assert shlex.join(argv) == (
        "mpirun --hostfile 'out dir/hostfile' -np 16 --map-by seq --bind-to none python train.py"
    )
    assert openmpi_command("-x", 1)[2] == "./-x"


@pytest.mark.parametrize("name", ["a:2", "::1", "fe80::1", ".a", "slots", "Slots", "rank", "cpu", "a."])
def test_a_name_that_mpirun_would_misread_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="launcher_name="):
        write_openmpi_hostfile([make_host("ok"), make_host("x", launcher_name=name)])


def test_names_that_mpirun_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(InputError, match="first dot"):
        write_openmpi_hostfile([make_host("n1.rack1.example"), make_host("n1.rack2.example")])
    with pytest.raises(InputError, match="have the launcher name 'n'"):
        write_openmpi_hostfile([make_host("a", launcher_name="n"), make_host("b", launcher_name="n")])
    addresses = [make_host("10.0.0.1"), make_host("10.0.0.2")]
    assert lines(write_openmpi_hostfile(addresses)) == ["10.0.0.1 slots=1", "10.0.0.2 slots=1"]


@pytest.mark.parametrize("slots", [0, -1, 10**9])
def test_impossible_slots_are_refused(slots: int) -> None:
    with pytest.raises(InputError, match="slots a host"):
        write_openmpi_hostfile([make_host("a")], slots=slots)
    with pytest.raises(InputError, match="at most"):
        write_openmpi_hostfile([make_host(f"n{i}") for i in range(3)], slots=999_999)


@examples(60)
@given(st.lists(st.tuples(names, st.integers(1, 5)), min_size=1, max_size=12, unique_by=lambda t: t[0]))
def test_what_is_written_is_read_back(items: list[tuple[str, int]]) -> None:
    hosts = tuple(make_host(name, slots=slots) for name, slots in items)
    assert read_openmpi_hostfile(write_openmpi_hostfile(hosts)) == hosts


def read_one(text: str) -> Host:
    (host,) = read_openmpi_hostfile(text)
    return host


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("a", None),
        ("a slots=4", 4),
        ("a slots = 4", 4),
        ("a\tslots=4 \t max_slots=8", 4),
        ("a slots=4 max-slots=4  # c", 4),
        ("a cpu=3", 3),
        ("a count=3", 3),
        ("a max_slots=3", 3),
        ("a max_slots=3 slots=2", 2),
        ("a slots=2\na max_slots=4", 3),
        ("a\na\na", 3),
        ("a slots=2\na slots=3", 5),
        ("\ufeffa slots=2\r\n\r\n# comment\r\n", 2),
        ("a slots=2 # slots=9", 2),
    ],
)
def test_slots_are_read(text: str, slots: int | None) -> None:
    assert read_one(text) == make_host("a", slots=slots)


def test_users_become_the_target() -> None:
    assert read_one("bob@a slots=2") == make_host("a", target="bob@a", slots=2)
    assert read_one("a username=bob") == make_host("a", target="bob@a")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("b 4", "KEY=VALUE"),
        ("b slots", "KEY=VALUE"),
        ("b slots=", "KEY=VALUE"),
        ("b slots=x", "whole number"),
        ("b slots=0", "whole number"),
        ("b slots=-1", "whole number"),
        ("b slots=٣", "whole number"),
        ("b slots=99999999", "whole number"),
        ("b slots=2 slots=3", "given twice"),
        ("b slots=4 max_slots=2", "max_slots=2"),
        ("b colour=red", "unknown key 'colour'"),
        ("b:4", "MPICH"),
        ("+n0", "relative host"),
        ("^b", "exclusion"),
        ("rank 0=b slot=0", "KEY=VALUE|unknown key"),
        ("slots=4", "does not begin with a host"),
        ("$(reboot) slots=1", "characters outside"),
        ("-oProxyCommand=x", "does not begin with a host"),
        ("-b", "starts with '-'"),
        ("../b", "characters outside"),
        ("b;c", "characters outside"),
        ("-l@b", "starts with '-'"),
        ("b username=-oX", "username"),
        ("bob@b username=eve", "given twice"),
        ("[fe80::1] slots=1", "characters outside"),
    ],
)
def test_a_malformed_line_is_named(line: str, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_openmpi_hostfile(f"# head\na slots=1\n{line}\n", source="hf")
    assert str(caught.value).startswith("hf:3: ") and "\n" not in str(caught.value)


def test_an_empty_file_has_no_host() -> None:
    with pytest.raises(HostsError, match="no host in it"):
        read_openmpi_hostfile("# nothing\n\n")


@examples(150)
@given(st.text() | st.text(alphabet="ab@:=#+^ \t\r\n1slotmax_-.", max_size=60))
def test_any_text_is_hosts_or_one_clear_line(text: str) -> None:
    try:
        hosts = read_openmpi_hostfile(text, source="hf")
    except HostsError as error:
        assert "\n" not in str(error)
    else:
        assert hosts and len({host.name for host in hosts}) == len(hosts)
