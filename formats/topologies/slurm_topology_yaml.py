"""Slurm's topology.yaml, out: the same tree as topology.conf, as Slurm 25.05 and later reads it.

Source: topology.yaml(5). The file goes before a topology.conf. It was not tried with a Slurm that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from netprobe.core.hosts import Host
from netprobe.formats.format import TopologyFormat
from netprobe.formats.hostfiles.ranks import comments
from netprobe.formats.topologies.slurm_topology import leaf_switches, upper_switches, without_switch

NAME = "netprobe"
PLACES = (
    "Slurm 25.05 and later uses it next to slurm.conf, before any topology.conf, after a restart of slurmctld: it "
    "gives a job as few switches as it can. It orders no ranks (SLURM_HOSTFILE does), and a node under no switch "
    "shares no job with others"
)


def write_slurm_topology_yaml(
    groups: Mapping[str, Sequence[Host]],
    unplaced: Sequence[Host] = (),
    *,
    above: Mapping[str, str] | None = None,
) -> str:
    """A topology of the plugin tree: the switches of `slurm_topology.write_slurm_topology`.

    ``unplaced`` hosts are only named in a comment. Raises InputError for what Slurm could not read.
    """
    leaves = leaf_switches(groups)
    lines = [f"- topology: {NAME}", "  cluster_default: true", "  tree:", "    switches:"]
    # JSON strings are YAML strings, and no name is taken for a number or a truth value.
    for name, below in reversed(upper_switches(groups, above).items()):
        lines += [f"      - switch: {json.dumps(name)}", f"        children: {json.dumps(below)}"]
    for name, nodes in leaves.items():
        lines += [f"      - switch: {json.dumps(name)}", f"        nodes: {json.dumps(nodes)}"]
    head = comments("Slurm topology.yaml, a leaf switch a group.", PLACES, *without_switch(unplaced))
    return head + "---\n" + "".join(f"{line}\n" for line in lines)


TOPOLOGY_FORMAT = TopologyFormat(
    name="slurm-yaml",
    summary="topology.yaml of Slurm 25.05 and later (tree)",
    write=write_slurm_topology_yaml,
    places=PLACES,
    file="topology.yaml",
)
