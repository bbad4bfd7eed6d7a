"""The nodefile of a PBS job."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.formats import load_hosts, read_pbs_nodefile


def test_a_line_is_a_slot_and_the_first_line_gives_the_order() -> None:
    hosts = read_pbs_nodefile("b\nb\r\na\n\nc # last\nb\n")
    assert [(host.name, host.slots) for host in hosts] == [("b", 3), ("a", 1), ("c", 1)]


def test_the_job_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_text("n2\nn2\nn1\n")
    for argument, environ in (("pbs:", {"PBS_NODEFILE": str(path)}), (f"pbs:{path}", {})):
        hosts = load_hosts(argument, environ=environ)
        assert [(host.name, host.slots) for host in hosts] == [("n2", 2), ("n1", 1)]
    with pytest.raises(InputError, match="no PBS job here"):
        load_hosts("pbs:", environ={})
    with pytest.raises(HostsError, match="no such hosts file"):
        load_hosts("pbs:", environ={"PBS_NODEFILE": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb 2\n", "n:2: .*more than one word"),
        ("a\n-oProxyCommand=x\n", "n:2: .*starts with '-'"),
        ("a\n$(x)\n", "n:2: .*characters outside"),
        ("", "no host"),
        ("# a\n", "no host"),
    ],
)
def test_a_malformed_line_is_named(text: str, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_pbs_nodefile(text, source="n")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_sizes_are_bounded() -> None:
    with pytest.raises(HostsError, match="slots"):
        read_pbs_nodefile("a\n" * 1_000_001)
    with pytest.raises(HostsError, match="more than 65536 hosts"):
        read_pbs_nodefile("".join(f"n{i}\n" for i in range(65_537)))


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=40))
def test_slots_add_up_to_the_lines(names: list[str]) -> None:
    hosts = read_pbs_nodefile("".join(f"{name}\n" for name in names))
    assert [host.name for host in hosts] == list(dict.fromkeys(names))
    assert [host.slots for host in hosts] == [names.count(host.name) for host in hosts]


@given(st.text() | st.text(alphabet="ab:# \t\r\n1-.", max_size=40))
def test_any_text_is_hosts_or_one_clear_line(text: str) -> None:
    try:
        assert read_pbs_nodefile(text, source="n")
    except HostsError as error:
        assert "\n" not in str(error)
