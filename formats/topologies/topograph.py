"""What the ``graph`` engine of NVIDIA topograph gives, out: instances, and the switches above each, nearest first.

Source: docs/engines/graph.md and pkg/topology/instances.go of topograph. Its ``type`` and ``attributes`` (or
``labels``), of which netprobe knows nothing, are left out. Not tried with what reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.formats.format import TopologyFormat
from netprobe.formats.hostfiles.ranks import launcher_names
from netprobe.formats.topologies.slurm_topology import MAX_DEPTH, check_group_names

PLACES = (
    "for readers of the output of topograph's graph engine: id is the host's launcher name, and network_layers the "
    "groups above it, nearest first. It holds no NVLink domains and no order of ranks. Not tried"
)


def write_topograph_graph(
    groups: Mapping[str, Sequence[Host]],
    unplaced: Sequence[Host] = (),
    *,
    above: Mapping[str, str] | None = None,
) -> str:
    """``{"instances": [{"id", "network_layers"}]}``, sorted by id; hosts in no group have no layers.

    Raises InputError for a name that two hosts have, and for a group without a proper one.
    """
    launcher_names([*(host for hosts in groups.values() for host in hosts), *unplaced])
    if not any(groups.values()):
        raise InputError("no host is in a group: there is no topology to write")
    check_group_names(groups)
    layers = {
        host.launcher_name: layers_above(group, above) for group, hosts in groups.items() for host in hosts
    }
    layers |= {host.launcher_name: [] for host in unplaced}
    lines = [f"    {json.dumps({'id': name, 'network_layers': layers[name]})}" for name in sorted(layers)]
    return '{\n  "instances": [\n' + ",\n".join(lines) + "\n  ]\n}\n"


def layers_above(group: str, above: Mapping[str, str] | None) -> list[str]:
    """The group and the groups above it, nearest first. Raises InputError for a cycle."""
    found = [group]
    while above and found[-1] in above:
        found.append(above[found[-1]])
        if len(found) > MAX_DEPTH:
            raise InputError(f"group {group[:60]!r} is its own ancestor")
    return found


TOPOLOGY_FORMAT = TopologyFormat(
    name="topograph",
    summary="JSON of topograph's graph engine",
    write=write_topograph_graph,
    places=PLACES,
    file="topograph.json",
)
