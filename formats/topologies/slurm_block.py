"""Slurm's topology.conf for the plugin topology/block, out: a block a group, and the sizes that it plans with.

Source: topology.conf(5), section topology/block: blocks of consecutive lines are joined to larger ones, the first of
``BlockSizes`` is that of a base block, which no block may have fewer nodes than, and each further size is a power of
two times it. Groups of the same enclosing group are next to each other, so that they are joined first.
It was not tried with a Slurm that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netprobe.core.hosts import Host
from netprobe.formats.format import TopologyFormat
from netprobe.formats.hostfiles.ranks import comments
from netprobe.formats.topologies.slurm_topology import leaf_switches, without_switch
from netprobe.formats.topologies.topograph import layers_above

PLACES = (
    "Slurm 23.11 and later uses it with TopologyPlugin=topology/block in slurm.conf, after a restart of slurmctld: it "
    "gives a job as few blocks as it can. It orders no ranks (SLURM_HOSTFILE does). The first of BlockSizes is the "
    "smallest group: with groups of different sizes, write the size that jobs are planned with"
)


def write_slurm_block(
    groups: Mapping[str, Sequence[Host]],
    unplaced: Sequence[Host] = (),
    *,
    above: Mapping[str, str] | None = None,
) -> str:
    """A topology.conf of blocks. Raises InputError for what Slurm could not read.

    ``unplaced`` hosts are only named in a comment: a node in no block gets no job that asks for whole blocks.
    """
    nodes = leaf_switches(groups)
    first: dict[str, int] = {}
    for place, group in enumerate(groups):
        for upper in layers_above(group, above):
            first.setdefault(upper, place)
    # By the enclosing groups, outermost first, each where its first group is.
    order = sorted(groups, key=lambda group: [first[upper] for upper in reversed(layers_above(group, above))])
    lines = [f"BlockName={group} Nodes={nodes[group]}" for group in order if groups[group]]
    sizes = block_sizes([len(hosts) for hosts in groups.values() if hosts])
    head = comments("Slurm topology.conf, a block a group.", PLACES, *without_switch(unplaced))
    return head + "".join(f"{line}\n" for line in lines) + f"BlockSizes={','.join(map(str, sizes))}\n"


def block_sizes(counts: Sequence[int]) -> list[int]:
    """The size of the smallest block, and its doubles up to as many blocks as there are."""
    sizes = [min(counts)]
    while sizes[-1] * 2 <= sizes[0] * len(counts):
        sizes.append(sizes[-1] * 2)
    return sizes


TOPOLOGY_FORMAT = TopologyFormat(
    name="slurm-block",
    summary="topology.conf of Slurm (block)",
    write=write_slurm_block,
    places=PLACES,
    file="topology.conf",
)
