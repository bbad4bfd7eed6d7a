"""Machinefiles of MPICH and Intel MPI, in and out."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import Host, make_host
from netprobe.formats import mpich_command, read_hosts_text, read_mpich_machinefile, write_mpich_machinefile

names = st.from_regex(r"[a-z0-9][a-z0-9_]{0,6}([.-][a-z0-9]{1,4})?", fullmatch=True)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_each_host_is_a_line_with_its_slots() -> None:
    hosts = [make_host("b", slots=2), make_host("a"), make_host("c", launcher_name="c.ib", slots=3)]
    text = write_mpich_machinefile(hosts)
    assert lines(text) == ["b:2", "a:1", "c.ib:3"]
    assert "mpiexec.hydra -machinefile THIS_FILE -n 6 PROGRAM" in text
    assert lines(write_mpich_machinefile(hosts, slots=4)) == ["b:4", "a:4", "c.ib:4"]


def test_comments_stand_alone_since_mpich_takes_none_behind_a_host() -> None:
    text = write_mpich_machinefile([make_host("a")])
    assert all(line.startswith("#") or "#" not in line for line in text.splitlines())


def test_the_command_keeps_the_order() -> None:
    argv = mpich_command("out dir/hostfile", 16, ["python", "train.py"])
    assert shlex.join(argv) == "mpiexec.hydra -machinefile 'out dir/hostfile' -n 16 python train.py"
    assert mpich_command("-x", 1)[2] == "./-x"
    assert mpich_command("HYDRA_USE_LOCALHOST", 1)[2] == "./HYDRA_USE_LOCALHOST"


def test_names_that_hydra_would_misread_are_refused() -> None:
    for name in ("::1", "fe80::1", "a:2"):
        with pytest.raises(InputError, match="cut the launcher name"):
            write_mpich_machinefile([make_host("ok"), make_host("x", launcher_name=name)])
    with pytest.raises(InputError, match="two hosts have the launcher name 'n'"):
        write_mpich_machinefile([make_host("a", launcher_name="n"), make_host("b", launcher_name="n")])
    with pytest.raises(InputError, match="slots a host"):
        write_mpich_machinefile([make_host("a")], slots=0)


def read_one(text: str) -> Host:
    (host,) = read_mpich_machinefile(text)
    return host


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("a", None),
        ("a:4", 4),
        ("  a:4  \t# c", 4),
        ("a\na\na", 3),
        ("a:2\n# c\n\na:3", 5),
        ("a:2\na", 3),
        ("\ufeffa:2\r\n", 2),
        ("a:2 binding=user:0,1", 2),
        ("a:2 ifname=eth0", 2),
        ("a ifhn=a-ib", None),
        ("a:02", 2),
    ],
)
def test_slots_are_read(text: str, slots: int | None) -> None:
    assert read_one(text) == make_host("a", slots=slots)


def test_a_user_becomes_the_target() -> None:
    assert read_one("a:2 user=bob") == make_host("a", target="bob@a", slots=2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("b:0", "HOST:SLOTS"),
        ("b:x", "HOST:SLOTS"),
        ("b:", "HOST:SLOTS"),
        ("b:-1", "HOST:SLOTS"),
        ("b:٣", "HOST:SLOTS"),
        ("b:99999999", "HOST:SLOTS"),
        (":2", "empty host name"),
        ("b:2:3", "two colons"),
        ("fe80::1", "two colons"),
        ("b 2", "KEY=VALUE"),
        ("b:2 slots=2", "Open MPI's and DeepSpeed's"),
        ("b:2 colour=red", "unknown key 'colour'"),
        ("b:2 user=", "KEY=VALUE"),
        ("b:2 user=-oX", "'-oX'"),
        ("b:2 user=x user=y", "given twice"),
        ("a:1 user=x", "two users"),
        ("slots=2", "does not begin with a host"),
        ("rank 0=b slot=0", "unknown key"),
        ("b:1,c:1", "two colons|HOST:SLOTS"),
        ("-b:1", "starts with '-'"),
        ("../b:1", "characters outside"),
        ("$(reboot):1", "characters outside"),
        ("[fe80::1]:2", "two colons"),
    ],
)
def test_a_malformed_line_is_named(line: str, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_mpich_machinefile(f"# head\na:1 user=bob\n{line}\n", source="mf")
    assert str(caught.value).startswith("mf:3: ") and "\n" not in str(caught.value)


@given(st.lists(st.tuples(names, st.integers(1, 9)), min_size=1, max_size=12, unique_by=lambda t: t[0]))
def test_what_is_written_is_read_back_also_without_a_format(items: list[tuple[str, int]]) -> None:
    hosts = tuple(make_host(name, slots=slots) for name, slots in items)
    text = write_mpich_machinefile(hosts)
    assert read_mpich_machinefile(text) == hosts
    assert read_hosts_text(text) == hosts


@given(st.text() | st.text(alphabet="ab@:=#[]- \t\r\n12user_.", max_size=60))
def test_any_text_is_hosts_or_one_clear_line(text: str) -> None:
    try:
        hosts = read_mpich_machinefile(text, source="mf")
    except HostsError as error:
        assert "\n" not in str(error)
    else:
        assert hosts and len({host.name for host in hosts}) == len(hosts)
