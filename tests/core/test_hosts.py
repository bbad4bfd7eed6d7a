from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError
from netprobe.core.hosts import (
    Host,
    format_hosts,
    load_hosts,
    natural_order,
    parse_host_list,
    parse_hosts_text,
    read_hosts_file,
)

NAMES = st.from_regex(r"[a-z][a-z0-9.]{0,8}[a-z0-9]", fullmatch=True)


def test_a_line_gives_every_field() -> None:
    (host,) = parse_hosts_text(
        "a target=u@a.example address=10.0.0.1 launcher_name=na slots=8 label.zone=z1 # x\n"
    )
    assert host == Host(
        name="a",
        target="u@a.example",
        address="10.0.0.1",
        launcher_name="na",
        slots=8,
        labels={"zone": "z1"},
    )


def test_the_short_form_is_a_name_and_an_address() -> None:
    assert parse_hosts_text("a 10.0.0.1\nb fd00::2\n") == (
        Host(name="a", address="10.0.0.1"),
        Host(name="b", address="fd00::2"),
    )


def test_a_template_and_a_range_of_addresses_are_addresses_too() -> None:
    hosts = parse_hosts_text("n[1,3] 10.0.0.[1,3]\nm {name}-ib\n")
    assert [(host.name, host.address) for host in hosts] == [
        ("n1", "10.0.0.1"), ("n3", "10.0.0.3"), ("m", "m-ib")
    ]  # fmt: skip


def test_unwritten_fields_are_the_name() -> None:
    (host,) = parse_hosts_text("a")
    assert (host.target, host.launcher_name, host.address, host.slots) == ("a", "a", None, None)


def test_a_range_line_numbers_its_columns_alike() -> None:
    hosts = parse_hosts_text("gpu[01-03] address=10.0.0.[11-13] target=u@{name} slots=4\n")
    assert [(h.name, h.address, h.target, h.slots) for h in hosts] == [
        (f"gpu0{i}", f"10.0.0.1{i}", f"u@gpu0{i}", 4) for i in (1, 2, 3)
    ]


def test_comments_blank_lines_crlf_and_a_byte_order_mark_are_no_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_bytes("\ufeff# fleet\r\n\r\na\r\n  b # second\r\n".encode())
    assert [host.name for host in read_hosts_file(path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no host in it"),
        ("# nothing\n\n", "no host in it"),
        ("a\nb\na\n", "'a' is listed twice"),
        ("a\nb extra words\n", "f:2: 'extra' behind 'b' is neither an IP address nor a KEY=VALUE"),
        ("a b\n", "f:1: 'b' behind 'a' is neither an IP address nor a KEY=VALUE: write one host a line"),
        ("a b.example\n", "'a address=b.example'"),
        ("a b slots=4\n", "write one host a line"),
        ("a 10.0.0.1 slots=4\n", "written address=10.0.0.1"),
        ("a 10.0.0.1 10.0.0.2\n", "'10.0.0.1' is not a KEY=VALUE"),
        ("a 10.0.0.256\n", "'10.0.0.256' is not an IP address"),
        ("a, b\n", "a list with commas: write one host a line"),
        ("a,b,c\n", "a list with commas: write one host a line"),
        ("n[1,3],b\n", "a list with commas"),
        ("a zone=1\n", "f:1: unknown key 'zone'"),
        ("a slots=0\n", "slots='0'"),
        ("a slots=many\n", "slots='many'"),
        ("a slots=1 slots=2\n", "'slots' is given twice"),
        ("a address=1 target=-oProxyCommand=x\n", "starts with '-'"),
        ("-rf\n", "starts with '-'"),
        ("a;reboot\n", "characters outside"),
        ("$(reboot)\n", "characters outside"),
        ("../../etc/passwd\n", "characters outside"),
        ("'a b'\n", "characters outside"),
        ("a 'unclosed\n", "unbalanced quotes"),
        ("a address=10.0.0.1\nb address=10.0.0.1\n", "same address"),
        ("a target=x\nb target=x\n", "same target"),
        ("n[1-3] address=10.0.0.[1-2]\n", "names 2 values for 3 hosts"),
        ("n[3-1]\n", "f:1: range '3-1'"),
        ("a address=10.0.0.1;x\n", "characters outside"),
    ],
)
def test_bad_lines_are_one_clear_line(text: str, says: str) -> None:
    with pytest.raises(HostsError) as caught:
        parse_hosts_text(text, source="f")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_directory_or_binary_hosts_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostsError, match="no such hosts file"):
        read_hosts_file(tmp_path / "none")
    with pytest.raises(HostsError, match="cannot be read"):
        read_hosts_file(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HostsError, match="not a UTF-8 text file"):
        read_hosts_file(tmp_path / "binary")


