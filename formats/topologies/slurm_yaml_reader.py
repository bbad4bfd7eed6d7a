"""Slurm's topology.yaml, in: the positions of the hosts in one of its topologies.

Source: topology.yaml(5). Trees, blocks and rings are read; a flat topology says nothing of places, and a torus
gives them by coordinates, which are not a tree. A file may hold several topologies of the same hosts, each with a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_HOSTS
from netprobe.core.text import one_line
from netprobe.formats.host_lists.slurm import expand_nodelist
from netprobe.formats.topologies.slurm_topology import SlurmTopology, positions_of

_SIGN = re.compile(r"^-\s+[\"']?topology[\"']?\s*:", re.MULTILINE)
_KINDS = {"tree": ("switches", "switch"), "block": ("blocks", "block"), "ring": ("rings", "ring")}
_OTHERS = {"flat": "which says nothing of places", "torus3d": "whose coordinates are not a tree"}


def looks_like_topology_yaml(text: str) -> bool:
    """Whether a text has the first line of a topology in a topology.yaml."""
    return _SIGN.search(text) is not None


def read_topology_yaml(text: str, *, source: str | None = None, name: str | None = None) -> SlurmTopology:
    """Positions of the hosts in the topology of that name, or in the only one that has places.

    Raises HostsError for a text that is not a topology.yaml, a name that it does not have, and several topologies
    without a name that says which.
    """
    topologies = _topologies(text, source)
    if name is not None:
        if name not in topologies:
            _fault(source, f"has no topology {one_line(name, 60)!r}: there are {_listed(topologies)}")
        chosen = name
    else:
        able = [key for key, entry in topologies.items() if _kind(entry) in _KINDS]
        if len(able) > 1:
            _fault(
                source,
                f"holds {len(able)} topologies, {_listed({key: topologies[key] for key in able})}: say which, as in "
                f"{source or 'FILE'}:{able[0]}",
            )
        chosen = able[0] if able else next(iter(topologies))
    entry = topologies[chosen]
    kind = _kind(entry)
    if kind not in _KINDS:
        why = _OTHERS.get(kind, "which is not read")
        _fault(
            source,
            f"topology {one_line(chosen, 60)!r} is {kind or 'of no kind'}, {why}: trees, blocks and rings are read",
        )
    return _read(entry[kind], kind, source)


def _topologies(text: str, source: str | None) -> dict[str, dict[str, Any]]:
    import yaml

    class Loader(yaml.BaseLoader):
        """All values as they are written (``on`` and ``012`` are names); no aliases, no key twice."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("aliases (*name) are not used in a topology.yaml")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value]
            if len({str(key) for key in keys}) < len(keys):
                raise yaml.YAMLError(f"a key twice in line {node.start_mark.line + 1} or below")
            return super().construct_mapping(node, deep=deep)

    try:
        data = yaml.load(text, Loader=Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = one_line(str(getattr(error, "problem", None) or error), 120)
        _fault(source, f"is not valid YAML: {problem}", None if mark is None else mark.line + 1)
    if not isinstance(data, list) or not data:
        _fault(source, "is not a topology.yaml: a list of topologies is needed")
    found: dict[str, dict[str, Any]] = {}
    for entry in data:
        key = entry.get("topology") if isinstance(entry, dict) else None
        if not isinstance(key, str) or not key:
            _fault(source, "is not a topology.yaml: each topology needs its name (topology: NAME)")
        if key in found:
            _fault(source, f"has two topologies of the name {one_line(key, 60)!r}")
        found[key] = entry
    return found


def _kind(entry: Mapping[str, Any]) -> str:
    return next((kind for kind in (*_KINDS, *_OTHERS) if kind in entry), "")


def _listed(topologies: Mapping[str, Mapping[str, Any]]) -> str:
    default = next(
        (key for key, entry in topologies.items() if str(entry.get("cluster_default")).lower() == "true"),
        None,
    )
    shown = [
        f"{one_line(key, 40)} ({_kind(entry) or 'no kind'}{', the default' if key == default else ''})"
        for key, entry in list(topologies.items())[:8]
    ]
    return ", ".join(shown)


def _read(body: Any, kind: str, source: str | None) -> SlurmTopology:
    plural, singular = _KINDS[kind]
    entries = body.get(plural) if isinstance(body, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        _fault(source, f"a {kind} needs {plural}, a list")
    leaves: dict[str, tuple[str, ...]] = {}
    above: dict[str, str] = {}
    for entry in entries:
        name = entry.get(singular)
        if not isinstance(name, str):
            name = ""
        if not name or name in leaves:
            _fault(
                source,
                f"{singular} {one_line(name, 60)!r} is there twice"
                if name
                else f"a {singular} without a name",
            )
        leaves[name] = _hosts(entry.get("nodes"), source)
        if sum(map(len, leaves.values())) > MAX_HOSTS:
            _fault(source, f"more than {MAX_HOSTS} hosts")
        for below in _hosts(entry.get("children"), source):
            if above.setdefault(below, name) != name:
                _fault(
                    source,
                    f"switch {one_line(below, 60)!r} hangs on {one_line(above[below], 60)!r} and on "
                    f"{one_line(name, 60)!r}: only trees are read",
                )
    if not any(leaves.values()):
        _fault(source, f"no host in it: a {kind} with nodes is needed")
    return positions_of(leaves, above, source)


def _hosts(value: Any, source: str | None) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    if not isinstance(value, str):
        _fault(source, f"{one_line(repr(value), 60)} is not a list of names such as n[1-4]")
    try:
        return expand_nodelist(value)
    except HostsError as error:
        raise HostsError(str(error), source=source) from None


def _fault(source: str | None, text: str, line: int | None = None) -> NoReturn:
    raise HostsError(text, source=source, line=line)
