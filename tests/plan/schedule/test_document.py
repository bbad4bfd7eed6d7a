"""Schedules as documents: written, read back and proved; spoiled and hostile ones are refused in bounded time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.document import canonical_sha256, dump, write_document
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import DocumentError
from netprobe.core.hosts import Host
from netprobe.plan import build_schedule_plan, load_plan, parse_plan, proved_schedule, schedule_of
from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.contract import all_reduce
from netprobe.plan.schedule.document import Placement, digest_of
from netprobe.plan.schedule.schedule import Schedule, Transfer, one_template, template_of_rounds
from tests.plan.schedule.timing import add_up, contributions, expected
from tests.properties import examples


def planned(schedule: Schedule, left_out: int = 0) -> SchedulePlan:
    hosts = [Host(name=f"h{i}") for i in range(schedule.ranks + left_out)]
    order = [host.name for host in hosts][: schedule.ranks][::-1]
    return build_schedule_plan(schedule, Placement(hosts=hosts, order=order))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_comes_back_from_its_document(name: str, tmp_path: Path) -> None:
    for ranks in (1, 2, 5, 8):
        plan = planned(build(name, ranks, 2), left_out=1)
        write_document(plan, tmp_path / "plan.json")
        read = load_plan(tmp_path / "plan.json")
        assert isinstance(read, SchedulePlan) and canonical_sha256(read) == canonical_sha256(plan)
        assert digest_of(schedule_of(read)) == digest_of(build(name, ranks, 2))
        assert read.safe_under == ["eager", "window 1", "issue order"] and read.left_out == [f"h{ranks}"]


def test_large_tables_go_to_the_side_file(tmp_path: Path) -> None:
    plan = planned(build("chunked-ring", 64))
    write_document(plan, tmp_path / "plan.json")
    assert (tmp_path / "plan.json.npz").exists() and (tmp_path / "plan.json").stat().st_size < 20_000
    read = load_plan(tmp_path / "plan.json")
    assert isinstance(read, SchedulePlan)
    assert np.array_equal(read.templates[0].transfers, plan.templates[0].transfers)
    # What was proved is not proved again, and shares of the buffer stay each plan's own.
    assert proved_schedule(read)[1] is proved_schedule(plan)[1]
    other = parse_plan(spoil(dump(plan), ["weights"], [[1, 3], [63, 1]]), source="plan.json")
    assert isinstance(other, SchedulePlan)
    assert proved_schedule(other)[1] is proved_schedule(plan)[1]
    assert proved_schedule(other)[0].weights().tolist() == [3, *[1] * 63]


def test_a_relay_and_its_feature_are_named() -> None:
    contract = all_reduce(3, 1, members=[0, 2])
    hops = [(0, 1, False), (1, 2, True), (2, 1, False), (1, 0, False)]
    rounds = [[Transfer(src, dst, 0, 1, reduces)] for src, dst, reduces in hops]
    plan = planned(one_template("x", contract, template_of_rounds(rounds, 1)))
    assert plan.requires == ["relays"]
    with pytest.raises(DocumentError, match="requires is"):
        parse_plan(dump(plan) | {"requires": []}, source="plan.json")
    with pytest.raises(DocumentError, match="does not know"):
        parse_plan(dump(plan) | {"requires": ["relays", "telepathy"]}, source="plan.json")


def spoil(data: dict[str, Any], path: list[str | int], value: Any) -> dict[str, Any]:
    spoiled: dict[str, Any] = json.loads(json.dumps(data))
    at: Any = spoiled
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return spoiled


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["templates", 0, "transfers", 0, 1], 9),
        (["templates", 0, "transfers", 0, 0], -1),
        (["templates", 0, "transfers", 0, 5], 0),
        (["templates", 0, "transfers", 0, 3], 1 << 60),
        (["templates", 0, "transfers", 0, 3], 1.5),
        (["templates", 0, "transfers", 0], [0, 1]),
        (["templates", 0, "transfers"], []),
        (
            ["templates", 0, "transfers"],
            {"npz": "../../etc/passwd", "key": "x", "sha256": "", "shape": [1, 6]},
        ),
        (["templates", 0, "chunks"], 3),
        (["templates", 0, "chunks"], 1 << 40),
        (["templates"], []),
        (["blocks", 0, 0], 1),
        (["blocks", 0, 1], 70),
        (["blocks", 0, 2], -1),
        (["blocks"], []),
        (["weights", 0, 0], 1 << 50),
        (["weights", 0, 1], 0),
        (["weights"], [[1, 1]]),
        # Their sum is 2^64, which 64 bits hold as 0.
        (["weights"], [[1 << 52, 1]] * 4096),
        (["channels"], 0),
        (["groups"], [[]]),
        (["algorithm"], ""),
        (["algorithm"], "x" * 201),
        (["algorithm"], "\x1b[2J"),
        (["grouping"], "two\nlines"),
        (["phases"], [{"name": "\u202e", "first_step": 0}]),
        (["safe_under"], []),
        (["safe_under"], ["eager", "window 3"]),
        (["channels"], 100),
        (["contract", "collective"], "all_to_all"),
        (["contract", "collective"], "broadcast"),
        (["contract", "root"], 1),
        (["contract", "parts", 0, "contributors"], [[0, 1 << 40]]),
        (["contract", "parts", 0, "receivers"], [[0, 2]]),
        (["contract", "parts"], []),
        (
            ["contract", "parts"],
            [{"chunks": [0, 1], "contributors": [[0, 1]], "receivers": [[0, 1]]}] * 70_000,
        ),
        (["contract", "parts", 0, "contributors"], [[0, 4]] * 2_000_000),
        (["predictions"], [{}] * 70_000),
        (["contract", "applied"], True),
        (["order"], ["h0"]),
        (["order", 0], "h1"),
        (["groups"], [["h0", "h0"]]),
        (["safe_under"], ["eager"]),
        (["slots"], "many"),
    ],
)
def test_a_spoiled_plan_is_refused_in_one_line(path: list[str | int], value: Any, tmp_path: Path) -> None:
    data = dump(planned(build("chunked-ring", 4)))
    with pytest.raises(DocumentError) as caught:
        parse_plan(spoil(data, path, value), source="plan.json", folder=tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@examples(100)
@given(st.data())
def test_single_edits_of_a_plan_are_refused_or_proved(data: st.DataObject) -> None:
    """Whatever loads is what its contract says; nothing but a DocumentError comes out."""
    plan = dump(planned(two_level([[0, 1], [2, 3, 4]], 3)))
    template = data.draw(st.integers(0, len(plan["templates"]) - 1))
    rows = plan["templates"][template]["transfers"]
    row, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, 5))
    value = data.draw(st.integers(-2, 6) | st.integers(-(1 << 54), 1 << 54))
    edited = spoil(plan, ["templates", template, "transfers", row, column], value)
    try:
        read = parse_plan(edited, source="plan.json")
    except DocumentError:
        return
    # Another tree, perhaps, but the same sum.
    assert isinstance(read, SchedulePlan)
    schedule, program, _ = proved_schedule(read)
    own = contributions(schedule.contract, row)
    assert all(add_up(program, own, seed) == expected(schedule.contract, own) for seed in range(3))
