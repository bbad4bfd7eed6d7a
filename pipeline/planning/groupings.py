"""Groups of the ranks for two-level schedules: the map's, balanced ones, and outer tiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from netprobe.cluster.balanced.sqrt_groups import sqrt_groups
from netprobe.core.documents.map import Map
from netprobe.core.errors import InputError
from netprobe.core.hosts import natural_order
from netprobe.core.text import meant
from netprobe.pipeline.mapping.nesting import nested_switches

GroupingName = Literal["natural", "sqrt", "nested"]
GROUPINGS: tuple[GroupingName, ...] = get_args(GroupingName)
LEAST_FOR_SQRT = 4
"""Fewer hosts are one group, or groups of one."""


@dataclass(frozen=True)
class Grouping:
    """Groups of host names, each in the original order, and how they were formed."""

    name: str
    groups: tuple[tuple[str, ...], ...]


def groupings_of(map_: Map, hosts: Sequence[str], *, seed: int = 0) -> list[Grouping]:
    """All groupings of ``hosts`` (names in the original order, all placed) that the map has, each once.

    The map's own groups come first; balanced ones where there are hosts enough; then each outer tier of nested groups.
    """
    found = [natural_grouping(map_, hosts)]
    if len(hosts) >= LEAST_FOR_SQRT:
        found.append(sqrt_grouping(map_, hosts, seed=seed))
    found += nested_groupings(map_, hosts)
    made: dict[frozenset[frozenset[str]], Grouping] = {}
    for one in found:
        made.setdefault(frozenset(frozenset(group) for group in one.groups), one)
    return list(made.values())


def groupings_named(map_: Map, hosts: Sequence[str], name: str, *, seed: int = 0) -> list[Grouping]:
    """Those of one name, or all for ``best``. Raises InputError for another name, and where the map has none."""
    if name == "best":
        return groupings_of(map_, hosts, seed=seed)
    if name == "natural":
        return [natural_grouping(map_, hosts)]
    if name == "sqrt":
        return [sqrt_grouping(map_, hosts, seed=seed)]
    if name != "nested":
        known = (*GROUPINGS, "best")
        raise InputError(f"--grouping {name[:30]!r} is not one of {', '.join(known)}{meant(name, known)}")
    found = nested_groupings(map_, hosts)
    if not found:
        raise InputError("the map's groups are not nested: give --grouping natural, sqrt or best")
    return found


def natural_grouping(map_: Map, hosts: Sequence[str]) -> Grouping:
    """The map's groups."""
    return _grouping("natural", hosts, {name: group.id for group in map_.groups for name in group.hosts})


def sqrt_grouping(map_: Map, hosts: Sequence[str], *, seed: int = 0) -> Grouping:
    """PLink's: about the square root of N groups of about as many hosts, formed on the map's distances."""
    index = {host.name: i for i, host in enumerate(map_.hosts)}
    placed = [map_.hosts[i].name for i in natural_order(map_.hosts) if map_.hosts[i].name in set(hosts)]
    at = [index[name] for name in placed]
    labels = sqrt_groups(np.array(map_.distance[np.ix_(at, at)]), seed=seed).labels
    return _grouping("sqrt", hosts, {name: str(label) for name, label in zip(placed, labels.tolist())})


def nested_groupings(map_: Map, hosts: Sequence[str]) -> list[Grouping]:
    """Each tier above the map's groups, the inner one first; none where they are not nested."""
    above = nested_switches(map_)
    of_host = {name: group.id for group in map_.groups for name in group.hosts}
    found: list[Grouping] = []
    while True:
        outer = {name: above.get(group, group) for name, group in of_host.items()}
        if outer == of_host or len({outer[name] for name in hosts}) < 2:
            return found
        of_host = outer
        found.append(_grouping("nested" if not found else f"nested {len(found) + 1}", hosts, of_host))


def _grouping(name: str, hosts: Sequence[str], of_host: dict[str, str]) -> Grouping:
    groups: dict[str, list[str]] = {}
    for host in hosts:
        groups.setdefault(of_host[host], []).append(host)
    return Grouping(name, tuple(tuple(members) for members in groups.values()))
