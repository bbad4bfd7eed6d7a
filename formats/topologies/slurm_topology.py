"""Slurm's topology.conf, in and out: the switch of each host, and the switches above it.

Source: topology.conf(5), of the plugins topology/tree (SwitchName, Switches, Nodes, LinkSpeed) and topology/block
(BlockName, Nodes, BlockSizes). A tree may be a forest: hosts without a common switch share nothing. Of blocks
only the base blocks are read: Slurm itself decides at run time which of them it joins to larger ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import MAX_HOSTS, Host, checked_lines
from netprobe.core.naming import name_fault
from netprobe.formats.format import TopologyFormat
from netprobe.formats.host_lists.slurm import expand_nodelist, write_nodelist
from netprobe.formats.hostfiles.ranks import comments, launcher_names
from netprobe.formats.hostfiles.slurm_hostfile import check_node_names

PLACES = (
    "Slurm uses it with TopologyPlugin=topology/tree in slurm.conf, after a restart of slurmctld: it gives a job as "
    "few switches as it can. It orders no ranks (SLURM_HOSTFILE does), and a node under no switch shares no job with "
    "others"
)

_ENTRY = re.compile(r"([A-Za-z]+)\s*=\s*(\S+)")
_SIGN = re.compile(r"(?:^|\s)(?:SwitchName|BlockName)\s*=", re.IGNORECASE | re.MULTILINE)
_KEYS = {"switchname", "blockname", "switches", "nodes", "linkspeed", "blocksizes"}
MAX_DEPTH = 32


@dataclass(frozen=True, kw_only=True)
class SlurmTopology:
    """positions: the switches above each host, outermost first, or its block. twice: hosts under two of them,
    with both switches; they are in no ``positions``, since their place is ambiguous."""

    positions: dict[str, tuple[str, ...]]
    twice: dict[str, tuple[str, str]] = field(default_factory=dict)


def write_slurm_topology(
    groups: Mapping[str, Sequence[Host]],
    unplaced: Sequence[Host] = (),
    *,
    above: Mapping[str, str] | None = None,
) -> str:
    """A topology.conf: a leaf switch a group, under those of ``above``, and one above all where there are several.

    ``unplaced`` hosts are only named in a comment. Raises InputError for what Slurm could not read.
    """
    lines = [f"SwitchName={name} Nodes={nodes}" for name, nodes in leaf_switches(groups).items()]
    lines += [f"SwitchName={name} Switches={below}" for name, below in upper_switches(groups, above).items()]
    head = comments("Slurm topology.conf, a leaf switch a group.", PLACES, *without_switch(unplaced))
    return head + "".join(f"{line}\n" for line in lines)


def leaf_switches(groups: Mapping[str, Sequence[Host]]) -> dict[str, str]:
    """Node list of each group. Raises InputError for names that Slurm cannot have."""
    if not any(groups.values()):
        raise InputError("no host is in a group: there is no topology to write")
    check_node_names(launcher_names([host for hosts in groups.values() for host in hosts]))
    check_group_names(groups)
    check_node_names(list(groups))
    return {name: write_nodelist([host.launcher_name for host in hosts]) for name, hosts in groups.items()}


def check_group_names(groups: Iterable[str]) -> None:
    """Raise InputError for a group whose name is not valid."""
    for name in groups:
        fault = name_fault(name, what="group name")
        if fault:
            raise InputError(fault)


def upper_switches(groups: Iterable[str], above: Mapping[str, str] | None = None) -> dict[str, str]:
    """The switches below each switch that has no nodes, lower ones first, the root last."""
    above = above or {}
    level = list(groups)
    found: dict[str, str] = {}
    left: list[str] = []
    while level:
        joined: dict[str, list[str]] = {}
        for name in level:
            if name in above:
                joined.setdefault(above[name], []).append(name)
            else:
                left.append(name)
        for upper, names in joined.items():
            if upper in found or len(found) > MAX_HOSTS or name_fault(upper):
                raise InputError(f"switch {upper[:60]!r} is its own ancestor, or is at two levels")
            found[upper] = write_nodelist(names)
        level = list(joined)
    if len(left) > 1:
        found[root_switch([*groups, *found])] = write_nodelist(left)
    return found


def root_switch(groups: Iterable[str]) -> str:
    """A name for the switch above all groups that none of them has."""
    name, taken = "netprobe", set(groups)
    while name in taken:
        name += "-root"
    return name


def without_switch(unplaced: Sequence[Host]) -> list[str]:
    """What a file says of hosts in no group."""
    return [f"Under no switch: {', '.join(host.launcher_name for host in unplaced)}"] if unplaced else []


def looks_like_slurm_topology(text: str) -> bool:
    """Whether a text has a line that only a topology.conf has."""
    return _SIGN.search(text) is not None


def read_slurm_topology(text: str, *, source: str | None = None) -> SlurmTopology:
    """Positions of the hosts. Raises HostsError, with the line, for a text that is not a topology.

    Refuses switches that are defined twice, have two parents or form a cycle, and keys that this format
    does not have.
    """
    leaves: dict[str, tuple[str, ...]] = {}
    above: dict[str, str] = {}
    defined: set[str] = set()
    count = 0
    for number, line in _logical_lines(text, source):
        entries = _entries(line, source, number)
        if "blocksizes" in entries:
            continue
        name = entries.get("switchname") or entries.get("blockname")
        if name is None:
            raise HostsError("a line without SwitchName or BlockName", source=source, line=number)
        if name in defined:
            raise HostsError(f"switch {name[:60]!r} is defined twice", source=source, line=number)
        defined.add(name)
        leaves[name] = _names(entries.get("nodes"), source, number)
        count += len(leaves[name])
        if count > MAX_HOSTS:
            raise HostsError(f"more than {MAX_HOSTS} hosts", source=source, line=number)
        for below in _names(entries.get("switches"), source, number):
            if above.setdefault(below, name) != name:
                raise HostsError(
                    f"switch {below[:60]!r} hangs on {above[below][:60]!r} and on {name[:60]!r}: "
                    "only trees are read",
                    source=source,
                    line=number,
                )
    if not any(leaves.values()):
        raise HostsError("no host in it: a topology.conf with Nodes= is needed", source=source)
    return positions_of(leaves, above, source)


def positions_of(
    leaves: dict[str, tuple[str, ...]], above: dict[str, str], source: str | None
) -> SlurmTopology:
    """Positions by the hosts of each switch, and the switch above each. Raises HostsError for a circle."""
    positions: dict[str, tuple[str, ...]] = {}
    twice: dict[str, tuple[str, str]] = {}
    for leaf, hosts in leaves.items():
        path = [leaf]
        while path[-1] in above:
            path.append(above[path[-1]])
            if len(path) > MAX_DEPTH:
                fault = "in a circle" if path[-1] in path[:-1] else f"more than {MAX_DEPTH} levels down"
                raise HostsError(f"switch {leaf[:60]!r} is {fault}", source=source)
        position = tuple(reversed(path))
        for host in hosts:
            if positions.setdefault(host, position) != position:
                twice.setdefault(host, (positions[host][-1], leaf))
    return SlurmTopology(
        positions={host: place for host, place in positions.items() if host not in twice}, twice=twice
    )


def _logical_lines(text: str, source: str | None) -> Iterable[tuple[int, str]]:
    """Lines without comments, those that end in a backslash joined with the next; numbered by their first."""
    held, first = "", 0
    for number, line in checked_lines(text.removeprefix("\ufeff"), source=source):
        content = line.partition("#")[0].rstrip()
        first = first if held else number
        if content.endswith("\\"):
            held += content[:-1] + " "
            continue
        if (held + content).strip():
            yield first, (held + content).strip()
        held = ""
    if held.strip():
        yield first, held.strip()


def _entries(line: str, source: str | None, number: int) -> dict[str, str]:
    entries: dict[str, str] = {}
    for key, value in _ENTRY.findall(line):
        if key.lower() not in _KEYS:
            raise HostsError(f"unknown key {key[:30]!r} for a topology.conf", source=source, line=number)
        if key.lower() in entries:
            raise HostsError(f"{key} is given twice", source=source, line=number)
        entries[key.lower()] = value
    if not entries or _ENTRY.sub("", line).strip():
        raise HostsError(f"{line[:60]!r} is not a line of a topology.conf", source=source, line=number)
    return entries


def _names(value: str | None, source: str | None, number: int) -> tuple[str, ...]:
    if value is None:
        return ()
    try:
        return expand_nodelist(value)
    except HostsError as error:
        raise HostsError(str(error), source=source, line=number) from None


TOPOLOGY_FORMAT = TopologyFormat(
    name="slurm-conf",
    summary="topology.conf of Slurm (tree)",
    write=write_slurm_topology,
    places=PLACES,
    file="topology.conf",
)
