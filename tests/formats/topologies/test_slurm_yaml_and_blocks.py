"""Slurm's topology.yaml read, ours too, and blocks written: topology.yaml(5), topology.conf(5)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import Host, make_host
from netprobe.formats import topology_format_named
from netprobe.formats.host_lists.slurm import expand_nodelist
from netprobe.formats.topologies.slurm_block import block_sizes
from netprobe.formats.topologies.slurm_topology import read_slurm_topology
from netprobe.formats.topologies.slurm_yaml_reader import looks_like_topology_yaml, read_topology_yaml
from netprobe.pipeline.truth.placement import read_placement
from tests.formats.topologies.test_topology_exports import ABOVE, ROOMS, fleets
from tests.properties import examples

YAML = """---
- topology: t1
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - switch: s1
        nodes: n[01-02]
      - switch: s2
        nodes: n03,on,012
- topology: t2
  cluster_default: false
  block:
    block_sizes: [2, 4]
    blocks:
      - block: b1
        nodes: n[01-02]
      - block: b2
        nodes: n03
- topology: t3
  flat: true
- topology: t4
  ring:
    rings:
      - ring: r0
        nodes: n[01-03]
"""


def test_each_of_several_topologies_is_read_by_its_name() -> None:
    assert looks_like_topology_yaml(YAML)
    tree = read_topology_yaml(YAML, name="t1").positions
    assert tree["n01"] == ("root", "s1") and tree["n03"] == ("root", "s2")
    assert tree["on"] == tree["012"] == ("root", "s2")  # names, and neither true nor ten
    assert read_topology_yaml(YAML, name="t2").positions == {"n01": ("b1",), "n02": ("b1",), "n03": ("b2",)}
    assert set(read_topology_yaml(YAML, name="t4").positions.values()) == {("r0",)}


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (
            YAML,
            None,
            r"holds 3 topologies, t1 \(tree, the default\), t2 \(block\), t4 \(ring\): say which, as in",
        ),
        (YAML, "t9", r"no topology 't9': there are t1 \(tree, the default\)"),
        (YAML, "t3", "is flat, which says nothing of places"),
        ("- topology: a\n  torus3d:\n    x: 1\n", None, "is torus3d, whose coordinates are not a tree"),
        ("- topology: a\n", None, "is of no kind"),
        ("topology: a\n", None, "a list of topologies is needed"),
        ("- topology: a\n- topology: a\n", None, "two topologies of the name 'a'"),
        ("- topology: [a\n", None, "not valid YAML"),
        ("- topology: &x a\n  tree: *x\n", None, "aliases"),
        ("- topology: a\n  tree: {switches: [{switch: s}, {switch: s}]}\n", None, "'s' is there twice"),
        ("- topology: a\n  tree: {switches: [{nodes: s}]}\n", None, "a switch without a name"),
        ("- topology: a\n  tree: {switches: [{switch: s, nodes: [x]}]}\n", None, "is not a list of names"),
        ("- topology: a\n  tree: {switches: [{switch: s}]}\n", None, "no host in it"),
        ("- topology: a\n  tree: {switches: [{switch: s, switch: t}]}\n", None, "a key twice"),
        ("- topology: a\n  tree: 7\n", None, "a tree needs switches"),
        (
            "- topology: a\n  tree: {switches: [{switch: s, children: s, nodes: x}]}\n",
            None,
            "in a circle",
        ),
    ],
)
def test_what_is_no_topology_with_places_is_refused(text: str, name: str | None, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_topology_yaml(text, name=name)
    assert str(caught.value).isprintable()


@examples(60)
@given(fleets())
def test_our_own_writing_is_read_back(groups: dict[str, list[Host]]) -> None:
    conf, yaml = (
        topology_format_named(name).write(groups, [make_host("lost")])
        for name in ("slurm-conf", "slurm-yaml")
    )
    assert read_topology_yaml(yaml).positions == read_slurm_topology(conf).positions


def test_our_own_writing_of_nested_groups_is_read_back() -> None:
    conf, yaml = (
        topology_format_named(name).write(ROOMS, above=ABOVE) for name in ("slurm-conf", "slurm-yaml")
    )
    assert read_topology_yaml(yaml).positions == read_slurm_topology(conf).positions


@given(
    st.text(max_size=80) | st.lists(st.sampled_from(YAML.splitlines(keepends=True)), max_size=12).map("".join)
)
def test_any_text_is_a_topology_or_one_clear_line(text: str) -> None:
    for name in (None, "t1", "t2"):
        try:
            positions = read_topology_yaml(text, name=name).positions
        except HostsError as error:
            assert "\n" not in str(error)
        else:
            assert positions is not None


def test_a_topology_yaml_is_a_truth(tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text(topology_format_named("slurm-yaml").write(ROOMS, above=ABOVE))
    placement = read_placement(path)
    assert placement.kind == "slurm" and placement.positions["n1"] == ("netprobe", "hall", "row1", "g1")
    path.write_text(YAML)
    with pytest.raises(HostsError, match=r"say which, as in .*topology.yaml:t1"):
        read_placement(path)
    one = read_placement(Path(f"{path}:t2"))
    assert one.positions["n03"] == ("b2",) and one.source == f"{path}:t2"
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=s Nodes=a\n")
    with pytest.raises(InputError, match="neither a truth document"):
        read_placement(Path(f"{conf}:t2"))


def test_a_published_file_is_read(data_folder: Path) -> None:
    path = data_folder / "slurm_topology" / "schedmd_man_topology_0.yaml"
    assert read_placement(Path(f"{path}:topo1")).positions["node03"] == ("sw_root", "s2")
    assert read_placement(Path(f"{path}:topo2")).positions["node16"] == ("b4",)
    assert len(read_placement(Path(f"{path}:topo4")).positions) == 16


def test_groups_are_blocks_and_those_of_one_enclosing_group_stand_together() -> None:
    text = topology_format_named("slurm-block").write(ROOMS, [make_host("lost")], above=ABOVE)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    blocks = [line.split()[0].removeprefix("BlockName=") for line in lines[:-1]]
    positions = read_slurm_topology(text).positions
    assert {host.launcher_name: (group,) for group, hosts in ROOMS.items() for host in hosts} == positions
    uppers = [ABOVE.get(ABOVE.get(block, ""), ABOVE.get(block, block)) for block in blocks]
    for each in set(uppers):
        places = [i for i, upper in enumerate(uppers) if upper == each]
        assert places == list(range(places[0], places[-1] + 1))
    assert "# Under no switch: lost" in text and lines[-1].startswith("BlockSizes=")


@pytest.mark.parametrize(
    ("counts", "sizes"),
    [
        ([4], [4]),
        ([4, 4], [4, 8]),
        ([4, 4, 5], [4, 8]),
        ([4] * 8, [4, 8, 16, 32]),
        ([18, 18, 17], [17, 34]),
        ([1, 9], [1, 2]),
    ],
)
def test_block_sizes_double_from_the_smallest_block(counts: list[int], sizes: list[int]) -> None:
    assert block_sizes(counts) == sizes


@examples(60)
@given(fleets())
def test_every_block_has_a_base_block(groups: dict[str, list[Host]]) -> None:
    text = topology_format_named("slurm-block").write(groups)
    *blocks, sizes = [line for line in text.splitlines() if not line.startswith("#")]
    counts = [len(expand_nodelist(line.partition("Nodes=")[2])) for line in blocks]
    numbers = [int(size) for size in sizes.partition("=")[2].split(",")]
    assert numbers[0] <= min(counts) and numbers[-1] <= sum(counts)
    assert all(b == 2 * a for a, b in pairwise(numbers))
