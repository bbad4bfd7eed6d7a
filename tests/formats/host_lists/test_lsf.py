"""The hosts of an LSF job."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.formats import load_hosts, read_lsf_counts, read_lsf_list


def test_each_variable_gives_the_same_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("h1\nh1\nh2\n")
    for environ in (
        {"LSB_MCPU_HOSTS": "h1 2 h2 1 "},
        {"LSB_HOSTS": "h1 h1 h2"},
        {"LSB_HOSTS": "", "LSB_DJOB_HOSTFILE": str(path)},
        {"LSB_MCPU_HOSTS": "h1 2 h2 1", "LSB_DJOB_HOSTFILE": "/nowhere"},
    ):
        hosts = load_hosts("lsf:", environ=environ)
        assert [(host.name, host.slots) for host in hosts] == [("h1", 2), ("h2", 1)]
    assert load_hosts(f"lsf:{path}", environ={}) == hosts


def test_a_host_that_comes_back_adds_its_slots() -> None:
    assert [(h.name, h.slots) for h in read_lsf_counts("a 1 b 2 a 3")] == [("a", 4), ("b", 2)]
    assert [(h.name, h.slots) for h in read_lsf_list("a b b a")] == [("a", 2), ("b", 2)]


def test_no_job_is_an_error_and_never_this_machine() -> None:
    for environ in ({}, {"LSB_HOSTS": "  "}, {"LSB_DJOB_HOSTFILE": ""}):
        with pytest.raises(InputError, match="no LSF job here"):
            load_hosts("lsf:", environ=environ)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h1 4 h2", "3 words"),
        ("h1 h2", "'h2' after 'h1'"),
        ("h1 0", "whole number"),
        ("h1 -1", "whole number"),
        ("h1 ٣", "whole number"),
        ("h1 9999999", "whole number"),
        ("h1 1000000 h1 1", "more than"),
        ("-h 4", "starts with '-'"),
        ("$(x) 4", "characters outside"),
        ("", "no host"),
    ],
)
def test_counts_that_are_none_are_refused(text: str, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_lsf_counts(text, source="LSB_MCPU_HOSTS")
    assert str(caught.value).startswith("LSB_MCPU_HOSTS: ")


@given(st.text() | st.text(alphabet="ab 12-\t\n", max_size=40))
def test_any_text_is_hosts_or_one_clear_line(text: str) -> None:
    for variable in ("LSB_MCPU_HOSTS", "LSB_HOSTS"):
        try:
            assert load_hosts("lsf:", environ={variable: text})
        except InputError as error:
            assert "\n" not in str(error)
