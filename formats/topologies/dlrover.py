"""What DLRover's master knows of a node, as JSON: its rank, and the switches above it.

Source: net_topology.py and rdzv_manager.py of DLRover's master. It numbers the nodes by ``node_rank``, then puts those
of one ``asw`` (access switch) together, those of the first node's before the others. ``asw`` and ``psw`` (the switch
above) are what a TopologyQuerier answers for a ``node_ip``. The one it has by default knows none, and none of its own
reads a file, so these records are for a querier of the user's. Not tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, check_hosts, is_ip_address
from netprobe.formats.format import Format, TopologyFormat
from netprobe.formats.hostfiles.ranks import launcher_names, slots_of
from netprobe.formats.topologies.slurm_topology import check_group_names

ORDER = (
    "DLRover numbers nodes by their node_rank: start each agent with its own. A TopologyQuerier that knows switches "
    "brings those of one switch together, which leaves this order only where each group's hosts are neighbours in it. "
    "Not tried"
)
PLACES = (
    "a TopologyQuerier of your own answers (asw, psw) for a node_ip with it; DLRover's own querier knows no switches "
    "and reads no file. Nodes of one asw get neighbouring ranks, in the order of their node_rank. Not tried"
)


def write_dlrover_nodes(hosts: Sequence[Host], *, slots: int | None = None) -> str:
    """A list of node_rank, process_num and node_ip. Raises InputError for a host whose IP address is not known."""
    launcher_names(check_hosts(hosts))
    return _list(
        {"node_rank": at, "process_num": count, "node_ip": _ip(host)}
        for at, (host, count) in enumerate(zip(hosts, slots_of(hosts, slots)))
    )


def write_dlrover_switches(
    groups: Mapping[str, Sequence[Host]],
    unplaced: Sequence[Host] = (),
    *,
    above: Mapping[str, str] | None = None,
) -> str:
    """A list of node_ip, asw (the host's group) and psw (the group above, or empty).

    Raises InputError for a host whose IP address is not known. ``unplaced`` hosts have no switch.
    """
    above = above or {}
    entries = [(host, group) for group, hosts in groups.items() for host in hosts]
    if not entries:
        raise InputError("no host is in a group: there is no topology to write")
    check_group_names(groups)
    entries += [(host, "") for host in unplaced]
    return _list({"node_ip": _ip(host), "asw": group, "psw": above.get(group, "")} for host, group in entries)


def _ip(host: Host) -> str:
    if host.address is None or not is_ip_address(host.address):
        raise InputError(
            f"DLRover knows nodes by IP address, and that of {host.name!r} is not known: give it an address="
        )
    return host.address


def _list(entries: Iterable[Mapping[str, object]]) -> str:
    return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n]\n"


FORMAT = Format(
    name="dlrover",
    summary="node ranks as DLRover's master keeps them (JSON)",
    write=write_dlrover_nodes,
    order=ORDER,
    file="dlrover.json",
)


TOPOLOGY_FORMAT = TopologyFormat(
    name="dlrover",
    summary="switches of nodes for a TopologyQuerier of DLRover (JSON)",
    write=write_dlrover_switches,
    places=PLACES,
    file="dlrover-switches.json",
)
