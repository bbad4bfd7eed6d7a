"""The tiers of a map's groups as a tree: which rows its racks are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netprobe.core.documents.map import Map
from netprobe.core.hosts import natural_order

_MOST = 16


def nested_switches(document: Map) -> dict[str, str]:
    """What each group hangs on, and that in turn: a name to the one above it, empty where nothing is nested.

    The names (``netprobe-1-2``: level 1, second) are not those of a group. Levels that do not fit the groups, as a file
    made by others may have them, are left out.
    """
    of_groups = _of_groups(document)
    below = [(group, at) for at, group in enumerate(_numbered(document)) if group is not None]
    taken = {group.id for group in document.groups}
    above: dict[str, str] = {}
    labels = list(range(len(below)))
    names = [group for group, _ in below]
    for level, parents in enumerate(of_groups, start=1):
        if len(parents) != len(below):
            return {}
        join = dict(zip(labels, parents))
        if len(set(parents)) < 2 or [join[label] for label in labels] != list(parents):
            continue
        joined = {label: f"netprobe-{level}-{label + 1}" for label in sorted(set(parents))}
        if taken & set(joined.values()):
            return {}
        above |= {name: joined[parent] for name, parent in zip(names, parents)}
        names, labels = [joined[parent] for parent in parents], list(parents)
    return above


def outer_groups(document: Map) -> dict[str, list[int]]:
    """The groups of groups by their names, as in ``nested_switches``, each with the indices of the groups in it; finer
    ones first. Without those that hold one group or all."""
    above = nested_switches(document)
    found: dict[str, list[int]] = {}
    for at, group in enumerate(document.groups):
        name = group.id
        while (name := above.get(name, "")) != "":
            found.setdefault(name, []).append(at)
    several = {name: inside for name, inside in found.items() if 1 < len(inside) < len(document.groups)}
    return dict(sorted(several.items(), key=lambda item: (len(item[1]), item[1])))


def _numbered(document: Map) -> list[str | None]:
    """Group ids in the order in which the levels count them: by first host in natural order, the far ones apart."""
    placed = [document.hosts[at].name for at in natural_order(document.hosts)]
    unplaced = set(document.unplaced)
    placed = [name for name in placed if name not in unplaced]
    far = document.grouping.evidence.get("far_hosts", [])
    indices = {at for at in far if type(at) is int} if isinstance(far, list) else set()
    group_of = {host: group.id for group in document.groups for host in group.hosts}
    near = [name for at, name in enumerate(placed) if at not in indices]
    return list(dict.fromkeys(group_of[name] for name in near))


def _of_groups(document: Map) -> list[list[int]]:
    """The coarser group of each finest one, a list a level above the finest, finer levels first."""
    levels: Any = document.grouping.evidence.get("levels", [])
    if not isinstance(levels, Sequence) or not 2 <= len(levels) <= _MOST:
        return []
    found = []
    for level in levels[1:]:
        parents = level.get("of_groups") if isinstance(level, Mapping) else None
        if not isinstance(parents, list) or not all(
            type(p) is int and 0 <= p < len(parents) for p in parents
        ):
            return []
        found.append(parents)
    return found
