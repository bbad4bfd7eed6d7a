"""Node lists of Slurm, and the hosts of a Slurm job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import MAX_HOSTS, make_host
from netprobe.formats import expand_nodelist, load_hosts, read_slurm_nodelist, slurm_hosts
from netprobe.formats.host_lists.slurm import read_tasks_per_node

# What `scontrol show hostnames` of Slurm 22.05.8 prints.
SCONTROL = {
    "rack[0-1]-n[08-10]": "rack0-n08 rack0-n09 rack0-n10 rack1-n08 rack1-n09 rack1-n10",
    "c1a-s[11,17]": "c1a-s11 c1a-s17",
    "a[1-2]b[3-4]": "a1b3 a1b4 a2b3 a2b4",
    "n[1-2][3-4]": "n13 n14 n23 n24",
    "a,b,a": "a b a",
    "n[1-3],n2": "n1 n2 n3 n2",
    "n[1-3,2]": "n1 n2 n3 n2",
    "n[2-3],n[1-2]": "n2 n3 n1 n2",
    "n1,n01": "n1 n01",
    "n[1,01]": "n1 n01",
    "n[01,1]": "n01 n1",
    "n[09-11]": "n09 n10 n11",
    "n[9-11]": "n9 n10 n11",
    "n[009-11]": "n009 n010 n011",
    "n[1-03]": "n1 n2 n3",
    "n[01-3]": "n01 n02 n03",
    "n[98-102]": "n98 n99 n100 n101 n102",
    "n[098-102]": "n098 n099 n100 n101 n102",
    " a, b": "a b",
    "a b": "a b",
    "a,,b": "a b",
    "a,": "a",
    "[1-3]": "1 2 3",
    "3[1-2]": "31 32",
    "a:2": "a:2",
    "c[1-2],d[1-2]": "c1 c2 d1 d2",
}


@pytest.mark.parametrize("expression", sorted(SCONTROL))
def test_an_expression_is_what_scontrol_makes_of_it(expression: str) -> None:
    assert list(expand_nodelist(expression)) == SCONTROL[expression].split()


def test_several_groups_suffixes_and_zeros() -> None:
    hosts = read_slurm_nodelist("rack[0-1]-n[08-10],c1a-s[11,17],x[1-2]-ib")
    assert [host.name for host in hosts] == [
        *(f"rack{r}-n{n}" for r in "01" for n in ("08", "09", "10")),
        *("c1a-s11", "c1a-s17", "x1-ib", "x2-ib"),
    ]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("n[3-1]", r"runs backwards: write 1-3"),
        ("n[]", "not a number or range"),
        ("n[1,,2]", "not a number or range"),
        ("n[1-]", "not a number or range"),
        ("n[-2]", "not a number or range"),
        ("n[a-c]", "not a number or range"),
        ("n[1-3:2]", "not a number or range"),
        ("n[001-010/3]", "not a number or range"),
        ("n[1-2", "unbalanced"),
        ("n1-2]", "unbalanced"),
        ("n[[1-2]]", "unbalanced"),
        ("n[1, 2]", "blank inside"),
        ("n[1 - 2]", "blank inside"),
        ("n[٣-٤]", "not a number or range"),
        ("n[0-65536]", "more than"),
        ("n[0-65535],m", "more than"),
        ("n[0-65535]," * 20_000, "more than"),
        ("a," * 600_000, "too long"),
        ("a,b,a", "twice"),
        ("n[1-3],n2", "twice"),
        ("2*n[1-2]", "characters outside"),
        ("$(reboot)", "characters outside"),
        ("-w[1-2]", "starts with '-'"),
        ("", "no host"),
        (" , ", "no host"),
    ],
)
def test_a_list_that_is_none_is_refused(expression: str, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_slurm_nodelist(expression, source="slurm")
    assert str(caught.value).startswith("slurm: ") and "\n" not in str(caught.value)


def test_a_job_gives_its_hosts_and_its_tasks() -> None:
    environ = {"SLURM_JOB_NODELIST": "n[01-03],m1", "SLURM_TASKS_PER_NODE": "2(x3),1"}
    assert [(host.name, host.slots) for host in slurm_hosts(environ)] == [
        ("n01", 2),
        ("n02", 2),
        ("n03", 2),
        ("m1", 1),
    ]
    assert slurm_hosts({"SLURM_NODELIST": "a,b"}) == (make_host("a"), make_host("b"))
    both = {"SLURM_NODELIST": "x", "SLURM_JOB_NODELIST": "a"}
    assert [host.name for host in load_hosts("slurm:", environ=both)] == ["a"]


def test_no_job_is_an_error_and_never_this_machine() -> None:
    for environ in ({}, {"SLURM_JOB_NODELIST": " "}, {"SLURM_TASKS_PER_NODE": "1"}):
        with pytest.raises(InputError, match="no Slurm job here"):
            load_hosts("slurm:", environ=environ)


def test_tasks_that_do_not_fit_the_hosts_are_refused_outside_a_step() -> None:
    environ = {"SLURM_JOB_NODELIST": "n[1-4]", "SLURM_TASKS_PER_NODE": "1"}
    with pytest.raises(HostsError, match="speaks of 1 hosts and SLURM_JOB_NODELIST of 4"):
        slurm_hosts(environ)
    assert [host.slots for host in slurm_hosts({**environ, "SLURM_STEP_ID": "0"})] == [None] * 4


def test_a_heterogeneous_job_is_refused() -> None:
    with pytest.raises(HostsError, match="heterogeneous"):
        slurm_hosts({"SLURM_JOB_NODELIST": "n1", "SLURM_HET_SIZE": "2"})


@pytest.mark.parametrize(
    "text", ["", "x", "0", "2(x0)", "2(3)", "2(x3", "-1", "1,,2", "2(x99999)", "9999999"]
)
def test_tasks_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(HostsError, match="number of tasks"):
        read_tasks_per_node(text, source="tasks")
    with pytest.raises(HostsError, match="number of tasks"):
        read_tasks_per_node(f"1(x{MAX_HOSTS}),1")


ranges = st.tuples(st.integers(0, 99), st.integers(0, 12), st.integers(1, 4))


@given(
    st.lists(st.tuples(st.sampled_from(["n", "a-", "r1x"]), ranges, st.sampled_from(["", "-ib"])), min_size=1)
)
def test_ranges_are_what_they_say(parts: list[tuple[str, tuple[int, int, int], str]]) -> None:
    expression, names = [], []
    for before, (low, more, width), after in parts:
        expression.append(f"{before}[{low:0{width}d}-{low + more:0{width}d}]{after}")
        names += [f"{before}{n:0{width}d}{after}" for n in range(low, low + more + 1)]
    assert list(expand_nodelist(",".join(expression))) == names


@given(st.text() | st.text(alphabet="an01[]-, \t\n:x", max_size=40), st.text(alphabet="12(x),", max_size=12))
def test_any_text_is_hosts_or_one_clear_line(text: str, tasks: str) -> None:
    for environ in ({"SLURM_JOB_NODELIST": text}, {"SLURM_NODELIST": text, "SLURM_TASKS_PER_NODE": tasks}):
        try:
            hosts = slurm_hosts(environ)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert hosts and len({host.name for host in hosts}) == len(hosts)
