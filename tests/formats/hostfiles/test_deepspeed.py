"""Hostfiles of DeepSpeed, in and out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import make_host
from netprobe.formats import read_deepspeed_hostfile, read_hosts_text, write_deepspeed_hostfile


def test_hosts_in_the_order_of_the_file() -> None:
    text = "\ufeff# workers\nworker-2 slots=4\n\n  worker-1\tslots=8  # c\r\nbob@w3 slots=1\n"
    assert read_deepspeed_hostfile(text) == (
        make_host("worker-2", slots=4),
        make_host("worker-1", slots=8),
        make_host("w3", target="bob@w3", slots=1),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("b", "line of a DeepSpeed"),
        ("b slots = 4", "line of a DeepSpeed"),
        ("b slots=", "line of a DeepSpeed"),
        ("b slots=4 type=A100", "line of a DeepSpeed"),
        ("b slots=٣", "line of a DeepSpeed"),
        ("b slots=0", "hf:2: slots=0 "),
        ("b slots=9999999", "hf:2: slots=9999999 "),
        ("b:4", "line of a DeepSpeed"),
        ("-b slots=4", "starts with '-'"),
        ("$(x) slots=4", "characters outside"),
    ],
)
def test_a_malformed_line_is_named(line: str, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_deepspeed_hostfile(f"a slots=1\n{line}\n", source="hf")
    assert str(caught.value).startswith("hf:2: ") and "\n" not in str(caught.value)


def test_a_host_stands_there_once() -> None:
    with pytest.raises(HostsError, match="twice"):
        read_deepspeed_hostfile("a slots=1\na slots=2\n")
    with pytest.raises(InputError, match="two hosts have the launcher name"):
        write_deepspeed_hostfile([make_host("a", launcher_name="n"), make_host("b", launcher_name="n")])
    with pytest.raises(InputError, match="cut the launcher name"):
        write_deepspeed_hostfile([make_host("::1")])


@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-z0-9][a-z0-9.-]{0,6}", fullmatch=True), st.integers(1, 9)),
        min_size=1,
        unique_by=lambda t: t[0],
    )
)
def test_what_is_written_is_read_back_also_as_a_hosts_file(items: list[tuple[str, int]]) -> None:
    hosts = tuple(make_host(name, slots=slots) for name, slots in items)
    text = write_deepspeed_hostfile(hosts)
    assert read_deepspeed_hostfile(text) == hosts
    assert read_hosts_text(text) == hosts


@given(st.text() | st.text(alphabet="ab@:=# \t\r\n12slots-", max_size=60))
def test_any_text_is_hosts_or_one_clear_line(text: str) -> None:
    try:
        assert read_deepspeed_hostfile(text, source="hf")
    except HostsError as error:
        assert "\n" not in str(error)