def test_a_mistyped_file_never_becomes_a_host(tmp_path: Path) -> None:
    for argument in ("hosts.txt", str(tmp_path / "none"), "a/b"):
        with pytest.raises(HostsError, match="no such hosts file"):
            load_hosts(argument)
    with pytest.raises(HostsError, match="empty"):
        load_hosts("  ")


def test_lists_and_ranges_are_hosts() -> None:
    assert [h.name for h in load_hosts("a,b,gpu[08-10]")] == ["a", "b", "gpu08", "gpu09", "gpu10"]
    assert [h.name for h in load_hosts("one,")] == ["one"]
    with pytest.raises(HostsError, match="twice"):
        parse_host_list("a,b,a")


def test_natural_order_is_by_number() -> None:
    hosts = parse_host_list("n10,n9,n1")
    assert natural_order(hosts) == [2, 1, 0]


@pytest.mark.slow
@given(
    st.lists(
        st.builds(
            lambda name, slots, labels: Host(name=name, target=f"u@{name} x", slots=slots, labels=labels),
            NAMES,
            st.none() | st.integers(1, 99),
            st.dictionaries(
                st.from_regex(r"[a-z]{1,4}", fullmatch=True),
                st.from_regex(r"[a-z #'\"\\$]{0,6}", fullmatch=True),
            ),
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda host: host.name,
    )
)
def test_written_hosts_are_read_back(hosts: list[Host]) -> None:
    assert parse_hosts_text(format_hosts(hosts)) == tuple(hosts)


@given(st.text(max_size=60))
def test_any_text_is_hosts_or_one_clear_line(text: str) -> None:
    try:
        hosts = parse_hosts_text(text, source="f")
    except HostsError as error:
        assert str(error).strip()
        return
    assert hosts
    assert len({h.name for h in hosts}) == len(hosts)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a\u2028evil\n", "control or invisible"),
        ("a\x1b[31m\n", "control or invisible"),
        ("a address=010.0.0.1\n", "an IP address"),
        ("a 300.1.1.1\n", "an IP address"),
        ("'" + "x" * 70_000 + "'\n", "at most 65536"),
    ],
)
def test_what_would_quietly_mean_something_else_is_refused(text: str, says: str) -> None:
    with pytest.raises(HostsError, match=says):
        parse_hosts_text(text)


def test_a_hash_begins_a_comment_only_at_the_start_of_a_word() -> None:
    with pytest.raises(HostsError, match="characters outside"):
        parse_hosts_text("b#1\n")
    assert [host.name for host in parse_hosts_text("a # b#1\n#c\n")] == ["a"]


def test_a_pipe_is_no_hosts_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HostsError, match="no regular file"):
        read_hosts_file(tmp_path / "pipe")


def test_a_line_too_long_to_be_hosts_is_refused_at_once() -> None:
    for text in ("," * 1_000_000, "[" * 1_000_000, "a " * 1_000_000):
        with pytest.raises(HostsError, match="hosts:1: a line of .* characters"):
            parse_hosts_text(text, source="hosts")


@pytest.mark.slow
def test_a_file_is_bounded_in_bytes_and_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("n[0-65535]\nand-one-more\n")
    with pytest.raises(HostsError, match="hosts: more than 65536 hosts"):
        read_hosts_file(path)
    path.write_text("#\n" * (8 << 20))
    with path.open("a") as stream:
        stream.write("a\n")
    with pytest.raises(HostsError, match="larger than 16777216 bytes"):
        read_hosts_file(path)


def test_a_list_is_bounded_as_a_whole() -> None:
    with pytest.raises(HostsError, match="more than 65536 hosts"):
        parse_host_list("n[0-65535]," * 1_000)
