"""A plan compared with what its ranks said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netprobe.core.documents.plan import OrderPlan
from netprobe.core.hosts import Host, make_host
from netprobe.formats import FORMATS, writer_named
from netprobe.formats.rank_output.rank_lines import RankLine, RankLog
from netprobe.pipeline.ranks.checking_order import (
    OrderCheck,
    check_order,
    exported_fault,
    hint_of,
    lines_of,
    planned_ranks,
)
from tests.plan.fleets import order_plan

HOSTS = (
    make_host("gpu-c", address="10.0.0.3", slots=2),
    make_host("gpu-a", address="10.0.0.1", target="bob@login-a"),
    make_host("gpu-d.x.org", address="10.0.0.4", launcher_name="node4"),
    make_host("gpu-b", address="fd00::b", slots=2),
)
NAMES = ["gpu-c", "gpu-c", "gpu-a", "gpu-d.x.org", "gpu-b", "gpu-b"]


def plan_of(hosts: Sequence[Host] = HOSTS, left_out: Sequence[str] = ()) -> OrderPlan:
    cost = np.ones((len(hosts), len(hosts)))
    return order_plan(hosts, cost, left_out=left_out, keep_original="a test's own")


def said(
    names: Sequence[str], *, local: Sequence[int] | None = None, addresses: Sequence[str] = ()
) -> RankLog:
    lines = []
    for rank, name in enumerate(names):
        at = list(names[:rank]).count(name) if local is None else local[rank]
        lines.append(
            RankLine(
                launcher="slurm",
                rank=rank,
                size=len(names),
                local_rank=at,
                names=(name,),
                addresses=tuple(addresses[rank : rank + 1]),
                line=rank + 1,
            )
        )
    return RankLog(lines=tuple(lines), torn=())


def checked(log: RankLog, hosts: Sequence[Host] = HOSTS, *, by_node: bool = False) -> OrderCheck:
    return check_order(planned_ranks(plan_of(hosts), by_node=by_node), log)


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        [name.upper() for name in NAMES],
        ["gpu-c.cluster", "gpu-c", "login-a", "node4", "gpu-b", "gpu-b.local"],
        ["gpu-c", "10.0.0.3", "10.0.0.1", "gpu-d", "fd00:0::b", "gpu-b"],
    ],
)
def test_a_host_is_told_by_any_of_its_names(names: list[str]) -> None:
    found = checked(said(names, local=[0, 1, 0, 0, 0, 1]))
    assert found.good and found.confirmed == found.size == 6 and not lines_of(found) and not found.notes


def test_each_displaced_rank_is_named_with_the_known_order() -> None:
    found = checked(said(sorted(NAMES)))
    assert not found.good
    assert lines_of(found)[0] == "rank 0: planned gpu-c, runs on gpu-a"
    # Sorted by what the launcher calls them: node4 is last.
    found = checked(said(["gpu-a", "gpu-b", "gpu-b", "gpu-c", "gpu-c", "node4"]))
    assert found.cause == "the hosts are sorted by name"
    assert any("SLURM_HOSTFILE" in line for line in hint_of(found, "slurm"))
    found = checked(said(["gpu-c", "gpu-a", "node4", "gpu-b", "gpu-c", "gpu-b"]))
    assert found.cause is not None and "by node" in found.cause
    assert checked(said(["gpu-c", "gpu-a", "node4", "gpu-b", "gpu-c", "gpu-b"]), by_node=True).good
    found = checked(said(NAMES), by_node=True)
    assert found.cause is not None and "by slot" in found.cause
    found = checked(said(["node4", *NAMES[:3], *NAMES[4:]]))
    assert found.cause == "gpu-d.x.org was moved to the front; is it the launching host?"


def test_missing_surplus_and_strange_ranks_are_told() -> None:
    found = checked(said([*NAMES[:3], "other-host", *NAMES[4:], "gpu-a"]))
    assert lines_of(found) == [
        "rank 3: planned gpu-d.x.org, runs on other-host, which is not in the plan",
        "rank 6: not planned, runs on gpu-a",
    ]
    assert any("had 7 ranks" in note for note in found.notes)
    log = said(NAMES)
    found = checked(RankLog(lines=log.lines[:1] + log.lines[5:], torn=(3, 9)))
    assert lines_of(found) == ["ranks 1 to 4: said nothing"] and not found.good
    assert found.notes == ("2 torn or strange: line 3, 9",)
    assert hint_of(found, "slurm") == []


def test_a_rank_heard_of_twice_is_one_or_a_contradiction() -> None:
    log = said(NAMES)
    twice = checked(RankLog(lines=log.lines + log.lines[:2], torn=()))
    assert twice.good and twice.notes == (
        "2 said again, the same: the output of two runs, or one given twice",
    )
    other = said(["gpu-b", *NAMES[1:]])
    found = checked(RankLog(lines=log.lines + other.lines[:1], torn=()))
    assert (
        not found.good and lines_of(found) == ["rank 0: heard of from several hosts"] and found.confirmed == 5
    )


def test_another_local_rank_is_told_and_is_no_displacement() -> None:
    found = checked(said(NAMES, local=[1, 0, 0, 0, 0, 1]))
    assert found.good
    assert lines_of(found) == [
        "rank 0: on its host, there with local rank 1 instead of 0",
        "rank 1: on its host, there with local rank 0 instead of 1",
    ]


def test_an_address_goes_before_a_name_that_is_another_hosts() -> None:
    """Machines made of one image have one name."""
    addresses = ["10.0.0.3", "10.0.0.3", "10.0.0.1", "10.0.0.4", "fd00::b", "fd00::b"]
    found = checked(said(["gpu-a"] * 6, addresses=addresses, local=[0, 1, 0, 0, 0, 1]))
    assert found.good
    assert any("another host's name" in note for note in found.notes)
    same_names = checked(said(["ubuntu"] * 6, addresses=addresses, local=[0, 1, 0, 0, 0, 1]))
    assert same_names.good and not same_names.notes
    unknown = checked(said(["ubuntu"] * 6))
    assert not unknown.good and "is it the plan of these hosts?" in " ".join(hint_of(unknown, "slurm"))


def test_a_short_name_of_two_hosts_tells_neither() -> None:
    hosts = (make_host("n1.a.org"), make_host("n1.b.org"))
    assert checked(said(["n1.a.org", "n1.b.org"]), hosts).good
    found = checked(said(["n1", "n1"]), hosts)
    assert not found.good and not found.displaced and found.confirmed == 0
    assert (
        lines_of(found)[0] == "rank 0: planned n1.a.org, runs on n1, which is ambiguous: n1.a.org or n1.b.org"
    )
    (hint,) = hint_of(found, "slurm")
    assert "n1.a.org, n1.b.org" in hint and "launcher_name=" in hint and "--hosts" in hint
    addressed = (make_host("n1.a.org", address="10.0.0.1"), make_host("n1.b.org", address="10.0.0.2"))
    assert checked(said(["n1", "n1"], local=[0, 0], addresses=["10.0.0.1", "10.0.0.2"]), addressed).good


def test_names_of_two_hosts_are_ambiguous_and_not_foreign() -> None:
    (line,) = said(["gpu-c"]).lines
    both = replace(line, names=("gpu-a", "gpu-c"))
    found = checked(RankLog(lines=(both, *said(NAMES).lines[1:]), torn=()))
    assert not found.good and found.confirmed == 5
    assert lines_of(found) == [
        "rank 0: planned gpu-c, runs on gpu-a or gpu-c, which is ambiguous: gpu-c or gpu-a"
    ]
    assert "not in the plan" not in " ".join(lines_of(found) + hint_of(found, "slurm"))


def test_a_job_of_another_size_is_not_all_right() -> None:
    """All of the plan's ranks are where they should be, and the job has others that nobody heard of."""
    lines = tuple(replace(line, size=9) for line in said(NAMES).lines)
    found = checked(RankLog(lines=lines, torn=(4,)))
    assert found.confirmed == found.size == 6 and not found.good
    assert found.missing == (6, 7, 8) and lines_of(found) == ["ranks 6 to 8: not planned, said nothing"]
    assert "the job had 9 ranks, and the plan has 6" in " ".join(found.notes)
    absurd = checked(RankLog(lines=tuple(replace(line, size=9_999_999) for line in lines), torn=()))
    assert not absurd.good and len(absurd.missing) == 1_000_000 - 6
    assert not checked(RankLog(lines=tuple(replace(line, size=4) for line in lines), torn=())).good


