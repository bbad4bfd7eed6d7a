"""Groups as topology files and labels: read back, by Slurm's readers here and by a shell."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, make_host
from netprobe.formats import TOPOLOGY_FORMATS, topology_format_named, writer_named
from netprobe.formats.host_lists.slurm import expand_nodelist, write_nodelist
from netprobe.formats.topologies.slurm_topology import read_slurm_topology
from tests.properties import examples

names = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,3}[0-9]{0,3}", fullmatch=True)
Groups = dict[str, list[Host]]


@examples(80)
@given(st.lists(names, max_size=20) | st.integers(0, 120).map(lambda n: [f"n{i:02}" for i in range(n)]))
def test_a_node_list_is_read_back(listed: list[str]) -> None:
    assert list(expand_nodelist(write_nodelist(listed))) == listed


def test_neighbours_become_a_range() -> None:
    assert write_nodelist(["n08", "n09", "n10", "n12", "m1", "n9", "n10"]) == "n[08-10],n12,m1,n9,n10"
    assert write_nodelist(["1", "2", "x"]) == "1,2,x"


@st.composite
def fleets(draw: st.DrawFn) -> Groups:
    listed = draw(st.lists(names, min_size=1, max_size=12, unique=True))
    at = draw(st.lists(st.integers(0, 3), min_size=len(listed), max_size=len(listed)))
    groups: Groups = {}
    for name, k in zip(listed, at):
        groups.setdefault(f"g{k}", []).append(make_host(name))
    return groups


@examples(60)
@given(fleets())
def test_both_files_of_slurm_say_the_groups(groups: Groups) -> None:
    root = ("netprobe",) if len(groups) > 1 else ()
    expected = {host.name: (*root, group) for group, hosts in groups.items() for host in hosts}
    unplaced = [make_host("lost-host")]
    text = topology_format_named("slurm-conf").write(groups, unplaced)
    assert read_slurm_topology(text).positions == expected
    assert "# Under no switch: lost-host" in text
    (one,) = yaml.safe_load(topology_format_named("slurm-yaml").write(groups, unplaced))
    assert (one["topology"], one["cluster_default"]) == ("netprobe", True)
    switches = {switch["switch"]: switch for switch in one["tree"]["switches"]}
    top = switches.pop("netprobe", None)
    assert (top is not None) == bool(root)
    assert top is None or expand_nodelist(top["children"]) == tuple(groups)
    found = {n: (*root, s) for s, entry in switches.items() for n in expand_nodelist(entry["nodes"])}
    assert found == expected


def test_a_group_may_have_the_name_of_the_root() -> None:
    groups = {"netprobe": [make_host("a")], "b": [make_host("c")]}
    text = topology_format_named("slurm-conf").write(groups)
    assert read_slurm_topology(text).positions["a"] == ("netprobe-root", "netprobe")


@pytest.mark.parametrize("name", sorted(set(TOPOLOGY_FORMATS) - {"dlrover", "topograph"}))
def test_each_file_says_who_reads_it(name: str) -> None:
    entry = topology_format_named(name)
    text = entry.write({"g0": [make_host("a")]})
    said = " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))
    assert entry.places in said


@pytest.mark.parametrize("name", sorted(TOPOLOGY_FORMATS))
@pytest.mark.parametrize("group", ["", "$(touch x)", "a b", "x;y", "`id`", "é", 'a"b', "-x"])
def test_a_strange_group_is_refused(name: str, group: str) -> None:
    with pytest.raises(InputError, match="group") as caught:
        topology_format_named(name).write({group: [make_host("a")]})
    assert "\n" not in str(caught.value)


def test_what_the_formats_cannot_say_is_refused() -> None:
    for name in ("slurm-conf", "slurm-yaml", "slurm-block"):
        with pytest.raises(InputError, match="no node of the name"):
            topology_format_named(name).write({"g0": [make_host("fd00::1")]})
        with pytest.raises(InputError, match="'all'"):
            topology_format_named(name).write({"g0": [make_host("all")]})
        with pytest.raises(InputError, match="'DEFAULT'"):
            topology_format_named(name).write({"DEFAULT": [make_host("a")]})
        with pytest.raises(InputError, match="no topology to write"):
            topology_format_named(name).write({}, [make_host("a")])
    pods = [make_host(pod, labels={"node": "n1"}) for pod in ("p0", "p1")]
    with pytest.raises(InputError, match="node 'n1' .* 'g0' and 'g1'"):
        topology_format_named("kubernetes").write({"g0": pods[:1], "g1": pods[1:]})
    with pytest.raises(InputError, match="RFC 1123"):
        topology_format_named("kubernetes").write({"g0": [make_host("p", labels={"node": "n;id"})]})
    with pytest.raises(
        InputError,
        match="unknown format 'x': known are dlrover, kubernetes, slurm-block, slurm-conf, slurm-yaml",
    ):
        topology_format_named("x")


def test_the_scripts_label_pods_and_nodes(tmp_path: Path) -> None:
    stand_in = tmp_path / "kubectl"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >>{tmp_path}/said\necho >>{tmp_path}/said\n')
    stand_in.chmod(0o755)
    pods = [make_host(f"p{i}", labels={"node": f"n{i % 2}"}, slots=4) for i in range(3)]
    nodes = [make_host("bare", launcher_name="node-9.example")]
    scripts = (
        writer_named("kubernetes")([*pods, *nodes]),
        topology_format_named("kubernetes").write({"g0": pods[:1] + pods[2:], "g1": pods[1:2]}, nodes),
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for script in scripts:
        (tmp_path / "labels.sh").write_text(script)
        argv = ["sh", str(tmp_path / "labels.sh"), "--context", "a b"]
        subprocess.run(argv, env=env, check=True, timeout=20)
    head = "--context|a b|label|--overwrite|"
    assert (tmp_path / "said").read_text().splitlines() == [
        f"{head}pod|p0|netprobe-node-rank=0|netprobe-first-rank=0|",
        f"{head}pod|p1|netprobe-node-rank=1|netprobe-first-rank=4|",
        f"{head}pod|p2|netprobe-node-rank=2|netprobe-first-rank=8|",
        f"{head}node|node-9.example|netprobe-node-rank=3|netprobe-first-rank=12|",
        f"{head}node|n0|netprobe-group=g0|",
        f"{head}node|n1|netprobe-group=g1|",
        f"{head}node|node-9.example|netprobe-group-|",
    ]


ABOVE = {"g1": "row1", "g2": "row1", "g3": "row2", "row1": "hall", "row2": "hall"}
ROOMS: Groups = {
    f"g{at}": [make_host(f"n{at}", address=f"10.0.0.{at}"), make_host(f"m{at}", address=f"10.0.1.{at}")]
    for at in range(1, 5)
}


def test_nested_groups_are_nested_switches() -> None:
    """g4 hangs on nothing but the root."""
    text = topology_format_named("slurm-conf").write(ROOMS, above=ABOVE)
    positions = read_slurm_topology(text).positions
    assert positions["n1"] == positions["m1"] == ("netprobe", "hall", "row1", "g1")
    assert positions["n3"] == ("netprobe", "hall", "row2", "g3") and positions["m4"] == ("netprobe", "g4")
    (one,) = yaml.safe_load(topology_format_named("slurm-yaml").write(ROOMS, above=ABOVE))
    children = {entry["switch"]: entry.get("children") for entry in one["tree"]["switches"]}
    assert children["hall"] == "row[1-2]" and expand_nodelist(children["netprobe"]) == ("g4", "hall")
    graph = json.loads(topology_format_named("topograph").write(ROOMS, [make_host("lost")], above=ABOVE))
    layers = {entry["id"]: entry["network_layers"] for entry in graph["instances"]}
    assert layers["n2"] == ["g2", "row1", "hall"] and layers["m4"] == ["g4"] and layers["lost"] == []
    switches = json.loads(topology_format_named("dlrover").write(ROOMS, above=ABOVE))
    assert {"node_ip": "10.0.1.3", "asw": "g3", "psw": "row2"} in switches
    assert {"node_ip": "10.0.0.4", "asw": "g4", "psw": ""} in switches
    labels = topology_format_named("kubernetes").write(ROOMS, [make_host("lost")], above=ABOVE)
    assert "node n1 netprobe-group=g1 netprobe-group-1=row1 netprobe-group-2=hall" in labels
    assert "node n4 netprobe-group=g4 netprobe-group-1- netprobe-group-2-" in labels
    assert "node lost netprobe-group- netprobe-group-1- netprobe-group-2-" in labels


@pytest.mark.parametrize("name", sorted(set(TOPOLOGY_FORMATS) - {"dlrover"}))
def test_switches_that_go_round_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="its own ancestor"):
        topology_format_named(name).write(ROOMS, above={"g1": "a", "a": "b", "b": "a"})
