"""Slurm's topology.conf: trees, forests and blocks, and what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError
from netprobe.formats.topologies.slurm_topology import looks_like_slurm_topology, read_slurm_topology

TREE = """
# two levels
SwitchName=root Switches=s[0-1] LinkSpeed=100
SwitchName=s0 Nodes=n[01-02],gpu7   # a leaf
switchname=s1 \\
  nodes=n03
"""


def test_a_position_is_the_way_from_the_root() -> None:
    assert read_slurm_topology(TREE).positions == {
        "n01": ("root", "s0"),
        "n02": ("root", "s0"),
        "gpu7": ("root", "s0"),
        "n03": ("root", "s1"),
    }


def test_a_forest_and_blocks_have_no_root() -> None:
    assert read_slurm_topology("SwitchName=a Nodes=x\nSwitchName=b Nodes=y").positions == {
        "x": ("a",),
        "y": ("b",),
    }
    blocks = read_slurm_topology("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockSizes=2,4\n")
    assert blocks.positions["n2"] == ("b1",) and blocks.positions["n3"] == ("b2",)


def test_a_host_under_two_switches_has_no_position() -> None:
    topology = read_slurm_topology("SwitchName=a Nodes=x,y\nSwitchName=b Nodes=y,z\n")
    assert set(topology.positions) == {"x", "z"}
    assert topology.twice == {"y": ("a", "b")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no host in it"),
        ("SwitchName=a Switches=b\n", "no host in it"),
        ("Nodes=a\n", ":1: a line without SwitchName"),
        ("SwitchName=a Nodes=x\nSwitchName=a Nodes=y\n", ":2: switch 'a' is defined twice"),
        ("SwitchName=a Switches=c\nSwitchName=b Switches=c\nSwitchName=c Nodes=x", "hangs on 'a' and on 'b'"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a Nodes=x\n", "in a circle"),
        ("SwitchName=a Nodes=n[2-1]\n", ":1: .*backwards"),
        ("SwitchName=a Nodes=x Nodes=y\n", "given twice"),
        ("SwitchName=a Colour=red\n", "unknown key 'Colour'"),
        ("hello\n", "line of a topology.conf"),
        ("SwitchName=a Nodes=x what\n", "line of a topology.conf"),
        ("SwitchName=a Nodes=n[1-60000]\nSwitchName=b Nodes=m[1-60000]\n", "more than"),
        ("SwitchName=a\x1b Nodes=x\n", "control"),
    ],
)
def test_a_text_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_slurm_topology(text, source="topology.conf")
    assert "\n" not in str(caught.value)


words = st.sampled_from(
    ["SwitchName=a", "SwitchName=b", "Switches=a", "Switches=[a", "Nodes=x[1-2]", "\\", "#", ""]
)


@given(st.text(max_size=60) | st.lists(st.lists(words).map(" ".join)).map("\n".join))
def test_any_text_is_a_topology_or_one_clear_line(text: str) -> None:
    try:
        topology = read_slurm_topology(text)
    except HostsError as error:
        assert "\n" not in str(error)
    else:
        assert looks_like_slurm_topology(text) or not topology.positions
        assert all(topology.positions.values())


def test_real_topologies_are_read(data_folder: Path) -> None:
    found = {
        path.name: read_slurm_topology(path.read_text(), source=path.name)
        for path in sorted((data_folder / "slurm_topology").glob("*.conf"))
    }
    assert found["binary_tree_SW.conf"].positions["test03"] == ("main1", "SW14", "SW34")
    assert found["single_switch_no_newline.conf"].positions["slurm_node4"] == ("SwitchBidon",)
    assert found["tara_tree.conf"].positions["tara-dgx1-002"] == ("s4", "s3")
    assert len(found["schedmd_133_1_case1.conf"].positions) > 5000
    assert {len(place) for place in found["schedmd_133_1_case2.conf"].positions.values()} == {3, 4}
    assert found["schedmd_block.conf"].positions["node32"] == ("b8",)