def test_a_host_that_was_left_out_is_known_all_the_same() -> None:
    plan = plan_of(left_out=["gpu-a"])
    names = [name for name in NAMES if name != "gpu-a"]
    assert check_order(planned_ranks(plan), said(names)).good
    found = check_order(planned_ranks(plan), said(["gpu-a", *names[1:]]))
    assert found.displaced[0].actual == "gpu-a" and found.displaced[0].in_plan


def test_a_program_that_another_launcher_started_is_told() -> None:
    line = RankLine(
        launcher="mpich", rank=None, size=None, local_rank=None, names=("x",), addresses=(), line=1
    )
    found = checked(RankLog(lines=(line,) * 2, torn=()))
    assert not found.good and "was not mpich" in found.notes[0]


@pytest.mark.parametrize(
    "name", ["openmpi", "rankfile", "mpich", "slurm-hostfile", "torchrun", "horovod", "json"]
)
def test_an_exported_file_of_another_plan_is_found_out(name: str, tmp_path: Path) -> None:
    hosts = [make_host(f"n{at}", slots=1 + at % 2) for at in range(3)]
    planned = planned_ranks(plan_of(hosts))
    path = tmp_path / "file"
    assert "not there yet" in str(exported_fault(planned, name, path))
    path.write_text(writer_named(name)(hosts))
    assert exported_fault(planned, name, path) is None
    path.write_text(writer_named(name)(hosts[::-1]))
    assert "not with the order" in str(exported_fault(planned, name, path))
    path.write_text(writer_named(name)(hosts, slots=3))
    assert "not with the slots" in str(exported_fault(planned, name, path))
    by_node = planned_ranks(plan_of(hosts), by_node=True)
    if (deal := FORMATS[name].write_by_node) is not None:
        path.write_text(deal(hosts))
        assert exported_fault(by_node, name, path) is None
        path.write_text(writer_named(name)(hosts))
        assert "--by-node" in str(exported_fault(by_node, name, path))
    path.write_bytes(b"\xff\xfe")
    fault = str(exported_fault(planned, name, path))
    assert "not a UTF-8" in fault and f"--format {name} --force writes one" in fault
