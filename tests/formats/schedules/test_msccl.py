"""MSCCL XML: what is written is run by a reader that knows the format only; other files, and hostile ones, are read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.cli.entry import run
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.formats import SCHEDULE_FORMATS
from netprobe.formats.schedules.msccl import write_msccl
from netprobe.formats.schedules.msccl_reader import read_msccl, run_msccl
from netprobe.pipeline import files
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.document import Placement
from netprobe.plan.schedule.schedule import Schedule
from tests.maps import made_map
from tests.properties import examples

REDUCING = [name for name, algorithm in ALGORITHMS.items() if not algorithm.scatters]


def planned(schedule: Schedule) -> SchedulePlan:
    hosts = [Host(name=f"h{i}") for i in range(schedule.ranks)]
    return build_schedule_plan(schedule, Placement(hosts=hosts, order=[host.name for host in hosts]))


@pytest.mark.parametrize("name", [*REDUCING, "2lha", "hierarchical"])
def test_what_is_written_adds_up_in_any_timing(name: str) -> None:
    for ranks in (2, 3, 5, 8):
        groups = [list(range(g, ranks, 2)) for g in range(2)]
        if name == "2lha":
            schedule = two_level(groups, 6, channels=2)
        elif name == "hierarchical":
            schedule = hierarchical(groups)
        else:
            schedule = build(name, ranks, 2)
        file = read_msccl(write_msccl(planned(schedule)))
        assert (file.gpus, file.chunks, file.inplace) == (ranks, schedule.chunks, True)
        for seed in range(5):
            run_msccl(file, seed)


def test_a_step_or_wait_that_is_missing_is_found() -> None:
    """The reader is a check: without waits some timing of a ring ends wrong."""
    root = ElementTree.fromstring(write_msccl(planned(build("chunked-ring", 4))))
    for step in root.iter("step"):
        step.set("depid", "-1")
        step.set("deps", "-1")
    file = read_msccl(ElementTree.tostring(root, encoding="unicode"))
    with pytest.raises(ValueError, match="another sum|wait for ever"):
        for seed in range(50):
            run_msccl(file, seed)


SCRATCH = """<algo name="pair" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="{inplace}">
{gpus}</algo>"""
GPU = """<gpu id="{me}" i_chunks="2" o_chunks="2" s_chunks="2">
<tb id="0" send="{peer}" recv="-1" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/></tb>
<tb id="1" send="-1" recv="{peer}" chan="0">
<step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="0" deps="0" hasdep="0"/>
{copy}<step s="{last}" type="re" srcbuf="s" srcoff="0" dstbuf="{result}" dstoff="0" cnt="2" depid="-1" deps="-1"/>
</tb></gpu>
"""


@pytest.mark.parametrize("inplace", [0, 1])
def test_files_with_scratch_buffers_are_read(inplace: int) -> None:
    copy = (
        ""
        if inplace
        else '<step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1"/>'
    )
    gpus = "".join(
        GPU.format(me=me, peer=1 - me, copy=copy, last=1 if inplace else 2, result="i" if inplace else "o")
        for me in range(2)
    )
    file = read_msccl(SCRATCH.format(inplace=inplace, gpus=gpus))
    for seed in range(10):
        run_msccl(file, seed)
    with pytest.raises(ValueError, match="another sum"):
        run_msccl(
            read_msccl(SCRATCH.format(inplace=inplace, gpus=gpus.replace('type="re"', 'type="cpy"'))), 0
        )


def test_what_msccl_cannot_say_is_refused_by_name() -> None:
    unequal = build("chunked-ring", 4)
    weights = Schedule(
        name="x", contract=unequal.contract, templates=unequal.templates,
        blocks=(unequal.blocks[0].__class__(template=0, weights=(1, 2, 1, 1)),),
    )  # fmt: skip
    for schedule, text in (
        (weights, "chunks of one size"),
        (build("reduce-scatter", 4), "all-reduces"),
        (
            build("chunked-ring", 260),
            "518 steps .* at most 256; no option of netprobe plan gives chunked-ring",
        ),
        (build("flat", 40), "sends to 39 ranks over channel 0: MSCCL has at most 32"),
    ):
        with pytest.raises(InputError, match=text):
            write_msccl(planned(schedule))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_commands_that_a_refusal_names_give_a_plan_that_is_written(
    channels: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.save(made_map([4, 3, 2]), tmp_path / "map.json")
    plan = ["plan", "2lha", str(tmp_path / "map.json"), "--grouping", "natural"]
    export = ["export", "schedule", str(tmp_path / "plan.json"), "--format", "msccl", "--force"]
    first = [*plan, "--size", "30MB", "--chunk", f"{64 // channels}KiB", "--channels", str(channels)]
    assert run(first) == 0
    capsys.readouterr()
    assert run(export) == 2
    named = re.findall(r"\(netprobe (plan 2lha MAP [^)]*)\)", capsys.readouterr().err)
    assert len(named) == 2
    for command in named:
        words = [*plan, *command.split()[3:], "--force"]
        assert run(words) == 0, words
        assert run(export) == 0, words
        file = read_msccl((tmp_path / "schedule.msccl.xml").read_text(encoding="utf-8"))
        assert file is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<algo",
        "<x/>",
        '<!DOCTYPE a [<!ENTITY b "c">]><algo/>',
        "<algo/>",
        '<algo nchunksperloop="1" coll="alltoall"><gpu id="0"/></algo>',
        '<algo nchunksperloop="0"><gpu id="0"/></algo>',
        '<algo nchunksperloop="1"><gpu id="1"/></algo>',
        '<algo nchunksperloop="9999999999"><gpu id="0"/></algo>',
        '<algo nchunksperloop="1"><gpu id="0"><tb id="0" send="5" recv="-1" chan="0"/></gpu></algo>',
        '<algo nchunksperloop="1"><gpu id="0"><tb id="0" send="-1" recv="-1" chan="0"><step s="0" type="s"/>'
        "</tb></gpu></algo>",
    ],
)
def test_files_that_are_no_algorithm_are_refused_in_a_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_msccl(text)
    assert "\n" not in str(caught.value)


@examples(60)
@given(st.data())
def test_edited_files_are_read_or_refused(data: st.DataObject) -> None:
    text = write_msccl(planned(build("halving-doubling", 4)))
    at = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 5))
    edited = text[:at] + data.draw(st.text(max_size=5)) + text[at + length :]
    try:
        file = read_msccl(edited)
    except InputError as error:
        assert str(error) and "\n" not in str(error)
        return
    # What is read also runs: to its end, or to one line that says why it has none.
    try:
        run_msccl(file, 0)
    except ValueError as error:
        assert str(error) and "\n" not in str(error)


def test_action_lists_say_what_each_host_does() -> None:
    said = json.loads(SCHEDULE_FORMATS["json"].write(planned(build("ring", 3))))
    assert said["algorithm"] == "ring" and said["chunks"] == [1] and len(said["ranks"]) == 3
    first = said["ranks"][0]
    assert first["host"] == "h0" and [a["kind"] for a in first["actions"]] == [
        "fetch", "send", "receive", "send", "deliver"
    ]  # fmt: skip
    assert first["actions"][2] == {
        "kind": "receive", "chunks": [0, 1], "peer": 2, "channel": 0, "step": 2, "reduces": False, "after": [1]
    }  # fmt: skip


def test_a_drawing_is_valid_xml_with_an_arrow_a_transfer() -> None:
    drawn = ElementTree.fromstring(SCHEDULE_FORMATS["svg"].write(planned(build("halving-doubling", 8))))
    arrows = [path for path in drawn.iter("{http://www.w3.org/2000/svg}path") if path.get("marker-end")]
    assert len(arrows) == 8 * 6
    with pytest.raises(InputError, match="too large to draw"):
        SCHEDULE_FORMATS["svg"].write(planned(build("chunked-ring", 64)))
